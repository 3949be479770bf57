// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type heard struct {
	mu    sync.Mutex
	rules []string
	nodes []string
}

func (h *heard) RuleChanged(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = append(h.rules, name)
}

func (h *heard) Enqueue(nodes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = append(h.nodes, nodes...)
}

func (h *heard) take() (rules, nodes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rules, nodes = h.rules, h.nodes
	h.rules, h.nodes = nil, nil
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
	return build.MakeNode(name(i)).UID(name(i)).Created(now.Add(-time.Hour)).Label("pool", "a").Obj()
}

func name(i int) string { return fmt.Sprintf("node-%05d", i) }

func fleetOf(r *ruleset.Rule, n int) (*Fleet, *heard, []*corev1.Node) {
	h := &heard{}
	f := New(h)
	var nodes []*corev1.Node
	for i := range n {
		nodes = append(nodes, inService(i))
	}
	f.SetRules(ruleset.NewSet(r), nodes, now)
	h.take()
	return f, h, nodes
}

func entry(r *ruleset.Rule, node *corev1.Node, state v1alpha1.NodeState, reason string) Entry {
	current := gate.StateOf(r, node, now)
	return Entry{Rule: r, Current: &current, Outcome: Outcome{State: state, Reason: reason}}
}

func TestSetRulesReadsWhereAllNodesStandBeforeAnyIsActedOn(t *testing.T) {
	r := rule("50%")
	f, _, _ := fleetOf(r, 10)
	m, ok := f.Material(r.UID)
	if !ok || m.Released != 10 || m.MaxUnavailable != 5 {
		t.Errorf("released %d, allowed %d; want 10 and 5", m.Released, m.MaxUnavailable)
	}
	if diff := cmp.Diff(v1alpha1.NodeCounts{Matched: 10, Pending: 10}, m.Counts); diff != "" {
		t.Error(diff)
	}
}

func TestSetRulesNamesTheNodesThatARuleConcernsNowOrDidBefore(t *testing.T) {
	r := rule("")
	f, h, nodes := fleetOf(r, 3)
	nodes = append(nodes, build.MakeNode("other").UID("o").Label("pool", "b").Obj())
	moved := *r
	moved.Selector = ruleset.Compile(build.MakeRule("net").UID("u1").Selector("pool", "b").Obj(), nil, now).Selector
	got := f.SetRules(ruleset.NewSet(&moved), nodes, now)
	if diff := cmp.Diff([]string{name(0), name(1), name(2), "other"}, got); diff != "" {
		t.Error(diff)
	}
	if got := f.SetRules(ruleset.NewSet(&moved), nodes, now); len(got) != 0 {
		t.Errorf("an unchanged rule concerns %v", got)
	}
	if got := f.SetRules(ruleset.NewSet(), nodes, now); !slices.Equal(got, []string{"other"}) {
		t.Errorf("a deleted rule concerned %v", got)
	}
	if rules, _ := h.take(); !slices.Equal(rules, []string{"net", "net"}) {
		t.Errorf("told of %v", rules)
	}
}

func TestReserveIsExactUnderConcurrency(t *testing.T) {
	r := rule("30%")
	f, _, nodes := fleetOf(r, 100)
	var granted sync.Map
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			if f.Reserve(r.UID, n.Name, now) {
				granted.Store(n.Name, true)
			}
		})
	}
	wg.Wait()
	count := 0
	granted.Range(func(any, any) bool { count++; return true })
	if count != 30 {
		t.Errorf("granted %d, want 30", count)
	}
}

func TestFreedBudgetGoesToTheLongestUnready(t *testing.T) {
	r := rule("1")
	f, h, nodes := fleetOf(r, 4)
	since := func(i int) time.Time { return now.Add(-time.Duration(i) * time.Minute) }
	if !f.Reserve(r.UID, nodes[0].Name, since(0)) {
		t.Fatal("the first is refused")
	}
	for _, i := range []int{1, 3, 2} {
		if f.Reserve(r.UID, nodes[i].Name, since(i)) {
			t.Fatalf("node %d is granted beyond the limit", i)
		}
		f.Record(nodes[i], []Entry{entry(r, nodes[i], v1alpha1.NodeStateExempt, gate.ReasonOverBudget)}, now)
	}
	h.take()
	f.Unreserve(r.UID, nodes[0].Name)
	if _, woken := h.take(); !slices.Equal(woken, []string{name(3)}) {
		t.Errorf("woken: %v, want the longest unready", woken)
	}
	if f.Reserve(r.UID, nodes[2].Name, since(2)) {
		t.Error("granted to another one than the longest unready")
	}
	if !f.Reserve(r.UID, nodes[3].Name, since(3)) {
		t.Error("refused to the longest unready")
	}
}

// TestExactlyAsManyAreWokenAsHaveRoom lets an outage end: each node that is ready again wakes one, and no other.
func TestExactlyAsManyAreWokenAsHaveRoom(t *testing.T) {
	r := rule("10")
	f, h, nodes := fleetOf(r, 100)
	over := func(i int) Entry { return entry(r, nodes[i], v1alpha1.NodeStateExempt, gate.ReasonOverBudget) }
	since := func(i int) time.Time { return now.Add(time.Duration(i) * time.Second) }
	for i := range nodes {
		if granted := f.Reserve(r.UID, nodes[i].Name, since(i)); granted != (i < 10) {
			t.Fatalf("node %d: granted %v", i, granted)
		} else if !granted {
			f.Record(nodes[i], []Entry{over(i)}, now)
		}
	}
	h.take()
	for i := range 3 {
		f.Unreserve(r.UID, nodes[i].Name)
	}
	f.Record(nodes[99], []Entry{over(99)}, now) // of no importance
	if _, woken := h.take(); !slices.Equal(woken, []string{name(10), name(11), name(12)}) {
		t.Errorf("woken: %v, want the three that there is room for, once", woken)
	}
	if f.Reserve(r.UID, nodes[50].Name, since(50)) {
		t.Error("room was given to a node that is not among the longest unready")
	}
	f.Record(nodes[11], []Entry{entry(r, nodes[11], v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)}, now)
	if _, woken := h.take(); !slices.Equal(woken, []string{name(13)}) {
		t.Errorf("woken: %v, want the next, as one that was woken is ready by itself", woken)
	}
	for _, i := range []int{13, 12, 10} {
		if !f.Reserve(r.UID, nodes[i].Name, since(i)) {
			t.Errorf("node %d was woken and is refused", i)
		}
	}
	if f.Reserve(r.UID, nodes[14].Name, since(14)) {
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
	r := rule("")
	f, _, nodes := fleetOf(r, 100)
	for range 3 {
		for _, status := range []v1alpha1.ConditionStatus{"False", "Unknown"} {
			for _, n := range nodes {
				e := entry(r, n, v1alpha1.NodeStateHeld, gate.ReasonEvidenceMissing)
				e.Results = []v1alpha1.ConditionEvaluationResult{{Type: "a", CurrentStatus: status, RequiredStatus: "True"}}
				f.Record(n, []Entry{e}, now)
			}
		}
	}
	if s := f.rules[0]; len(s.outcomes) > 4 || len(s.byHash) != 1 { // none, pending, and the two while they change
		t.Errorf("%d outcomes, %d in use", len(s.outcomes), len(s.byHash))
	}
	for _, n := range nodes {
		f.Forget(n.Name, now)
	}
	if m, _ := f.Material(r.UID); m.Counts.Matched != 0 || len(f.byName) != 0 || len(f.free) != 100 {
		t.Errorf("%+v, %d nodes", m.Counts, len(f.byName))
	}
}

func BenchmarkEndOfAnOutageUnderALimit(b *testing.B) {
	for _, n := range []int{5000, 10000} {
		b.Run(fmt.Sprintf("%d nodes", n), func(b *testing.B) {
			r := rule("30%")
			for b.Loop() {
				f, _, nodes := fleetOf(r, n)
				for i, node := range nodes {
					e := entry(r, node, v1alpha1.NodeStateHeld, gate.ReasonEvidenceMissing)
					if !f.Reserve(r.UID, node.Name, now.Add(time.Duration(n-i)*time.Second)) {
						e.State, e.Reason = v1alpha1.NodeStateExempt, gate.ReasonOverBudget
					}
					e.Current.Claimed = e.State == v1alpha1.NodeStateHeld
					f.Record(node, []Entry{e}, now)
				}
				for _, node := range nodes {
					f.Record(node, []Entry{entry(r, node, v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)}, now)
				}
			}
		})
	}
}

func TestAReservationOutlivesAFailureWithAnUnknownOutcome(t *testing.T) {
	r := rule("1")
	f, _, nodes := fleetOf(r, 2)
	if !f.Reserve(r.UID, nodes[0].Name, now) {
		t.Fatal("refused")
	}
	f.Record(nodes[0], []Entry{entry(r, nodes[0], v1alpha1.NodeStateFailed, "PatchFailed")}, now)
	if f.Reserve(r.UID, nodes[1].Name, now) {
		t.Error("the room of a patch that may have been carried out was given away")
	}
	f.Record(nodes[0], []Entry{entry(r, nodes[0], v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)}, now)
	if !f.Reserve(r.UID, nodes[1].Name, now) {
		t.Error("room that is free again was refused")
	}
}

func TestAGoneNodeGivesItsRoomBack(t *testing.T) {
	r := rule("1")
	f, h, nodes := fleetOf(r, 3)
	f.Reserve(r.UID, nodes[0].Name, now)
	f.Reserve(r.UID, nodes[1].Name, now)
	f.Forget(nodes[0].Name, now)
	if _, woken := h.take(); !slices.Equal(woken, []string{nodes[1].Name}) {
		t.Errorf("woken: %v", woken)
	}
	if m, _ := f.Material(r.UID); m.Released != 2 || m.Counts.Matched != 2 {
		t.Errorf("released %d, matched %d; want 2 and 2", m.Released, m.Counts.Matched)
	}
}

func TestAnEntryByAnotherVersionOfTheRuleIsDropped(t *testing.T) {
	r := rule("")
	f, _, nodes := fleetOf(r, 1)
	edited := *r
	edited.Generation++
	f.SetRules(ruleset.NewSet(&edited), nodes, now)
	f.Record(nodes[0], []Entry{entry(r, nodes[0], v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)}, now)
	if m, _ := f.Material(r.UID); m.Counts.Pending != 1 {
		t.Errorf("counts %+v: the node has not been looked at under the new version", m.Counts)
	}
}

func TestRecordTellsOfChangesOnlyAndKeepsTheTimeOfTheLastOne(t *testing.T) {
	r := rule("")
	f, h, nodes := fleetOf(r, 1)
	held := entry(r, nodes[0], v1alpha1.NodeStateHeld, gate.ReasonEvidenceMissing)
	f.Record(nodes[0], []Entry{held}, now)
	if rules, _ := h.take(); len(rules) != 1 {
		t.Errorf("told %v times of the first verdict", len(rules))
	}
	f.Rule(r.UID)
	f.Record(nodes[0], []Entry{held}, now.Add(time.Hour))
	if rules, _ := h.take(); len(rules) != 0 {
		t.Error("told of a verdict that says the same")
	}
	m, _ := f.Material(r.UID)
	if got := m.Evaluations[0].LastEvaluationTime.Time; !got.Equal(now) {
		t.Errorf("last changed at %s, want %s", got, now)
	}
	cordoned := entry(r, build.WrapNode(nodes[0]).Cordoned().Obj(), v1alpha1.NodeStateHeld, gate.ReasonEvidenceMissing)
	f.Record(nodes[0], []Entry{cordoned}, now)
	if rules, _ := h.take(); len(rules) != 1 {
		t.Errorf("told %d times that the limit is a share of fewer nodes", len(rules))
	}
	f.Rule(r.UID)
	ready := entry(r, nodes[0], v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)
	f.Mute(r.UID)
	f.Record(nodes[0], []Entry{ready}, now)
	if rules, _ := h.take(); len(rules) != 0 {
		t.Error("told of a change of a muted rule")
	}
	f.Rule(r.UID)
	for range 2 {
		f.Record(nodes[0], []Entry{held}, now)
		f.Record(nodes[0], []Entry{ready}, now)
	}
	if rules, _ := h.take(); len(rules) != 1 {
		t.Errorf("told %d times of changes that were not asked for", len(rules))
	}
}

func TestWhatWasSeenOfANodeIsNotTakenForItsNamesakes(t *testing.T) {
	r := rule("")
	f, _, nodes := fleetOf(r, 1)
	e := entry(r, nodes[0], v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)
	e.Observed.Ready, e.Observed.Since, e.HeartbeatDecides = true, now, true
	f.Record(nodes[0], []Entry{e}, now)
	look := f.Look(nodes[0])
	if got := look.Observed(r.UID); !got.Ready || !got.Since.Equal(now) || !f.HeartbeatDecides(nodes[0].Name) {
		t.Errorf("forgotten: %+v", got)
	}
	look = f.Look(build.WrapNode(nodes[0]).UID("another").Obj())
	if got := look.Observed(r.UID); !got.Since.IsZero() {
		t.Errorf("observed of the namesake: %+v", got)
	}
}

func TestWhatWasSeenOfEvidenceIsNotTakenForOtherEvidence(t *testing.T) {
	r := rule("")
	f, _, nodes := fleetOf(r, 1)
	e := entry(r, nodes[0], v1alpha1.NodeStateHeld, gate.ReasonReadyWindow)
	e.Observed = readiness.Observed{Ready: true, Since: now, Refreshed: now, Watched: true}
	f.Record(nodes[0], []Entry{e}, now)
	edit := func(change func(*v1alpha1.NodeReadinessRuleSpec)) readiness.Observed {
		edited := *r
		edited.Spec = r.Spec.DeepCopy()
		change(edited.Spec)
		f.SetRules(ruleset.NewSet(&edited), nodes, now)
		look := f.Look(nodes[0])
		return look.Observed(r.UID)
	}
	if diff := cmp.Diff(e.Observed, edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Taint.Value = "x" })); diff != "" {
		t.Errorf("after another edit (-want +got):\n%s", diff)
	}
	want := readiness.Observed{Since: r.InForceSince, Watched: true}
	got := edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Conditions[0].Type = "example.com/Other" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after an edit of the evidence (-want +got):\n%s", diff)
	}
}

func TestStatusIsBoundedForAnyFleetAndNamesHeldAndFailedNodesFirst(t *testing.T) {
	r := rule("")
	f, _, nodes := fleetOf(r, 5000)
	for i, n := range nodes {
		e := entry(r, n, v1alpha1.NodeStateReady, gate.ReasonEvidenceHolds)
		switch {
		case i%1000 == 999:
			e = entry(r, n, v1alpha1.NodeStateFailed, "PatchFailed")
			e.Message = strings.Repeat("x", 20000)
		case i%100 == 99:
			e = entry(r, n, v1alpha1.NodeStateHeld, gate.ReasonEvidenceMissing)
			for range 4 {
				e.Results = append(e.Results, v1alpha1.ConditionEvaluationResult{
					Type: strings.Repeat("t", 316), CurrentStatus: "Unknown", RequiredStatus: "True"})
			}
		}
		f.Record(n, []Entry{e}, now)
	}
	m, _ := f.Material(r.UID)
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
	r := rule("")
	f, _, nodes := fleetOf(r, 30)
	for i, n := range nodes {
		e := entry(r, n, v1alpha1.NodeStateExempt, gate.ReasonDryRun)
		e.WouldClaim, e.Risky, e.WouldRelease = i < 20, i < 5, i >= 25
		f.Record(n, []Entry{e}, now)
	}
	m, _ := f.Material(r.UID)
	if m.ToTaint != 20 || m.ToUntaint != 5 || m.Risky != 5 || len(m.NamesToTaint) != 10 || len(m.NamesToUntaint) != 5 {
		t.Errorf("%+v", m)
	}
}

func TestUnknownRules(t *testing.T) {
	f := New(&heard{})
	if _, ok := f.Material(types.UID("x")); ok {
		t.Error("material of a rule that is not known")
	}
	if f.Reserve("x", "n", now) {
		t.Error("room under a rule that is not known")
	}
}
