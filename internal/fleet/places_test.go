// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// replacing is a scene of four nodes in service under maxUnavailable: 1. The rule holds node 0, nodes 1 and 2 wait.
// hold makes the rule hold a node, by a taint or by a published condition.
type replacing struct {
	*scene
	hold func(i int)
}

func replacingScenes(t *testing.T, test func(t *testing.T, r *replacing)) {
	t.Run("taint", func(t *testing.T) {
		r := &replacing{scene: newScene(t, rule("1"), 4)}
		r.hold = func(i int) {
			n := build.WrapNode(r.nodes[i]).Taint("example.com/net", "", corev1.TaintEffectNoSchedule)
			n.Annotation(r.rule.RecordKey(),
				`{"taint":"example.com/net=:NoSchedule","released":"2026-01-02T03:04:05Z","limited":true}`)
			r.nodes[i] = n.Obj()
			r.records(i, r.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing))
		}
		test(t, r)
	})
	t.Run("published condition", func(t *testing.T) {
		m := newMarking(t, 4)
		test(t, &replacing{scene: m.scene, hold: func(i int) { m.mark(i, true, v1alpha1.NodeStateHeld) }})
	})
}

// asks reports whether a node may be held, as the first of those that wait.
func (r *replacing) asks(when string, i int, want bool) {
	r.Helper()
	got := false
	if r.rule.Spec.Publish != nil {
		got = r.Reserve(r.rule.UID, r.nodes[i].Name, limit.Request{Use: limit.Marks, Since: now}) == ""
	} else {
		got = r.reserve(i, i)
	}
	if got != want {
		r.Errorf("%s: node %d may be held: %t", when, i, got)
	}
}

// joins adds a node that was created after the rule was put in force.
func (r *replacing) joins(node string, state v1alpha1.NodeState) {
	r.looksAt(build.MakeNode(node).UID(node).Created(now.Add(time.Minute)).Label("pool", "a").Obj(), state)
}

// becomesReady releases a node that was created after the rule was put in force.
func (r *replacing) becomesReady(node string) {
	r.looksAt(build.MakeNode(node).UID(node).Created(now.Add(time.Minute)).Label("pool", "a").
		Annotation(r.rule.RecordKey(), `{"released":"2026-01-02T03:05:05Z"}`).Obj(), v1alpha1.NodeStateReady)
}

func (r *replacing) looksAt(n *corev1.Node, state v1alpha1.NodeState) {
	current := nodeview.StateOf(r.rule, n, now)
	r.Record(n, []Entry{{Rule: r.rule, Current: &current, Outcome: Outcome{State: state}}}, now)
}

// free frees places some time after now, and returns when to look again.
func (r *replacing) free(after time.Duration) time.Duration {
	r.server = now.Add(after)
	return r.FreePlaces(r.rule.UID)
}

func (r *replacing) places(when string, inUse, deleted int32) {
	r.Helper()
	p := r.material().Places
	if p == nil || p.InUse != inUse || p.Deleted != deleted || (p.LastDeletionTime == nil) != (deleted == 0) {
		r.Errorf("%s: places %+v, want %d in use, %d of deleted nodes", when, p, inUse, deleted)
	}
}

func TestThePlaceOfADeletedNodeStaysInUse(t *testing.T) {
	begin := func(r *replacing) {
		r.isReady(3)
		r.hold(0)
		r.asks("at first", 1, false)
		r.places("at first", 1, 0)
		r.Forget(r.nodes[0].Name, now)
		r.take()
		r.places("deleted", 0, 1)
		r.asks("the remediator has deleted a node", 1, false)
		r.isReady(3)
		r.records(3, r.entry(3, v1alpha1.NodeStateExempt, state.ReasonUnreadyWindow))
		r.isReady(3)
		r.places("a node that was in service before is no replacement", 0, 1)
	}
	edit := func(r *replacing, change func(*ruleset.Rule)) {
		edited := *r.rule
		r.rule = &edited
		change(r.rule)
		r.SetRules(ruleset.NewSet(r.rule), r.nodes[1:], now)
		r.take()
	}
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("until a new node becomes ready", func(*testing.T) {
			begin(r)
			r.joins("new", v1alpha1.NodeStateHeld)
			r.places("a new node is held", 0, 1)
			edit(r, func(*ruleset.Rule) {})
			r.places("an edit between", 0, 1)
			r.asks("an edit between", 1, false)
			r.becomesReady("new")
			r.wakes("it is ready", 1)
			r.places("it is ready", 0, 0)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("not until a node is ready that was so before", func(*testing.T) {
			young := build.MakeNode("young").UID("young").Created(now.Add(time.Minute)).Label("pool", "a").
				Annotation(r.rule.RecordKey(), `{"released":"2026-01-02T03:05:05Z"}`).Obj()
			r.looksAt(young, v1alpha1.NodeStateReady)
			begin(r)
			r.looksAt(young, v1alpha1.NodeStateReady)
			r.places("it is still ready", 0, 1)
			r.looksAt(young, v1alpha1.NodeStateExempt)
			r.looksAt(young, v1alpha1.NodeStateReady)
			r.places("it is ready again", 0, 1)
			r.looksAt(build.MakeNode("old").UID("old").Created(now.Add(-time.Hour)).Label("pool", "a").Obj(),
				v1alpha1.NodeStateReady)
			r.places("the rule selects a node that was there before", 0, 1)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("until a node that has left the rule is ready again", func(*testing.T) {
			r.becomesReady("new")
			begin(r)
			r.Record(build.MakeNode("new").UID("new").Created(now.Add(time.Minute)).Obj(), nil, now)
			r.places("it does not match", 0, 1)
			r.becomesReady("new")
			r.places("it is ready again, and no record says of before", 0, 0)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("not until a node is ready that the rule only does not hold yet", func(*testing.T) {
			begin(r)
			young := build.MakeNode("young").UID("young").Created(now.Add(time.Minute)).Label("pool", "a").Obj()
			current := nodeview.StateOf(r.rule, young, now)
			r.Record(young, []Entry{{Rule: r.rule, Current: &current,
				Outcome: Outcome{State: v1alpha1.NodeStateReady, Reason: state.ReasonUnreadyWindow}}}, now)
			r.places("unreadySeconds are not over", 0, 1)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("not until a node is ready again that has rebooted", func(*testing.T) {
			young := build.MakeNode("young").UID("young").Created(now.Add(time.Minute)).Label("pool", "a")
			key := r.rule.RecordKey()
			r.looksAt(young.Annotation(key, `{"released":"2026-01-02T03:05:05Z","bootID":"b1"}`).Obj(),
				v1alpha1.NodeStateReady)
			begin(r)
			r.looksAt(young.Annotation(key, `{"since":"2026-01-02T03:05:15Z","bootID":"b2",`+
				`"notBefore":"2026-01-02T03:05:15Z","rearmedAt":"2026-01-02T03:05:15Z"}`).Obj(), v1alpha1.NodeStateHeld)
			r.looksAt(young.Annotation(key, `{"released":"2026-01-02T03:05:25Z","found":true,"bootID":"b2"}`).Obj(),
				v1alpha1.NodeStateReady)
			r.places("it is ready again", 0, 1)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("not until a node is ready that no record says so of", func(*testing.T) {
			begin(r)
			r.joins("new", v1alpha1.NodeStateReady)
			r.places("it terminates, or has no room", 0, 1)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("for an hour, and while nodes wait", func(t *testing.T) {
			begin(r)
			if again := r.free(time.Minute); again != 59*time.Minute {
				t.Errorf("look again in %s", again)
			}
			r.free(time.Hour)
			r.places("a node waits", 0, 1)
			r.isReady(1)
			r.free(time.Hour)
			r.places("no node waits", 0, 0)
			r.asks("no node waits", 2, true)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("for an hour after the last deletion", func(t *testing.T) {
			begin(r)
			r.hold(1)
			r.server = now.Add(30 * time.Minute)
			r.Forget(r.nodes[1].Name, now)
			r.isReady(2)
			if again := r.free(time.Hour); again != 30*time.Minute {
				t.Errorf("look again in %s", again)
			}
			r.places("an hour after the first deletion", 0, 2)
			r.free(90 * time.Minute)
			r.places("an hour after the last one", 0, 0)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("until the rule is suspended or selects other nodes", func(t *testing.T) {
			for what, change := range map[string]func(*ruleset.Rule){
				"suspend": func(r *ruleset.Rule) {
					spec := *r.Spec
					spec.Suspend = true
					r.Mode, r.Spec = ruleset.Suspended, &spec
				},
				"dry-run": func(r *ruleset.Rule) {
					spec := *r.Spec
					spec.DryRun = true
					r.Mode, r.Spec = ruleset.DryRun, &spec
				},
				"deletion": func(r *ruleset.Rule) { r.Mode = ruleset.Deleting },
				"selector": func(r *ruleset.Rule) { r.SelectorHash = "other" },
			} {
				former := r.rule
				begin(r)
				edit(r, change)
				if p := r.material().Places; p != nil && p.Deleted != 0 {
					t.Errorf("%s: places %+v", what, p)
				}
				edit(r, func(r *ruleset.Rule) { *r = *former })
				r.places(what, 0, 0)
				r.SetRules(ruleset.NewSet(r.rule), r.nodes, now)
			}
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("while a rule is suspended that this one requires", func(*testing.T) {
			former := r.rule
			begin(r)
			edit(r, func(r *ruleset.Rule) { *r = *r.Freeze(ruleset.Problem{Reason: ruleset.ReasonSuspended}) })
			r.places("suspended", 0, 1)
			edit(r, func(r *ruleset.Rule) { *r = *former })
			r.places("resumed", 0, 1)
			r.asks("resumed", 1, false)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("of another node with its name that a change of the rules finds first", func(*testing.T) {
			r.hold(0)
			r.places("held", 1, 0)
			r.nodes[0] = build.WrapNode(inService(0)).UID("another").Created(now.Add(time.Minute)).Obj()
			edited := *r.rule
			r.rule = &edited
			r.SetRules(ruleset.NewSet(r.rule), r.nodes, now)
			r.places("it is another node", 0, 1)

			r.nodes[1] = build.WrapNode(inService(1)).UID("third").Created(now.Add(time.Minute)).Label("pool", "b").Obj()
			r.take()
			r.SetRules(ruleset.NewSet(r.rule), r.nodes, now)
			r.tells("a node is gone, and the other one of its name has no rule", 1)
		})
	})
	replacingScenes(t, func(t *testing.T, r *replacing) {
		t.Run("of another node with its name", func(*testing.T) {
			r.hold(0)
			r.nodes[0] = build.WrapNode(inService(0)).UID("another").Created(now.Add(time.Minute)).Obj()
			r.records(0, r.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing))
			r.asks("it is another node", 1, false)
			const released = `{"released":"2026-01-02T03:05:05Z"}`
			r.nodes[0] = build.WrapNode(r.nodes[0]).Annotation(r.rule.RecordKey(), released).Obj()
			r.isReady(0)
			r.places("it is ready", 0, 0)
			r.hold(1)
			r.nodes[1] = build.WrapNode(inService(1)).UID("third").Created(now.Add(time.Minute)).
				Annotation(r.rule.RecordKey(), released).Obj()
			r.isReady(1)
			r.places("it is ready when it is first seen", 0, 0)
		})
	})
}

func TestPlacesAcrossARestart(t *testing.T) {
	r := build.MakeRule("net").UID("u1").Created(now.Add(-time.Hour)).Selector("pool", "a").
		Condition("example.com/Ready").Taint("example.com/net", "", corev1.TaintEffectNoSchedule).Publish(verdict).
		MaxUnavailable("1")
	held := func(name string) v1alpha1.NodeEvaluation {
		return v1alpha1.NodeEvaluation{NodeName: name, State: v1alpha1.NodeStateHeld, LastEvaluationTime: metav1.NewTime(now)}
	}
	exempt, ready := held(inService(0).Name), held(inService(0).Name)
	exempt.State, ready.State = v1alpha1.NodeStateExempt, v1alpha1.NodeStateReady
	at := &metav1.Time{Time: now.Add(-time.Minute)}
	for name, tc := range map[string]struct {
		limit     v1alpha1.LimitStatus
		held      []v1alpha1.NodeEvaluation
		failed    []v1alpha1.NodeFailure
		since     bool // the node that there was before is held now
		forced    bool // by an override
		marked    bool // and its published condition is False
		truncated bool
		selector  string
		want      int32
	}{
		"the same as before": {limit: v1alpha1.LimitStatus{Deleted: 2, LastDeletionTime: at}, want: 2},
		"one node was deleted": {limit: v1alpha1.LimitStatus{InUse: 2}, want: 1,
			held: []v1alpha1.NodeEvaluation{held("gone"), held(inService(0).Name)}},
		"one was released": {limit: v1alpha1.LimitStatus{InUse: 1},
			held: []v1alpha1.NodeEvaluation{held(inService(0).Name)}},
		"another one was held since the status was written": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1, since: true,
			held: []v1alpha1.NodeEvaluation{held("gone"), exempt}},
		"a ready one was held since the status was written": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1, since: true,
			held: []v1alpha1.NodeEvaluation{held("gone"), ready}},
		"a ready one was held and False since": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1, since: true, marked: true,
			held: []v1alpha1.NodeEvaluation{held("gone"), ready}},
		"a node that came since is held and False": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1, since: true,
			marked: true, held: []v1alpha1.NodeEvaluation{held("gone")}},
		"one was deleted, another is ready as before": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1,
			held: []v1alpha1.NodeEvaluation{held("gone"), ready}},
		"a failed one was deleted": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1,
			failed: []v1alpha1.NodeFailure{{NodeName: "gone"}}},
		"one of two used a place, another node is exempt as before": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1,
			held: []v1alpha1.NodeEvaluation{held("gone"), held("new and gone"), exempt}},
		"one of two used a place, another node is held as before": {limit: v1alpha1.LimitStatus{InUse: 2}, want: 1,
			since: true, held: []v1alpha1.NodeEvaluation{held("gone"), held("new and gone"), held(inService(0).Name)}},
		"one of two used a place, another node did by its condition": {limit: v1alpha1.LimitStatus{InUse: 2}, want: 1,
			since: true, marked: true, held: []v1alpha1.NodeEvaluation{held("gone"), held("new and gone"), exempt}},
		"one of two used a place, another node is held by an override since": {limit: v1alpha1.LimitStatus{InUse: 1},
			want: 1, since: true, forced: true,
			held: []v1alpha1.NodeEvaluation{held("gone"), held("new and gone"), exempt}},
		"a node that came since is held": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1, since: true,
			held: []v1alpha1.NodeEvaluation{held("gone")}},
		"one that the status does not name may have been held before": {limit: v1alpha1.LimitStatus{InUse: 1}, since: true,
			held: []v1alpha1.NodeEvaluation{held("gone")}, truncated: true},
		"one was deleted, and another is held as before": {limit: v1alpha1.LimitStatus{InUse: 2}, want: 1, since: true,
			held: []v1alpha1.NodeEvaluation{held("gone"), held(inService(0).Name)}},
		"a new node was deleted":   {held: []v1alpha1.NodeEvaluation{held("gone")}},
		"not all nodes are listed": {limit: v1alpha1.LimitStatus{InUse: 2}, truncated: true, want: 2},
		"the selector has changed": {limit: v1alpha1.LimitStatus{Deleted: 2, LastDeletionTime: at}, selector: "other"},
		"one was created once more": {limit: v1alpha1.LimitStatus{InUse: 1}, want: 1,
			held: []v1alpha1.NodeEvaluation{held("new")}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := r.Obj()
			compiled := ruleset.Compile(obj, nil, now)
			if tc.selector == "" {
				tc.selector = compiled.SelectorHash
			}
			obj.Status = v1alpha1.NodeReadinessRuleStatus{Limit: &tc.limit, NodeEvaluations: tc.held,
				FailedNodes: tc.failed, Truncated: tc.truncated, InForce: &v1alpha1.InForce{SelectorHash: tc.selector}}
			f := New(&heard{}, func() time.Time { return now })
			f.Restore([]v1alpha1.NodeReadinessRule{*obj})
			again := build.MakeNode("new").UID("new").Created(now.Add(time.Minute)).Label("pool", "a").Obj()
			first, claim := build.WrapNode(inService(0)), ""
			if tc.since {
				first.Taint("example.com/net", "", corev1.TaintEffectNoSchedule)
				claim = fmt.Sprintf(`"taint":"example.com/net=:NoSchedule","limited":%t,"forced":%t,`, !tc.forced, tc.forced)
			}
			if tc.marked {
				first.Condition(verdict, corev1.ConditionFalse, now).Reason(verdict, "NodegateRuleNotReady", "")
			}
			first.Annotation(compiled.RecordKey(), "{"+claim+`"released":"2026-01-02T03:04:05Z"}`)
			f.SetRules(ruleset.NewSet(compiled), []*corev1.Node{first.Obj(), again}, now.Add(time.Hour))
			m, _ := f.Material("u1")
			if diff := cmp.Diff(tc.want, m.Places.Deleted); diff != "" {
				t.Errorf("places of deleted nodes (-want +got):\n%s", diff)
			}
			granted := f.Reserve("u1", inService(0).Name, limit.Request{Since: now}) == ""
			if granted != (tc.want == 0 && !tc.since) {
				t.Errorf("a node may be held: %t", granted)
			}
		})
	}
}

// TestAStatusWithoutPlacesAtARestart: the rule had no limit, or was never in force, when the status was written.
func TestAStatusWithoutPlacesAtARestart(t *testing.T) {
	r := rule("1")
	for name, status := range map[string]v1alpha1.NodeReadinessRuleStatus{
		"no limit":     {InForce: &v1alpha1.InForce{SelectorHash: r.SelectorHash}},
		"not in force": {Limit: &v1alpha1.LimitStatus{Deleted: 1}},
	} {
		obj := build.MakeRule("net").UID("u1").Obj()
		obj.Status = status
		f := New(&heard{}, func() time.Time { return now })
		f.Restore([]v1alpha1.NodeReadinessRule{*obj})
		f.SetRules(ruleset.NewSet(r), []*corev1.Node{inService(0)}, now)
		if m, _ := f.Material("u1"); m.Places.Deleted != 0 {
			t.Errorf("%s: places %+v", name, m.Places)
		}
	}
}

// TestLimitsAcrossLeaders lets two leaders hold nodes under a rate.
func TestLimitsAcrossLeaders(t *testing.T) {
	r := ruleset.Compile(build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").
		Condition("example.com/Ready").Taint("example.com/net", "", corev1.TaintEffectNoSchedule).LimitPer("", "2").
		Rate(1, 600).Obj(), nil, now)
	leads := func(after time.Duration) (s *scene, reserve func(int) string) {
		s = newScene(t, r, 3)
		s.server = now.Add(after)
		return s, func(i int) string { return s.Reserve(r.UID, s.nodes[i].Name, limit.Request{Since: now}) }
	}
	first, reserve := leads(0)
	reserve(0)
	o, again := first.Order(r, nil)
	first.Issue(r, &o)
	if until := now.Add(30 * time.Second); o.Claims != 1 || !o.Until.Equal(until) || again != 31*time.Second ||
		reserve(0) != "" {
		t.Errorf("ordered %+v, again in %s", o, again)
	}
	next, reserve := leads(time.Minute)
	reserve(1)
	const want = "limits[1] (1 within 10m0s) allows the next node at 2026-01-02T03:14:35Z"
	if o, again = next.Order(r, o.Status); o.Why != want || again != 570*time.Second {
		t.Errorf("ordered %+v, again in %s", o, again)
	}
	held := next.entry(2, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
	held.Current.Claimed = true
	next.records(2, held)
	if at := next.material().Evaluations[0].LastEvaluationTime.Time; !at.Equal(next.server) {
		t.Errorf("the status says of the node: since %s, want %s", at, next.server)
	}
	next.Forget(next.nodes[2].Name, now)
	next.server = next.server.Add(time.Minute)
	next.FreePlaces(r.UID)
	if p := next.material().Places; p.Deleted != 1 || !p.LastDeletionTime.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("places %+v", p)
	}
}
