// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/gate"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// dice make random rules and nodes out of few parts, so that they meet often.
type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

var (
	conditionsUsed = []string{cni, disk, "example.com/GPU"}
	keysUsed       = []string{key, diskKey, "readiness.k8s.io/gpu"}
	namesUsed      = []string{"a", "b", "c", "d"}
)

func (d dice) rule(name string) *build.RuleWrapper {
	r := ruleOf(name, pick(d, conditionsUsed...), pick(d, keysUsed...)).Generation(int64(1 +
		d.IntN(3))).Created(at(-86400 - d.IntN(3)))
	r.Taint(r.Spec.Taint.Key, pick(d, "pending", "v1", ""), pick(d, noSchedule, noSchedule, noExecute))
	optional := []func(){
		func() { r.BootstrapOnly() },
		func() { r.RearmOnReboot() },
		func() { r.ExistingNodes(v1alpha1.ExistingNodesNone) },
		func() { r.ReadySeconds(int32(d.IntN(30))) },
		func() { r.UnreadySeconds(int32(d.IntN(30))) },
		func() { r.MinimumHoldSeconds(int32(d.IntN(60))) },
		func() { r.MaxUnavailable(pick(d, "0", "30%")) },
		func() {
			r.Timeout(int32(d.IntN(60)), int32(1+d.IntN(60)), pick(d, v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease))
		},
		func() { r.CompletionAnnotation(completedAt) },
		func() { r.DryRun(true) },
		func() { r.Suspend(true) },
		func() { r.Deleted(at(0)) },
		func() { r.Spec.Requirements = []v1alpha1.Requirement{{Name: "future"}} },
		func() { r.FreshCondition(pick(d, conditionsUsed...), int32(1+d.IntN(60))) },
		func() { r.Selector("zone", "a") },
		func() { r.Health("rules") },
		func() { r.Untainted().Health("rules") },
	}
	for _, f := range optional {
		if d.chance(15) {
			f()
		}
	}
	return r
}

func (d dice) rules() []*build.RuleWrapper {
	var out []*build.RuleWrapper
	for _, name := range namesUsed[:d.IntN(len(namesUsed)+1)] {
		out = append(out, d.rule(name))
	}
	return out
}

// node is a node with foreign things, things of the rules, and things of rules that are not there.
func (d dice) node() *build.NodeWrapper {
	n := fresh().BootID(pick(d, "b1", "b1", "b2", ""))
	if d.chance(30) {
		n.Created(at(-2 * 86400))
	}
	d.churn(n, 0)
	taken := map[string]bool{}
	for range d.IntN(8) {
		k, e := pick(d, append(keysUsed, "foreign.example.com/1", "foreign.example.com/2",
			"node.kubernetes.io/unreachable")...), pick(d, noSchedule, noExecute)
		if !taken[k+string(e)] {
			n.Taint(k, pick(d, "", "pending", "kubelet"), e)
			taken[k+string(e)] = true
		}
	}
	for range d.IntN(6) {
		n.Annotation(d.annotation())
	}
	return n
}

func (d dice) annotation() (key, value string) {
	ref := pick(d, "u-a", "u-b", "u-c", "u-d", "u-gone", "u-new", "a", "gone")
	switch d.IntN(4) {
	case 0:
		return pick(d, "mine", "theirs.example.com/x"), "x"
	case 1:
		return v1alpha1.BootstrapAnnotationPrefix + ref, pick(d, `{"rule-name":"a"}`, `{"rule-name":"gone"}`, "true")
	}
	taint := pick(d, "", gate.FormatTaint(corev1.Taint{Key: pick(d, keysUsed...), Value: pick(d, "pending", "v1"),
		Effect: pick(d, noSchedule, noExecute)}),
		"node.kubernetes.io/unreachable=:NoExecute")
	return v1alpha1.RecordAnnotationPrefix + ref, pick(d, "{{{", "{}",
		fmt.Sprintf(`{"rule":"x","taint":%q,"since":%q}`, taint, stamp(d.IntN(20))),
		fmt.Sprintf(`{"taint":%q,"released":%q,"bootID":"b1"}`, taint, stamp(d.IntN(20))),
		fmt.Sprintf(`{"taint":%q,"timedOut":%q,"bootID":"b1","notBefore":%q}`, taint, stamp(d.IntN(20)), stamp(d.IntN(20))))
}

// churn is what happens to a node between two looks at it.
func (d dice) churn(n *build.NodeWrapper, now int) {
	for _, c := range append(conditionsUsed, "Ready") {
		switch {
		case d.chance(10):
			n.Without(c)
		case d.chance(50):
			n.Condition(c, pick(d, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
				at(now-d.IntN(90)))
		}
	}
	if d.chance(10) {
		n.Label("zone", pick(d, "a", "b"))
	}
	if d.chance(10) {
		n.Label("pool", pick(d, "workers", "workers", "others"))
	}
	if d.chance(5) {
		n.BootID(pick(d, "b1", "b2", "b3"))
	}
	if n.DeletionTimestamp == nil && d.chance(3) {
		n.Terminating(at(now))
	}
	if d.chance(10) {
		n.Annotation(v1alpha1.OverrideAnnotation, pick(d, "Hold", "Release", "Hold;until="+stamp(now+30), "garbage"))
	} else {
		n.Unannotate(v1alpha1.OverrideAnnotation)
	}
	if d.chance(10) {
		n.Untaint(pick(d, keysUsed...))
	}
}

// TestRandom plays random histories. After each pass: what is foreign is untouched, exactly the claimed taints stand,
// and (as in all tests) a second pass plans nothing.
func TestRandom(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		w := newWorld(t, d.rules()...)
		w.gone = []string{"u-gone", "gone"}
		n, now := d.node(), 20
		incumbents := d.chance(20)
		if incumbents { // which have left no records, and of whose status one of ours takes the place
			for _, r := range w.objects {
				n.Unannotate(v1alpha1.RecordAnnotationPrefix + string(r.NodeReadinessRule.UID))
				r.Status = v1alpha1.NodeReadinessRuleStatus{}
				r.StatusNode("n1", v1alpha1.TaintPresent)
			}
		}
		for pass := range 4 {
			if d.chance(30) {
				w.restart()
			}
			if d.chance(30) || pass == 1 && incumbents {
				w.objects = d.rules()
			}
			if w.refuse = nil; d.chance(30) {
				w.refuse = namesUsed
			}
			before := n.Obj()
			after, out, decisions := w.pass(before, at(now))
			w.untouched(before, after, decisions)
			w.exactlyTheClaimed(before, after, decisions)
			if t.Failed() {
				t.Fatalf("seed %d, pass %d: rules %s\ntaints %v -> %v\nannotations %v\nstates %v\nchanges %v\npatch %s", seed, pass,
					w.describe(), formatted(before), formatted(after), before.Annotations, states(decisions), changesOf(out),
					out.Patch)
			}
			now += d.IntN(60)
			n = build.WrapNode(after)
			d.churn(n, now)
		}
	}
}

func (w *world) describe() string {
	var out strings.Builder
	for _, r := range w.objects {
		fmt.Fprintf(&out, "\n  %s: mode %d, taint %+v, %+v", r.Name, ruleset.Compile(r.Obj(), nil, start).Mode, r.Spec.Taint,
			r.Spec)
	}
	return out.String()
}

// untouched holds what must not change against what has.
func (w *world) untouched(before, after *corev1.Node, decisions []gate.Decision) {
	w.t.Helper()
	foreign := func(n *corev1.Node) []corev1.Taint {
		return slices.DeleteFunc(slices.Clone(n.Spec.Taints),
			func(t corev1.Taint) bool { return slices.Contains(keysUsed, t.Key) })
	}
	if diff := cmp.Diff(foreign(before), foreign(after), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("foreign taints (-before +after):\n%s", diff)
	}
	frozen := map[string]bool{}
	for _, d := range decisions {
		if d.Rule.Mode == ruleset.Frozen {
			frozen[d.Rule.RecordKey()], frozen[d.Rule.MarkerKey()], frozen[d.Rule.OldMarkerKey()] = true, true, true
		}
	}
	theirs := func(n *corev1.Node) map[string]string {
		out := map[string]string{}
		for k, v := range n.Annotations {
			ours := strings.HasPrefix(k, v1alpha1.RecordAnnotationPrefix) ||
				strings.HasPrefix(k, v1alpha1.BootstrapAnnotationPrefix) || k == completedAt
			if !ours || frozen[k] || strings.HasSuffix(k, "u-new") {
				out[k] = v
			}
		}
		return out
	}
	want, got := theirs(before), theirs(after)
	for k := range got { // a marker that a frozen rule inherits from one of its name that is gone
		if frozen[k] && want[k] != got[k] && strings.HasPrefix(k, v1alpha1.BootstrapAnnotationPrefix) {
			delete(got, k)
			delete(want, k)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("annotations of others (-before +after):\n%s", diff)
	}
	rest := func(n *corev1.Node) *corev1.Node {
		n = n.DeepCopy()
		n.Spec.Taints, n.Annotations = nil, nil
		return n
	}
	if diff := cmp.Diff(rest(before), rest(after), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("the rest of the node (-before +after):\n%s", diff)
	}
}

// sayable holds the verdict that stands in a rule's record against what the rule decides.
func (w *world) sayable(d gate.Decision) {
	w.t.Helper()
	if d.Rule.Inert() {
		return
	}
	said := v1alpha1.HealthVerdict("")
	if !d.Record.Empty() {
		said = d.Record.Health
	}
	counts := d.Rule.Spec.Health != nil && d.Rule.Mode == ruleset.Enforced && d.Was.Matches
	switch {
	case !counts && said != "",
		counts && said == "" && d.Reason != gate.ReasonTerminating,
		counts && said != "" && d.Reason != gate.ReasonTerminating &&
			(said == v1alpha1.HealthNotReady) != (d.State == v1alpha1.NodeStateHeld):
		w.t.Errorf("%s is %s %s, and its record says %q", d.Rule.Name, d.State, d.Reason, said)
	}
}

// exactlyTheClaimed computes again, from the decisions, which of the rules' taints must be there.
func (w *world) exactlyTheClaimed(before, after *corev1.Node, decisions []gate.Decision) {
	w.t.Helper()
	had, has := idsOf(before.Spec.Taints), idsOf(after.Spec.Taints)
	must, keep, managed := map[gate.TaintID]bool{}, map[gate.TaintID]bool{}, map[gate.TaintID]bool{}
	for _, d := range decisions {
		was, err := gate.ParseTaint(d.Was.Record.Taint)
		wasClaimed := err == nil
		switch {
		case d.Frozen:
			if wasClaimed {
				keep[gate.TaintIDOf(was)] = true
			}
			continue
		case d.Claim:
			claim, err := gate.ParseTaint(d.Record.Taint)
			if err != nil {
				w.t.Errorf("%s claims %q", d.Rule.Name, d.Record.Taint)
			}
			must[gate.TaintIDOf(claim)] = true
			if adds := d.Rule.Mode == ruleset.Enforced && before.DeletionTimestamp.IsZero(); adds &&
				gate.TaintIDOf(claim) != gate.TaintIDOf(*d.Rule.Taint) {
				w.t.Errorf("%s claims %s, its taint is %s", d.Rule.Name, d.Record.Taint, gate.FormatTaint(*d.Rule.Taint))
			}
		}
		if wasClaimed {
			managed[gate.TaintIDOf(was)] = true
		}
		if d.Rule.Mode == ruleset.Enforced && d.Was.Matches && d.Rule.Taint != nil {
			managed[gate.TaintIDOf(*d.Rule.Taint)] = true
		}
		if fresh := d.Claim && !d.Was.Claimed; fresh && (d.Rule.Mode != ruleset.Enforced || !d.Was.Matches) {
			w.t.Errorf("%s makes a claim that it may not make", d.Rule.Name)
		}
		if held := d.State == v1alpha1.NodeStateHeld; d.Claim != (held && d.Rule.Taint != nil) {
			w.t.Errorf("%s is %s and claims: %t", d.Rule.Name, d.State, d.Claim)
		}
		w.sayable(d)
	}
	set := w.set(at(0))
	for k, v := range before.Annotations {
		ref, ok := strings.CutPrefix(k, v1alpha1.RecordAnnotationPrefix)
		if !ok || slices.ContainsFunc(set.All(), func(r *ruleset.Rule) bool { return string(r.UID) == ref }) {
			continue
		}
		for _, t := range gate.ClaimIn(v) {
			if slices.Contains(w.gone, ref) {
				managed[gate.TaintIDOf(t)] = true
			} else {
				keep[gate.TaintIDOf(t)] = true
			}
		}
	}
	for _, k := range keysUsed {
		for _, e := range []corev1.TaintEffect{noSchedule, noExecute} {
			i := gate.TaintID{Key: k, Effect: e}
			if has[i] && !had[i] && before.DeletionTimestamp != nil {
				w.t.Errorf("taint %s:%s is put on a terminating node", k, e)
			}
			want := must[i] || had[i] && (keep[i] || !managed[i])
			if has[i] != want {
				w.t.Errorf("taint %s:%s is there: %t, want %t", k, e, has[i], want)
			}
		}
	}
}
