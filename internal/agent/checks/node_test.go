// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
)

// fixed is a source that always knows the same.
type fixed Node

func (f fixed) Current() (Node, bool)     { return Node(f), true }
func (f fixed) Wait(context.Context) Node { return Node(f) }

func (f fixed) Addresses() []corev1.NodeAddress {
	if f.Object == nil {
		return nil
	}
	return f.Object.Status.Addresses
}

func TestNodeReady(t *testing.T) {
	since := time.Now()
	ready := func(status corev1.ConditionStatus, reason string) *corev1.Node {
		n := build.MakeNode("n").Condition("Ready", status, since).Obj()
		n.Status.Conditions[0].Reason = reason
		return n
	}
	const down = "no answer within 1s"
	for _, c := range []struct {
		name string
		node Node
		want Result
	}{
		{"True", Node{Object: ready(corev1.ConditionTrue, "KubeletReady")}, Pass()},
		{"False", Node{Object: ready(corev1.ConditionFalse, "KubeletNotReady")}, Fail("KubeletNotReady")},
		{"Unknown", Node{Object: ready(corev1.ConditionUnknown, "NodeStatusUnknown")}, Fail("NodeStatusUnknown")},
		{"False without a reason", Node{Object: ready(corev1.ConditionFalse, "")}, Fail("Ready is False")},
		{"no such condition", Node{Object: build.MakeNode("n").Obj()}, Fail("the node has no Ready condition")},
		{"no such node", Node{}, Fail("the node does not exist")},
		{"the API server is unavailable: passes even where the last was False",
			Node{Object: ready(corev1.ConditionFalse, "x"), Unavailable: down}, FailedOpen(down)},
		{"unavailable, and the last is trusted: False", Node{Object: ready(corev1.ConditionFalse, "x"), Unavailable: down,
			TrustLast: true}, Fail("x")},
		{"unavailable, and the last is trusted: True", Node{Object: ready(corev1.ConditionTrue, ""), Unavailable: down,
			TrustLast: true},
			FailedOpen("last known state: " + down)},
		{"unavailable, and there is no last", Node{Unavailable: down, TrustLast: true}, FailedOpen(down)},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := NodeReady(fixed(c.node))
			if diff := cmp.Diff(c.want, check.Run(t.Context())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got, ok := check.Instant(); !ok || got != c.want {
				t.Errorf("from memory: %+v, %t", got, ok)
			}
		})
	}
}

func TestChecksOfTheNodeWithoutItsName(t *testing.T) {
	for _, c := range Builtin(Environment{}, nil) {
		switch c.Name {
		case NameNodeReady, NameCustomConditions, NameSchedulable, NameRules:
			if diff := cmp.Diff(Misconfigured("NODE_NAME is not set"), NewRunner(c).Do(t.Context()).Result); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.Name, diff)
			}
		}
	}
}

func TestCustomConditions(t *testing.T) {
	now := time.Now()
	node := build.MakeNode("n").Condition("example.com/A", "True", now.Add(-time.Hour)).Condition("example.com/B", "False",
		now).Obj()
	for _, c := range []struct {
		name         string
		requirements []v1alpha1.ConditionRequirement
		types        []string
		want         Result
	}{
		{"none", nil, nil, Pass()},
		{"types must be True", nil, []string{"example.com/A"}, Pass()},
		{"and all that are not are told", nil, []string{"example.com/B", "example.com/C"},
			Fail("condition example.com/B is False, must be True; condition example.com/C has not been reported, must be True")},
		{"a requirement is judged as the rule judges it",
			[]v1alpha1.ConditionRequirement{{Type: "example.com/B", RequiredStatus: "False"},
				{Type: "example.com/C", RequiredStatus: "True", DefaultStatus: "True"}},
			nil, Pass()},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := CustomConditions(fixed(Node{Object: node}), []config.Rule{{Conditions: c.requirements}},
				&v1alpha1.CustomConditionsCheck{Types: c.types}).Instant()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a stale one counts as Unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := build.MakeNode("n").Condition("example.com/A", "True", time.Now()).Obj()
			fresh := []v1alpha1.ConditionRequirement{{Type: "example.com/A", RequiredStatus: "True",
				MaxAgeSeconds: new(int32(60))}}
			check := CustomConditions(fixed(Node{Object: n}), []config.Rule{{Conditions: fresh}}, nil)
			for _, want := range []bool{true, false} {
				if got, _ := check.Instant(); got.Passed != want {
					t.Errorf("at %s: passed is %t", time.Now(), got.Passed)
				}
				time.Sleep(time.Minute)
			}
		})
	})
}

func TestSchedulable(t *testing.T) {
	if got, _ := Schedulable(fixed(Node{Object: build.MakeNode("n").Obj()})).Instant(); got != Pass() {
		t.Errorf("got %+v", got)
	}
	cordoned := fixed(Node{Object: build.MakeNode("n").Cordoned().Obj()})
	if got, _ := Schedulable(cordoned).Instant(); got != Fail("the node is cordoned") {
		t.Errorf("got %+v", got)
	}
}

func TestMaintenance(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"": "", "false": "", "disk swap": "in maintenance: disk swap",
		"disk swap;until=2026-01-02T03:00:00Z": "", "; until= soon": "in maintenance: ; until= soon",
		"disk swap;until=2026-01-02T03:00:01Z": "in maintenance: disk swap until 2026-01-02T03:00:01Z",
		";until=2026-01-02T04:30:00+01:00":     "in maintenance: until 2026-01-02T03:30:00Z",
		"disk swap;until=tomorrow":             "in maintenance: disk swap;until=tomorrow",
	} {
		node := build.MakeNode("n").Obj()
		node.Annotations = map[string]string{v1alpha1.MaintenanceAnnotation: value}
		if got := Maintenance(node, now); got != want {
			t.Errorf("%q: got %q", value, got)
		}
	}
	if Maintenance(nil, now) != "" {
		t.Error("nothing known is maintenance")
	}
}

func TestRules(t *testing.T) {
	node := build.MakeNode("n").Condition("example.com/A", "True", time.Now()).Condition("example.com/B", "False",
		time.Now()).Obj()
	need := func(types ...string) (out []v1alpha1.ConditionRequirement) {
		for _, x := range types {
			out = append(out, v1alpha1.ConditionRequirement{Type: "example.com/" + x, RequiredStatus: "True"})
		}
		return out
	}
	const b = "condition example.com/B is False, must be True"
	elsewhere := FailedOpen("the rule requires evidence that the agent does not see")
	for _, c := range []struct {
		name   string
		record string // on the node; empty: none
		rule   config.Rule
		want   Result
	}{
		{"holds", "", config.Rule{Conditions: need("A")}, Pass()},
		{"does not hold", "", config.Rule{Conditions: need("A", "B")}, Fail(b)},
		{"one suffices", "", config.Rule{Conditions: need("A", "B"), AnyOf: true}, Pass()},
		{"one would suffice", "", config.Rule{Conditions: need("B"), AnyOf: true}, Fail(b)},
		{"more is needed than can be seen", "", config.Rule{Conditions: need("A"), Elsewhere: true}, elsewhere},
		{"what can be seen is lacking already", "", config.Rule{Conditions: need("B"), Elsewhere: true}, Fail(b)},
		{"what can be seen suffices", "", config.Rule{Conditions: need("A"), AnyOf: true, Elsewhere: true}, Pass()},
		{"what can be seen does not, the rest may", "", config.Rule{Conditions: need("B"), AnyOf: true, Elsewhere: true},
			elsewhere},
		{"nothing can be seen", "", config.Rule{AnyOf: true, Elsewhere: true}, elsewhere},
		{"the operator says Ready, regardless of what the agent sees", `{"health":"Ready"}`,
			config.Rule{Conditions: need("B"), Elsewhere: true}, Pass()},
		{"the operator says NotReady: what is seen here is the reason", `{"rule":"r","health":"NotReady"}`,
			config.Rule{Conditions: need("B")}, Fail(b)},
		{"NotReady, and nothing is seen here", `{"health":"NotReady"}`, config.Rule{Conditions: need("A"), Elsewhere: true},
			Fail("the operator holds the node: see the status of the rule")},
		{"a record without a verdict", `{"taint":"a=:NoSchedule"}`, config.Rule{Conditions: need("A"), Elsewhere: true},
			elsewhere},
		{"an unknown verdict", `{"health":"Splendid"}`, config.Rule{Conditions: need("A"), Elsewhere: true}, elsewhere},
		{"a record that cannot be read", `{{{`, config.Rule{Conditions: need("B")}, Fail(b)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.UID = "u1"
			judged := build.WrapNode(node).Annotation("nodegate.io/rule-u1",
				c.record).Annotation("nodegate.io/rule-u2", `{"health":"Ready"}`).Obj()
			if got, _ := Rule(fixed(Node{Object: judged}), c.rule).Instant(); got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("the verdict of the rule in the other API group counts until the record is moved", func(t *testing.T) {
		judged := build.WrapNode(node).Annotation("nodegate.io/rule-other", `{"rule":"other","health":"NotReady"}`).
			Annotation("nodegate.io/rule-former", `{"rule":"r","health":"Ready"}`)
		rule := config.Rule{Name: "r", UID: "u1", Conditions: need("B")}
		if got, _ := Rule(fixed(Node{Object: judged.Obj()}), rule).Instant(); got != Pass() {
			t.Errorf("got %+v", got)
		}
		judged.Annotation("nodegate.io/rule-u1", `{"rule":"r"}`)
		if got, _ := Rule(fixed(Node{Object: judged.Obj()}), rule).Instant(); got != Fail(b) {
			t.Errorf("with its own record: got %+v", got)
		}
	})
	t.Run("custom_conditions is about conditions, unless other evidence may do instead", func(t *testing.T) {
		for record, want := range map[string]Result{
			`{"health":"Ready"}`: Pass(), `{"health":"NotReady"}`: Fail(b), "": elsewhere,
		} {
			judged := fixed(Node{Object: build.WrapNode(node).Annotation("nodegate.io/rule-u1", record).Obj()})
			for _, elsewhere := range []bool{false, true} {
				allOf := []config.Rule{{UID: "u1", Conditions: need("B"), Elsewhere: elsewhere}}
				if got, _ := CustomConditions(judged, allOf, nil).Instant(); got != Fail(b) {
					t.Errorf("all must hold, other evidence, too (%t), record %s: got %+v", elsewhere, record, got)
				}
			}
			anyOf := []config.Rule{{UID: "u1", Conditions: need("B"), AnyOf: true, Elsewhere: true}}
			if got, _ := CustomConditions(judged, anyOf, nil).Instant(); got != want {
				t.Errorf("any may hold, record %s: got %+v", record, got)
			}
		}
	})
	t.Run("all together", func(t *testing.T) {
		source := fixed(Node{Object: node})
		x, y, z := config.Rule{Name: "x", Conditions: need("A")}, config.Rule{Name: "y", Conditions: need("B")},
			config.Rule{Name: "z", Elsewhere: true}
		for _, c := range []struct {
			rules []config.Rule
			want  Result
		}{
			{nil, Pass()},
			{[]config.Rule{x, z}, FailedOpen("z: " + elsewhere.FailOpen)},
			{[]config.Rule{x, y, z}, Fail("y: " + b)},
		} {
			if got, _ := Rules(source, c.rules).Instant(); got != c.want {
				t.Errorf("got %+v", got)
			}
		}
	})
}

// starved is a source that answers at once or, where it is waited for, far too late: as on a machine that is too busy.
type starved struct {
	Node
	free chan struct{}
}

func (s starved) Current() (Node, bool)           { return Node{}, false }
func (s starved) Addresses() []corev1.NodeAddress { return nil }

func (s starved) Wait(ctx context.Context) Node {
	if ctx.Err() == nil {
		<-s.free
	}
	return s.Node
}

func TestABusyMachineIsNotANodeThatIsNotReady(t *testing.T) {
	last := build.MakeNode("n").Condition("Ready", corev1.ConditionFalse, time.Now()).Obj()
	for _, c := range []struct {
		name string
		node Node
		want []Result
	}{
		{"it passes, visibly", Node{Object: last}, []Result{FailedOpen("timed out after 1.5s"),
			FailedOpen("still hanging after 2s")}},
		{"the last known state is trusted", Node{Object: last, TrustLast: true},
			[]Result{Fail("Ready is False"), Fail("Ready is False")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := starved{c.node, make(chan struct{})}
				for _, ofRules := range [][]Check{{NodeReady(source)}, {NodeReady(source), NodeReady(source)}} {
					g := NewSuite(nil, ofRules).Group(NameNodeReady)
					for _, want := range c.want {
						if diff := cmp.Diff(want, g.Do(t.Context()).Result); diff != "" {
							t.Errorf("-want +got:\n%s", diff)
						}
					}
				}
				close(source.free)
			})
		})
	}
}
