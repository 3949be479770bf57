// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestWhatCannotBeReadChangesNothing: the pods of a node cannot be listed that rebooted 20 minutes ago.
func TestWhatCannotBeReadChangesNothing(t *testing.T) {
	const (
		unknown = "Exempt EvidenceUnknown"
		boot    = `"rule":"r","bootID":"b","notBefore":"2026-01-02T02:44:05Z","rearmedAt":"2026-01-02T02:44:05Z"}`
		since   = `{"taint":"example.com/r=:NoSchedule","since":"2026-01-02T02:44:05Z",`
		held    = since + boot
		marked  = since + `"starting":true,"timedOut":"2026-01-02T02:54:05Z","mark":"example.com/replace=true",` + boot

		released = `{"released":"2026-01-02T02:04:05Z",` + boot
	)
	pods := func() *build.RuleWrapper {
		return rule("r", "A").RearmOnReboot().Evidence(v1alpha1.Requirement{Name: "p", Pods: &v1alpha1.PodsRequirement{
			Namespace: "kube-system", Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}})
	}
	appears := func(r *build.RuleWrapper) *build.RuleWrapper {
		r.Spec.Timeout.AppearSeconds = new(int32(600))
		return r
	}
	dependent := rule("second", "A").After("r")
	var none readiness.Observed
	wasReady := readiness.Observed{Ready: true, Since: now.Add(-time.Second), Turned: true}
	for name, c := range map[string]struct {
		rules    []*build.RuleWrapper
		record   string
		is       corev1.ConditionStatus
		observed readiness.Observed
		want     map[string]string
		expired  bool
		mark     string
	}{
		"in service": {[]*build.RuleWrapper{pods()}, released, "True", none, map[string]string{"r": unknown}, false, ""},
		"in service, and ready until now": {[]*build.RuleWrapper{pods()}, released, "True", wasReady,
			map[string]string{"r": unknown}, false, ""},
		"a condition shows that it is not ready": {[]*build.RuleWrapper{pods()}, released, "False", none,
			map[string]string{"r": "Held Rearmed"}, false, ""},
		"any of the evidence suffices": {[]*build.RuleWrapper{pods().AnyOf()}, released, "False", none,
			map[string]string{"r": unknown}, false, ""},
		"and there is one": {[]*build.RuleWrapper{pods().AnyOf()}, released, "True", none,
			map[string]string{"r": "Ready EvidenceHolds"}, false, ""},
		"another rule requires it": {[]*build.RuleWrapper{pods(), dependent}, released, "True", none,
			map[string]string{"r": unknown, "second": unknown}, false, ""},
		"another rule requires it, and it is in dry-run": {[]*build.RuleWrapper{pods().DryRun(true), dependent}, released,
			"True", none, map[string]string{"r": "Exempt DryRun", "second": unknown}, false, ""},
		"with a guard": {[]*build.RuleWrapper{pods().EvictionGuard(600)}, released, "True", none,
			map[string]string{"r": unknown}, false, ""},
		"held": {[]*build.RuleWrapper{pods()}, held, "True", none, map[string]string{"r": "Held Rearmed"}, false, ""},
		"held, and perhaps reported in time": {[]*build.RuleWrapper{pods().Timeout(0, 600, v1alpha1.TimeoutActionRelease)},
			held, "True", none, map[string]string{"r": "Held Rearmed"}, false, ""},
		"waits for its replacement": {[]*build.RuleWrapper{appears(pods().Replace(6000, 1, "example.com/replace"))}, marked,
			"True", none, map[string]string{"r": "Held Rearmed"}, true, "example.com/replace=true"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node().Created(now.Add(-2*time.Hour)).BootID("b").Condition("Ready", "True", now.Add(-20*time.Minute)).
				Heartbeat("Ready", now).Condition("A", c.is, now.Add(-time.Minute)).
				Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-r", c.record).
				Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-second", `{"released":"2026-01-02T02:04:05Z"}`)
			if c.record != released {
				n.Taint("example.com/r", "", corev1.TaintEffectNoSchedule)
			}
			in := input(n.Obj(), c.rules...)
			in.Live = func(string, labels.Selector) ([]*corev1.Pod, bool) { return nil, false }
			in.Observed = func(*ruleset.Rule) readiness.Observed { return c.observed }
			out := DecideNode(in)
			if diff := cmp.Diff(c.want, states(out)); diff != "" {
				t.Fatal(diff)
			}
			d := &out.Decisions[0]
			if d.Expired != c.expired || d.Record.Mark != c.mark || d.Hold.State != guard.HoldNone {
				t.Errorf("expired is %t, marked %q, guard %q", d.Expired, d.Record.Mark, d.Hold.State)
			}
			seen := c.observed
			seen.Watched = d.Rule.Mode == ruleset.Enforced
			if d.Verdict.Unknown && (d.Verdict.Ready || d.Verdict.Observed != seen) {
				t.Errorf("ready is %t, observed %+v", d.Verdict.Ready, d.Verdict.Observed)
			}
			if c.want["r"] == unknown && d.Record != d.Was.Record {
				t.Errorf("record %+v", d.Record)
			}
		})
	}
}
