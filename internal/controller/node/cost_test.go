// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// oneNode is a cache with one node, which it returns without a deep copy, as the operator's does.
type oneNode struct {
	client.Client
	node *corev1.Node
}

func (c oneNode) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if out, ok := obj.(*corev1.Node); ok {
		*out = *c.node
	}
	return nil
}

// published is the type of the condition that rule i publishes.
func published(i int) string { return fmt.Sprintf("example.com/Verdict-%d", i) }

// settled returns a reconciler and a node of real size that has been released under all rules, of which some publish
// their verdict.
func settled(rules, publishing int) (*Reconciler, *corev1.Node) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := build.MakeNode("node-1").UID("n").Created(now.Add(-24*time.Hour)).Label(pool, "a")
	for i := range 20 {
		node.Label(fmt.Sprintf("example.com/label-%d", i), "value")
	}
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		node.Condition(kind, corev1.ConditionFalse, now.Add(-time.Hour))
	}
	var compiled []*ruleset.Rule
	for i := range rules {
		condition := fmt.Sprintf("example.com/Ready-%d", i)
		made := build.MakeRule(fmt.Sprintf("rule-%d", i)).
			UID(fmt.Sprintf("7b6d7b0e-6d3c-4a7e-9d5e-0123456789%02d", i)).Selector(pool, "a").Condition(condition).
			Taint(fmt.Sprintf("readiness.k8s.io/taint-%d", i), "pending", corev1.TaintEffectNoSchedule)
		record := nodeview.Record{Rule: made.Name}
		if i < publishing {
			made.Publish(published(i)).MaxUnavailable("1")
			record.Published = published(i)
			node.Condition(published(i), corev1.ConditionTrue, now.Add(-30*time.Minute)).
				Reason(published(i), "NodegateRuleReady", fmt.Sprintf("rule rule-%d: the node is ready", i))
		}
		rule := ruleset.Compile(made.Obj(), nil, now)
		compiled = append(compiled, rule)
		record.Released.Time = now.Add(-30 * time.Minute)
		node.Condition(condition, corev1.ConditionTrue, now.Add(-time.Hour)).Annotation(rule.RecordKey(), record.Encode())
	}
	obj := node.Obj()
	r := &Reconciler{Client: oneNode{node: obj}, Fleet: fleet.New(&world{}, time.Now), Evidence: noEvidence(),
		Recorder: &events.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now)}
	r.Fleet.SetRules(ruleset.NewSet(compiled...), []*corev1.Node{obj}, now)
	return r, obj
}

func BenchmarkUnchangedNode(b *testing.B) {
	for _, c := range []struct{ rules, publishing int }{{1, 0}, {1, 1}, {10, 1}, {50, 0}, {50, 50}} {
		b.Run(fmt.Sprintf("%d rules, %d of them publish", c.rules, c.publishing), func(b *testing.B) {
			r, node := settled(c.rules, c.publishing)
			b.ReportAllocs()
			for b.Loop() {
				if result, err := r.Reconcile(b.Context(), request(node.Name)); err != nil || result.RequeueAfter > 0 {
					b.Fatal(result, err)
				}
			}
		})
	}
}

// TestRecordsDoNotDoubleANode measures what a heartbeat costs in etcd and in each watch, which have the whole node: of
// real size, in service under all rules.
func TestRecordsDoNotDoubleANode(t *testing.T) {
	size := func(rules int) int {
		node := cluster.NewNode("node-1", cluster.NodeOptions{Unmanaged: true})
		_, settled := settled(rules, 0)
		maps.Copy(node.Annotations, settled.Annotations)
		return node.Size()
	}
	without := size(0)
	for _, rules := range []int{10, 50} {
		with := size(rules)
		t.Logf("%d bytes with %d records, %d without", with, rules, without)
		if with >= 2*without {
			t.Errorf("%d bytes with %d records, %d without", with, rules, without)
		}
	}
}

// TestAHeartbeatCostsNoAllocation: of a node that 50 rules have tainted, when nothing but its heartbeats changes.
func TestAHeartbeatCostsNoAllocation(t *testing.T) {
	r, before := settled(50, 0)
	for i := range 50 {
		before.Spec.Taints = append(before.Spec.Taints,
			corev1.Taint{Key: fmt.Sprintf("readiness.k8s.io/taint-%d", i), TimeAdded: &before.CreationTimestamp})
	}
	after := before.DeepCopy()
	for i := range after.Status.Conditions {
		after.Status.Conditions[i].LastHeartbeatTime.Time = r.Clock.Now()
	}
	relevant, update := r.Relevant(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before, ObjectNew: after}
	n := 1.0
	for tries := 0; n > 0 && tries < 10; tries++ { // other goroutines of this process count, too
		n = testing.AllocsPerRun(20, func() {
			if relevant.Update(update) {
				t.Fatal("a heartbeat alone changes no verdict")
			}
		})
	}
	if n > 0 {
		t.Errorf("%v allocations for a heartbeat, want 0", n)
	}
}

// TestAnUnchangedNodeCostsFewAllocations counts; how long it takes is what the benchmark is for. A pass must not write:
// the client cannot.
func TestAnUnchangedNodeCostsFewAllocations(t *testing.T) {
	race := debug.BuildSetting{Key: "-race", Value: "true"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, race) { // which allocates, too
		out, err := exec.CommandContext(t.Context(), "go", "test", ".", "-count=1", "-run", "^"+t.Name()+"$").CombinedOutput()
		if err != nil {
			t.Errorf("without the race detector: %v\n%s", err, out)
		}
		return
	}
	for _, c := range []struct {
		publishing int
		most       float64
	}{{0, 20}, {1, 30}, {50, 35}} {
		r, node := settled(50, c.publishing)
		pass := func() {
			if _, err := r.Reconcile(t.Context(), request(node.Name)); err != nil {
				t.Fatal(err)
			}
		}
		pass()
		n := testing.AllocsPerRun(20, pass)
		t.Logf("%v allocations for a pass under 50 rules, of which %d publish", n, c.publishing)
		if n > c.most {
			t.Errorf("%v allocations for a pass under 50 rules, of which %d publish, want at most %v", n, c.publishing, c.most)
		}
	}
}
