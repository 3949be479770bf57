// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// heard is what the listener was told since the last take.
type heard struct{ rules, nodes []string }

func (h *heard) RuleChanged(name string) { h.rules = append(h.rules, name) }

func (h *heard) Enqueue(nodes []string) { h.nodes = append(h.nodes, nodes...) }

func (h *heard) take() (rules, nodes []string) {
	rules, nodes = h.rules, h.nodes
	*h = heard{}
	return rules, nodes
}

func rule(limit string) *ruleset.Rule {
	r := build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").Condition("example.com/Ready").
		Taint("example.com/net", "", corev1.TaintEffectNoSchedule)
	if limit != "" {
		r.MaxUnavailable(limit)
	}
	return ruleset.Compile(r.Obj(), nil, now)
}

// inService is a node that was there before the rule.
func inService(i int) *corev1.Node {
	return build.MakeNode(name(i)).UID(name(i)).Created(now.Add(-time.Hour)).Label("pool", "a").
		Label("example.com/rack", strconv.Itoa(i%500)).Obj()
}

func name(i int) string { return fmt.Sprintf("node-%05d", i) }

// scene is a fleet of nodes in service under one rule. server is the time by the API server's clock.
type scene struct {
	testing.TB
	*Fleet
	*heard
	rule   *ruleset.Rule
	nodes  []*corev1.Node
	server time.Time
}

func newScene(t testing.TB, r *ruleset.Rule, nodes int) *scene {
	s := &scene{TB: t, heard: &heard{}, rule: r, server: now}
	s.Fleet = New(s.heard, func() time.Time { return s.server })
	for i := range nodes {
		s.nodes = append(s.nodes, inService(i))
	}
	s.SetRules(ruleset.NewSet(r), s.nodes, now)
	s.take()
	return s
}

// entry is a decision about node i.
func (s *scene) entry(i int, state v1alpha1.NodeState, reason string) Entry {
	current := nodeview.StateOf(s.rule, s.nodes[i], now)
	return Entry{Rule: s.rule, Current: &current, Outcome: Outcome{State: state, Reason: reason}}
}

// records stores a decision about a newer version of node i.
func (s *scene) records(i int, e Entry) {
	node := *s.nodes[i]
	node.ResourceVersion += "1"
	s.nodes[i] = &node
	s.Record(&node, []Entry{e}, now)
}

func (s *scene) isReady(i int) {
	s.records(i, s.entry(i, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds))
}

// reserve asks for room for node i, which is unready since so many seconds after now.
func (s *scene) reserve(i, since int) bool {
	return s.Reserve(s.rule.UID, s.nodes[i].Name, limit.Request{Since: now.Add(time.Duration(since) * time.Second),
		Domains: s.rule.Limit.Domains("", s.nodes[i].Labels)}) == ""
}

func TestTheStatusOfARuleIsToldOfANodeThatIsMoved(t *testing.T) {
	s := newScene(t, ruleset.Compile(build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").
		Condition("example.com/Ready").Taint("example.com/net", "", corev1.TaintEffectNoSchedule).
		LimitPer("example.com/rack", "1").Rate(1, 60).Obj(), nil, now), 1)
	s.records(0, s.entry(0, v1alpha1.NodeStateExempt, state.ReasonOverBudget))
	s.Rule(s.rule.UID)
	s.take()
	for _, rack := range []string{"other", "other"} {
		s.nodes[0].Labels["example.com/rack"] = rack
		s.records(0, s.entry(0, v1alpha1.NodeStateExempt, state.ReasonOverBudget))
	}
	if rules, _ := s.take(); !slices.Equal(rules, []string{"net"}) {
		t.Errorf("changed: %v; now a rate may allow the node to be held", rules)
	}
}

// TestTheStatusOfARuleIsToldOfAHeldNodeThatGetsAPlace: the node was held while it was cordoned, which used no place.
// Its state and reason are the same before and after.
func TestTheStatusOfARuleIsToldOfAHeldNodeThatGetsAPlace(t *testing.T) {
	s := newScene(t, rule("1"), 1)
	for i, place := range []string{"forced", "limited", "limited"} {
		s.nodes[0] = build.WrapNode(inService(0)).Taint("example.com/net", "", corev1.TaintEffectNoSchedule).Annotation(
			s.rule.RecordKey(), fmt.Sprintf(`{"taint":"example.com/net=:NoSchedule","released":"2026-01-02T03:04:05Z",%q:true}`,
				place)).Obj()
		s.Rule(s.rule.UID)
		s.take()
		s.records(0, s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing))
		s.tells(place, []int{1, 1, 0}[i])
	}
	if p := s.material().Places; p.InUse != 1 {
		t.Errorf("places %+v", p)
	}
}

// wakes checks which nodes were enqueued since the last time.
func (s *scene) wakes(when string, want ...int) {
	s.Helper()
	var names []string
	for _, i := range want {
		names = append(names, s.nodes[i].Name)
	}
	if _, woken := s.take(); !slices.Equal(woken, names) {
		s.Errorf("%s: woken %v, want %v", when, woken, names)
	}
}

// tells checks how often the listener was told of the rule since the last time.
func (s *scene) tells(when string, want int) {
	s.Helper()
	if rules, _ := s.take(); !slices.Equal(rules, slices.Repeat([]string{s.rule.Name}, want)) {
		s.Errorf("%s: told of %v, want %d times of the rule", when, rules, want)
	}
}

func (s *scene) material() Material {
	s.Helper()
	m, ok := s.Material(s.rule.UID)
	if !ok {
		s.Fatal("the rule is not known")
	}
	return m
}

func TestSetRulesReadsWhereAllNodesStandBeforeAnyIsActedOn(t *testing.T) {
	m := newScene(t, rule("50%"), 10).material()
	if m.Released != 10 || m.MaxUnavailable != 5 {
		t.Errorf("released %d, allowed %d; want 10 and 5", m.Released, m.MaxUnavailable)
	}
	if diff := cmp.Diff(v1alpha1.NodeCounts{Matched: 10, Pending: 10}, m.Counts); diff != "" {
		t.Error(diff)
	}
}

func TestSetRulesNamesTheNodesThatARuleConcernsNowOrDidBefore(t *testing.T) {
	s := newScene(t, rule(""), 3)
	nodes := slices.Concat(s.nodes, []*corev1.Node{build.MakeNode("other").UID("o").Label("pool", "b").Obj()})
	moved := *s.rule
	moved.Selector = ruleset.Compile(build.MakeRule("net").UID("u1").Selector("pool", "b").Obj(), nil, now).Selector
	got := s.SetRules(ruleset.NewSet(&moved), nodes, now)
	if diff := cmp.Diff([]string{name(0), name(1), name(2), "other"}, got); diff != "" {
		t.Error(diff)
	}
	if got := s.SetRules(ruleset.NewSet(&moved), nodes, now); len(got) != 0 {
		t.Errorf("an unchanged rule concerns %v", got)
	}
	if got := s.SetRules(ruleset.NewSet(), nodes, now); !slices.Equal(got, []string{"other"}) {
		t.Errorf("a deleted rule concerned %v", got)
	}
	s.tells("of an edit and a deletion", 2)
}

func TestTheLimitIsExactUnderConcurrency(t *testing.T) {
	for name, reserve := range map[string]func(f *Fleet, rule types.UID, node string) bool{
		"of claims": func(f *Fleet, rule types.UID, node string) bool {
			return f.Reserve(rule, node, limit.Request{Since: now}) == ""
		},
		"of published conditions": func(f *Fleet, rule types.UID, node string) bool {
			return f.Reserve(rule, node, limit.Request{Use: limit.Marks, Since: now}) == ""
		},
	} {
		s := newScene(t, rule("30%"), 100)
		var granted atomic.Int32
		var all sync.WaitGroup
		for _, n := range s.nodes {
			all.Go(func() {
				if reserve(s.Fleet, s.rule.UID, n.Name) {
					granted.Add(1)
				}
			})
		}
		all.Wait()
		if granted.Load() != 30 || reserve(s.Fleet, "unknown", "n") {
			t.Errorf("%s: granted %d, want 30 under this rule and none under a rule that is not known", name, granted.Load())
		}
	}
}

// TestExactlyAsManyAreWokenAsHaveRoom lets an outage end: each node that is ready again wakes the longest unready one,
// of two the first by name, and no other. Nodes that are unready for a shorter time ask first.
func TestExactlyAsManyAreWokenAsHaveRoom(t *testing.T) {
	s := newScene(t, rule("10"), 100)
	over := func(i int) Entry { return s.entry(i, v1alpha1.NodeStateExempt, state.ReasonOverBudget) }
	asks := func(i int) bool { return s.reserve(i, -i/2) } // two are unready since the same time
	for i := range s.nodes {
		if granted := asks(i); granted != (i < 10) {
			t.Fatalf("node %d: granted %t", i, granted)
		} else if !granted {
			s.records(i, over(i))
		}
	}
	s.wakes("while there is no room")
	for i := range 3 {
		refused := s.entry(i, v1alpha1.NodeStateFailed, "PatchFailed")
		refused.Unwritten = true
		s.records(i, refused)
	}
	s.wakes("the three that there is room for", 98, 99, 96)
	s.records(10, over(10)) // of no importance
	s.wakes("no second time")
	if asks(50) {
		t.Error("room was given to a node that is not among the longest unready")
	}
	s.isReady(99)
	s.wakes("the next, as one that was woken is ready by itself", 97)
	for _, i := range []int{97, 96, 98} {
		if !asks(i) {
			t.Errorf("node %d was woken and is refused", i)
		}
	}
	if asks(94) {
		t.Error("granted beyond the limit")
	}
}

// TestAPairTakes32Bytes holds what 15,000 nodes under 50 rules cost: 23 MiB.
func TestAPairTakes32Bytes(t *testing.T) {
	if size := unsafe.Sizeof(pair{}); size != 32 {
		t.Errorf("a pair takes %d bytes", size)
	}
}

// TestOutcomesAreStoredOnce is what keeps the memory of a burst from growing with the nodes, and with each burst.
func TestOutcomesAreStoredOnce(t *testing.T) {
	s := newScene(t, rule(""), 100)
	for range 3 {
		for _, status := range []v1alpha1.ConditionStatus{"False", "Unknown"} {
			for i := range s.nodes {
				e := s.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
				e.Results = []v1alpha1.ConditionEvaluationResult{{Type: "a", CurrentStatus: status, RequiredStatus: "True"}}
				s.records(i, e)
			}
		}
	}
	if r := s.Fleet.rules[0]; len(r.outcomes) > 4 || len(r.byHash) != 1 { // none, pending, and the two while they change
		t.Errorf("%d outcomes, %d in use", len(r.outcomes), len(r.byHash))
	}
	for _, n := range s.nodes {
		s.Forget(n.Name, now)
	}
	if m := s.material(); m.Counts.Matched != 0 || len(s.byName) != 0 || len(s.free) != 100 {
		t.Errorf("%+v, %d nodes", m.Counts, len(s.byName))
	}
}

// BenchmarkAnOutageUnderALimit lets all nodes become unready and ready again, in any order. "later" lets the limit be
// raised in the outage.
func BenchmarkAnOutageUnderALimit(b *testing.B) {
	const n = 10000
	by := func(all string, labels ...string) *ruleset.Rule {
		r := build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").Condition("example.com/Ready").
			Taint("example.com/net", "", corev1.TaintEffectNoSchedule).LimitPer("", all)
		for _, label := range labels {
			r.LimitPer(label, "1")
		}
		return ruleset.Compile(r.Obj(), nil, now)
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for _, c := range []struct {
		name  string
		rule  *ruleset.Rule
		later *ruleset.Rule
	}{
		{"of all", rule("30%"), nil},
		{"by rack", by("30%", "example.com/rack"), nil},
		{"by node", by("30%", "example.com/node"), nil},
		{"by node later", by("0%", "example.com/node"), by("100%", "example.com/node")},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				s := newScene(b, c.rule, 0)
				for i := range n {
					s.nodes = append(s.nodes, build.WrapNode(inService(i)).Label("example.com/node", name(i)).
						Label("example.com/rack", name(i%500)).Obj())
				}
				s.SetRules(ruleset.NewSet(), s.nodes, now)
				s.SetRules(ruleset.NewSet(c.rule), s.nodes, now)
				all := func() {
					for _, i := range order {
						e := s.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
						if !s.reserve(i, i%1000) {
							e.State, e.Reason = v1alpha1.NodeStateExempt, state.ReasonOverBudget
						}
						e.Current.Claimed = e.State == v1alpha1.NodeStateHeld
						s.records(i, e)
					}
				}
				all()
				if c.later != nil {
					s.rule = c.later
					s.SetRules(ruleset.NewSet(c.later), s.nodes, now)
					all()
				}
				for i := range n {
					s.isReady(i)
				}
			}
		})
	}
}

func TestAReservationOutlivesAFailureWithAnUnknownOutcome(t *testing.T) {
	s := newScene(t, rule("1"), 2)
	if !s.reserve(0, 0) {
		t.Fatal("refused")
	}
	s.records(0, s.entry(0, v1alpha1.NodeStateFailed, "PatchFailed"))
	if s.reserve(1, 0) {
		t.Error("the room of a patch that may have been carried out was given away")
	}
	s.Record(s.nodes[0], []Entry{s.entry(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)}, now)
	if s.reserve(1, 0) {
		t.Error("the room of a patch was given away before the cache shows that it was not carried out")
	}
	s.isReady(0)
	if !s.reserve(1, 0) {
		t.Error("room that is free again was refused")
	}
}

func TestAGoneNodeGivesItsRoomBack(t *testing.T) {
	s := newScene(t, rule("1"), 3)
	s.reserve(0, 0)
	s.reserve(1, 0)
	s.Forget(s.nodes[0].Name, now)
	s.wakes("the one that waits", 1)
	if m := s.material(); m.Released != 2 || m.Counts.Matched != 2 {
		t.Errorf("released %d, matched %d; want 2 and 2", m.Released, m.Counts.Matched)
	}
}

func TestAnEntryByAnotherVersionOfTheRuleIsDropped(t *testing.T) {
	s := newScene(t, rule(""), 1)
	edited := *s.rule
	edited.Generation++
	s.SetRules(ruleset.NewSet(&edited), s.nodes, now)
	s.isReady(0)
	if m := s.material(); m.Counts.Pending != 1 {
		t.Errorf("counts %+v: the node has not been looked at under the new version", m.Counts)
	}
	s.take()
	s.SetRules(ruleset.NewSet(), s.nodes, now)
	s.isReady(0)
	s.tells("the rule was deleted", 1)
}

func TestRecordTellsOfChangesOnlyAndKeepsTheTimeOfTheLastOne(t *testing.T) {
	s := newScene(t, rule(""), 1)
	held := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
	s.records(0, held)
	s.tells("the first verdict", 1)
	s.Rule(s.rule.UID)
	s.Record(s.nodes[0], []Entry{held}, now.Add(time.Hour))
	s.tells("a verdict that says the same", 0)
	if got := s.material().Evaluations[0].LastEvaluationTime.Time; !got.Equal(now) {
		t.Errorf("last changed at %s, want %s", got, now)
	}
	for name, edit := range map[string]func(*Entry){
		"another result of a condition": func(e *Entry) {
			e.Results = []v1alpha1.ConditionEvaluationResult{{Type: "example.com/Ready", CurrentStatus: "False"}}
		},
		"another reason of a requirement": func(e *Entry) {
			e.Requirements = []v1alpha1.RequirementEvaluationResult{{Name: "driver", Message: "is not registered"}}
		},
	} {
		edit(&held)
		s.records(0, held)
		s.tells(name, 1)
		got := s.material().Evaluations[0]
		if !slices.Equal(got.ConditionResults, held.Results) || !slices.Equal(got.RequirementResults, held.Requirements) {
			t.Errorf("%s: the status says %+v", name, got)
		}
		s.Rule(s.rule.UID)
	}
	s.nodes[0] = build.WrapNode(s.nodes[0]).Cordoned().Obj()
	s.records(0, s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing))
	s.tells("the limit is a share of fewer nodes", 1)
	s.Rule(s.rule.UID)
	s.Mute(s.rule.UID)
	s.isReady(0)
	s.tells("a change of a muted rule", 0)
	s.Rule(s.rule.UID)
	for range 2 {
		s.records(0, held)
		s.isReady(0)
	}
	s.tells("changes that were not asked for", 1)
}

func TestWhatWasSeenOfANodeIsNotTakenForItsNamesakes(t *testing.T) {
	s := newScene(t, rule(""), 1)
	e := s.entry(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
	e.Observed.Ready, e.Observed.Since, e.HeartbeatCounts = true, now, true
	s.records(0, e)
	look := s.Look(s.nodes[0])
	if got := look.Observed(s.rule.UID); !got.Ready || !got.Since.Equal(now) || !s.HeartbeatCounts(s.nodes[0].Name) {
		t.Errorf("forgotten: %+v", got)
	}
	if got := look.Observed("unknown"); !got.Since.IsZero() {
		t.Errorf("observed of a rule that is not known: %+v", got)
	}
	look = s.Look(build.WrapNode(s.nodes[0]).UID("another").Obj())
	if got := look.Observed(s.rule.UID); !got.Since.IsZero() {
		t.Errorf("observed of the namesake: %+v", got)
	}
}

func TestWhatWasSeenOfEvidenceIsNotTakenForOtherEvidence(t *testing.T) {
	seen := readiness.Observed{Ready: true, Since: now, Refreshed: now, Watched: true, Unarmed: true}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeReadinessRuleSpec)
		kept   bool
	}{
		"the taint": {func(s *v1alpha1.NodeReadinessRuleSpec) { s.Taint.Value = "x" }, true},
		"a condition": {change: func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Conditions[0].Type = "example.com/Other"
		}},
		"conditionPolicy": {change: func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.ConditionPolicy = v1alpha1.ConditionPolicyAnyOf
		}},
		"a requirement": {change: func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Requirements = []v1alpha1.Requirement{{Name: "driver",
				CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "csi.example.com"}}}
		}},
	} {
		s := newScene(t, rule(""), 1)
		e := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonReadyWindow)
		e.Observed = seen
		s.records(0, e)
		edited := *s.rule
		edited.Spec = s.rule.Spec.DeepCopy()
		c.change(edited.Spec)
		s.SetRules(ruleset.NewSet(&edited), s.nodes, now)
		want := readiness.Observed{Since: s.rule.InForceSince, Assumed: true, Watched: true}
		if c.kept {
			want = seen
		}
		look := s.Look(s.nodes[0])
		if diff := cmp.Diff(want, look.Observed(s.rule.UID)); diff != "" {
			t.Errorf("after an edit of %s (-want +got):\n%s", name, diff)
		}
	}
}

// No window may run while the evidence cannot be read: a node in service would be held at once when it can be.
func TestAFrozenRuleCouldNotReadItsEvidence(t *testing.T) {
	for name, before := range map[string]readiness.Observed{
		"observed":     {Since: now, Watched: true},
		"assumed":      {Since: now, Assumed: true},
		"not seen yet": {},
	} {
		s := newScene(t, rule(""), 1)
		e := s.entry(0, v1alpha1.NodeStateReady, state.ReasonUnreadyWindow)
		e.Observed = before
		s.records(0, e)
		s.SetRules(ruleset.NewSet(s.rule.Freeze(ruleset.Problem{Reason: "EvidenceUnavailable"})), s.nodes, now)
		s.SetRules(ruleset.NewSet(s.rule), s.nodes, now.Add(time.Hour))
		look, want := s.Look(s.nodes[0]), before
		want.Unread = true
		if diff := cmp.Diff(want, look.Observed(s.rule.UID)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestANodeThatBecameReadyIsRememberedWhenItIsDeletedAndTheRuleChanges: it ends a row of replacements.
func TestANodeThatBecameReadyIsRememberedWhenItIsDeletedAndTheRuleChanges(t *testing.T) {
	s := newScene(t, ruleset.Compile(build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").
		Condition("example.com/Ready").Taint("example.com/net", "", corev1.TaintEffectNoSchedule).
		Replace(60, 1, "").Obj(), nil, now), 1)
	record := nodeview.Record{Rule: "net", Released: metav1.NewTime(now)}
	s.nodes[0] = build.WrapNode(s.nodes[0]).Annotation(s.rule.RecordKey(), record.Encode()).Obj()
	s.isReady(0)
	s.Forget(s.nodes[0].Name, now)
	edited := *s.rule
	s.SetRules(ruleset.NewSet(&edited), nil, now)
	if got := s.material().ReadyAt; !got.Equal(now) {
		t.Errorf("a node last became ready at %s, want %s", got, now)
	}
}

func TestANodeKeepsItsStateUntilAnEditedRuleHasLookedAtIt(t *testing.T) {
	s := newScene(t, rule("1"), 4)
	s.isReady(0)
	s.reserve(1, 0)
	s.records(1, s.entry(1, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing))
	s.reserve(2, 1)
	s.reserve(3, 2)
	s.reserve(2, 1)
	s.records(3, s.entry(3, v1alpha1.NodeStateExempt, state.ReasonOverBudget))
	s.nodes = append(s.nodes, inService(4)) // first seen with the edited rule
	counts := func(when string, pending int, want v1alpha1.NodeCounts) {
		t.Helper()
		if m := s.material(); m.Pending != pending || m.Waiting != 1 || m.Counts != want {
			t.Errorf("%s: %d pending, %d waiting, %+v", when, m.Pending, m.Waiting, m.Counts)
		}
		if c := s.Counts()[0].Sums.Counts; c != want {
			t.Errorf("%s: the metrics say %+v", when, c)
		}
	}
	edited := *s.rule
	s.rule = &edited
	s.SetRules(ruleset.NewSet(s.rule), s.nodes, now)
	s.take()
	counts("edited", 5, v1alpha1.NodeCounts{Matched: 5, Ready: 1, Held: 1, Exempt: 1, Pending: 2})
	for i := range 2 {
		s.isReady(i)
		s.tells("looked at", 1)
		s.Rule(s.rule.UID)
	}
	counts("looked at", 3, v1alpha1.NodeCounts{Matched: 5, Ready: 2, Exempt: 1, Pending: 2})
}

func TestStatusIsBoundedForAnyFleetAndNamesHeldAndFailedNodesFirst(t *testing.T) {
	s := newScene(t, rule(""), 5000)
	for i := range s.nodes {
		e := s.entry(i, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		switch {
		case i%1000 == 999:
			e = s.entry(i, v1alpha1.NodeStateFailed, "PatchFailed")
			e.Message = strings.Repeat("x", 20000)
		case i%100 == 99:
			e = s.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
			for range 4 {
				e.Results = append(e.Results, v1alpha1.ConditionEvaluationResult{
					Type: strings.Repeat("t", 316), CurrentStatus: "Unknown", RequiredStatus: "True"})
			}
		}
		s.records(i, e)
	}
	m := s.material()
	if diff := cmp.Diff(v1alpha1.NodeCounts{Matched: 5000, Ready: 4950, Held: 45, Failed: 5}, m.Counts); diff != "" {
		t.Error(diff)
	}
	if n := len(m.Applied) + len(m.Failed) + len(m.Evaluations); n > v1alpha1.MaxStatusNodes || !m.Truncated {
		t.Errorf("%d entries, truncated %v", n, m.Truncated)
	}
	if len(m.Failed) != 5 || m.Applied[0] != name(999) || m.Evaluations[0].NodeName != name(99) {
		t.Errorf("failed %d, first %s, first held %s", len(m.Failed), m.Applied[0], m.Evaluations[0].NodeName)
	}
	raw, err := json.Marshal([]any{m.Applied, m.Failed, m.Evaluations})
	if err != nil || len(raw) > v1alpha1.MaxStatusNodesBytes {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestADryRunsMaterialCountsAndNames(t *testing.T) {
	s := newScene(t, rule(""), v1alpha1.MaxStatusNodes/2) // each has two entries
	for i := range s.nodes {
		e := s.entry(i, v1alpha1.NodeStateExempt, state.ReasonDryRun)
		e.WouldClaim, e.Risky, e.WouldRelease = i > 0 && i < 12, i < 5, i >= 12 && i < 23
		s.records(i, e)
	}
	names := func(from int) (names []string) {
		for i := range 10 {
			names = append(names, name(from+i))
		}
		return names
	}
	m := s.material()
	if m.ToTaint != 11 || m.ToUntaint != 11 || m.Risky != 4 || m.Truncated {
		t.Errorf("%+v", m)
	}
	if !slices.Equal(m.NamesToTaint, names(1)) || !slices.Equal(m.NamesToUntaint, names(12)) {
		t.Errorf("would taint %v, would untaint %v", m.NamesToTaint, m.NamesToUntaint)
	}
	s.nodes = append(s.nodes, inService(len(s.nodes)))
	s.records(len(s.nodes)-1, s.entry(len(s.nodes)-1, v1alpha1.NodeStateExempt, state.ReasonDryRun))
	if m = s.material(); !m.Truncated || len(m.Evaluations) != v1alpha1.MaxStatusNodes/2 {
		t.Errorf("with one more node: %d nodes in the status, truncated %t", len(m.Evaluations), m.Truncated)
	}
}

// TestGuardsAreCountedAlsoWhereTheRuleDoesNotMatch: the guard of a suspended rule continues on a node that was
// relabelled.
func TestGuardsAreCountedAlsoWhereTheRuleDoesNotMatch(t *testing.T) {
	s := newScene(t, rule(""), 5)
	for i, hold := range []guard.HoldState{guard.HoldActive, guard.HoldActive, guard.HoldEnded, guard.HoldEnding, ""} {
		e := s.entry(i, v1alpha1.NodeStateExempt, state.ReasonSuspended)
		if i > 0 {
			e.Current.Matches, e.State, e.Reason = false, "", ""
		}
		e.Hold = hold
		s.records(i, e)
	}
	if m := s.material(); m.Guarded != 2 || m.GuardEnded != 1 || m.Counts.Matched != 1 {
		t.Errorf("%+v", m)
	}
}

func TestAnUnknownRule(t *testing.T) {
	if _, ok := New(&heard{}, time.Now).Material("x"); ok {
		t.Error("material of a rule that is not known")
	}
}
