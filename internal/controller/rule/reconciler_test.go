// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace/handover"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestRule(t *testing.T) {
	suite.Run(t, "Rule controller")
}

// TestNothingIsRememberedOfANamesake: a rule may be deleted and created again between two reconciliations.
func TestNothingIsRememberedOfANamesake(t *testing.T) {
	r := &Reconciler{}
	r.progress(network().UID("u1").Obj()).passed = true
	if r.passed(network().UID("u2").Obj()) {
		t.Error("the first status of the new rule does not wait until every node was evaluated")
	}
}

// TestAnInvalidRuleStaysInForce: nodes that were new when a rule became invalid are new when it is fixed.
func TestAnInvalidRuleStaysInForce(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	since := metav1.NewTime(created.Add(time.Hour))
	now := since.Add(time.Hour)
	valid := network().UID("u").Created(created).Generation(7)
	valid.Status.InForce = &v1alpha1.InForce{StartTime: since, SelectorHash: ruleset.Compile(valid.Obj(), nil,
		now).SelectorHash}
	valid.Status.ObservedGeneration = 7
	broken := build.WrapRule(valid.Obj()).Generation(8)
	broken.Spec.Conditions[0].Type = ""
	m := &fleet.Material{Rule: ruleset.Compile(broken.Obj(), nil, now)}
	if m.Rule.Mode != ruleset.Frozen {
		t.Fatalf("the rule is not invalid: %+v", m.Rule)
	}
	fixed := build.WrapRule(valid.Obj()).Generation(9)
	fixed.Status = Status(broken.Obj(), m, nil, now)
	if got := ruleset.Compile(fixed.Obj(), nil, now.Add(time.Hour)).InForceSince; !got.Equal(since.Time) {
		t.Errorf("after a time in which it was invalid, the rule is in force since %s, not since %s", got, since)
	}
	broken.Spec.Suspend = true
	m.Rule = ruleset.Compile(broken.Obj(), nil, now)
	if s := Status(broken.Obj(), m, nil, now); s.InForce != nil {
		t.Errorf("it is suspended, too: it is in force since %s", s.InForce.StartTime)
	}
}

// TestRulesShareALook: each look lists the DaemonSets of all namespaces.
func TestRulesShareALook(t *testing.T) {
	now := time.Unix(1e9, 0)
	a, b := network().UID("a").Generation(1).Obj(), build.MakeRule("b").UID("b").Generation(1).Obj()
	asked, failure := 0, error(nil)
	r := &Reconciler{Fleet: fleet.New(deaf{}, func() time.Time { return now }),
		Served: func(context.Context, ...*ruleset.Rule) (lint.Served, error) {
			asked++
			return lint.Served{}, failure
		}}
	look := func(want int, wait time.Duration, why string) {
		t.Helper()
		r.Fleet.SetRules(ruleset.NewSet(ruleset.Compile(a, nil, now), ruleset.Compile(b, nil, now)), nil, now)
		for _, rule := range []*v1alpha1.NodeReadinessRule{a, b} {
			if _, next, err := r.served(t.Context(), rule, now); !errors.Is(err, failure) || next != wait {
				t.Errorf("%s: the next look for rule %s is in %s: %v", why, rule.Name, next, err)
			}
		}
		if asked != want {
			t.Errorf("%s: %d looks, want %d", why, asked, want)
		}
	}
	look(1, time.Minute, "at first")
	now = now.Add(59 * time.Second)
	look(1, time.Second, "before the minute has passed")
	a.Generation++
	look(2, time.Minute, "after an edit")
	now = now.Add(time.Minute)
	failure = errors.New("the API server is down")
	look(3, time.Minute, "a minute later")
	now, failure = now.Add(time.Minute), nil
	look(4, time.Minute, "a minute after a failure")
	now = now.Add(-time.Hour)
	look(5, time.Minute, "after the clock is set back")
}

// TestARuleWaitsNoLongerAfterTheClockIsSetBack: not until the clock shows the former time again.
func TestARuleWaitsNoLongerAfterTheClockIsSetBack(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	r := &Reconciler{Clock: clock}
	rule := network().UID("u").Obj()
	frozen := ruleset.Compile(rule, nil, clock.Now()).Freeze(ruleset.Problem{Reason: ruleset.ReasonPending})
	for _, step := range []struct {
		passed, nodes, evidence time.Duration
	}{
		{0, nodesPatience, pendingPatience},
		{-time.Hour, nodesPatience, pendingPatience},
		{10 * time.Second, nodesPatience - 10*time.Second, pendingPatience - 10*time.Second},
	} {
		clock.SetTime(clock.Now().Add(step.passed))
		if got := r.waitFor(1, rule, func(p *progress) *waited { return &p.cleanup }); got != step.nodes {
			t.Errorf("after %s, the rule waits %s for its nodes, want %s", step.passed, got, step.nodes)
		}
		if got := r.evidencePending(rule, frozen, clock.Now()); got != step.evidence {
			t.Errorf("after %s, the rule waits %s for its evidence, want %s", step.passed, got, step.evidence)
		}
	}
}

var _ = BeforeSuite(func() { server = suite.Server() })

type deaf struct{}

func (deaf) RuleChanged(string) {}
func (deaf) Enqueue([]string)   {}

// desk is a Reconciler on the real API server, called directly, with a clock that the test steps and a fleet that it
// fills.
type desk struct {
	*Reconciler
	ctx      context.Context
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	rule     *v1alpha1.NodeReadinessRule
	compiled *ruleset.Rule
	nodes    []*corev1.Node
}

func newDesk(ctx context.Context, rule *build.RuleWrapper, nodes ...*corev1.Node) *desk {
	d := &desk{ctx: ctx, clock: clocktesting.NewFakePassiveClock(time.Now()), rule: rule.Obj(), nodes: nodes}
	Expect(server.Client.Create(ctx, d.rule)).To(Succeed())
	for _, n := range nodes {
		Expect(server.Client.Create(ctx, n)).To(Succeed())
	}
	DeferCleanup(func(ctx context.Context) {
		for _, n := range nodes {
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, n))).To(Succeed())
		}
		if err := server.Client.Get(ctx, client.ObjectKeyFromObject(d.rule), d.rule); err == nil {
			d.rule.Finalizers = nil
			Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, d.rule))).To(Succeed())
		}
	})
	d.restart()
	return d
}

func (d *desk) restart() {
	d.recorder = events.NewFakeRecorder(100)
	d.Reconciler = &Reconciler{Client: server.Client, Fleet: fleet.New(deaf{}, d.clock.Now), Recorder: d.recorder,
		Clock: d.clock, Handover: &handover.Handover{}}
	d.compiled = nil
	d.takeOver()
}

// takeOver brings the rule as it is on the API server to the fleet.
func (d *desk) takeOver() {
	d.read()
	after := ruleset.Compile(d.rule, d.compiled, d.clock.Now())
	if d.compiled == nil || !d.compiled.Equivalent(after) {
		d.compiled = after
	}
	d.Fleet.SetRules(ruleset.NewSet(d.compiled), d.nodes, d.clock.Now())
}

func (d *desk) read() *v1alpha1.NodeReadinessRule {
	d.rule = &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: d.rule.Name}}
	Expect(server.Client.Get(d.ctx, client.ObjectKeyFromObject(d.rule), d.rule)).To(Succeed())
	return d.rule
}

func (d *desk) saw(i int, state v1alpha1.NodeState, reason string) {
	d.record(i, fleet.Outcome{State: state, Reason: reason, Present: state == v1alpha1.NodeStateHeld})
}

func (d *desk) record(i int, o fleet.Outcome) {
	current := nodeview.StateOf(d.compiled, d.nodes[i], d.clock.Now())
	d.Fleet.Record(d.nodes[i], []fleet.Entry{{Rule: d.compiled, Current: &current, Outcome: o}}, d.clock.Now())
}

// cleaned is what the fleet is reported of a node that has nothing of the deleted rule.
func (d *desk) cleaned(i int) { d.Fleet.Record(d.nodes[i], nil, d.clock.Now()) }

func (d *desk) reserve(node string) string {
	return d.Fleet.Reserve(d.rule.UID, node, limit.Request{Since: d.clock.Now()})
}

// claimed has a rule with one claim in ten minutes, whose time is written. Node a may make it.
func claimed(ctx context.Context) *desk {
	GinkgoHelper()
	d := newDesk(ctx, network().Rate(1, 600), node("a"), node("b"))
	Expect(d.reserve("a")).To(ContainSubstring("first writes to the rule's status"))
	d.record(0, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget})
	d.saw(1, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
	d.reconcile()
	Expect(d.read().Status.Rate).To(HaveValue(HaveField("ClaimTimes", HaveLen(1))))
	return d
}

func (d *desk) reconcile() reconcile.Result {
	GinkgoHelper()
	result, err := d.Reconcile(d.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(d.rule)})
	Expect(err).NotTo(HaveOccurred())
	return result
}

func (d *desk) condition(conditionType string) metav1.Condition {
	GinkgoHelper()
	c := meta.FindStatusCondition(d.read().Status.Conditions, conditionType)
	Expect(c).NotTo(BeNil())
	return *c
}

func (d *desk) step(t time.Duration) { d.clock.SetTime(d.clock.Now().Add(t)) }

func (d *desk) events() []string { return suite.Events(d.recorder) }

func network() *build.RuleWrapper {
	return build.MakeRule("network").Selector("pool", "a").Condition("example.com/Ready").
		Taint("example.com/network", "", corev1.TaintEffectNoSchedule)
}

func node(name string) *corev1.Node { return build.MakeNode(name).Label("pool", "a").Obj() }

// tainted is a node that the rule no longer matches and that still has its taint.
func tainted(name string) *corev1.Node {
	return build.MakeNode(name).Taint("example.com/network", "", corev1.TaintEffectNoSchedule).Obj()
}

// inherit makes the status what the incumbent controller wrote about nodes with its taint, before the first start.
func inherit(d *desk, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		d.rule.Status.NodeEvaluations = append(d.rule.Status.NodeEvaluations, v1alpha1.NodeEvaluation{NodeName: name,
			TaintStatus: v1alpha1.TaintPresent, LastEvaluationTime: metav1.NewTime(d.clock.Now())})
	}
	Expect(server.Client.Status().Update(d.ctx, d.rule)).To(Succeed())
	d.restart()
}

var _ = Describe("A rule", func() {
	It("gets its finalizer and its first status in one go, and no second one when nothing changes",
		func(ctx context.Context) {
			d := newDesk(ctx, network(), node("a"), node("b"))
			d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
			d.saw(1, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
			Expect(d.reconcile()).To(BeZero())
			Expect(d.read().Finalizers).To(ConsistOf(v1alpha1.Served().Finalizer))
			Expect(d.rule.Status.Nodes).To(HaveValue(Equal(v1alpha1.NodeCounts{Matched: 2, Ready: 1, Held: 1})))
			Expect(d.rule.Status.AppliedNodes).To(Equal([]string{"a", "b"}))
			Expect(d.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
			Expect(d.condition(v1alpha1.ConditionEnforcing).Status).To(Equal(metav1.ConditionTrue))
			Expect(d.condition(v1alpha1.ConditionNodesReady).Message).To(Equal("1 of 2 nodes are ready, 1 held, 0 exempt, 0 " +
				"failed, 0 pending"))

			before := d.rule.ResourceVersion
			d.step(time.Hour)
			d.takeOver()
			Expect(d.reconcile()).To(BeZero())
			Expect(d.read().ResourceVersion).To(Equal(before))
		})

	It("says when it was last reconciled, if asked to", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		Expect(testutil.CollectAndCount(lastReconciliation)).To(BeZero())
		d.StateMetrics = true
		for range 2 {
			d.step(time.Hour)
			d.reconcile()
			Expect(testutil.ToFloat64(lastReconciliation.With(prometheus.Labels{"rule": d.rule.Name}))).
				To(BeEquivalentTo(d.clock.Now().Unix()))
		}
		lastReconciliation.Reset()
	})

	It("does not let kubectl wait for NodesReady succeed where the rule selects no nodes", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionNodesReady)).To(And(HaveField("Status", metav1.ConditionUnknown),
			HaveField("Reason", ReasonNoNodes)))
	})

	It("is written at most once in two seconds, and never before the first full pass", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"), node("b"))
		d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		d.reconcile()
		Expect(d.read().Status.Conditions).To(BeEmpty(), "one node has not been looked at")
		d.saw(1, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		d.reconcile()
		Expect(d.read().Status.Nodes.Held).To(BeEquivalentTo(2))
		d.takeOver()

		d.step(500 * time.Millisecond)
		d.saw(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		Expect(d.reconcile().RequeueAfter).To(Equal(1500 * time.Millisecond))
		Expect(d.read().Status.Nodes.Held).To(BeEquivalentTo(2))
		d.step(1500 * time.Millisecond)
		Expect(d.reconcile()).To(BeZero())
		Expect(d.read().Status.Nodes.Held).To(BeEquivalentTo(1))

		d.step(-time.Hour)
		d.saw(1, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		d.reconcile()
		Expect(d.read().Status.Nodes.Held).To(BeZero(), "the clock was set back")
	})

	It("is written at most twice a second over all rules, after a burst of twenty", func() {
		r, now := &Reconciler{}, time.Now()
		wait := func(rule string) time.Duration { return r.admit(build.MakeRule(rule).Obj(), now) }
		for i := range 20 {
			Expect(wait(fmt.Sprintf("burst-%d", i))).To(BeZero())
		}
		Expect(wait("next")).To(Equal(500 * time.Millisecond))
		now = now.Add(500 * time.Millisecond)
		Expect(wait("next")).To(BeZero())
		Expect(wait("last")).To(Equal(500 * time.Millisecond))
	})

	It("is written after a minute although a node cannot be evaluated", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"), node("b"), node("c"))
		d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Minute))
		d.step(50 * time.Second)
		d.saw(1, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing) // a large fleet may take longer than a minute
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Minute))
		d.step(time.Minute)
		Expect(d.read().Status.Conditions).To(BeEmpty())
		d.reconcile()
		Expect(d.read().Status.Nodes).To(HaveValue(Equal(v1alpha1.NodeCounts{Matched: 3, Held: 2, Pending: 1})))
	})

	It("is written while a node that the incumbent has tainted cannot be cleaned, and goes on naming this node",
		func(ctx context.Context) {
			d := newDesk(ctx, network().Suspend(true), node("a"), tainted("b"))
			inherit(d, "a", "b", "c")
			evaluate := func() {
				d.saw(0, v1alpha1.NodeStateExempt, state.ReasonSuspended)
				d.saw(1, v1alpha1.NodeStateExempt, state.ReasonSuspended)
				d.reconcile()
			}
			evaluate()
			Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ReasonSuspended))
			d.restart()
			Expect(d.compiled.Inherited).To(Equal(map[string]struct{}{"b": {}}), "the others are not there, or match")
			evaluate()
			before := d.read().ResourceVersion
			d.step(time.Hour)
			d.reconcile()
			Expect(d.read().ResourceVersion).To(Equal(before))

			d.nodes[1].Spec.Taints = nil
			Expect(server.Client.Update(ctx, d.nodes[1])).To(Succeed())
			d.reconcile()
			d.takeOver()
			Expect(d.compiled.Inherited).To(BeEmpty())
			Expect(d.rule.Status.NodeEvaluations).To(ConsistOf(HaveField("NodeName", "a")))
		})

	It("keeps the times of what has not changed across a restart", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"))
		d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		d.reconcile()
		before := d.read().ResourceVersion
		d.step(time.Hour)
		d.restart()
		d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		d.reconcile()
		Expect(d.read().ResourceVersion).To(Equal(before))
	})

	It("says of an edit that it is in force at once, and of the nodes when all were looked at", func(ctx context.Context) {
		d := newDesk(ctx, network(), node("a"))
		d.saw(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		d.reconcile()
		d.read().Spec.Timeout = &v1alpha1.Timeout{Seconds: new(int32(60))}
		Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
		d.takeOver()
		report := func(generation int64) {
			GinkgoHelper()
			d.step(time.Minute)
			d.reconcile()
			Expect(d.condition(v1alpha1.ConditionReady).ObservedGeneration).To(BeEquivalentTo(2))
			c := d.condition(v1alpha1.ConditionNodesReady)
			Expect([]any{c.Status, c.ObservedGeneration, d.rule.Status.ObservedGeneration}).To(
				Equal([]any{metav1.ConditionTrue, generation, generation}))
		}
		report(1)
		d.saw(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		report(2)
	})

	It("remembers since when it is in force, and forgets it while it is suspended", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		Expect(d.read().Status.InForce.StartTime.Time).To(BeTemporally("==", d.rule.CreationTimestamp.Time))
		d.rule.Spec.Suspend = true
		Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
		d.takeOver()
		d.compiled = d.compiled.Freeze(ruleset.Problem{Reason: evidence.ReasonInvalid, Message: "it is invalid"})
		d.Fleet.SetRules(ruleset.NewSet(d.compiled), nil, d.clock.Now())
		d.step(time.Minute)
		d.reconcile()
		Expect(d.read().Status.InForce).To(BeNil(), "also while it is invalid")
		Expect(d.events()).To(HaveLen(1), "that it is invalid")
		d.takeOver()
		d.step(time.Minute)
		d.reconcile()
		Expect(d.read().Status.InForce).To(BeNil())
		Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ReasonSuspended))
		Expect(d.events()).To(BeEmpty(), "to suspend a rule is nothing to warn of")
		d.rule.Spec.Suspend = false
		Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
		d.takeOver()
		d.step(time.Minute)
		d.reconcile()
		Expect(d.read().Status.InForce.StartTime.Time).To(BeTemporally(">", d.rule.CreationTimestamp.Time))
	})

	It("remembers since when it is in force while a rule that it requires is suspended", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		d.step(time.Minute)
		d.compiled = d.compiled.Freeze(ruleset.Problem{Reason: ruleset.ReasonSuspended, Message: "it requires rule a"})
		d.Fleet.SetRules(ruleset.NewSet(d.compiled), nil, d.clock.Now())
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ReasonSuspended))
		d.step(time.Minute)
		d.restart()
		Expect(d.compiled.InForceSince).To(BeTemporally("==", d.rule.CreationTimestamp.Time))
	})

	It("is reported on if its status lacks times that the CRD requires by now", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		d.step(time.Minute)
		d.compiled = d.compiled.Freeze(ruleset.Problem{Reason: ruleset.ReasonDeadlock, Message: "it cannot act"})
		d.compiled.InForceSince = time.Time{}
		d.Fleet.SetRules(ruleset.NewSet(d.compiled), nil, d.clock.Now())
		d.Client = former()
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ruleset.ReasonDeadlock))
		Expect(d.rule.Status.InForce).To(BeNil())
		Expect(d.rule.Status.Replacements.Last).To(HaveExactElements(HaveField("HandoverTime.Time",
			BeTemporally("==", d.clock.Now().Truncate(time.Second)))))
	})

	It("forgets since when it is in force while another controller manages its taint", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		d.step(time.Minute)
		theirs := ruleset.Foreign{ruleset.TaintIDOf(*d.compiled.Taint): "theirs"}
		d.compiled = d.compiled.Freeze(*theirs.Problem(d.compiled))
		d.Fleet.SetRules(ruleset.NewSet(d.compiled), nil, d.clock.Now())
		d.reconcile()
		Expect(d.read().Status.InForce).To(BeNil())
		d.restart()
		Expect(d.compiled.InForceSince).To(BeTemporally(">", d.rule.CreationTimestamp.Time))
	})

	It("says what a dry-run would do", func(ctx context.Context) {
		d := newDesk(ctx, network().EvictionGuard(60).DryRun(true).LimitPer("example.com/rack", "1"),
			node("a"), node("b"), node("c"))
		for _, n := range d.nodes { // in service
			released := nodeview.Record{Released: metav1.NewTime(n.CreationTimestamp.Add(time.Second))}
			n.Annotations = map[string]string{d.compiled.RecordKey(): released.Encode()}
		}
		d.record(0, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonDryRun, WouldClaim: true, Risky: true})
		d.record(1, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonDryRun})
		d.record(2, fleet.Outcome{State: v1alpha1.NodeStateReady})
		d.reconcile()
		r := d.read().Status.DryRunResults
		Expect(r.TaintsToAdd).To(HaveValue(BeEquivalentTo(1)))
		Expect(r.NodesToTaint).To(Equal([]string{"a"}))
		Expect(r.Summary).To(Equal("Of 3 matching nodes, 1 would be tainted (1 of them because evidence is missing) and 0 " +
			"would be untainted; 1 more node is not ready, and would stay as it is; limits 1 per example.com/rack would allow " +
			"at most 1 at a time"))
		d.step(time.Minute)
		d.restart()
		Expect(d.compiled.InForceSince).To(BeTemporally("==", r.StartTime.Time), "which nodes are new does not change")
		Expect(d.condition(v1alpha1.ConditionEnforcing).Status).To(Equal(metav1.ConditionFalse))
		guarding := d.condition(v1alpha1.ConditionGuarding)
		Expect(guarding.Status).To(Equal(metav1.ConditionFalse))
		Expect(guarding.Reason).To(Equal(ReasonDryRun))
		Expect(guarding.Message).To(HaveSuffix("with a warning"))
	})

	It("says that a dry-run gives no warnings about a guard that only the leader evaluates", func(ctx context.Context) {
		d := newDesk(ctx, network().EvictionGuard(60).DryRun(true).After("other"), node("a"))
		d.record(0, fleet.Outcome{State: v1alpha1.NodeStateReady})
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionGuarding).Message).To(ContainSubstring("does not rehearse"))
	})

	It("says nothing of an edited dry-run before all nodes were looked at", func(ctx context.Context) {
		d := newDesk(ctx, network().DryRun(true), node("a"))
		would := fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonDryRun, WouldClaim: true}
		d.record(0, would)
		d.reconcile()
		before := d.read().Status.DryRunResults
		Expect(before.Summary).NotTo(BeEmpty())
		edit := func(change func(*v1alpha1.NodeReadinessRuleSpec)) *v1alpha1.DryRunResults {
			GinkgoHelper()
			change(&d.read().Spec)
			Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
			d.takeOver()
			d.step(time.Minute)
			d.reconcile()
			return d.read().Status.DryRunResults
		}
		Expect(edit(func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Conditions[0].Type = "example.com/Other"
		})).To(Equal(&v1alpha1.DryRunResults{StartTime: before.StartTime}), "what the former version would do is no answer")
		d.record(0, would)
		d.step(time.Minute)
		d.reconcile()
		Expect(d.read().Status.DryRunResults.Summary).NotTo(BeEmpty())

		Expect(edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.DryRun = false })).To(BeNil())
		d.saw(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		d.step(time.Minute)
		d.reconcile()
		results := edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.DryRun = true })
		Expect(results.StartTime.Time).To(BeTemporally(">", before.StartTime.Time), "it is known from the start")
		Expect(results.Summary).To(BeEmpty())
	})

	It("says on how many nodes pods stay ready in an outage", func(ctx context.Context) {
		d := newDesk(ctx, build.MakeRule("r").Selector("pool", "a").Condition("Ready").EvictionGuard(600).Endpoints(50, 60),
			node("a"))
		kept := 3
		d.KeptEndpoints = func(*ruleset.Rule) int { return kept }
		d.record(0, fleet.Outcome{State: v1alpha1.NodeStateHeld, Reason: state.ReasonEvidenceMissing,
			Hold: guard.HoldActive})
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionGuarding).Message).To(HaveSuffix("; pods of 3 nodes stay ready if they " +
			"were, since this is an outage"))
		kept = 0
		d.step(time.Minute)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionGuarding).Message).To(HaveSuffix("or by an override"))
	})

	It("says why its condition cannot be published, and what to set", func(ctx context.Context) {
		d := newDesk(ctx, network().Publish("example.com/Verdict"), node("a"))
		d.record(0, fleet.Outcome{State: v1alpha1.NodeStateHeld, Reason: state.ReasonEvidenceMissing, Present: true,
			PublishProblem: "it is forbidden"})
		d.reconcile()
		Expect(d.read().Status.Nodes.Held).To(BeEquivalentTo(1))
		publishing := d.condition(v1alpha1.ConditionPublishing)
		Expect(publishing.Status).To(Equal(metav1.ConditionFalse))
		Expect(publishing.Reason).To(Equal(ReasonPublishFailed))
		Expect(publishing.Message).To(And(ContainSubstring("publishedConditions.enabled"), HaveSuffix("it is forbidden")))
		Expect(d.events()).To(ContainElement(ContainSubstring("Warning PublishFailed")))
	})

	It("says that its limit keeps nodes from being held, and that an older claim decides about its taint",
		func(ctx context.Context) {
			d := newDesk(ctx, network().MaxUnavailable("0"), node("a"))
			d.reserve("a")
			d.record(0, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget, Shared: true})
			d.reconcile()
			Expect(d.condition(v1alpha1.ConditionBudgetExhausted).Status).To(Equal(metav1.ConditionTrue))
			Expect(d.condition(v1alpha1.ConditionConflicted).Reason).To(Equal(ReasonSharedTaint))
			Expect(d.events()).To(ConsistOf(ContainSubstring("Warning MaxUnavailable"), ContainSubstring("Warning SharedTaint")))
		})

	It("says that its limit keeps its condition from being False", func(ctx context.Context) {
		d := newDesk(ctx, network().Publish("example.com/Verdict").MaxUnavailable("1"), node("a"), node("b"))
		for i, o := range []fleet.Outcome{{Published: corev1.ConditionFalse},
			{Published: corev1.ConditionUnknown, Unmarked: true}} {
			ask := limit.Request{Use: limit.Marks, Since: d.clock.Now()}
			if why := d.Fleet.Reserve(d.rule.UID, d.nodes[i].Name, ask); i == 0 {
				Expect(why).To(BeEmpty())
				d.nodes[i] = build.WrapNode(d.nodes[i]).Condition("example.com/Verdict", corev1.ConditionFalse, d.clock.Now()).
					Reason("example.com/Verdict", "NodegateRuleNotReady", "").Obj()
			}
			o.State, o.Reason, o.Present = v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing, true
			d.record(i, o)
		}
		d.reconcile()
		const why = "condition example.com/Verdict is Unknown and not False on 1 node: maxUnavailable (1) allows False " +
			"on 1 node: b"
		Expect(d.condition(v1alpha1.ConditionBudgetExhausted).Message).To(Equal(why))
		Expect(d.events()).To(ContainElement("Warning MaxUnavailable " + why))
		d.saw(1, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		d.step(time.Minute)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionBudgetExhausted).Status).To(Equal(metav1.ConditionFalse))
	})

	It("writes the time of a claim under a rate before the claim may be made", func(ctx context.Context) {
		d := claimed(ctx)
		Expect(d.condition(v1alpha1.ConditionBudgetExhausted).Status).To(Equal(metav1.ConditionFalse))
		Expect(d.events()).NotTo(ContainElement(ContainSubstring("MaxUnavailable")), "no limit is reached")
		Expect(d.reserve("a")).To(BeEmpty())
		d.restart() // it forgets what it has issued, and not what it has written
		Expect(d.reserve("b")).NotTo(BeEmpty())
		d.record(1, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget})
		d.saw(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		d.reconcile()
		Expect(d.read().Status.Rate.ClaimTimes).To(HaveLen(1))
		const reached = "limits[0] (1 within 10m0s) allows the next node at"
		Expect(d.condition(v1alpha1.ConditionBudgetExhausted).Status).To(Equal(metav1.ConditionTrue))
		Expect(d.events()).To(ContainElement(ContainSubstring(reached)))
		Expect(d.reserve("b")).To(ContainSubstring(reached))
		d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
		d.reconcile()
		Expect(d.reserve("b")).To(BeEmpty())
	})

	It("makes no claim under a rate before its time is written, and keeps the time while it is suspended",
		func(ctx context.Context) {
			d := newDesk(ctx, network().Rate(1, 600), node("a"))
			d.reserve("a")
			d.record(0, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget})
			d.Client = interceptor.NewClient(server.Client, interceptor.Funcs{
				SubResourceUpdate: func(context.Context, client.Client, string, client.Object,
					...client.SubResourceUpdateOption) error {
					return apierrors.NewConflict(schema.GroupResource{}, "network", errors.New("it was edited"))
				}})
			d.reconcile()
			Expect(d.reserve("a")).NotTo(BeEmpty())
			d.Client = server.Client
			d.step(statusInterval)
			d.reconcile()
			Expect(d.reserve("a")).To(BeEmpty())

			d.read().Spec.Suspend = true
			Expect(d.Client.Update(ctx, d.rule)).To(Succeed())
			d.takeOver()
			d.saw(0, v1alpha1.NodeStateExempt, state.ReasonSuspended)
			d.step(statusInterval)
			d.reconcile()
			Expect(d.condition(v1alpha1.ConditionEnforcing).Status).To(Equal(metav1.ConditionFalse))
			Expect(d.read().Status.Rate).To(HaveValue(HaveField("ClaimTimes", HaveLen(1))))
		})

	It("keeps the times of its claims if it is frozen while its status is made", func(ctx context.Context) {
		d := claimed(ctx)
		Expect(d.reserve("a")).To(BeEmpty())

		// Another goroutine puts the rules in force again between Fleet.Material and Fleet.Order, as AvailabilityChanged
		// does. The object on the API server stays the same, so that the write of the status has no conflict.
		frozen := d.compiled.Freeze(ruleset.Problem{Reason: ruleset.ReasonUnavailable, Message: "pods cannot be read"})
		d.KeptEndpoints = func(*ruleset.Rule) int {
			d.Fleet.SetRules(ruleset.NewSet(frozen), d.nodes, d.clock.Now())
			return 0
		}
		d.record(1, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget})
		d.step(statusInterval)
		d.reconcile()
		Expect(d.read().Status.Rate).To(HaveValue(HaveField("ClaimTimes", HaveLen(1))))

		d.KeptEndpoints = nil // the evidence can be read again
		d.takeOver()
		d.reserve("b")
		d.record(1, fleet.Outcome{State: v1alpha1.NodeStateExempt, Reason: state.ReasonOverBudget})
		d.step(statusInterval)
		d.reconcile()
		Expect(d.reserve("b")).NotTo(BeEmpty(), "the rate is used up for ten minutes")
	})

	It("says that an older rule publishes the condition of its probe, before that a taint is shared",
		func(ctx context.Context) {
			d := newDesk(ctx, network().Probe("example.com/Ready", 9099), node("a"), node("b"))
			const taken = "condition example.com/Ready is published by the older rule first"
			for i := range 2 {
				d.record(i, fleet.Outcome{State: v1alpha1.NodeStateReady, Reason: state.ReasonEvidenceHolds, Displaced: taken,
					Shared: i == 0})
			}
			d.reconcile()
			c := d.condition(v1alpha1.ConditionConflicted)
			Expect(c.Status).To(Equal(metav1.ConditionTrue))
			Expect(c.Reason).To(Equal(ReasonConditionTaken))
			Expect(c.Message).To(And(HavePrefix("On 2 nodes a probe of this rule does not run, because an older rule "+
				"publishes its condition: "+taken),
				ContainSubstring("On 1 node another rule added the same taint before")))
			Expect(d.events()).To(ContainElement(ContainSubstring("Warning ConditionTaken")))
		})

	It("keeps its object under 64 KiB with 5000 nodes", func(ctx context.Context) {
		d := newDesk(ctx, network())
		for i := range 5000 {
			d.nodes = append(d.nodes, node(fmt.Sprintf("ip-10-0-%03d-%03d.eu-central-1.compute.internal", i/250, i%250)))
			d.saw(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		}
		d.reconcile()
		raw, err := json.Marshal(d.read())
		Expect(err).NotTo(HaveOccurred())
		Expect(len(raw)).To(BeNumerically("<", 64<<10))
		Expect(d.rule.Status.Nodes.Held).To(BeEquivalentTo(5000))
		Expect(d.rule.Status.Truncated).To(BeTrue())
	})

	It("says that nothing serves its probes, and looks again after a minute", func(ctx context.Context) {
		rule := build.MakeRule("unserved").Selector("test", "unserved").Condition("example.com/A").
			Taint("readiness.k8s.io/unserved", "", corev1.TaintEffectNoSchedule)
		rule.Spec.Probes = []v1alpha1.Probe{{ConditionType: "example.com/A",
			TCPSocket: &v1alpha1.TCPSocketAction{Port: 1}}}
		d := newDesk(ctx, rule)
		agents, failure := false, error(nil)
		d.Served = func(context.Context, ...*ruleset.Rule) (lint.Served, error) {
			return lint.Served{Agents: new(agents)}, failure
		}
		served := func() *metav1.Condition {
			d.reconcile()
			return meta.FindStatusCondition(d.read().Status.Conditions, v1alpha1.ConditionServed)
		}
		d.reconcile() // the finalizer
		Expect(served()).To(HaveField("Message", HavePrefix("spec.probes: no probe runs")))
		agents = true
		Expect(served().Reason).To(Equal(ReasonNotRunning), "it asks at most once a minute")
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		failure = errors.New("the API server is down")
		Expect(served().Reason).To(Equal(ReasonNotRunning), "what is not known changes nothing")
		failure = nil
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		Expect(served().Reason).To(Equal(ReasonAllRunning))

		agents = false
		d.read().Spec.Probes[0].TCPSocket.Port = 2
		Expect(server.Client.Update(ctx, d.rule)).To(Succeed())
		d.takeOver()
		d.step(statusInterval)
		Expect(served().Reason).To(Equal(ReasonNotRunning), "it asks at once for an edited rule")
	})

	It("says that its taint keeps away what provides its evidence", func(ctx context.Context) {
		rule := build.MakeRule("gpus").Selector("test", "gpus").
			Taint("readiness.k8s.io/gpus", "", corev1.TaintEffectNoSchedule).
			Evidence(v1alpha1.Requirement{Name: "gpu", Resource: &v1alpha1.ResourceRequirement{Name: "nvidia.com/gpu",
				Min: resource.MustParse("1")}})
		d := newDesk(ctx, rule)
		plugin := build.MakeDaemonSet("gpu", "nvidia-device-plugin").Template(func(pod *corev1.PodSpec) {
			pod.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/device-plugins"}}}}
		})
		d.Served = func(context.Context, ...*ruleset.Rule) (lint.Served, error) {
			return lint.Served{DaemonSets: []lint.Workload{lint.DaemonSet(plugin.Obj())}}, nil
		}
		d.reconcile() // the finalizer
		Expect(d.reconcile().RequeueAfter).To(BeNumerically("<=", time.Minute), "it looks again")
		Expect(d.condition(v1alpha1.ConditionServed)).To(And(HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", ReasonKeptAway), HaveField("Message", ContainSubstring("DaemonSet gpu/nvidia-device-plugin "+
				"provides resource nvidia.com/gpu and does not tolerate this rule's own taint"))))

		plugin.Tolerate("readiness.k8s.io/gpus")
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		d.reconcile()
		Expect(meta.FindStatusCondition(d.read().Status.Conditions, v1alpha1.ConditionServed)).To(BeNil())
	})

	It("does not say that a rule without a taint taints nodes", func(ctx context.Context) {
		rule := build.MakeRule("untainted").Selector("test", "untainted").Condition("example.com/A")
		rule.Spec.Publish = &v1alpha1.Publish{ConditionType: "example.com/Ready"}
		d := newDesk(ctx, rule)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionEnforcing)).To(And(HaveField("Status", metav1.ConditionTrue),
			HaveField("Reason", ReasonInForce), HaveField("Message", Not(ContainSubstring("are tainted")))))
	})

	It("is not written where the served CRD is not ours", func(ctx context.Context) {
		d := newDesk(ctx, network())
		frozen := d.compiled.Freeze(ruleset.Problem{Reason: ruleset.ReasonForeignCRD, Message: "not ours"})
		d.Fleet.SetRules(ruleset.NewSet(frozen), nil, d.clock.Now())
		before := d.rule.ResourceVersion
		d.reconcile()
		Expect(d.read().ResourceVersion).To(Equal(before))
	})

	It("says why it is not in force when it is invalid", func(ctx context.Context) {
		d := newDesk(ctx, network())
		frozen := d.compiled.Freeze(ruleset.Problem{Field: "spec.taint.key", Reason: evidence.ReasonInvalid,
			Message: "is bad"})
		d.Fleet.SetRules(ruleset.NewSet(frozen), nil, d.clock.Now())
		d.reconcile()
		c := d.condition(v1alpha1.ConditionReady)
		Expect(c.Status).To(Equal(metav1.ConditionFalse))
		Expect(c.Reason).To(Equal(evidence.ReasonInvalid))
		Expect(c.Message).To(ContainSubstring("spec.taint.key: is bad"))
		Expect(d.events()).To(ConsistOf(ContainSubstring("Warning Invalid")))
	})

	It("says what it does nevertheless when it is invalid and in dry-run", func(ctx context.Context) {
		d := newDesk(ctx, network().DryRun(true))
		for _, reason := range []string{evidence.ReasonInvalid, ruleset.ReasonSuspended} {
			frozen := d.compiled.Freeze(ruleset.Problem{Reason: reason, Message: "it cannot work"})
			d.Fleet.SetRules(ruleset.NewSet(frozen), nil, d.clock.Now())
			d.reconcile()
			Expect(d.condition(v1alpha1.ConditionReady).Message).To(HaveSuffix(
				", except that dryRun removes its taints: it cannot work"))
			d.step(time.Minute)
		}
	})

	It("waits until admission taints nodes for it, or says why it does not", func(ctx context.Context) {
		d := newDesk(ctx, network())
		problem, undecided := "", true
		d.AdmissionProblem = func(*ruleset.Rule) (string, bool) { return problem, undecided }
		Expect(d.reconcile().RequeueAfter).To(Equal(conflictDelay))
		Expect(d.read().Status.Conditions).To(BeEmpty())

		problem, undecided = "the CRD is missing", false
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionEnforcing)).To(And(HaveField("Status", metav1.ConditionTrue),
			HaveField("Reason", ReasonNotAtAdmission), HaveField("Message", ContainSubstring("creation: the CRD is missing"))))

		byStatus := true
		d.AdmittedByStatus = func() bool { return byStatus }
		d.step(time.Hour)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionEnforcing)).To(And(HaveField("Status", metav1.ConditionTrue),
			HaveField("Reason", ReasonInForce), HaveField("Message", And(ContainSubstring("the CRD is missing"),
				Not(ContainSubstring("shortly after"))))), "the webhook taints nodes at creation")

		byStatus = false
		d.step(time.Hour)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionEnforcing)).To(HaveField("Reason", ReasonNotAtAdmission))

		problem = ""
		d.step(time.Hour)
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionEnforcing)).To(HaveField("Reason", ReasonInForce))
	})

	It("says nothing for a while where its evidence is just being read", func(ctx context.Context) {
		d := newDesk(ctx, network())
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
		d.step(time.Hour)
		frozen := d.compiled.Freeze(ruleset.Problem{Reason: ruleset.ReasonPending, Message: "not read yet"})
		d.Fleet.SetRules(ruleset.NewSet(frozen), nil, d.clock.Now())
		Expect(d.reconcile().RequeueAfter).To(Equal(pendingPatience))
		d.step(pendingPatience - time.Second)
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Second))
		Expect(d.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))

		d.step(time.Second)
		Expect(d.reconcile()).To(BeZero())
		Expect(d.condition(v1alpha1.ConditionReady)).To(HaveField("Reason", ruleset.ReasonPending))
		Expect(d.events()).To(ConsistOf(ContainSubstring("Warning EvidencePending")))

		d.Fleet.SetRules(ruleset.NewSet(d.compiled), nil, d.clock.Now())
		d.step(time.Hour)
		Expect(d.reconcile()).To(BeZero())
		Expect(d.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
		d.Fleet.SetRules(ruleset.NewSet(frozen), nil, d.clock.Now())
		d.step(time.Hour)
		Expect(d.reconcile().RequeueAfter).To(Equal(pendingPatience), "it starts again")
	})
})

var _ = Describe("A deleted rule", func() {
	deleted := func(ctx context.Context, left bool, finalizers ...string) *desk {
		rule := network()
		rule.Finalizers = finalizers
		d := newDesk(ctx, rule, node("a"))
		d.saw(0, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
		d.reconcile()
		if left {
			d.nodes[0].Annotations = map[string]string{v1alpha1.RecordAnnotationPrefix + string(d.rule.UID): "{}"}
			Expect(server.Client.Update(ctx, d.nodes[0])).To(Succeed())
		}
		Expect(server.Client.Delete(ctx, d.read())).To(Succeed())
		d.takeOver()
		d.clock.SetTime(d.rule.DeletionTimestamp.Time) // that is the API server's clock
		return d
	}
	gone := func(ctx context.Context, d *desk) bool {
		return apierrors.IsNotFound(server.Client.Get(ctx, client.ObjectKeyFromObject(d.rule), &v1alpha1.NodeReadinessRule{}))
	}

	It("goes as soon as no node has anything of it", func(ctx context.Context) {
		d := deleted(ctx, true)
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Minute))
		Expect(gone(ctx, d)).To(BeFalse())
		Expect(d.read().Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionReady),
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", ReasonDeleting))))
		d.nodes[0].Annotations = nil
		Expect(server.Client.Update(ctx, d.nodes[0])).To(Succeed())
		d.cleaned(0)
		d.reconcile()
		Expect(gone(ctx, d)).To(BeTrue())
	})

	It("says what it waits for if its status lacks times that the CRD requires by now", func(ctx context.Context) {
		d := deleted(ctx, true)
		d.Client = former()
		d.reconcile()
		Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ReasonDeleting))
	})

	It("says nothing of nodes while the finalizer of another controller keeps it", func(ctx context.Context) {
		d := deleted(ctx, false, "example.com/other")
		d.cleaned(0)
		d.reconcile()
		Expect(d.read().Finalizers).To(Equal([]string{"example.com/other"}))
		Expect(d.rule.Status.Nodes).To(HaveValue(BeZero()))
		Expect(d.rule.Status.NodeEvaluations).To(BeEmpty())
		Expect(d.rule.Status.Conditions).To(ConsistOf(And(HaveField("Type", v1alpha1.ConditionReady),
			HaveField("Reason", ReasonDeleting), HaveField("Message", HaveSuffix(": example.com/other")))))
		written := d.rule.ResourceVersion
		d.step(time.Hour)
		d.reconcile()
		Expect(d.read().ResourceVersion).To(Equal(written))
	})

	It("waits for a node that has not been looked at since: a patch from before may be on its way",
		func(ctx context.Context) {
			d := deleted(ctx, false)
			Expect(d.reconcile().RequeueAfter).To(Equal(time.Minute))
			Expect(gone(ctx, d)).To(BeFalse())
			d.cleaned(0)
			d.reconcile()
			Expect(gone(ctx, d)).To(BeTrue())
		})

	It("waits while its taint may be another controller's: its records must stay", func(ctx context.Context) {
		d := deleted(ctx, true)
		unread := ruleset.Foreign{ruleset.TaintIDOf(*d.compiled.Taint): ""}
		d.Fleet.SetRules(ruleset.NewSet(d.compiled).Resolve(ruleset.Known{Foreign: unread}, ruleset.NewSet()), d.nodes,
			d.clock.Now())
		d.cleaned(0)
		d.reconcile()
		d.step(2 * time.Minute)
		d.reconcile()
		Expect(gone(ctx, d)).To(BeFalse())
		Expect(d.condition(v1alpha1.ConditionReady).Message).To(ContainSubstring("cannot be read"))
	})

	It("waits for a taint of the incumbent, also when it has said so", func(ctx context.Context) {
		d := newDesk(ctx, network(), tainted("a"))
		inherit(d, "a")
		d.reconcile() // the finalizer
		Expect(server.Client.Delete(ctx, d.read())).To(Succeed())
		d.takeOver()
		for range 2 {
			d.cleaned(0)
			d.reconcile()
			Expect(d.condition(v1alpha1.ConditionReady).Reason).To(Equal(ReasonDeleting))
			d.takeOver()
		}
	})

	It("waits no longer than a minute for a node that cannot be written to", func(ctx context.Context) {
		d := deleted(ctx, true)
		d.reconcile()
		d.step(50 * time.Second)
		d.cleaned(0) // others are cleaned up all the time: a large fleet takes longer than a minute
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Minute))
		d.step(59 * time.Second)
		Expect(d.reconcile().RequeueAfter).To(Equal(time.Second))
		Expect(gone(ctx, d)).To(BeFalse())
		d.step(time.Second)
		d.reconcile()
		Expect(gone(ctx, d)).To(BeTrue())
		Expect(d.events()).To(ContainElement(And(ContainSubstring("CleanupIncomplete"), ContainSubstring(": a"))))
	})
})

// former returns a client that reads rules with a status of a former release, which lacks times that the CRD requires
// by now.
func former() client.Client {
	return interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			o ...client.GetOption) error {
			err := c.Get(ctx, key, obj, o...)
			if rule, ok := obj.(*v1alpha1.NodeReadinessRule); ok {
				rule.Status.InForce = &v1alpha1.InForce{SelectorHash: "a"}
				rule.Status.Replacements = &v1alpha1.ReplacementStatus{Last: []v1alpha1.Replacement{
					{NodeName: "a", NodeUID: "a", Method: v1alpha1.ReplaceMethodAnnotation}}}
			}
			return err
		}})
}
