// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/story"
)

// pods returns a rule of a condition and of pods that are listed after a reboot.
func pods() *build.RuleWrapper {
	return rule("r", "A").RearmOnReboot().Evidence(v1alpha1.Requirement{Name: "p", Pods: &v1alpha1.PodsRequirement{
		Namespace: "kube-system", Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}})
}

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
			seen.Watched, seen.Unread = d.Rule.Mode == ruleset.Enforced, true
			if d.Verdict.Unknown && (d.Verdict.Ready || d.Verdict.Observed != seen) {
				t.Errorf("ready is %t, observed %+v", d.Verdict.Ready, d.Verdict.Observed)
			}
			if c.want["r"] == unknown && d.Record != d.Was.Record {
				t.Errorf("record %+v", d.Record)
			}
		})
	}
}

// TestWindowsBeginWhenPodsCanBeListedAgain: nothing is known while they cannot.
func TestWindowsBeginWhenPodsCanBeListedAgain(t *testing.T) {
	const boot = `"rule":"r","bootID":"b","notBefore":"2026-01-02T02:44:05Z","rearmedAt":"2026-01-02T02:44:05Z"}`
	started := metav1.NewTime(now.Add(-15 * time.Minute))
	pod := build.MakePod("kube-system", "a").Node("n").Condition(corev1.PodReady, "", started.Time).Obj()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
	for name, c := range map[string]struct {
		rule                        *build.RuleWrapper
		record                      string
		effect                      corev1.TaintEffect // of a taint with the rule's key
		pods                        []*corev1.Pod
		before, during, after, late string
	}{
		"unreadySeconds": {pods().UnreadySeconds(600), `{"released":"2026-01-02T02:04:05Z",` + boot, "", nil,
			"Ready UnreadyWindow", "Exempt EvidenceUnknown", "Ready UnreadyWindow", "Held Rearmed"},
		"readySeconds": {pods().ReadySeconds(600), `{"taint":"example.com/r=:NoSchedule",` + boot, "NoSchedule",
			[]*corev1.Pod{pod}, "Held Rearmed", "Held Rearmed", "Held Rearmed", "Ready EvidenceHolds"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node().Created(now.Add(-2*time.Hour)).BootID("b").Condition("Ready", "True", now.Add(-20*time.Minute)).
				Condition("A", "True", now.Add(-time.Minute)).
				Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-r", c.record).Taint("example.com/r", "", c.effect).Obj()
			in := input(n, c.rule)
			observed := readiness.Observed{Ready: c.pods != nil, Since: now, Turned: true}
			in.Observed = func(*ruleset.Rule) readiness.Observed { return observed }
			for _, step := range []struct {
				at    int
				known bool
				want  string
			}{
				{0, true, c.before}, {300, false, c.during}, {700, false, c.during}, {720, true, c.after},
				{1319, true, c.after}, {1320, true, c.late},
			} {
				in.Now = second(step.at)
				for i := range n.Status.Conditions {
					n.Status.Conditions[i].LastHeartbeatTime.Time = in.Now
				}
				in.Live = func(string, labels.Selector) ([]*corev1.Pod, bool) { return c.pods, step.known }
				out := DecideNode(in)
				if got := states(out)["r"]; got != step.want {
					t.Errorf("after %d seconds: %s (%s), want %s", step.at, got, out.Decisions[0].Verdict.Blocking(), step.want)
				}
				observed = out.Decisions[0].Verdict.Observed
			}
		})
	}
}

// TestWhatIsNotJudgedBeforeTheBootIsConfirmedChangesNothing: the node rebooted while no operator was running.
func TestWhatIsNotJudgedBeforeTheBootIsConfirmedChangesNothing(t *testing.T) {
	const unknown, held = "Exempt EvidenceUnknown", "Held EvidenceMissing"
	evicting := func(name, condition string) *build.RuleWrapper {
		return rule(name, condition).Taint("example.com/"+name, "", corev1.TaintEffectNoExecute)
	}
	for name, c := range map[string]struct {
		dryRun, held      bool
		window            int32 // unreadySeconds of the second rule
		before, confirmed []string
	}{
		"another rule requires it": {before: []string{"Exempt Booting", unknown, unknown},
			confirmed: []string{"Held Rearmed", held, held}},
		"and holds the node": {held: true, before: []string{"Exempt Booting", held, held},
			confirmed: []string{"Held Rearmed", held, held}},
		"another rule requires it, and it is in dry-run": {dryRun: true,
			before: []string{"Exempt DryRun", unknown, unknown}, confirmed: []string{"Exempt DryRun", held, held}},
		"another rule with unreadySeconds requires it": {window: 60, before: []string{"Exempt Booting", unknown, unknown},
			confirmed: []string{"Held Rearmed", "Ready UnreadyWindow", "Ready EvidenceHolds"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := story.NewWorld(t, evicting("r", "A").RearmOnReboot().DryRun(c.dryRun), evicting("second", "B").After("r").
				UnreadySeconds(c.window), evicting("third", "B").After("second"))
			n := node().Created(second(-7200)).BootID("b2").Condition("Ready", "True", second(-1)).
				Condition("A", "True", second(-3600)).Condition("B", "True", second(-3600)).
				Annotation("nodegate.io/rule-uid-of-r", `{"rule":"r","released":"2026-01-02T02:04:05Z","bootID":"b1"}`)
			for _, other := range []string{"second", "third"} {
				claim := ""
				if c.held {
					n.Taint("example.com/"+other, "", corev1.TaintEffectNoExecute)
					claim = `"taint":"example.com/` + other + `=:NoExecute","since":"2026-01-02T03:04:00Z",`
				}
				n.Annotation("nodegate.io/rule-uid-of-"+other, `{`+claim+`"released":"2026-01-02T02:04:05Z"}`)
			}
			for _, at := range []int{0, 119, 120} {
				want := map[bool][]string{true: c.confirmed, false: c.before}[at == 120]
				after, _, decisions := w.Pass(n.Heartbeat("Ready", second(at)).Obj(), second(at))
				var got []string
				for i := range decisions {
					got = append(got, string(decisions[i].State)+" "+decisions[i].Reason)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after %d s: -want +got\n%s", at, diff)
				}
				if !decisions[0].RecheckAt.Equal(second(120)) && at < 120 {
					t.Errorf("after %d s: rechecks at %s", at, decisions[0].RecheckAt)
				}
				if says := decisions[1].Message(now); at < 120 && !strings.Contains(says,
					"rule r waits until the boot of this node is confirmed") {
					t.Errorf("after %d s: %s", at, says)
				}
				n = build.WrapNode(after)
			}
		})
	}
}

// TestAGuardBeginsBeforeTheBootIsConfirmed: the node rebooted while no operator was running, and then its link breaks.
func TestAGuardBeginsBeforeTheBootIsConfirmed(t *testing.T) {
	const unreachable = corev1.TaintNodeUnreachable
	w := story.NewWorld(t, rule("r", "A").Taint("example.com/r", "", corev1.TaintEffectNoExecute).RearmOnReboot(),
		rule("second", "B").After("r").EvictionGuard(1800), rule("third", "B").After("second").EvictionGuard(600))
	n := node().Created(second(-7200)).BootID("b2").Condition("Ready", "True", second(-1)).
		Condition("A", "True", second(-3600)).Condition("B", "True", second(-3600)).
		Annotation("nodegate.io/rule-uid-of-r", `{"rule":"r","released":"2026-01-02T02:04:05Z","bootID":"b1"}`).
		Annotation("nodegate.io/rule-uid-of-second", `{"released":"2026-01-02T02:04:05Z"}`).
		Annotation("nodegate.io/rule-uid-of-third", `{"released":"2026-01-02T02:04:05Z"}`)
	for _, step := range []struct {
		at      int
		tells   string
		happens func()
		want    []string // the state and the guard of the second and the third rule
	}{
		{0, "it has not reported yet", func() {}, []string{"Exempt EvidenceUnknown", "Exempt EvidenceUnknown"}},
		{30, "the link breaks", func() {
			n.Condition("Ready", "Unknown", second(30)).Taint(unreachable, "", corev1.TaintEffectNoExecute)
		}, []string{"Exempt EvidenceUnknown Active", "Exempt EvidenceUnknown Active"}},
		{600, "a restart", w.Restart, []string{"Exempt EvidenceUnknown Active", "Exempt EvidenceUnknown Active"}},
		{630, "one guard ends", func() {}, []string{"Exempt EvidenceUnknown Active", "Exempt EvidenceUnknown Ended"}},
		{700, "it is back", func() {
			n.Condition("Ready", "True", second(700)).Condition("A", "True", second(700)).Untaint(unreachable)
		}, []string{"Ready EvidenceHolds Active", "Ready EvidenceHolds Active"}},
		{710, "calm", func() {}, []string{"Ready EvidenceHolds", "Ready EvidenceHolds"}},
	} {
		step.happens()
		after, _, decisions := w.Pass(n.Obj(), second(step.at))
		var got []string
		for _, d := range decisions[1:] {
			got = append(got, strings.TrimSpace(string(d.State)+" "+d.Reason+" "+string(d.Hold.State)))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %d s, %s: -want +got\n%s", step.at, step.tells, diff)
		}
		n = build.WrapNode(after)
	}
}

// TestAPublishedConditionSaysThatNothingIsKnown: a rule that requires it goes by that, as one that requires the rule.
func TestAPublishedConditionSaysThatNothingIsKnown(t *testing.T) {
	const (
		published = "example.com/R"
		released  = `{"released":"2026-01-02T02:04:05Z"`
		rebooted  = released + `,"bootID":"b1"}`
		confirmed = released + `,"bootID":"b2","notBefore":"2026-01-02T02:44:05Z","rearmedAt":"2026-01-02T02:44:05Z"}`
	)
	booting := rule("r", "A").Taint("example.com/r", "", corev1.TaintEffectNoExecute).RearmOnReboot().Publish(published)
	unlisted, lacking := pods().Publish(published), rule("r", "C").Publish(published)
	requires := func() *build.RuleWrapper { return rule("second", published) }
	for name, c := range map[string]struct {
		rule, second *build.RuleWrapper
		record       string // of the first rule
		held, lost   bool
		first, want  string // the state, and what the first rule publishes, or the guard of the second
	}{
		"it waits for the boot": {booting, requires(), rebooted, false, false,
			"Exempt Booting, Unknown Booting", "Exempt EvidenceUnknown"},
		"pods cannot be listed": {unlisted, requires(), confirmed, false, false,
			"Exempt EvidenceUnknown, Unknown EvidenceUnknown", "Exempt EvidenceUnknown"},
		"evidence is missing": {lacking, requires(), released + `}`, false, false,
			"Held EvidenceMissing, Unknown EvidenceMissing", "Held EvidenceMissing"},
		"it waits for the boot, and the other rule holds the node": {booting, requires(), rebooted, true, false,
			"Exempt Booting, Unknown Booting", "Held EvidenceMissing"},
		"it waits for the boot, and the other rule re-arms": {booting, requires().RearmOnReboot(), rebooted, false, false,
			"Exempt Booting, Unknown Booting", "Exempt EvidenceUnknown"},
		"it waits for the boot, and the other rule requires Unknown": {booting, rule("second", "B").Require(
			v1alpha1.ConditionRequirement{Type: published, RequiredStatus: "Unknown"}), rebooted, false, false,
			"Exempt Booting, Unknown Booting", "Ready EvidenceHolds"},
		"it waits for the boot, and the other rule has a guard": {booting, requires().EvictionGuard(600), rebooted, false,
			false, "Exempt Booting, Unknown Booting", "Exempt EvidenceUnknown"},
		"it waits for the boot, and the link is broken": {booting, requires().EvictionGuard(600), rebooted, false, true,
			"Exempt Booting, Unknown Booting", "Exempt EvidenceUnknown Active"},
		"it requires a condition that waits for the boot, and the link is broken": {rule("r", "Q").Publish(published),
			requires().EvictionGuard(600), released + `}`, false, true,
			"Exempt EvidenceUnknown, Unknown Booting", "Exempt EvidenceUnknown Active"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node().Created(now.Add(-2*time.Hour)).BootID("b2").Condition("Ready", "True", now.Add(-20*time.Minute)).
				Heartbeat("Ready", now).Condition("A", "True", now.Add(-time.Minute)).
				Condition("B", "True", now.Add(-time.Hour)).Condition("Q", "Unknown", now).Reason("Q", "NodegateRuleBooting", "").
				Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-r", c.record)
			claim := ""
			if c.held {
				n.Taint("example.com/second", "", corev1.TaintEffectNoSchedule)
				claim = `,"taint":"example.com/second=:NoSchedule"`
			}
			if c.lost {
				n.Condition("Ready", "Unknown", now).Taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoExecute)
			}
			n.Annotation(v1alpha1.RecordAnnotationPrefix+"uid-of-second", released+claim+`}`)
			decide := func() Outcome {
				in := input(n.Obj(), c.rule, c.second)
				in.Live = func(string, labels.Selector) ([]*corev1.Pod, bool) { return nil, false }
				return DecideNode(in)
			}
			out := decide()
			if got := states(out)["r"] + ", " + strings.Join(changes(out), ", "); got != c.first {
				t.Fatalf("%s, want %s", got, c.first)
			}
			said := &out.Conditions[0]
			n.Condition(said.Type, said.Status, now).Reason(said.Type, said.Reason, said.Message)
			d := &decide().Decisions[1]
			if got := strings.TrimSpace(fmt.Sprintf("%s %s %s", d.State, d.Reason, d.Hold.State)); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, d.Message(now))
			}
		})
	}
}
