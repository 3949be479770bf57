// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// scene is a Keeper on the real API server, called directly, with a clock that the test steps.
type scene struct {
	*Keeper
	t        *testing.T
	clock    *clocktesting.FakePassiveClock
	set      *ruleset.Set
	recorder *events.FakeRecorder
	refused  func(verb string) error // what a read or write past the cache fails with
	changed  []string
	marking  []string // the nodes that were enqueued last
}

// newScene is a new process of the operator.
func newScene(t *testing.T, server *cluster.Cluster) *scene {
	t.Helper()
	s := &scene{t: t, clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)),
		recorder: events.NewFakeRecorder(100), refused: func(string) error { return nil }}
	s.rules(build.MakeRule("link").UID("u-link").Created(time.Now()).Selector("link", "true").Condition("Ready").
		EvictionGuard(600).Endpoints(50, 60))
	s.Keeper = &Keeper{Nodes: server.Client, Rules: func() *ruleset.Set { return s.set }, Policy: "nodegate-endpoints",
		Recorder: s.recorder, Clock: s.clock, Look: func() {},
		Mark:    func(nodes ...string) { s.marking = nodes },
		Changed: func(rules ...string) { s.changed = append(s.changed, rules...) },
		Live: interceptor.NewClient(server.Client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				opts ...client.GetOption) error {
				if _, pod := obj.(*corev1.Pod); pod {
					return errors.New("the operator may only list pods")
				}
				return errors.Join(s.refused(fmt.Sprintf("get %T", obj)), c.Get(ctx, key, obj, opts...))
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				if err := s.refused(fmt.Sprintf("update %T", obj)); err != nil {
					return err
				}
				return c.Update(ctx, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				return errors.Join(s.refused(fmt.Sprintf("list %T", list)), c.List(ctx, list, opts...))
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption) error {
				if err := s.refused("patch " + obj.GetName()); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		})}
	return s
}

func (s *scene) rules(rules ...*build.RuleWrapper) {
	s.set = ruleset.NewSet()
	for _, r := range rules {
		s.set = s.set.With(ruleset.Compile(r.Obj(), nil, s.clock.Now()))
	}
}

// pass makes one pass after so many seconds.
func (s *scene) pass(seconds int) (reconcile.Result, error) {
	s.clock.SetTime(s.clock.Now().Add(time.Duration(seconds) * time.Second))
	return s.Reconcile(s.t.Context(), reconcile.Request{})
}

// passes makes one pass that must succeed, and marks the pods of the nodes that it has enqueued.
func (s *scene) passes(seconds int) {
	s.t.Helper()
	_, err := s.pass(seconds)
	cluster.Must(s.t, err)
	for _, node := range s.marking {
		_, err := s.Pods().Reconcile(s.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: node}})
		cluster.Must(s.t, err)
	}
}

// has checks the states of nodes in the stored object.
func (s *scene) has(server *cluster.Cluster, want map[string]string) {
	s.t.Helper()
	object := &endpointsv1alpha1.KeptEndpoints{}
	cluster.Must(s.t, server.Client.Get(s.t.Context(), client.ObjectKey{Name: endpointsv1alpha1.Name}, object))
	var got map[string]string
	if len(object.Rules) > 0 {
		got = object.Rules[0].Nodes
	}
	for node, state := range want {
		is, known := got[node]
		if _, err := time.Parse(time.RFC3339, is); !known || is != state && (state != "kept" || err != nil) {
			s.t.Errorf("the states are %v, want %v", got, want)
			return
		}
	}
	if len(got) != len(want) {
		s.t.Errorf("the states are %v, want %v", got, want)
	}
}

// told checks that an event has been recorded with each of some words, in their order, and no other.
func (s *scene) told(want ...string) {
	s.t.Helper()
	var got []string
	for len(s.recorder.Events) > 0 {
		got = append(got, <-s.recorder.Events)
	}
	if !slices.EqualFunc(got, want, strings.Contains) {
		s.t.Errorf("the events are %q, want %q", got, want)
	}
}

func TestKeeper(t *testing.T) {
	server := cluster.ForTest(t, cluster.Options{})
	server.Needs(t, cluster.MutatingAdmissionPolicies)
	ctx := t.Context()
	const silent, renewed = 60, 7 * 24 * 3600
	install := func(file string) {
		t.Helper()
		objects, err := cluster.ReadObjects(cluster.Root() + "/config/endpoint-policy/" + file)
		cluster.Must(t, err)
		cluster.Must(t, server.Apply(ctx, objects...))
	}
	s := newScene(t, server)
	rule := s.set.Named("link")
	lease := func(node string, seconds int32) { // by the clock of the test it was written an hour ago
		t.Helper()
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease}}
		l.Spec.LeaseDurationSeconds = &seconds
		cluster.Eventually(t, "the lease is written", func() error { // its namespace is created after the start
			if err := client.IgnoreNotFound(server.Client.Delete(ctx, l)); err != nil {
				return err
			}
			l.ResourceVersion = ""
			return server.Client.Create(ctx, l)
		})
	}
	ready := func(node string, status corev1.ConditionStatus) {
		t.Helper()
		n := &corev1.Node{}
		cluster.Must(t, server.Client.Get(ctx, client.ObjectKey{Name: node}, n))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status,
			LastTransitionTime: metav1.NewTime(s.clock.Now().Truncate(time.Second))}}
		cluster.Must(t, server.Client.Status().Update(ctx, n))
	}
	for _, name := range []string{"a", "b", "c", "other"} {
		node := build.MakeNode(name).Label("link", fmt.Sprint(name != "other")).Obj()
		cluster.Must(t, server.Client.Create(ctx, node))
		ready(name, corev1.ConditionTrue)
	}
	pod := build.MakePod("default", "p").Node("a").Obj()
	cluster.Must(t, server.Client.Create(ctx, pod))
	podIs := func(status corev1.ConditionStatus) {
		t.Helper()
		cluster.Must(t, server.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		if c := pod.Status.Conditions; len(c) != 1 || c[0].Status != status {
			t.Errorf("the pod's conditions are %+v, want Ready=%s", c, status)
		}
	}
	podReports := func() {
		t.Helper()
		cluster.Must(t, server.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(s.clock.Now())}}
		cluster.Must(t, server.Client.Status().Update(ctx, pod))
	}
	podReports()
	forbid := func(what string) {
		s.refused = func(verb string) error {
			if verb == what {
				return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", errors.New("no permission"))
			}
			return nil
		}
	}
	explains := func(word string) {
		t.Helper()
		if p := s.Problem(rule); (p != nil) != (word != "") || p != nil && !strings.Contains(p.Message, word) {
			t.Errorf("the problem is %+v, want one of %q", p, word)
		}
	}

	// Without the policy nothing is armed, and the rule says why.
	if _, err := s.pass(0); err != nil {
		t.Fatal(err)
	}
	if p := s.Problem(rule); p == nil || p.Reason != guard.ReasonNoEndpointPolicy || len(s.changed) != 1 {
		t.Errorf("the problem is %+v, and %v were enqueued", p, s.changed)
	}
	install("nodegate.io_keptendpoints.yaml")
	install("policy.yaml")
	cluster.Eventually(t, "the object is written", func() error { // its CRD is served a moment later
		_, err := s.pass(30)
		if p := s.Problem(rule); p != nil {
			err = errors.Join(err, errors.New(p.Message))
		}
		return err
	})
	s.has(server, map[string]string{"a": "", "b": "", "c": ""})

	// The API server's clock was ahead. That does not delay the next pass.
	before := s.clock.Now()
	if result, err := s.pass(-3600); err != nil || result.RequeueAfter > inspect {
		t.Errorf("after the clock is set back: %v, %v", result, err)
	}
	s.clock.SetTime(before)

	// One node is lost: it is its own fault.
	for _, n := range []string{"a", "b", "c"} {
		lease(n, renewed)
	}
	lease("a", silent)
	ready("a", corev1.ConditionUnknown)
	forbid("list *v1.LeaseList")
	if _, err := s.pass(1); err == nil {
		t.Error("an error is lost")
	}
	explains("listing the leases of nodes")
	s.has(server, map[string]string{"a": "", "b": "", "c": ""})

	object := &endpointsv1alpha1.KeptEndpoints{}
	read := func() {
		t.Helper()
		cluster.Must(t, server.Client.Get(ctx, client.ObjectKey{Name: endpointsv1alpha1.Name}, object))
	}
	s.refused = func(string) error { return nil }

	// The API server needs 25 s for the list. The other nodes renew their leases meanwhile.
	soon := int32((s.clock.Since(time.Now()) + 10*time.Second) / time.Second * 4 / 3)
	lease("b", soon)
	lease("c", soon)
	forbid("patch p")
	refuse := s.refused
	s.refused = func(verb string) error {
		if verb == "list *v1.LeaseList" {
			s.clock.SetTime(s.clock.Now().Add(25 * time.Second))
		}
		return refuse(verb)
	}
	if _, err := s.pass(1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pods().Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err == nil {
		t.Error("an error is lost")
	}
	podIs(corev1.ConditionTrue)
	explains("pods of node a stay ready: marking pod default/p not ready")
	if p := s.Problem(rule); p.Reason != guard.ReasonEndpointsIncomplete {
		t.Errorf("the reason is %s", p.Reason)
	}

	// The pods are marked neither by a process that leads no longer, nor if they have changed meanwhile.
	notMarked := func() {
		t.Helper()
		if _, err := s.Pods().Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err == nil {
			t.Error("there is no error")
		}
		podIs(corev1.ConditionTrue)
	}
	own := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "leader"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("operator")}}
	cluster.Must(t, server.Client.Create(ctx, own))
	former := &leader.Lease{ObjectKey: client.ObjectKeyFromObject(own), Labels: map[string]string{"process": "former"}}
	s.refused, s.Lease = func(string) error { return nil }, former
	notMarked()
	s.Lease = nil
	s.refused = func(verb string) error {
		if verb == "patch p" {
			podReports()
		}
		return nil
	}
	notMarked()
	s.refused = func(string) error { return nil }
	s.passes(1)
	podIs(corev1.ConditionFalse)
	explains("")
	s.told("EndpointsEnded Marked 1 pods of the node not ready: this is no outage, 1 of 3 nodes")
	s.has(server, map[string]string{"a": endpointsv1alpha1.Ended, "b": "", "c": ""})

	// That is done once: kubelet may report the pod again.
	podReports()
	s.passes(1)
	s.passes(1)
	s.has(server, map[string]string{"a": endpointsv1alpha1.Marked, "b": "", "c": ""})
	podIs(corev1.ConditionTrue)
	s.told()

	outage := func() { // no node renews its lease, and the node controller finds the first one lost
		for _, n := range []string{"a", "b", "c"} {
			lease(n, silent)
		}
		ready("a", corev1.ConditionUnknown)
		s.passes(1)
	}

	// Ready again, and then all are lost.
	ready("a", corev1.ConditionTrue)
	podReports()
	s.passes(1)
	s.has(server, map[string]string{"a": "", "b": "", "c": ""})
	outage()
	podIs(corev1.ConditionTrue)
	s.has(server, map[string]string{"a": "kept", "b": "", "c": ""})
	s.told("EndpointsKept Pods of the node that are ready stay so until")
	if s.Kept(rule) != 1 || s.changed[len(s.changed)-1] != "link" {
		t.Errorf("%d nodes are kept, and %v were enqueued", s.Kept(rule), s.changed)
	}

	// A new process continues, although the others are back.
	after := newScene(t, server)
	after.clock.SetTime(s.clock.Now())
	s = after
	for _, n := range []string{"b", "c"} {
		lease(n, renewed)
	}
	behind := interceptor.NewClient(server.Client, interceptor.Funcs{ // a cache that is behind: no node was lost yet
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if nodes, ok := list.(*corev1.NodeList); ok {
				for i := range nodes.Items {
					nodes.Items[i].Status.Conditions[0].Status = corev1.ConditionTrue
				}
			}
			return err
		}})
	s.Nodes = behind
	s.passes(1)
	s.has(server, map[string]string{"a": "kept", "b": "", "c": ""})
	s.Nodes = server.Client
	s.passes(1)
	podIs(corev1.ConditionTrue)
	s.has(server, map[string]string{"a": "kept", "b": "", "c": ""})

	// The object cannot be written, and then the policy cannot be read: the rule says so, and nothing ends.
	forbid("update *v1alpha1.KeptEndpoints")
	told := len(s.changed)
	for _, seconds := range []int{16, 1, 1} {
		if _, err := s.pass(seconds); err == nil {
			t.Error("an error is lost")
		}
		explains("update *v1alpha1.KeptEndpoints")
	}
	if n := len(s.changed) - told; n != 1 {
		t.Errorf("the rule was enqueued %d times, want once", n)
	}
	s.refused = func(verb string) error {
		if verb == "update *v1alpha1.KeptEndpoints" {
			return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
		}
		return nil
	}
	if _, err := s.pass(1); err == nil {
		t.Error("an error is lost")
	}
	explains("request is too large")
	forbid("get *v1.MutatingAdmissionPolicy")
	s.passes(1)
	podIs(corev1.ConditionTrue)
	s.has(server, map[string]string{"a": "kept", "b": "", "c": ""})
	explains("get *v1.MutatingAdmissionPolicy")
	s.refused = func(string) error { return nil }

	// Another client has edited the object: it is read again.
	read()
	object.Labels = map[string]string{"changed": "true"}
	cluster.Must(t, server.Client.Update(ctx, object))
	armed := object.Rules[0].ArmedUntil
	s.passes(16)
	if read(); !armed.Before(&object.Rules[0].ArmedUntil) {
		t.Errorf("the object is armed until %s, as before", armed)
	}

	// A process that leads no longer writes nothing.
	armed, s.Lease = object.Rules[0].ArmedUntil, former
	if _, err := s.pass(16); err == nil {
		t.Error("a former leader writes")
	}
	explains("")
	if read(); !armed.Equal(&object.Rules[0].ArmedUntil) {
		t.Errorf("a former leader has written: armed until %s, and not %s", object.Rules[0].ArmedUntil, armed)
	}
	s.Lease = nil
	s.passes(1)

	// The rule is gone: its nodes leave the object when their pods are marked.
	s.rules()
	s.passes(1)
	podIs(corev1.ConditionFalse)
	s.told("EndpointsEnded Marked 1 pods of the node not ready: the node was not ready again in time, or no rule")
	s.passes(1)
	s.has(server, nil)
	result, err := s.pass(1)
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("it goes on looking: %+v, %v", result, err)
	}

	// The rule is gone, and a node is lost after the operator has read it and before it writes the object: the policy has
	// kept its pod.
	ready("a", corev1.ConditionTrue)
	podReports()
	s = newScene(t, server)
	s.passes(0)
	s.has(server, map[string]string{"a": "", "b": "", "c": ""})
	outage()
	s.has(server, map[string]string{"a": "kept", "b": "", "c": ""})
	s.told("EndpointsKept Pods of the node that are ready stay so until")
	ready("a", corev1.ConditionTrue)
	s.rules()
	s.refused = func(verb string) error {
		if verb == "update *v1alpha1.KeptEndpoints" {
			ready("a", corev1.ConditionUnknown)
		}
		return nil
	}
	s.passes(1)
	podIs(corev1.ConditionTrue)
	s.refused, s.Nodes = func(string) error { return nil }, behind
	s.passes(1)
	podIs(corev1.ConditionFalse)
	s.Nodes = server.Client
	s.told("EndpointsEnded Marked 1 pods of the node not ready: no rule keeps them ready")
	s.passes(1)
	s.has(server, nil)

	// Nodes cannot be read past the cache: they stay in the object, and the pass goes on.
	ready("a", corev1.ConditionTrue)
	s = newScene(t, server)
	s.passes(0)
	s.rules()
	s.passes(1)
	s.refused = func(verb string) error {
		if verb == "get *v1.Node" {
			return errors.New("try again later")
		}
		return nil
	}
	if _, err := s.pass(1); err == nil {
		t.Error("an error is lost")
	}
	s.has(server, map[string]string{"a": "Ended", "b": "Ended", "c": "Ended"})
	s.refused = func(string) error { return nil }
	s.passes(1)
	s.has(server, nil)
	ready("a", corev1.ConditionUnknown)

	// The rule is gone, and a new process may not read the object for a moment, nor reach the API server after that.
	ready("a", corev1.ConditionTrue)
	s = newScene(t, server)
	s.passes(0)
	s = newScene(t, server)
	s.rules()
	forbid("get *v1alpha1.KeptEndpoints")
	s.passes(0)
	s.passes(1)
	s.refused = func(string) error { return errors.New("try again later") }
	if _, err := s.pass(29); err == nil {
		t.Error("an error is lost")
	}
	s.refused = func(string) error { return nil }
	s.passes(1)
	s.passes(1)
	s.has(server, nil)
	ready("a", corev1.ConditionUnknown)

	// It may not read it at all, as where the policy is not installed: it tries for ever only if a rule has endpoints.
	suspended := build.MakeRule("link").UID("u-link").Created(time.Now()).Selector("link", "true").Condition("Ready").
		EvictionGuard(600).Endpoints(50, 60).Suspend(true)
	for most, rules := range map[int][]*build.RuleWrapper{10: nil, 100: {suspended}} {
		s = newScene(t, server)
		s.rules(rules...)
		asked := 0
		forbid("get *v1alpha1.KeptEndpoints")
		refuse = s.refused
		s.refused = func(verb string) error {
			asked++
			return refuse(verb)
		}
		for result.RequeueAfter = 1; result.RequeueAfter > 0 && asked < 100; {
			result, err = s.pass(int(result.RequeueAfter / time.Second))
			cluster.Must(t, err)
		}
		if s.passes(20); asked != most {
			t.Errorf("with %d rules it asked %d times, want %d", len(rules), asked, most)
		}
	}

	// The object has no room for one more rule, until rules that are gone have left it.
	read()
	for i := range endpointsv1alpha1.MaxRules {
		object.Rules = append(object.Rules, endpointsv1alpha1.EndpointRule{Name: fmt.Sprintf("gone-%d", i),
			UID: fmt.Sprintf("u-gone-%d", i), ArmedUntil: metav1.Now()})
	}
	cluster.Must(t, server.Client.Update(ctx, object))
	s = newScene(t, server)
	s.passes(0)
	explains("pods of 3 nodes do not stay ready in an outage, because the object KeptEndpoints has no room")
	s.has(server, nil)
	s.passes(1)
	explains("")
	if s.has(server, map[string]string{"a": endpointsv1alpha1.Ended, "b": "", "c": ""}); len(s.changed) != 2 {
		t.Errorf("%v were enqueued, want the rule twice", s.changed)
	}
}

// TestProblem: what is the matter with one rule is no problem of another, and what lacks for all comes first.
func TestProblem(t *testing.T) {
	set := ruleset.NewSet()
	for _, name := range []string{"link", "other"} {
		set = set.With(ruleset.Compile(build.MakeRule(name).UID("u-"+name).Created(time.Now()).Selector("link", name).
			Condition("Ready").EvictionGuard(600).Endpoints(50, 60).Obj(), nil, time.Now()))
	}
	k := &Keeper{Rules: func() *ruleset.Set { return set }, Changed: func(...string) {}}
	is := func(rule, want string) {
		t.Helper()
		if got := k.Problem(set.Named(rule)); got == nil && want != "" ||
			got != nil && (want == "" || !strings.Contains(got.Reason+": "+got.Message, want)) {
			t.Errorf("the problem of %s is %+v, want %q", rule, got, want)
		}
	}
	k.setProblem(marking+"a", "u-link", "pods of node a stay ready")
	is("link", "EndpointsIncomplete: evictions are denied, but pods of node a stay ready")
	is("other", "")
	k.setProblem(looking, "", "no policy")
	is("link", "NoEndpointPolicy: ")
	is("other", "no policy")
	k.setProblem(looking, "", "")
	k.setLeft(set, map[types.UID]int{"u-other": 2})
	is("other", "EndpointsIncomplete: evictions are denied, but pods of 2 nodes do not stay ready in an outage")
	k.setProblem(marking+"a", "", "")
	is("link", "")
}

func TestSilent(t *testing.T) {
	now := time.Now()
	at := func(age time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-age)} }
	micro := func(age time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(-age)} }
	for name, c := range map[string]struct {
		spec    coordinationv1.LeaseSpec
		written *metav1.Time
		want    guard.Lease
	}{
		"renewed": {spec: coordinationv1.LeaseSpec{RenewTime: micro(30 * time.Second)}},
		"not renewed": {spec: coordinationv1.LeaseSpec{RenewTime: micro(31 * time.Second)},
			want: guard.LeaseSilent},
		"expired": {spec: coordinationv1.LeaseSpec{RenewTime: micro(41 * time.Second)},
			want: guard.LeaseExpired},
		"never renewed":         {want: guard.LeaseExpired},
		"a node's clock behind": {spec: coordinationv1.LeaseSpec{RenewTime: micro(time.Hour)}, written: at(time.Second)},
		"a node's clock ahead": {spec: coordinationv1.LeaseSpec{RenewTime: micro(-time.Hour)},
			written: at(31 * time.Second), want: guard.LeaseSilent},
		"a longer lease": {spec: coordinationv1.LeaseSpec{RenewTime: micro(80 * time.Second),
			LeaseDurationSeconds: new(int32(120))}},
	} {
		lease := &coordinationv1.Lease{Spec: c.spec}
		if c.written != nil {
			lease.ManagedFields = []metav1.ManagedFieldsEntry{{Time: c.written}}
		}
		if got := says(lease, now); got != c.want {
			t.Errorf("%s: the lease says %d, want %d", name, got, c.want)
		}
	}
}
