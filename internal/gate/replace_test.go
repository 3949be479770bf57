// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// TestANodeWaitsForItsReplacement: when a node that never became ready may be handed over, and when not.
func TestANodeWaitsForItsReplacement(t *testing.T) {
	const held, rearmed = "Held EvidenceMissing", "Held Rearmed"
	replaces := func() *build.RuleWrapper { return rule("r", "A").Replace(100, 1, "example.com/replace") }
	fresh := func() *build.NodeWrapper { return node().Created(now) }
	begins := scene{at: 1, tells: "seen", want: held, taints: taint}
	ends := scene{at: 101, tells: "timed out", want: held, taints: taint, expired: true}
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		node   *build.NodeWrapper
		scenes []scene
	}{
		"never ready": {replaces(), fresh(), []scene{begins,
			{at: 100, tells: "not yet", want: held, taints: taint}, ends,
			{at: 102, tells: "another leader", restarted: true, want: held, taints: taint, expired: true},
			{at: 110, tells: "ready", node: is("True", 110), want: "Ready EvidenceHolds"},
			{at: 120, tells: "unready again", node: is("False", 120), want: held, taints: taint},
			{at: 999, tells: "for long", want: held, taints: taint}}},
		"ready, but not for long enough": {replaces().ReadySeconds(30), fresh(), []scene{begins, ends,
			{at: 110, tells: "ready", node: is("True", 110), want: "Held ReadyWindow", taints: taint},
			{at: 120, tells: "unready again", node: is("False", 120), want: held, taints: taint, expired: true}}},
		"with action Keep": {rule("r", "A").Timeout(100, 0, v1alpha1.TimeoutActionKeep), fresh(), []scene{begins,
			{at: 101, tells: "timed out", want: held, taints: taint}}},
		"overridden after its timeout": {replaces(), fresh(), []scene{begins, ends,
			{at: 102, tells: "held", node: overridden("Hold"), want: "Held OverrideHold", taints: taint},
			{at: 103, tells: "released", node: overridden("Release"), want: "Exempt OverrideRelease"},
			{at: 104, tells: "lifted", node: func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) },
				want: held, taints: taint},
			{at: 204, tells: "timed out again", want: held, taints: taint, expired: true}}},
		"let pass, and the rule is edited": {rule("r", "A").Timeout(100, 0, v1alpha1.TimeoutActionRelease), fresh(), []scene{
			begins, {at: 101, tells: "timed out", want: "Exempt TimedOut"},
			{at: 102, tells: "edited", rule: func(r *build.RuleWrapper) { r.Replace(100, 1, "") }, want: "Exempt TimedOut"},
			{at: 103, tells: "no timeout", rule: func(r *build.RuleWrapper) { r.Spec.Timeout = nil }, want: "Exempt TimedOut"},
			{at: 110, tells: "ready", node: is("True", 110), want: "Ready EvidenceHolds"},
			{at: 120, tells: "unready again", node: is("False", 120), want: held, taints: taint}}},
		"more time after its timeout": {replaces(), fresh(), []scene{begins, ends,
			{at: 102, tells: "edited", rule: func(r *build.RuleWrapper) { r.Replace(500, 1, "") }, want: held, taints: taint},
			{at: 501, tells: "timed out again", want: held, taints: taint, expired: true},
			{at: 502, tells: "less", rule: func(r *build.RuleWrapper) { r.Replace(100, 1, "") }, want: held, taints: taint,
				expired: true},
			{at: 503, tells: "released", rule: func(r *build.RuleWrapper) {
				r.Timeout(100, 0, v1alpha1.TimeoutActionRelease)
			}, want: "Exempt TimedOut"}}},
		"appears after its timeout": {replaces(), fresh(), []scene{
			{at: 1, tells: "seen", rule: func(r *build.RuleWrapper) {
				r.Replace(500, 1, "").Spec.Timeout.AppearSeconds = new(int32(100))
			}, want: held, taints: taint}, ends,
			{at: 102, tells: "appears", node: is("False", 102), want: held, taints: taint},
			{at: 501, tells: "timed out again", want: held, taints: taint, expired: true}}},
		"overridden in its start": {replaces(), fresh(), []scene{begins,
			{at: 5, tells: "held", node: overridden("Hold"), want: "Held OverrideHold", taints: taint, start: state.Excluded},
			{at: 500, tells: "lifted", node: func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) },
				want: held, taints: taint}}},
		"released in its start, while the rule is frozen": {replaces(), fresh(), []scene{begins,
			{at: 5, tells: "released", frozen: evidence.ReasonInvalid, node: overridden("Release"),
				want: "Exempt OverrideRelease"},
			{at: 50, tells: "lifted", frozen: "-", node: func(n *build.NodeWrapper) {
				n.Unannotate(v1alpha1.OverrideAnnotation)
			}, want: held, taints: taint},
			{at: 500, tells: "timed out", want: held, taints: taint}}},
		"put in dry-run": {replaces(), fresh(), []scene{begins, ends,
			{at: 102, tells: "in dry-run", rule: func(r *build.RuleWrapper) { r.DryRun(true) }, want: "Exempt DryRun"}}},
		"labelled late": {replaces(), node().Created(second(-601)), []scene{begins,
			{at: 200, tells: "timed out", want: held, taints: taint}}},
		"existed before the rule": {replaces().Created(second(10)), fresh(), []scene{
			{at: 11, tells: "seen", want: held, taints: taint},
			{at: 200, tells: "timed out", want: held, taints: taint}}},
		"rebooted in its start": {replaces().RearmOnReboot(), fresh().BootID("b1"), []scene{
			{at: 1, tells: "seen", want: held, taints: taint},
			{at: 5, tells: "rebooted", node: func(n *build.NodeWrapper) { n.BootID("b2") }, want: rearmed, taints: taint},
			{at: 200, tells: "timed out", want: rearmed, taints: taint, expired: true}}},
		"rebooted after it was ready": {replaces().RearmOnReboot(), fresh().BootID("b1"), []scene{
			{at: 1, tells: "seen", want: held, taints: taint},
			{at: 4, tells: "ready", node: is("True", 4), want: "Ready EvidenceHolds"},
			{at: 5, tells: "rebooted", node: func(n *build.NodeWrapper) { n.BootID("b2") }, want: rearmed, taints: taint},
			{at: 200, tells: "timed out", want: rearmed, taints: taint},
			{at: 201, tells: "edited", rule: func(r *build.RuleWrapper) { r.Spec.RearmOn = nil }, node: is("False", 201),
				want: held, taints: taint}}},
	} {
		t.Run(name, func(t *testing.T) { tell(t, c.rule, c.node, c.scenes...) })
	}
}

// TestReadyAt: when a node became ready that was new under the rule.
func TestReadyAt(t *testing.T) {
	replaces := func() *build.RuleWrapper { return rule("r", "A").Replace(100, 1, "") }
	fresh := func() *build.NodeWrapper { return node().Created(now).BootID("b1") }
	begins := scene{at: 1, tells: "seen", want: "Held EvidenceMissing", taints: taint}
	ready := func(at int) scene {
		return scene{at: at, tells: "ready", node: is("True", at), want: "Ready EvidenceHolds"}
	}
	flaps := []scene{ready(1), {at: 20, tells: "unready", node: is("False", 20), want: "Held EvidenceMissing",
		taints: taint}, ready(30)}
	reboots := scene{at: 40, tells: "rebooted", node: func(n *build.NodeWrapper) { n.BootID("b2") }, want: "Held Rearmed",
		taints: taint}
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		node   *build.NodeWrapper
		scenes []scene
		want   int
	}{
		"held, then ready":                 {replaces(), fresh(), []scene{begins, ready(9)}, 9},
		"ready at once":                    {replaces(), fresh(), []scene{ready(1)}, 1},
		"flaps afterwards":                 {replaces(), fresh(), flaps, 1},
		"timed out before":                 {replaces(), fresh(), []scene{begins, ready(500)}, 500},
		"rebooted in its start":            {replaces().RearmOnReboot(), fresh(), []scene{begins, reboots, ready(50)}, 50},
		"rebooted later":                   {replaces().RearmOnReboot(), fresh(), []scene{ready(1), reboots, ready(50)}, 0},
		"existed before the rule":          {replaces().Created(second(1)), fresh(), flaps, 0},
		"of a rule that spares such nodes": {replaces().Created(second(1)).ExistingNodes("None"), fresh(), flaps, 0},
		"labelled late":                    {replaces(), node().Created(second(-601)), []scene{begins, ready(9)}, 0},
		"overridden in its start": {replaces(), fresh(), []scene{{at: 2, tells: "overridden", node: overridden("Release"),
			want: "Exempt OverrideRelease"}, {at: 9, tells: "lifted", node: func(n *build.NodeWrapper) {
			is("True", 9)(n.Unannotate(v1alpha1.OverrideAnnotation))
		}, want: "Ready EvidenceHolds"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := tell(t, c.rule, c.node, c.scenes...)
			r, want := ruleset.Compile(c.rule.Obj(), nil, second(600)), time.Time{}
			if c.want != 0 {
				want = second(c.want)
			}
			s := nodeview.StateOf(r, n, second(600))
			if got := replace.ReadyAt(r, &s); !got.Equal(want) {
				t.Errorf("ready at %s, want %s: record %v", got, want, n.Annotations)
			}
		})
	}
}

// TestReplaceable: what a node itself says against its replacement.
func TestReplaceable(t *testing.T) {
	r := ruleset.Compile(rule("r", "A").Replace(100, 1, "").Obj(), nil, now)
	for name, c := range map[string]struct {
		change func(*build.NodeWrapper) *build.NodeWrapper
		want   bool
	}{
		"timed out":            {func(n *build.NodeWrapper) *build.NodeWrapper { return n }, true},
		"of the control plane": {label("node-role.kubernetes.io/control-plane"), false},
		"a master":             {label("node-role.kubernetes.io/master"), false},
		"in maintenance":       {annotation(v1alpha1.MaintenanceAnnotation, "disk"), false},
		"not in maintenance":   {annotation(v1alpha1.MaintenanceAnnotation, "false"), true},
		"in maintenance before": {annotation(v1alpha1.MaintenanceAnnotation, "disk;until=2020-01-01T00:00:00Z"),
			true},
		"overridden":               {annotation(v1alpha1.OverrideAnnotation, "Hold"), false},
		"overridden, not readable": {annotation(v1alpha1.OverrideAnnotation, "hold on"), false},
		"overridden before":        {annotation(v1alpha1.OverrideAnnotation, "Hold;until=2020-01-01T00:00:00Z"), true},
		"being deleted": {func(n *build.NodeWrapper) *build.NodeWrapper { return n.Terminating(second(101)) },
			false},
		"without its taint": {func(n *build.NodeWrapper) *build.NodeWrapper { return n.Untaint(taint) }, false},
		"without its record": {func(n *build.NodeWrapper) *build.NodeWrapper { return n.Unannotate(r.RecordKey()) },
			false},
		"of another pool": {func(n *build.NodeWrapper) *build.NodeWrapper {
			for k := range n.Labels {
				n.Unlabel(k)
			}
			return n
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rec := nodeview.Record{Taint: nodeview.FormatTaint(*r.Taint), Since: metav1.NewTime(now),
				TimedOut: metav1.NewTime(second(100))}
			n := node().Created(now).Taint(r.Taint.Key, r.Taint.Value, r.Taint.Effect).
				Annotation(r.RecordKey(), rec.Encode())
			if got := replace.Replaceable(r, c.change(n).Obj(), second(101)); got != c.want {
				t.Errorf("replaceable: %t, want %t", got, c.want)
			}
		})
	}
}

func label(key string) func(*build.NodeWrapper) *build.NodeWrapper {
	return func(n *build.NodeWrapper) *build.NodeWrapper { return n.Label(key, "") }
}

func annotation(key, value string) func(*build.NodeWrapper) *build.NodeWrapper {
	return func(n *build.NodeWrapper) *build.NodeWrapper { return n.Annotation(key, value) }
}

// replaced is a status with replacements in an hour before now, each of another node, at these minutes.
func replaced(generation int64, readyAt int, minutes ...int) *v1alpha1.ReplacementStatus {
	s := &v1alpha1.ReplacementStatus{}
	if readyAt != 0 {
		s.LastReadyTime = new(metav1.NewTime(now.Add(time.Duration(readyAt) * time.Minute)))
	}
	for i, m := range minutes {
		s.Last = append(s.Last, v1alpha1.Replacement{NodeUID: types.UID(fmt.Sprint("n", i)), Generation: generation,
			HandoverTime: metav1.NewTime(now.Add(time.Duration(m) * time.Minute))})
	}
	return s
}

// TestAllowance: how many nodes may be handed over, and when the next one.
func TestAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		perHour   int32
		status    *v1alpha1.ReplacementStatus
		node      types.UID
		next      int // minutes from now; 0: at once
		exhausted bool
	}{
		"none so far":                      {perHour: 1},
		"one an hour ago":                  {perHour: 1, status: replaced(1, 0, -60)},
		"one just less than an hour ago":   {perHour: 1, status: replaced(1, 0, -59), next: 1},
		"one of two":                       {perHour: 2, status: replaced(1, 0, -59)},
		"two of two":                       {perHour: 2, status: replaced(1, 0, -59, -9), next: 1},
		"more than are allowed now":        {perHour: 1, status: replaced(1, 0, -59, -9), next: 51},
		"in another order":                 {perHour: 1, status: replaced(1, 0, -9, -59), next: 51},
		"of a clock that was ahead":        {perHour: 1, status: replaced(1, 0, 10), next: 70},
		"the node itself":                  {perHour: 1, status: replaced(1, 0, -9), node: "n0"},
		"another node":                     {perHour: 1, status: replaced(1, 0, -9), node: "n1", next: 51},
		"three in a row":                   {perHour: 1, status: replaced(1, 0, -900, -800, -700), exhausted: true},
		"three, one of them itself":        {perHour: 1, status: replaced(1, 0, -900, -800, -700), node: "n1"},
		"three before the rule was edited": {perHour: 1, status: replaced(0, 0, -900, -800, -700)},
		"three before a node became ready": {perHour: 1, status: replaced(1, -699, -900, -800, -700)},
		"three, one before that":           {perHour: 1, status: replaced(1, -850, -900, -800, -700)},
		"three in the same second":         {perHour: 1, status: replaced(1, -900, -900, -800, -700), exhausted: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := replace.AllowanceOf(&v1alpha1.Replace{MaxPerHour: &c.perHour}, c.status, 1, c.node, now)
			want := replace.Allowance{Exhausted: c.exhausted}
			if c.next != 0 {
				want.Next = now.Add(time.Duration(c.next) * time.Minute)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReplacementsAt: a node that becomes ready ends a row, and no more is written than has to be.
func TestReplacementsAt(t *testing.T) {
	timeless := replaced(1, 0, 0)
	timeless.Last[0].HandoverTime = metav1.Time{}
	readyNow := replaced(1, 1, -9, 0)
	readyNow.LastReadyTime.Time = now
	for name, c := range map[string]struct {
		before  *v1alpha1.ReplacementStatus
		readyAt int // in minutes; 1e6: never
		want    *v1alpha1.ReplacementStatus
	}{
		"nothing replaced":          {nil, -5, nil},
		"none ready":                {replaced(1, 0, -9), 1e6, replaced(1, 0, -9)},
		"ready before":              {replaced(1, 0, -9), -10, replaced(1, 0, -9)},
		"ready in the same second":  {replaced(1, 0, -9), -9, replaced(1, 0, -9)},
		"ready after":               {replaced(1, 0, -9), -8, replaced(1, -8, -9)},
		"ready in the middle":       {replaced(1, 0, -9, -7), -8, replaced(1, -8, -9, -7)},
		"ready once more":           {replaced(1, -8, -9), -5, replaced(1, -8, -9)},
		"another leader knows less": {replaced(1, -8, -9), 1e6, replaced(1, -8, -9)},
		"ready in the future":       {replaced(1, 0, -9), 5, replaced(1, 0, -9)},
		"edited since":              {replaced(0, 0, -9), -5, replaced(0, 0, -9)},
		"replaced in the future":    {replaced(1, 0, -9, 60), 1e6, replaced(1, 0, -9, 0)},
		"the last one ready later":  {replaced(1, 5, -9, 5), 1e6, readyNow},
		"replaced at no known time": {timeless, 1e6, replaced(1, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Time{}
			if c.readyAt != 1e6 {
				at = now.Add(time.Duration(c.readyAt) * time.Minute)
			}
			if diff := cmp.Diff(c.want, replace.ReplacementsAt(c.before, 1, at, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
