// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

type scene struct {
	*testing.T
	api client.WithWatch
	now *clocktesting.FakePassiveClock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(admissionv1alpha1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return &scene{t, fake.NewClientBuilder().WithScheme(scheme).Build(), clocktesting.NewFakePassiveClock(time.Now())}
}

func (s *scene) writer() *Writer { return &Writer{Client: s.api} }

func (s *scene) rules(names ...string) *ruleset.Set {
	var rules []*ruleset.Rule
	for _, name := range names {
		rules = append(rules, s.rule(name))
	}
	return ruleset.NewSet(rules...)
}

func (s *scene) rule(name string) *ruleset.Rule {
	return ruleset.Compile(build.MakeRule(name).UID(name).Created(s.now.Now()).Condition("example.com/C").
		Selector("pool", name).Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule).Obj(), nil, s.now.Now())
}

func (s *scene) read() *admissionv1alpha1.AdmissionRules {
	s.Helper()
	object := &admissionv1alpha1.AdmissionRules{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: admissionv1alpha1.Name}, object); err != nil {
		s.Fatal(err)
	}
	return object
}

// publish gives rules to a writer, and settles as before a node is changed.
func (s *scene) publish(w *Writer, set *ruleset.Set) {
	w.Propose(set)
	if err := w.Settle(s.Context()); err != nil {
		s.Error(err)
	}
}

// expect compares the rules that are stored.
func (s *scene) expect(what string, want ...string) {
	s.Helper()
	var got []string
	for _, r := range ruleset.CompileAdmission(s.read()) {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		s.Errorf("%s: stored %v, want %v", what, got, want)
	}
}

func TestARuleThatStopsHasLeftTheObject(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	s.publish(w, s.rules("a", "b"))
	s.expect("at the start", "a", "b")
	s.publish(w, s.rules("b"))
	s.expect("when it has settled", "b")
	s.publish(w, s.rules("b", "c"))
	if _, undecided := w.Problem(s.rule("c")); !undecided {
		t.Error("a new rule is in force before it is in the object")
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("a moment later", "b", "c")
}

func TestARuleThatIsEditedIsWrittenAgain(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	edited := s.rule("a")
	s.publish(w, s.rules("a"))
	edited.Taint.Value = "edited"
	s.publish(w, ruleset.NewSet(edited))
	if got := ruleset.CompileAdmission(s.read())[0].Taint.Value; got != "edited" {
		t.Errorf("when it has settled, the value is %q", got)
	}
}

// Many rules stop one after another: the handler of their events must not wait for a write for each.
func TestRulesThatStopAtTheSameTimeAreOneWrite(t *testing.T) {
	s := newScene(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("r%03d", i))
	}
	w, writes := s.writer(), 0
	s.publish(w, s.rules(names...))
	w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, options...)
		}})
	for i := range names {
		w.Propose(s.rules(names[i+1:]...))
	}
	for range 2 {
		if err := w.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.expect("in the end")
	if writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

// A failure costs one wait, and not one for each node.
func TestAStopThatCannotBeWrittenIsWaitedForOnce(t *testing.T) {
	s := newScene(t)
	w, writes := s.writer(), 0
	s.publish(w, s.rules("a", "b"))
	w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			writes++
			return apierrors.NewInternalError(errors.New("broken"))
		}})
	w.Propose(s.rules("a"))
	for range 3 {
		if err := w.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if writes != 1 {
		t.Errorf("%d attempts, want 1", writes)
	}
	if len(w.Woken()) == 0 {
		t.Error("it is not tried again")
	}
}

// An API server that answers late, for example because of another webhook, delays no node for more than stopWithin.
func TestAStopDoesNotWaitForAnotherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		w := s.writer()
		s.publish(w, s.rules("a", "b"))
		end := make(chan struct{})
		w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				<-end
				return apierrors.NewInternalError(errors.New("late"))
			}})
		w.Propose(s.rules("a"))
		written := make(chan error)
		go func() { written <- w.Write(t.Context()) }()
		synctest.Wait()
		begin := time.Now()
		if err := w.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != stopWithin {
			t.Errorf("it waits for %s", waited)
		}
		close(end)
		if err := <-written; err == nil {
			t.Error("the late write has not failed")
		}
	})
}

// Rules that change all the time do not keep a new rule from the object.
func TestRulesThatChangeAllTheTimeAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		w := s.writer()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		w.Propose(s.rules("a"))
		for range 10 {
			time.Sleep(gather / 2)
			w.Wake()
		}
		s.expect("while they change", "a")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// While the served CRD is not ours, the operator changes nothing.
func TestAForeignCRDChangesNothing(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	s.publish(w, s.rules("a", "b"))
	foreign := ruleset.Problem{Reason: ruleset.ReasonForeignCRD}
	s.publish(w, ruleset.NewSet(s.rule("a").Freeze(foreign), s.rule("b").Freeze(foreign), s.rule("c").Freeze(foreign)))
	s.expect("with a foreign CRD", "a", "b")
	if frozen := s.read().Frozen; len(frozen) > 0 {
		t.Errorf("frozen: %v", frozen)
	}
}

func TestARuleWhoseEvidenceIsBeingReadStaysInTheObject(t *testing.T) {
	s := newScene(t)
	s.publish(s.writer(), s.rules("a", "b"))
	next := s.writer() // of the next leader
	s.publish(next, ruleset.NewSet(s.rule("a").Freeze(ruleset.Problem{Reason: ruleset.ReasonPending}),
		s.rule("b").Freeze(ruleset.Problem{Reason: "Invalid"})))
	s.expect("at the start", "a")
}

// lead returns the writer of a process that has taken the lease.
func (s *scene) lead(name string) *Writer {
	s.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease"}}
	w := s.writer()
	w.Lease = &leader.Lease{ObjectKey: client.ObjectKeyFromObject(lease), Labels: map[string]string{"process": name}}
	err := s.api.Get(s.Context(), w.Lease.ObjectKey, lease)
	lease.Labels, lease.Spec.HolderIdentity = w.Lease.Labels, &name
	if apierrors.IsNotFound(err) {
		err = s.api.Create(s.Context(), lease)
	} else if err == nil {
		err = s.api.Update(s.Context(), lease)
	}
	if err != nil {
		s.Fatal(err)
	}
	return w
}

func TestALeaderThatIsDeposedLeavesTheObjectToItsSuccessor(t *testing.T) {
	s := newScene(t)
	idle, before := s.lead("idle"), s.lead("before") // the first has not written yet
	s.publish(before, s.rules("a", "b"))
	s.publish(s.lead("after"), s.rules("b"))
	s.publish(before, s.rules("a"))
	s.publish(idle, s.rules("a"))
	s.expect("after former leaders have tried", "b")
}

// A successor takes the lease and writes the object between two requests of the former leader.
func TestALeaderThatIsDeposedWhileItWrites(t *testing.T) {
	s := newScene(t)
	w := s.lead("before")
	s.publish(w, s.rules("a", "b"))
	w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			s.publish(s.lead("after"), s.rules("b"))
			return c.Update(ctx, o, options...)
		}})
	s.publish(w, s.rules("a"))
	s.expect("what the successor has written", "b")
}

// Another client edits the object at the same time as a rule stops.
func TestARuleThatStopsLeavesAnObjectThatIsBeingEdited(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	s.publish(w, s.rules("a", "b"))
	edited := false
	w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if !edited {
				edited = true
				s.publish(s.writer(), s.rules("a"))
			}
			return c.Update(ctx, o, options...)
		}})
	s.publish(w, s.rules("b"))
	s.expect("when it has settled", "b")
}

// Rules with the same taint are in the object with the oldest first, whose value counts, whether or not its evidence
// has been read.
func TestAPendingRuleKeepsItsPlace(t *testing.T) {
	s := newScene(t)
	same := func(name string, age time.Duration) *ruleset.Rule {
		return ruleset.Compile(build.MakeRule(name).UID(name).Created(s.now.Now().Add(-age)).Condition("example.com/C").
			Selector("pool", name).Taint("example.com/same", name, corev1.TaintEffectNoSchedule).Obj(), nil, s.now.Now())
	}
	older, newer := same("older", time.Hour), same("newer", 0)
	s.publish(s.writer(), ruleset.NewSet(older, newer))
	s.publish(s.writer(), ruleset.NewSet(older.Freeze(ruleset.Problem{Reason: ruleset.ReasonPending}), newer))
	s.expect("after a restart", "older", "newer")
}

func TestFrozenRulesAreListed(t *testing.T) {
	s := newScene(t)
	frozen := func(reason string) *ruleset.Rule { return s.rule("a").Freeze(ruleset.Problem{Reason: reason}) }
	for _, step := range []struct {
		set  *ruleset.Set
		want []string
	}{
		{ruleset.NewSet(frozen(ruleset.ReasonPending)), nil},
		{ruleset.NewSet(frozen("Invalid")), []string{"a"}},
		{ruleset.NewSet(frozen(ruleset.ReasonPending)), []string{"a"}}, // after a restart
		{s.rules("a"), nil},
	} {
		w := s.writer()
		s.publish(w, step.set)
		if frozen := s.read().Frozen; !slices.Equal(frozen, step.want) {
			t.Errorf("frozen: %v, want %v", frozen, step.want)
		}
	}
}

// A rule can have a selector of more than a megabyte, which etcd would not accept.
func TestRulesWithoutRoomAreLeftOut(t *testing.T) {
	s := newScene(t)
	w, rules := s.writer(), []*ruleset.Rule{s.rule("a")}
	large := build.MakeRule("large").UID("large").Created(s.now.Now().Add(time.Second)).Condition("example.com/C").
		Selector("pool", "large").Taint("example.com/large", "", corev1.TaintEffectNoSchedule)
	for i := range 64 {
		var values []string
		for v := range 256 {
			values = append(values, fmt.Sprintf("%060d", v))
		}
		large.SelectorExpression(fmt.Sprintf("example.com/%d", i), "NotIn", values...)
	}
	rules = append(rules, ruleset.Compile(large.Obj(), nil, s.now.Now()), s.rule("z"))
	s.publish(w, ruleset.NewSet(rules...))
	s.expect("without the large rule", "a", "z")
	for i, want := range []string{"", "have no room", ""} {
		problem, undecided := w.Problem(rules[i])
		if undecided || want == "" && problem != "" || !strings.Contains(problem, want) {
			t.Errorf("rule %s: %q, undecided: %t", rules[i].Name, problem, undecided)
		}
	}
}

func TestARuleThatIsNotWrittenSaysWhy(t *testing.T) {
	s := newScene(t)
	s.api = interceptor.NewClient(s.api, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}})
	w := s.writer()
	s.publish(w, s.rules("a"))
	if problem, undecided := w.Problem(s.rule("a")); undecided || !strings.Contains(problem, "install the CRD") {
		t.Errorf("%q, undecided: %t", problem, undecided)
	}
}

// Admission goes on with the former version of a rule whose edit cannot be written.
func TestAnEditThatIsNotWrittenIsAProblem(t *testing.T) {
	s := newScene(t)
	w, edited := s.writer(), s.rule("a")
	s.publish(w, s.rules("a"))
	edited.Taint.Value = "edited"
	w.Client = interceptor.NewClient(s.api, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		}})
	s.publish(w, ruleset.NewSet(edited))
	if problem, undecided := w.Problem(edited); undecided || !strings.Contains(problem, "roles") {
		t.Errorf("%q, undecided: %t", problem, undecided)
	}
}

func TestAnObjectThatIsChangedOrDeletedIsWrittenAgain(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	s.publish(w, s.rules("a"))
	object := s.read()
	object.Groups = nil
	if err := s.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("after an edit", "a")
	if err := s.api.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("after a deletion", "a")
}

func TestTheObjectOfAnotherGroupStays(t *testing.T) {
	s := newScene(t)
	running, unlisted := s.writer(), *s.rule("unlisted")
	unlisted.Spec.NodeAdmission = v1alpha1.NodeAdmissionNone
	s.publish(running, s.rules("a").With(&unlisted))
	object := s.read()
	object.MarkerPrefix = "nodegate.io/bootstrap-completed-"
	if err := s.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	running.Propose(s.rules("a"))
	if err := running.Settle(t.Context()); !errors.Is(err, errOtherGroup) {
		t.Errorf("settled, after the deletion of a rule that the object does not list: %v", err)
	}
	w := s.writer()
	w.Propose(s.rules("b"))
	for range 2 { // no node may be changed then
		if err := w.Settle(t.Context()); !errors.Is(err, errOtherGroup) {
			t.Errorf("settled: %v", err)
		}
	}
	s.expect("the other installation's", "a")
	if err := w.Start(t.Context()); !errors.Is(err, errOtherGroup) {
		t.Errorf("started: %v", err)
	}
}

// The CRD of another version lacks a field. The client decodes the answer to a write into the object that was sent,
// where the field stays.
func TestAFieldThatTheCRDLacksIsAProblem(t *testing.T) {
	s, older := newScene(t), true
	prune := func(o client.Object, write func(client.Object) error) error {
		stored := o.DeepCopyObject().(client.Object) //nolint:errcheck // it is one
		if rules, ok := stored.(*admissionv1alpha1.AdmissionRules); ok && older {
			rules.MarkerPrefix = ""
		}
		err := write(stored)
		o.SetResourceVersion(stored.GetResourceVersion())
		return err
	}
	s.api = interceptor.NewClient(s.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return prune(o, func(o client.Object) error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return prune(o, func(o client.Object) error { return c.Update(ctx, o, options...) })
		}})
	w := s.writer()
	for range 2 {
		s.publish(w, s.rules("a"))
		problem, undecided := w.Problem(s.rule("a"))
		if undecided || !strings.HasPrefix(problem, "the API server has not stored all of the rules for admission: ") {
			t.Errorf("%q, undecided: %t", problem, undecided)
		}
	}
	older = false
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if problem, undecided := w.Problem(s.rule("a")); undecided || problem != "" {
		t.Errorf("with the CRD of this version: %q, undecided: %t", problem, undecided)
	}
}

// Rules with the same selector are one group; rules with the same taint follow each other, the oldest first.
func TestGroups(t *testing.T) {
	s := newScene(t)
	rule := func(name, pool, taint string, age time.Duration) *ruleset.Rule {
		return ruleset.Compile(build.MakeRule(name).UID(name).Created(s.now.Now().Add(-age)).Condition("example.com/C").
			Selector("pool", pool).Taint("example.com/"+taint, name, corev1.TaintEffectNoSchedule).Obj(), nil, s.now.Now())
	}
	s.publish(s.writer(), ruleset.NewSet(rule("a", "p", "a", 6), rule("b", "q", "same", 5), rule("c", "p", "c", 4),
		rule("d", "p", "same", 3), rule("e", "p", "same", 2), rule("f", "q", "f", 1)))
	var got []string
	for _, g := range s.read().Groups {
		text := g.Selector[0].Values[0]
		for _, line := range g.Rules {
			text += " " + strings.Split(line, ",")[2]
		}
		got = append(got, fmt.Sprintf("%s: %d records, %d taints", text, len(g.Records), len(g.Taints)))
	}
	if want := []string{"p a c: 2 records, 2 taints", "q f: 1 records, 1 taints", "q b: 1 records, 0 taints",
		"p d e: 2 records, 0 taints"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}
