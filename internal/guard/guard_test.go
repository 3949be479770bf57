// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	controller = "system:serviceaccount:kube-system:node-controller"
	recordKey  = "nodegate.io/rule-u-link"
	noExecute  = corev1.TaintEffectNoExecute
)

var start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func stamp(seconds int) string { return at(seconds).Format(time.RFC3339) }

// rule guards the nodes of Kosmos for a minute at most.
func rule() *build.RuleWrapper {
	return build.MakeRule("link").UID("u-link").Generation(1).Created(at(-86400)).SelectorExpression("kosmos.io/node",
		"Exists").
		Condition("Ready").EvictionGuard(60)
}

// lost is such a node whose link broke at second 0, with a record of that, and tainted by the node controller.
func lost() *build.NodeWrapper {
	return build.MakeNode("n1").UID("u-n1").Created(at(-2*86400)).Label("kosmos.io/node", "true").
		Condition("Ready", "Unknown", at(0)).Taint(corev1.TaintNodeUnreachable, "", noExecute).
		Annotation(recordKey, fmt.Sprintf(`{"rule":"link","guardedSince":%q}`, stamp(0)))
}

// back is that node with its link back, and the taint gone, since a second.
func back(second int) *build.NodeWrapper {
	return lost().Condition("Ready", "True", at(second)).Untaint(corev1.TaintNodeUnreachable)
}

func pod() *build.PodWrapper { return build.MakePod("default", "web-0").UID("u-web-0").Node("n1") }

// announced is that pod after the node controller has announced that it is about to delete it.
func announced(second int) *build.PodWrapper {
	return pod().Condition(corev1.DisruptionTarget, "DeletionByTaintManager", at(second))
}

func TestDecide(t *testing.T) {
	const denied, allowed = true, false
	chained := func() *build.RuleWrapper { return rule().After("other") }
	// resource requires what has no time, fresh what is reported again and again.
	resource := func() *build.RuleWrapper {
		r := rule().Evidence(v1alpha1.Requirement{Name: "gpus",
			Resource: &v1alpha1.ResourceRequirement{Name: "example.com/gpu", Min: apiresource.MustParse("1")}})
		r.Spec.Conditions = nil
		return r
	}
	withGPU := func(n *build.NodeWrapper) *build.NodeWrapper {
		n.Status.Allocatable = corev1.ResourceList{"example.com/gpu": apiresource.MustParse("1")}
		return n
	}
	gpus := func(n string) *build.NodeWrapper {
		node := lost()
		node.Status.Allocatable = corev1.ResourceList{"example.com/gpu": apiresource.MustParse(n)}
		return node
	}
	fresh := func() *build.RuleWrapper {
		r := rule()
		r.Spec.Conditions[0].MaxAgeSeconds = new(int32(900))
		return r
	}
	agents := func() *build.RuleWrapper {
		r := rule().MaxUnavailable("1").DaemonSets("kube-system")
		r.Spec.Conditions = nil
		return r
	}
	withdrawn := announced(29)
	withdrawn.Status.Conditions[0].Status = corev1.ConditionFalse
	ended := fmt.Sprintf(`{"guardedSince":%q,"guardEnded":%q}`, stamp(0), stamp(4))
	passed := fmt.Sprintf(`{"guardedSince":%q,"guardEnded":%q}`, stamp(0), stamp(60))
	invalid := func() *build.RuleWrapper {
		return rule().Require(v1alpha1.ConditionRequirement{Type: "x", RequiredStatus: "Maybe"})
	}
	for name, c := range map[string]struct {
		user      string // by default the node controller
		pod       *build.PodWrapper
		node      *build.NodeWrapper
		noNode    bool
		noPod     bool
		rules     []*build.RuleWrapper
		second    int
		want      bool
		says      string
		rehearsed bool
	}{
		"a guarded pod of a node whose link is broken": {second: 5, want: denied,
			says: "the eviction guard of rule link does not let user system:serviceaccount:kube-system:node-controller " +
				"delete pod default/web-0: node n1 is not ready: condition Ready is Unknown, must be True; its pods are guarded " +
				"until 2026-01-02T15:01:00Z"},
		"not recorded yet": {node: lost().Unannotate(recordKey), second: 5, want: denied,
			says: "until 2026-01-02T15:01:00Z"},
		"not ready, as kubelet says": {node: lost().Condition("Ready", "False", at(0)), second: 5,
			want: denied},
		"the last second of the hold": {second: 59, want: denied},
		"the hold has ended":          {second: 60, want: allowed},
		"and maxHoldSeconds is longer since": {node: lost().Annotation(recordKey, passed),
			rules: []*build.RuleWrapper{rule().EvictionGuard(61)}, second: 60, want: denied},
		"and the node is back": {node: back(61).Annotation(recordKey, passed), second: 62, want: denied},
		"back for nine seconds": {node: back(30), second: 39, want: denied,
			says: "has not been ready again for long enough"},
		"back for ten seconds": {node: back(30), second: 40, want: allowed},
		"back for ten seconds, and tainted as one that takes no new pods": {
			node: back(30).Taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoSchedule), second: 40, want: allowed},
		"lost before the record says so, and the hold has ended": {node: lost().Condition("Ready", "Unknown", at(-5)),
			second: 60, want: allowed},
		"back for longer, and still tainted": {node: back(30).Taint(corev1.TaintNodeNotReady, "", noExecute),
			second: 45, want: denied},
		"back, by a clock that is behind": {node: back(-900), second: 5, want: denied,
			says: "has not been ready again for long enough"},
		"back in the second in which the hold ends": {node: back(60), second: 60, want: denied},
		"a node that is well":                       {node: back(-900).Unannotate(recordKey), second: 5, want: allowed},
		"begun before, and late": {node: back(30), pod: announced(29), second: 120, want: denied,
			says: "has been ready again since 2026-01-02T15:00:30Z, after this eviction began"},
		"begun after, of a node that is well": {node: back(30), pod: announced(31), second: 120, want: allowed},
		"begun before, and far too late":      {node: back(30), pod: announced(29), second: 330, want: allowed},
		"begun before, and evicted by another taint": {node: back(30).Taint("example.com/drain", "", noExecute),
			pod: announced(29), second: 120, want: allowed},
		"begun before, and late, of a node with a taint that the pod tolerates": {
			node: back(30).Taint("example.com/dedicated", "", noExecute),
			pod:  announced(29).Tolerate("example.com/dedicated", -1), second: 120, want: denied},
		"begun before, by another client": {node: back(30), pod: pod().Condition(corev1.DisruptionTarget,
			"PreemptionByScheduler", at(29)), second: 120, want: allowed},
		"begun before, and evicted by the taint of another rule": {rules: []*build.RuleWrapper{rule(),
			build.MakeRule("other").UID("u-2").Selector("a", "b").Condition("Ready").Taint("a/b", "", noExecute)},
			node: back(30).Taint("a/b", "", noExecute), pod: announced(29), second: 120, want: allowed},
		"begun before, and let go": {node: back(30).Annotation(v1alpha1.OverrideAnnotation, "Release"), pod: announced(29),
			second: 120, want: allowed},
		"begun before, and withdrawn": {node: back(30), pod: withdrawn, second: 120, want: allowed},
		"begun before, and ready by what has no time": {rules: []*build.RuleWrapper{resource().Condition("Ready")},
			node: withGPU(back(30).Unannotate(recordKey)), pod: announced(29), second: 120, want: allowed},
		"begun before, reported every minute, and late": {rules: []*build.RuleWrapper{fresh()},
			node: back(30).Heartbeat("Ready", at(360)), pod: announced(29), second: 388, want: denied},
		"begun before, reported every minute, and far too late": {rules: []*build.RuleWrapper{fresh()},
			node: back(30).Heartbeat("Ready", at(360)), pod: announced(29), second: 389, want: allowed},
		"a controller manager without accounts": {user: ControllerManager, pod: announced(3), second: 5, want: denied},
		"another that has withdrawn it":         {user: ControllerManager, pod: withdrawn, second: 5, want: allowed},
		"some other controller of that":         {user: ControllerManager, second: 5, want: allowed},
		"a node that the rule does not select":  {node: lost().Unlabel("kosmos.io/node"), second: 5, want: allowed},
		"a new node that the rule's own taint evicts pods from": {
			rules: []*build.RuleWrapper{rule().Taint("a/b", "", noExecute)},
			node: lost().Unannotate(recordKey).Created(at(-10)).Untaint(corev1.TaintNodeUnreachable).
				Taint("a/b", "", noExecute), second: 5, want: allowed},
		"a new node whose pods are not evicted, and one was before": {
			node: lost().Unannotate(recordKey).Created(at(-10)).Untaint(corev1.TaintNodeUnreachable).
				Condition("Ready", "Unknown", at(2)), pod: announced(1), second: 5, want: allowed},
		"a node that has completed the rule before it became continuous": {
			node: lost().Unannotate(recordKey).Annotation("readiness.k8s.io/bootstrap-completed-u-link", "{}"), second: 5,
			want: denied},
		"lost, by a clock that is ahead": {node: lost().Unannotate(recordKey).Condition("Ready", "Unknown", at(900)),
			second: 5, want: denied, says: "until 2026-01-02T15:01:05Z"},
		"a rule without a guard": {rules: []*build.RuleWrapper{build.MakeRule("link").UID("u-link").
			SelectorExpression("kosmos.io/node", "Exists").Condition("Ready").Taint("a/b", "", noExecute)},
			second: 5, want: allowed},
		"a suspended rule, active before": {rules: []*build.RuleWrapper{rule().Suspend(true)}, second: 59,
			want: denied, says: "node n1 is not ready"},
		"a suspended rule, at the end of its guard": {rules: []*build.RuleWrapper{rule().Suspend(true)}, second: 60,
			want: allowed},
		"a suspended rule, with a record from the far future, whose guard would never end": {
			rules: []*build.RuleWrapper{rule().Suspend(true)}, node: lost().Annotation(recordKey,
				fmt.Sprintf(`{"rule":"link","guardedSince":%q}`, stamp(3*3600))), second: 61, want: allowed},
		"a suspended rule, active before the node was relabelled": {rules: []*build.RuleWrapper{rule().Suspend(true)},
			node: lost().Unlabel("kosmos.io/node"), second: 59, want: denied, says: "node n1 is not ready"},
		"a suspended rule that does not select the node, at the end of its guard": {
			rules: []*build.RuleWrapper{rule().Suspend(true)}, node: lost().Unlabel("kosmos.io/node"), second: 60,
			want: allowed},
		"a suspended rule that never selected the node": {rules: []*build.RuleWrapper{rule().Suspend(true)},
			node: lost().Unlabel("kosmos.io/node").Unannotate(recordKey), second: 5, want: allowed},
		"a suspended rule, not active before": {rules: []*build.RuleWrapper{rule().Suspend(true)},
			node: lost().Unannotate(recordKey), second: 5, want: allowed},
		"a rule that is being deleted": {rules: []*build.RuleWrapper{rule().Deleted(at(1))}, second: 5,
			want: allowed},
		"a rule that is invalid, and guarded before": {rules: []*build.RuleWrapper{invalid()}, second: 5, want: denied,
			says: "node n1 is not ready; its pods are guarded"},
		"a rule that is invalid, and did not guard before": {rules: []*build.RuleWrapper{invalid()},
			node: lost().Unannotate(recordKey), second: 5, want: allowed},
		"a rule in dry-run": {rules: []*build.RuleWrapper{rule().DryRun(true)},
			node: lost().Unannotate(recordKey), second: 5, want: allowed, rehearsed: true},
		"a rule in dry-run beside one in force": {rules: []*build.RuleWrapper{rule(),
			rule().UID("u-2").Named("dry").DryRun(true)}, second: 5, want: denied, rehearsed: true},
		"of two rules one guards still": {rules: []*build.RuleWrapper{rule().EvictionGuard(3),
			rule().UID("u-2").Named("longer")}, second: 5, want: denied, says: "the eviction guard of rule longer"},

		"a pod that is terminating": {pod: pod().Terminating(at(1)), second: 5, want: allowed},
		"a pod that has succeeded":  {pod: pod().Phase(corev1.PodSucceeded), second: 5, want: allowed},
		"a pod that has failed":     {pod: pod().Phase(corev1.PodFailed), second: 5, want: allowed},
		"a pod that is not bound":   {pod: pod().Node(""), second: 5, want: allowed},
		"a pod of the operator's own namespace": {pod: build.MakePod("nodegate-system", "manager").Node("n1"), second: 5,
			want: allowed},
		"a pod that is let go": {pod: pod().Annotation(v1alpha1.OverrideAnnotation, "Release"), second: 5,
			want: allowed},
		"a pod that was let go for a while": {pod: pod().Annotation(v1alpha1.OverrideAnnotation,
			"Release;until="+stamp(4)), second: 5, want: denied},
		"no pod":                       {noPod: true, second: 5, want: allowed},
		"a node that is gone":          {noNode: true, second: 5, want: allowed},
		"a node that is being deleted": {node: lost().Terminating(at(1)), second: 5, want: allowed},
		"a node that is let go": {node: lost().Annotation(v1alpha1.OverrideAnnotation, "Release"), second: 5,
			want: allowed},
		"a node that is out of service": {node: lost().Taint(corev1.TaintNodeOutOfService, "nodeshutdown", noExecute),
			pod: pod().Tolerate("", -1), second: 5, want: allowed},
		"a node that is emptied by a taint": {node: lost().Taint("example.com/drain", "", noExecute), second: 5,
			want: allowed},
		"one that evicts nothing": {node: lost().Taint("example.com/drain", "", corev1.TaintEffectNoSchedule), second: 5,
			want: denied},
		"one that the pod tolerates": {node: lost().Taint("example.com/drain", "", noExecute),
			pod: pod().Tolerate("example.com/drain", -1), second: 5, want: denied},
		"one that the pod tolerates for a time": {node: lost().Taint("example.com/drain", "", noExecute),
			pod: pod().Tolerate("example.com/drain", 9), second: 5, want: allowed},
		"a taint of the rule itself": {node: lost().Taint("a/b", "", noExecute),
			rules: []*build.RuleWrapper{rule().Taint("a/b", "", noExecute)}, second: 5, want: denied},

		"ready, since when is not known, in the hold": {rules: []*build.RuleWrapper{resource()}, node: gpus("1"),
			second: 59, want: denied, says: "has not been ready again for long enough"},
		"ready, since when is not known, and the leader has seen the end": {rules: []*build.RuleWrapper{resource()},
			node: gpus("1").Annotation(recordKey, ended), second: 75, want: allowed},
		"ready, since when is not known, and no leader": {rules: []*build.RuleWrapper{resource()}, node: gpus("1"),
			second: 130, want: allowed},
		"ready by a clock that is ahead, and no leader": {node: back(4000), second: 130, want: allowed},
		"ready, reported every few seconds, and no leader": {rules: []*build.RuleWrapper{fresh()},
			node: lost().Condition("Ready", "True", at(30)).Heartbeat("Ready", at(128)), second: 130, want: allowed},
		"not ready, since when is not known, and no leader": {rules: []*build.RuleWrapper{resource()}, node: gpus("0"),
			second: 60, want: allowed},
		"evidence that only the leader has, and guards by": {rules: []*build.RuleWrapper{chained()}, node: back(2), second: 5,
			want: denied, says: "guarded until"},
		"DaemonSets, which only the leader has, nothing lost": {rules: []*build.RuleWrapper{agents()},
			node: lost().Annotation(recordKey, fmt.Sprintf(`{"released":%q}`, stamp(-60))), second: 5, want: allowed},
		"DaemonSets, which only the leader has, and guards by": {rules: []*build.RuleWrapper{agents()}, second: 5,
			want: denied, says: "guarded until"},
		"evidence that only the leader has, nothing lost": {rules: []*build.RuleWrapper{chained()},
			node: lost().Unannotate(recordKey), second: 5, want: allowed},
		"evidence that only the leader has, ended": {rules: []*build.RuleWrapper{chained()},
			node: lost().Annotation(recordKey, ended), second: 5, want: allowed},
		"evidence that only the leader has, and the node is let go": {rules: []*build.RuleWrapper{chained()},
			node: lost().Annotation(v1alpha1.OverrideAnnotation, "Release"), second: 5, want: allowed},
		"evidence that only the leader has, which is late": {rules: []*build.RuleWrapper{chained()}, second: 129,
			want: denied},
		"evidence that only the leader has, which is late, in dry-run": {rules: []*build.RuleWrapper{
			chained().DryRun(true)}, second: 129, want: allowed, rehearsed: true},
		"evidence that only the leader has, and no leader": {rules: []*build.RuleWrapper{chained()}, second: 130,
			want: allowed},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rules == nil {
				c.rules = []*build.RuleWrapper{rule()}
			}
			r := &Request{User: controller, Pod: pod().Obj(), Node: lost().Obj(), Rules: ruleset.NewSet(),
				Namespace: "nodegate-system", Now: at(c.second)}
			for _, rule := range c.rules {
				r.Rules = r.Rules.With(ruleset.Compile(rule.Obj(), nil, at(0)))
			}
			if c.user != "" {
				r.User = c.user
			}
			if c.pod != nil {
				r.Pod = c.pod.Obj()
			}
			switch {
			case c.noPod:
				r.Pod = nil
			case c.noNode:
				r.Node = nil
			case c.node != nil:
				r.Node = c.node.Obj()
			}
			d := Decide(r)
			if got := d.Rule != nil; got != c.want {
				t.Fatalf("denied: %t, want %t (%s)", got, c.want, d.Message)
			}
			if !strings.Contains(d.Message, c.says) {
				t.Errorf("says %q, want %q", d.Message, c.says)
			}
			if got := len(d.Rehearsed) > 0; got != c.rehearsed {
				t.Errorf("rehearsed: %t, want %t", got, c.rehearsed)
			}
		})
	}
}

// TestHoldOn: what the leader evicts by, apart from what TestDecide looks at.
func TestHoldOn(t *testing.T) {
	ended := fmt.Sprintf(`{"rule":"link","guardedSince":%q,"guardEnded":%q}`, stamp(0), stamp(34))
	tainted := back(30).Taint(corev1.TaintNodeUnreachable, "", noExecute)
	now := at(35)
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		want HoldState
	}{
		"put in dry-run":      {lost().Annotation(recordKey, ended), HoldEnding},
		"and ready by then":   {tainted.Annotation(recordKey, ended), HoldNone},
		"and not guarded now": {lost().Unannotate(recordKey), HoldNone},
	} {
		if got := HoldOn(ruleset.Compile(rule().DryRun(true).Obj(), nil, at(0)), c.node.Obj(), now).State; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTheEventOfAGuardThatIsActiveAgain: the node is back after maxHoldSeconds, and is guarded for ten more seconds.
func TestTheEventOfAGuardThatIsActiveAgain(t *testing.T) {
	r := ruleset.Compile(rule().Obj(), nil, at(0))
	passed := fmt.Sprintf(`{"guardedSince":%q,"guardEnded":%q}`, stamp(0), stamp(60))
	h := HoldOn(r, back(95).Annotation(recordKey, passed).Obj(), at(95))
	h.Change = Guarded
	want := "Rule link guards the node's pods against eviction until 2026-01-02T15:01:45Z: the node is ready again"
	if got := h.Event(r, "").Text; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

// TestAGuardBeginsWithTheNode: by a clock that is behind, the node is created later. Records drop times before that.
func TestAGuardBeginsWithTheNode(t *testing.T) {
	n := lost().Unannotate(recordKey).Created(at(30)).Obj()
	h := HoldOn(ruleset.Compile(rule().Obj(), nil, at(0)), n, at(10))
	if h.State != HoldActive || !h.Since.Equal(at(30)) {
		t.Errorf("%q since %s", h.State, h.Since)
	}
}

// TestNoGuardBeginsByABootThatNoRecordHas: each heartbeat would begin it again. One from before the boot goes on.
func TestNoGuardBeginsByABootThatNoRecordHas(t *testing.T) {
	r := ruleset.Compile(rule().RearmOnReboot().Obj(), nil, at(0))
	for record, want := range map[string]HoldState{
		`{"rule":"link","released":%q,"bootID":"a"}`:     HoldNone,
		`{"rule":"link","released":%q,"bootID":"b"}`:     HoldActive,
		`{"rule":"link","guardedSince":%q,"bootID":"a"}`: HoldActive,
	} {
		n := lost().BootID("b").Annotation(recordKey, fmt.Sprintf(record, stamp(0)))
		if got := HoldOn(r, n.Obj(), at(10)).State; got != HoldActive { // its heartbeat is the last one
			t.Errorf("%s, unreachable: %q, want %q", record, got, HoldActive)
		}
		n.Untaint(corev1.TaintNodeUnreachable).Taint(corev1.TaintNodeNotReady, "", noExecute)
		if got := HoldOn(r, n.Obj(), at(10)).State; got != want {
			t.Errorf("%s: %q, want %q", record, got, want)
		}
	}
}

// TestAGuardEndsInTimeWhileEvidenceCannotBeRead: the leader cannot list the pods of a rebooted node.
func TestAGuardEndsInTimeWhileEvidenceCannotBeRead(t *testing.T) {
	for second, want := range map[int]HoldState{59: HoldActive, 60: HoldEnded} {
		in := nodeview.Input{Rule: ruleset.Compile(rule().Obj(), nil, at(0)), Node: lost().Obj(), Now: at(second)}
		in.Verdict.Unknown = true
		in.State.Matches, in.State.Record.GuardedSince = true, metav1.NewTime(at(0))
		if got := HoldOf(in).State; got != want {
			t.Errorf("after %d s: %q, want %q", second, got, want)
		}
	}
}

func TestDue(t *testing.T) {
	taint := func(key string, second int) corev1.Taint {
		return corev1.Taint{Key: key, Effect: noExecute, TimeAdded: &metav1.Time{Time: at(second)}}
	}
	away := taint(corev1.TaintNodeUnreachable, 100)
	p := func() *build.PodWrapper { return build.MakePod("default", "p").Created(at(0)) }
	for name, c := range map[string]struct {
		pod    *build.PodWrapper
		taints []corev1.Taint
		due    int // -1: never
	}{
		"no taints":                   {p(), nil, -1},
		"not tolerated: at once":      {p(), []corev1.Taint{away}, 100},
		"tolerated forever":           {p().Tolerate(away.Key, -1), []corev1.Taint{away}, -1},
		"tolerated for a time":        {p().Tolerate(away.Key, 300), []corev1.Taint{away}, 400},
		"tolerated for no time":       {p().Tolerate(away.Key, 0), []corev1.Taint{away}, 100},
		"tolerated for 400 years":     {p().Tolerate(away.Key, 400*365*86400), []corev1.Taint{away}, -1},
		"tolerated for ages":          {p().Tolerate(away.Key, math.MaxInt64), []corev1.Taint{away}, -1},
		"every key tolerated":         {p().Tolerate("", -1), []corev1.Taint{away}, -1},
		"the first toleration counts": {p().Tolerate(away.Key, 300).Tolerate("", -1), []corev1.Taint{away}, 400},
		"the earliest of several taints": {p().Tolerate(away.Key, 300).Tolerate("b", 10),
			[]corev1.Taint{away, taint("b", 200)}, 210},
		"one tolerated, the other not": {p().Tolerate(away.Key, 300), []corev1.Taint{away, taint("b", 200)}, 200},
		"another effect":               {p(), []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, -1},
		"a pod that came after the taint": {build.MakePod("default", "p").Created(at(0)).Condition(corev1.PodScheduled, "",
			at(150)).Tolerate(away.Key, 300),
			[]corev1.Taint{away}, 450},
		"a taint without a time": {p(), []corev1.Taint{{Key: "a", Effect: noExecute}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			due, evicts := Due(c.pod.Obj(), c.taints)
			if evicts != (c.due >= 0) {
				t.Fatalf("evicts: %t, due %s", evicts, due)
			}
			if evicts && !due.Equal(at(c.due)) {
				t.Errorf("due at %s, want %s", due, at(c.due))
			}
		})
	}
}
