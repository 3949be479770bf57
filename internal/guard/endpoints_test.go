// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// endpoints keeps the endpoints of nodes for 40 of the 60 seconds of the guard.
func endpoints() *build.RuleWrapper { return rule().Endpoints(50, 40) }

// fleet are nodes n1 and so on: the first ones are lost, so many seconds ago.
func fleet(lost ...int) []*corev1.Node {
	const size = 4
	nodes := make([]*corev1.Node, 0, size)
	for i := range size {
		node := build.MakeNode(fmt.Sprintf("n%d", i+1)).Label("kosmos.io/node", "true").Condition("Ready", "True", at(-600))
		if i < len(lost) {
			node.Condition("Ready", "Unknown", at(-lost[i]))
		}
		nodes = append(nodes, node.Obj())
	}
	return nodes
}

// states are the states of these nodes: n1 and so on.
func states(all ...string) map[string]string {
	out := map[string]string{}
	for i, s := range all {
		out[fmt.Sprintf("n%d", i+1)] = s
	}
	return out
}

func TestEndpoints(t *testing.T) {
	const now = -1
	armed := states("", "", "", "")
	release := func(nodes []*corev1.Node) { // n1 and n2
		for _, n := range nodes[:2] {
			n.Annotations = map[string]string{v1alpha1.OverrideAnnotation: "Release"}
		}
	}
	quiet := func(names ...string) map[string]Lease {
		out := map[string]Lease{"n1": 0, "n2": 0, "n3": 0, "n4": 0, "unselected": LeaseExpired}
		for _, n := range names {
			out[n] = LeaseExpired
		}
		return out
	}
	quietOne := map[string]Lease{"n1": LeaseExpired}
	for name, c := range map[string]struct {
		rule   func(*build.RuleWrapper)
		noRule bool
		frozen string // the reason why the rule is frozen
		before map[string]string
		nodes  []*corev1.Node
		silent map[string]Lease
		change func([]*corev1.Node)
		unread string // a node that may have been lost meanwhile
		done   bool
		room   *Room
		left   int
		want   map[string]string // nil: the rule leaves the object
		kept   int
		at     int // 0: the next renewal; or now
	}{
		"all nodes are ready":      {before: armed, nodes: fleet(), want: armed},
		"a new rule":               {nodes: fleet(), want: armed},
		"a new rule without nodes": {want: states()},
		"a new rule, and a node that nothing has reported about": {nodes: fleet(1), change: func(nodes []*corev1.Node) {
			nodes[0].Status.Conditions = nil
		}, want: states("Ended", "", "", "")},
		"a ready node that may have been lost meanwhile": {before: states("Ended", "", "", ""), nodes: fleet(),
			unread: "n1", want: states("Ended", "", "", "")},
		"a new node that may have been lost meanwhile": {nodes: fleet(1), unread: "n1",
			want: states("Ended", "", "", "")},
		"a new rule, and a node that is lost already": {nodes: fleet(1), silent: quiet("n1", "n2", "n3", "n4"),
			want: states("Ended", "", "", "")},
		"a new rule, and a kubelet that says that its node is not ready": {nodes: fleet(1),
			change: func(nodes []*corev1.Node) { nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse },
			want:   states("Marked", "", "", "")},
		"one node is lost, and others do not renew their leases either": {before: armed, nodes: fleet(1),
			silent: quiet("n1", "n2"), want: states(stamp(39), "", "", ""), kept: 1},
		"one node is lost, and too few others": {before: armed, nodes: fleet(1), silent: quiet("n1"),
			want: states("Ended", "", "", "")},
		"kubelet says that its node is not ready": {before: armed, nodes: fleet(1), silent: quiet("n2", "n3", "n4"),
			change: func(nodes []*corev1.Node) { nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse },
			want:   states("Ended", "", "", "")},
		"the node controller is quick, and the lease is not old yet": {before: armed, nodes: fleet(1), silent: quiet(),
			want: armed, at: 2},
		"the lease is old, and those of others may be soon": {before: armed, nodes: fleet(11),
			silent: map[string]Lease{"n1": LeaseSilent, "n2": 0, "n3": 0, "n4": 0}, want: armed, at: 2},
		"and they are": {before: armed, nodes: fleet(15),
			silent: map[string]Lease{"n1": LeaseSilent, "n2": LeaseSilent, "n3": 0, "n4": 0},
			want:   states(stamp(25), "", "", ""), kept: 1},
		"a lost node that renews its lease": {before: armed, nodes: fleet(30), silent: quiet(),
			want: states("Ended", "", "", "")},
		"a node without a lease": {before: armed, nodes: fleet(1), silent: map[string]Lease{"n2": 0},
			want: states("Ended", "", "", "")},
		"another share": {rule: func(r *build.RuleWrapper) { r.Endpoints(24, 40) }, before: armed, nodes: fleet(1),
			silent: quiet("n1"), want: states(stamp(39), "", "", ""), kept: 1},
		"lost by a clock that is ahead": {before: armed, nodes: fleet(-900), silent: quiet("n1", "n2"),
			want: states(stamp(40), "", "", ""), kept: 1},
		"one of two, beside one that renews its lease": {before: states("", ""), nodes: fleet(1, 1)[:2],
			silent: map[string]Lease{"n1": 0, "n2": LeaseExpired}, want: states("", "Ended"), at: 2},
		"another share, and too few": {rule: func(r *build.RuleWrapper) { r.Endpoints(75, 40) }, before: armed,
			nodes: fleet(1), silent: quiet("n1", "n2"), want: states("Ended", "", "", "")},
		"all nodes, and there is only one": {rule: func(r *build.RuleWrapper) { r.Endpoints(100, 40) },
			before: states(""), nodes: fleet(1)[:1], silent: quietOne, want: states(stamp(39)), kept: 1},
		"the leases are not known": {before: armed, nodes: fleet(1), want: armed},
		"the leases are not known until the end": {before: armed, nodes: fleet(40),
			want: states("Ended", "", "", "")},
		"nodes that were lost before do not count": {before: states("Ended", "Marked", "", ""), nodes: fleet(900, 900, 1),
			silent: quiet("n1", "n2", "n3", "n4"), want: states("Ended", "Marked", stamp(39), ""), kept: 1},
		"one of the last two": {before: states("Ended", "Marked", "", ""), nodes: fleet(900, 900, 1),
			silent: quiet("n1", "n2", "n3"), want: states("Ended", "Marked", "Ended", "")},
		"the only node with a lease": {before: armed, nodes: fleet(1), silent: quietOne,
			want: states(stamp(39), "", "", ""), kept: 1},
		"an outage lasts while others come back": {before: states(stamp(10), "", "", ""), nodes: fleet(30),
			silent: quiet("n1"), want: states(stamp(10), "", "", ""), at: 10},
		"and one more is lost meanwhile": {before: states(stamp(10), stamp(10), "", ""), nodes: fleet(30, 30, 1),
			silent: quiet("n1", "n2", "n3"), want: states(stamp(10), stamp(10), stamp(39), ""), kept: 1, at: 10},
		"the last second": {before: states(stamp(1), "", "", ""), nodes: fleet(39), at: 1,
			want: states(stamp(1), "", "", "")},
		"the hold has ended": {before: states(stamp(0), "", "", ""), nodes: fleet(40), want: states("Ended", "", "", "")},
		"a shorter hold": {rule: func(r *build.RuleWrapper) { r.Endpoints(50, 20) }, before: states(stamp(10), "", "", ""),
			nodes: fleet(30), want: states("Ended", "", "", ""), at: 5},
		"a longer hold, which is not that of a node that is lost already": {
			rule: func(r *build.RuleWrapper) { r.Endpoints(50, 60) }, before: states(stamp(10), "", "", ""), nodes: fleet(30),
			want: states(stamp(10), "", "", ""), at: 10},
		"ready again": {before: states(stamp(10), "Ended", "", ""), nodes: fleet(), want: armed},
		"not ready, and kept no longer": {before: states("Ended", "Marked", "", ""), nodes: fleet(900, 900),
			want: states("Ended", "Marked", "", "")},
		"its pods are marked": {before: states("Ended", "", "", ""), nodes: fleet(900), done: true,
			want: states("Marked", "", "", "")},
		"the override Release": {before: states(stamp(10), "", "", ""), nodes: fleet(30, 1), silent: quiet("n1", "n2"),
			change: release, want: states("Ended", "Ended", "", "")},
		"nodes that the rule no longer selects": {before: states(stamp(10), "", "", ""), nodes: fleet(30, 1),
			silent: quiet("n1", "n2"), change: func(nodes []*corev1.Node) {
				for _, n := range nodes[:3] {
					n.Labels = nil
				}
			}, want: states("Ended", "Ended", "Ended", ""), at: now},
		"a ready node that the rule no longer selects, and that the policy does not keep": {
			before: states("Ended", "Marked", "", ""), nodes: fleet(), change: func(nodes []*corev1.Node) {
				nodes[0].Labels, nodes[1].Labels = nil, nil
			}, want: map[string]string{"n3": "", "n4": ""}},
		"a node that has completed a bootstrap-only rule": {rule: func(r *build.RuleWrapper) { r.BootstrapOnly() },
			before: states("", "", ""), nodes: fleet(1, 1), silent: quiet("n1", "n2", "n4"),
			change: func(nodes []*corev1.Node) {
				for _, n := range []*corev1.Node{nodes[0], nodes[3]} {
					n.Annotations = map[string]string{"readiness.k8s.io/bootstrap-completed-link": "x"}
				}
			}, want: states("Ended", "Ended", "")},
		"a node that has completed the rule before it became continuous": {before: armed, nodes: fleet(1),
			silent: quiet("n1", "n2"), change: func(nodes []*corev1.Node) {
				nodes[0].Annotations = map[string]string{"readiness.k8s.io/bootstrap-completed-link": "x"}
			}, want: states(stamp(39), "", "", ""), kept: 1},
		"a deleted node": {before: states("", "", "", "", ""), nodes: fleet(), want: armed},
		"a rule that is gone": {noRule: true, before: states(stamp(10), "", "Ended", "Marked"),
			nodes: fleet(30, 1, 50, 60), want: states("Ended", "Ended", "Ended")},
		"one of four nodes is lost, and those that were lost before are ready": {
			before: states("Ended", "Marked", "Ended", ""), nodes: fleet(), silent: quiet("n4"),
			change: func(nodes []*corev1.Node) {
				nodes[3] = build.WrapNode(nodes[3]).Condition("Ready", "Unknown", at(-1)).Obj()
			}, want: states("", "", "", "Ended")},
		"a rule that is gone, and nodes that are ready": {noRule: true, before: states("", stamp(10), "Ended", "Marked"),
			nodes: fleet(), want: states("Ended", "Ended"), at: now},
		"a rule that is gone, and nothing is left to do": {noRule: true, before: states("Ended", "Ended"),
			nodes: fleet(30), done: true},
		"a rule in dry-run": {rule: func(r *build.RuleWrapper) { r.DryRun(true) }, before: states(stamp(10), "", "", ""),
			nodes: fleet(30), want: states("Ended", "Ended", "Ended", "Ended"), at: now},
		"a suspended rule keeps what it keeps": {rule: func(r *build.RuleWrapper) { r.Suspend(true) },
			before: states(stamp(10), "", "", ""), nodes: fleet(30, 1), silent: quiet("n1", "n2"),
			want: states(stamp(10), "Ended", "Ended", "Ended"), at: now},
		"a suspended rule, and a node that is ready again": {rule: func(r *build.RuleWrapper) { r.Suspend(true) },
			before: states(stamp(10)), nodes: fleet(), want: states("Ended"), at: now},
		"a suspended rule, to the end": {rule: func(r *build.RuleWrapper) { r.Suspend(true) },
			before: states(stamp(0)), nodes: fleet(40), want: states("Ended")},
		"a suspended rule, and the override Release": {rule: func(r *build.RuleWrapper) { r.Suspend(true) },
			before: states(stamp(10)), nodes: fleet(30), change: release, want: states("Ended")},
		"a frozen rule, and the override Release on a node that it no longer selects": {frozen: ruleset.ReasonUnavailable,
			before: states(stamp(10)), nodes: fleet(30), change: func(nodes []*corev1.Node) {
				release(nodes)
				nodes[0].Labels = nil
			}, want: states("Ended")},
		"a frozen rule in dry-run": {frozen: ruleset.ReasonUnavailable,
			rule:   func(r *build.RuleWrapper) { r.DryRun(true) },
			before: states(stamp(10), "", "", ""), nodes: fleet(30),
			want: states("Ended", "Ended", "Ended", "Ended"), at: now},
		"a frozen rule in dry-run that another controller acts on": {frozen: ruleset.ReasonOtherController,
			rule:   func(r *build.RuleWrapper) { r.DryRun(true) },
			before: states(stamp(10)), nodes: fleet(30), want: states(stamp(10)), at: 10},
		"a rule whose evidence is being read decides later": {frozen: ruleset.ReasonPending, before: armed,
			nodes: fleet(1, 1, 1), silent: quiet("n1", "n2", "n3", "n4"), want: armed, at: 39},
		"a rule whose evidence is being read, to the end": {frozen: ruleset.ReasonPending, before: armed,
			nodes: fleet(1, 40), want: states("", "Ended", "", ""), at: 39},
		"a rule whose evidence is being read, and nodes that come back, or stay lost": {frozen: ruleset.ReasonPending,
			before: states("Ended", "Marked", stamp(10), "Marked"), nodes: fleet(), change: func(nodes []*corev1.Node) {
				nodes[0].Labels = nil
				for _, n := range nodes[2:] {
					n.Status.Conditions[0].Status = corev1.ConditionUnknown
				}
			}, want: map[string]string{"n2": "", "n3": stamp(10), "n4": "Marked"}, at: 10},
		"a suspended rule whose evidence is being read": {frozen: ruleset.ReasonPending,
			rule:   func(r *build.RuleWrapper) { r.Suspend(true) },
			before: states("Ended", "Marked", stamp(10), ""), nodes: fleet(),
			want: map[string]string{"n3": "Ended", "n4": "Ended"}, at: now},
		"a rule in dry-run whose evidence is being read": {frozen: ruleset.ReasonPending,
			rule:   func(r *build.RuleWrapper) { r.DryRun(true) },
			before: armed, nodes: fleet(1), want: states("Ended", "Ended", "Ended", "Ended"), at: now},
		"a rule that is frozen": {frozen: ruleset.ReasonUnavailable, before: armed, nodes: fleet(1),
			want: states("Ended", "Ended", "Ended", "Ended"), at: now},
		"no endpoints": {rule: func(r *build.RuleWrapper) { r.EvictionGuard(60) }, nodes: fleet()},
		"no room for one more node": {before: states("", "", ""), nodes: fleet(), room: &Room{bytes: sizeOfNode("n4") - 1},
			left: 1, want: states("", "", "")},
		"room for one more node": {before: states("", "", ""), nodes: fleet(), room: &Room{bytes: sizeOfNode("n4")},
			want: armed},
		"no room for a lost node": {before: map[string]string{"n2": "", "n3": "", "n4": ""}, nodes: fleet(1),
			room: &Room{}, left: 1, want: map[string]string{"n2": "", "n3": "", "n4": ""}},
		"what is in the object needs no more room": {before: armed, nodes: fleet(1), silent: quiet("n1", "n2"),
			room: &Room{}, want: states(stamp(39), "", "", ""), kept: 1},
		"no room for one more rule":   {nodes: fleet(1), room: &Room{bytes: maxEndpointsBytes}, left: 4},
		"no room for the rule's name": {nodes: fleet(), room: &Room{rules: 1, bytes: 150}, left: 4},
		"room for the rule and a node": {nodes: fleet()[:1],
			room: &Room{rules: 1, bytes: sizeOfRule("link") + sizeOfNode("n1")}, want: states("")},
		"what is none": {before: states("nonsense", "", "", ""), nodes: fleet(1), want: states("Ended", "", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			r := endpoints()
			if c.rule != nil {
				c.rule(r)
			}
			in := Endpoints{Rule: ruleset.Compile(r.Obj(), nil, at(-86400)), Nodes: c.nodes, Now: at(0),
				Leases: func() map[string]Lease { return c.silent }, Done: func(string) bool { return c.done }, Room: c.room,
				Unread: sets.New(c.unread)}
			if c.before != nil {
				in.Stored = &endpointsv1alpha1.EndpointRule{Name: "link", UID: "u-link", ArmedUntil: metav1.NewTime(at(40)),
					Nodes: maps.Clone(c.before)}
			}
			if c.frozen != "" {
				in.Rule = in.Rule.Freeze(ruleset.Problem{Reason: c.frozen})
			}
			if c.noRule {
				in.Rule = nil
			}
			if c.change != nil {
				c.change(c.nodes)
			}
			p := PlanEndpoints(&in)
			var got map[string]string
			if p.Next != nil {
				got = p.Next.Nodes
				if p.Next.Name != "link" || p.Next.UID != "u-link" {
					t.Errorf("the object has them for %q, %q", p.Next.Name, p.Next.UID)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(p.Kept) != c.kept || p.Left != c.left {
				t.Errorf("%d nodes begin to be kept, want %d; %d have no room, want %d", len(p.Kept), c.kept, p.Left, c.left)
			}
			if c.at == 0 && KeepsEndpoints(in.Rule) {
				c.at = 10
			}
			if c.at != 0 && !p.At.Equal(at(max(c.at, 0))) {
				t.Errorf("the next look is at %s, want %s", p.At, at(max(c.at, 0)))
			}
		})
	}
}

// TestEndpointsAreArmedAgain: the time until which the policy acts without an operator is renewed each quarter.
func TestEndpointsAreArmedAgain(t *testing.T) {
	in := Endpoints{Rule: ruleset.Compile(endpoints().Obj(), nil, at(-86400)), Nodes: fleet()}
	for _, c := range []struct{ second, until int }{{0, 40}, {1, 40}, {9, 40}, {10, 50}, {30, 70}, {200, 240}} {
		in.Now = at(c.second).Add(300 * time.Millisecond)
		if c.second == 10 {
			in.Now = at(c.second)
		}
		in.Stored = PlanEndpoints(&in).Next
		if got := in.Stored.ArmedUntil; !got.Equal(&metav1.Time{Time: at(c.until)}) {
			t.Errorf("at second %d: armed until %s, want %s", c.second, got, at(c.until))
		}
	}
}

// TestRoom: what is armed has room in an outage, in which the state of each node is a time.
func TestRoom(t *testing.T) {
	const etcd = 1536 << 10 // bytes of a request, of which the object is nearly all
	object := &endpointsv1alpha1.KeptEndpoints{}
	room := RoomIn(nil)
	for i := 0; i == len(object.Rules); i++ {
		rule := endpointsv1alpha1.EndpointRule{Name: fmt.Sprintf("rule-%d", i), UID: strings.Repeat("u", 36),
			ArmedUntil: metav1.NewTime(at(0)), Nodes: map[string]string{}}
		if !room.addRule(rule.Name) {
			break
		}
		for n := 0; n == len(rule.Nodes); n++ {
			if name := fmt.Sprintf("ip-10-0-%027d.eu-west-1", n); room.addNode(name, n) {
				rule.Nodes[name] = stamp(0)
			}
		}
		object.Rules = append(object.Rules, rule)
	}
	entries := 0
	for i := range object.Rules {
		entries += len(object.Rules[i].Nodes)
	}
	data, err := json.Marshal(object)
	if err != nil || len(data) > etcd*95/100 || entries < 19_000 {
		t.Errorf("%d entries have %d bytes: %v", entries, len(data), err)
	}
	if left := RoomIn(object.Rules); *left != *room {
		t.Errorf("the object has room for %+v, want %+v", left, room)
	}
	room = RoomIn(nil)
	if !room.addNode("n", endpointsv1alpha1.MaxNodes-1) || room.addNode("n", endpointsv1alpha1.MaxNodes) {
		t.Error("the limit of a rule's nodes is not that of the CRD")
	}
	in := Endpoints{Rule: ruleset.Compile(endpoints().Obj(), nil, at(-86400)), Nodes: fleet(), Now: at(0),
		Room: RoomIn(nil), Stored: &endpointsv1alpha1.EndpointRule{Nodes: map[string]string{}}}
	for n := range endpointsv1alpha1.MaxNodes - 1 {
		in.Stored.Nodes[fmt.Sprint(n)] = EndpointsArmed
	}
	if left := PlanEndpoints(&in).Left; left != len(in.Nodes)-1 {
		t.Errorf("a rule with room for one more node leaves %d out", left)
	}
}
