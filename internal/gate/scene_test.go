// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/story"
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
	start state.Startup
	// expired: the node waits for its replacement.
	expired bool
	// why is what an event says of the change.
	why string
}

// objective is the startup objective of all stories that look at the start.
const objective = 300 * time.Second

// tell plays a story: each scene is a pass of package story, whose patch is applied. It returns the node.
func tell(t *testing.T, r *build.RuleWrapper, n *build.NodeWrapper, scenes ...scene) *corev1.Node {
	t.Helper()
	w := story.NewWorld(t, r)
	obj := n.Obj()
	for i, s := range scenes {
		name := fmt.Sprintf("scene %d, %s", i+1, s.tells)
		if s.restarted {
			w.Restart()
		}
		if s.rule != nil {
			s.rule(r.Generation(r.NodeReadinessRule.Generation + 1))
		}
		if s.node != nil {
			changed := build.WrapNode(obj)
			s.node(changed)
			obj = changed.Obj()
		}
		if s.frozen != "" {
			w.Frozen = strings.TrimPrefix(s.frozen, "-")
		}
		w.Refuse, w.Evicted, w.Objective = nil, s.evicted, 0
		if s.full {
			w.Refuse = []string{r.Name}
		}
		if s.start != "" {
			w.Objective = objective
		}
		before := obj
		after, _, decisions := w.Pass(before, second(s.at))
		obj = after
		d := decisions[0]
		got := strings.TrimSpace(fmt.Sprintf("%s %s %s", d.State, d.Reason, d.Hold.State))
		if taints := listed(obj); got != s.want || taints != s.taints || w.Asked != s.asks {
			t.Fatalf("%s: %q with taints %q, asks %t; want %q, %q, %t (record %v)", name, got, taints, w.Asked, s.want,
				s.taints, s.asks, obj.Annotations)
		}
		if d.Expired != s.expired || d.Expired && !replace.Replaceable(d.Rule, obj, second(s.at)) {
			t.Errorf("%s: expired is %t, by the node alone %t", name, d.Expired, replace.Replaceable(d.Rule, obj, second(s.at)))
		}
		if why := d.Changed(false); s.why != "" && why != s.why {
			t.Errorf("%s: it changes because %s, not because %s", name, why, s.why)
		}
		if s.start != "" && string(d.Startup) != strings.TrimPrefix(string(s.start), "-") {
			t.Errorf("%s: the start is %q, not %q", name, d.Startup, s.start)
		}
		value := obj.Annotations[d.Rule.RecordKey()]
		for _, part := range s.record {
			if !strings.Contains(value, part) {
				t.Errorf("%s: the record is %s, without %s", name, value, part)
			}
		}
		if s.record != nil && len(s.record) == 0 && value != "" {
			t.Errorf("%s: the record is %s", name, value)
		}
		if s.untouched && (before.Annotations[d.Rule.RecordKey()] != value || listed(before) != s.taints) {
			t.Errorf("%s: the record was %s, and is %s", name, before.Annotations[d.Rule.RecordKey()], value)
		}
	}
	return obj
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
