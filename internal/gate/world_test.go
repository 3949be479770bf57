// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

func second(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }

// scene is a moment in the story of one node under one rule: what happened before it, and what is decided.
type scene struct {
	at    int // seconds after now
	tells string
	node  func(*build.NodeWrapper)
	rule  func(*build.RuleWrapper) // changes the rule for good
	// frozen is a problem that is not the rule's own; "-" ends it.
	frozen string
	// restarted: another process decides from now on.
	restarted bool
	// full: the limit has no room. evicted: what was due when the guard ended is evicted.
	full, evicted bool

	want string // State Reason, and the state of the guard, if there is one
	// taints are those that are on the node afterwards; "" for none.
	taints string
	// asks: the claim needs room under the limit.
	asks bool
	// record: texts that the record has afterwards. untouched: nothing changes.
	record    []string
	untouched bool
	// start is where the node is in its start.
	start Startup
	// expired: the node waits for its replacement.
	expired bool
}

// objective is the startup objective of all stories that look at the start.
const objective = 300 * time.Second

// tell plays a story. What is decided is applied to the node as package taints does, for a taint of one rule.
func tell(t *testing.T, r *build.RuleWrapper, n *build.NodeWrapper, scenes ...scene) {
	t.Helper()
	var compiled *ruleset.Rule
	var observed readiness.Observed
	obj := n.Obj()
	frozen := ""
	for i, s := range scenes {
		name := fmt.Sprintf("scene %d, %s", i+1, s.tells)
		if s.restarted {
			compiled, observed = nil, readiness.Observed{}
		}
		if s.rule != nil {
			s.rule(r.Generation(r.NodeReadinessRule.Generation + 1))
		}
		if s.node != nil {
			w := build.WrapNode(obj)
			s.node(w)
			obj = w.Obj()
		}
		if s.frozen != "" {
			frozen = strings.TrimPrefix(s.frozen, "-")
		}
		at := second(s.at)
		compiled = ruleset.Compile(r.Obj(), compiled, at)
		used := compiled
		if frozen != "" {
			used = compiled.Freeze(ruleset.Problem{Reason: frozen, Message: "x"})
		}
		override, _ := OverrideOf(obj, at)
		asked := false
		within := time.Duration(0)
		if s.start != "" {
			within = objective
		}
		out := DecideNode(&NodeInput{
			Node: obj, Swept: obj, Rules: ruleset.NewSet(used), Evidence: &readiness.Evidence{}, Override: override, Now: at,
			Observed: func(*ruleset.Rule) readiness.Observed { return observed },
			Reserve:  func(*ruleset.Rule, time.Time) bool { asked = true; return !s.full },
			Evicted:  func(*ruleset.Rule) bool { return s.evicted }, Objective: within,
		})
		d := out.Decisions[0]
		observed = out.Verdicts[0].Observed
		before := obj
		obj = carriedOut(obj, &d)
		got := strings.TrimSpace(fmt.Sprintf("%s %s %s", d.State, d.Reason, d.Hold.State))
		if taints := listed(obj); got != s.want || taints != s.taints || asked != s.asks {
			t.Fatalf("%s: %q with taints %q, asks %t; want %q, %q, %t (record %v)", name, got, taints, asked, s.want, s.taints,
				s.asks, obj.Annotations)
		}
		if d.Expired != s.expired || d.Expired && !Replaceable(used, obj, at) {
			t.Errorf("%s: expired is %t, by the node alone %t", name, d.Expired, Replaceable(used, obj, at))
		}
		if s.start != "" && string(d.Startup) != strings.TrimPrefix(string(s.start), "-") {
			t.Errorf("%s: the start is %q, not %q", name, d.Startup, s.start)
		}
		value := obj.Annotations[compiled.RecordKey()]
		for _, part := range s.record {
			if !strings.Contains(value, part) {
				t.Errorf("%s: the record is %s, without %s", name, value, part)
			}
		}
		if s.record != nil && len(s.record) == 0 && value != "" {
			t.Errorf("%s: the record is %s", name, value)
		}
		if s.untouched && (before.Annotations[compiled.RecordKey()] != value || listed(before) != s.taints) {
			t.Errorf("%s: the record was %s, and is %s", name, before.Annotations[compiled.RecordKey()], value)
		}
	}
}

// none is the record of a node that has none.
var none = []string{}

func listed(n *corev1.Node) string {
	var out []string
	for _, taint := range n.Spec.Taints {
		out = append(out, taint.Key)
	}
	return strings.Join(out, " ")
}

// carriedOut is the node as a decision leaves it.
func carriedOut(n *corev1.Node, d *Decision) *corev1.Node {
	if d.Frozen {
		return n
	}
	w := build.WrapNode(n)
	if was, err := ParseTaint(d.Was.Record.Taint); err == nil {
		w.Untaint(was.Key)
	} else if d.Manages() {
		w.Untaint(d.Rule.Taint.Key)
	}
	if d.Claim && d.Rule.Taint != nil {
		w.Taint(d.Rule.Taint.Key, d.Rule.Taint.Value, d.Rule.Taint.Effect)
	}
	w.Unannotate(d.Rule.RecordKey())
	if d.Record != (Record{}) {
		w.Annotation(d.Rule.RecordKey(), d.Record.Encode())
	}
	w.Unannotate(d.Rule.MarkerKey())
	if d.Marked {
		w.Annotation(d.Rule.MarkerKey(), "{}")
	}
	return w.Obj()
}
