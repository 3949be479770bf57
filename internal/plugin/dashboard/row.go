// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/readiness"
)

// States of a node under a rule, the worst first.
const (
	Failed    = "Failed"    // the operator could not update the node
	Held      = "Held"      // the rule's taint is on the node
	Unknown   = "Unknown"   // evidence cannot be read
	WouldHold = "WouldHold" // the rule is in dry-run, and would add its taint
	Pending   = "Pending"   // the operator is about to add the taint
	Exempt    = "Exempt"    // not ready, but not held
	Ready     = "Ready"
	None      = "None" // no rule selects the node
)

var states = []string{Failed, Held, Unknown, WouldHold, Pending, Exempt, Ready, None}

// Node is a node in short, as the stream sends it. The names are short because there may be 15,000.
type Node struct {
	Name    string `json:"n"`
	State   string `json:"s"` // the worst under any rule
	Created int64  `json:"c"` // in seconds since 1970, as all times here
	Group   string `json:"g,omitempty"`
	Rules   []Pair `json:"r,omitempty"`

	NotReady    bool   `json:"nr,omitempty"` // its condition Ready is not True
	Override    *Note  `json:"o,omitempty"`
	Maintenance *Note  `json:"m,omitempty"`
	Problem     string `json:"p,omitempty"` // why the override has no effect
}

// Note is an annotation that a person wrote.
type Note struct {
	Value string `json:"v"`
	Since int64  `json:"t,omitempty"` // 0 if it is not known
	Until int64  `json:"u,omitempty"`
}

// Pair is the state of a node under a rule.
type Pair struct {
	Rule   string   `json:"u"`
	State  string   `json:"s"`
	Reason string   `json:"y,omitempty"` // not for Ready
	Since  int64    `json:"t,omitempty"`
	Waits  []string `json:"w,omitempty"` // the evidence that is missing
	New    bool     `json:"b,omitempty"` // the node was never released
}

func (n *Node) same(o *Node) bool {
	note := func(a, b *Note) bool { return a == b || a != nil && b != nil && *a == *b }
	return n.State == o.State && n.Created == o.Created && n.NotReady == o.NotReady && n.Problem == o.Problem &&
		note(n.Override, o.Override) && note(n.Maintenance, o.Maintenance) &&
		slices.EqualFunc(n.Rules, o.Rules, func(a, b Pair) bool {
			return a.Rule == b.Rule && a.State == b.State && a.Reason == b.Reason && a.Since == b.Since && a.New == b.New &&
				slices.Equal(a.Waits, b.Waits)
		})
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// nodeOf returns a node in short, by the decisions about it. failed are the rules that the operator could not carry out
// on the node.
func nodeOf(node *corev1.Node, d *explain.Decided, known explain.Evidence, failed map[string]string,
	now time.Time) *Node {
	n := &Node{Name: node.Name, State: None, Created: seconds(node.CreationTimestamp.Time)}
	c := condition.Find(node, string(corev1.NodeReady))
	n.NotReady = c == nil || c.Status != corev1.ConditionTrue
	if value, ok := node.Annotations[v1alpha1.OverrideAnnotation]; ok {
		o, err := nodeview.OverrideOf(node, now)
		n.Override = &Note{Value: value, Since: annotatedAt(node, v1alpha1.OverrideAnnotation), Until: seconds(o.Until)}
		if err != nil {
			n.Problem = err.Error()
		}
	}
	if reason, _ := v1alpha1.Maintenance(node.Annotations, now); reason != "" {
		n.Maintenance = &Note{Value: reason, Since: annotatedAt(node, v1alpha1.MaintenanceAnnotation)}
	}
	for i := range d.Decisions {
		pair := pairOf(node, d, i, known)
		if reason, bad := failed[pair.Rule]; bad {
			pair.State, pair.Reason = Failed, reason
		}
		if pair.State != "" {
			n.Rules = append(n.Rules, pair)
		}
	}
	sort.Slice(n.Rules, func(i, j int) bool {
		a, b := &n.Rules[i], &n.Rules[j]
		return cmp.Or(slices.Index(states, a.State)-slices.Index(states, b.State), strings.Compare(a.Rule, b.Rule)) < 0
	})
	if len(n.Rules) > 0 {
		n.State = n.Rules[0].State
	}
	return n
}

func pairOf(node *corev1.Node, all *explain.Decided, i int, known explain.Evidence) Pair {
	d, verdict := &all.Decisions[i], &all.Decisions[i].Verdict
	p := Pair{Rule: d.Rule.Name, State: string(d.State), Reason: d.Reason,
		New: d.Was.Fresh(&d.Was.Record), Since: seconds(verdict.Changed)}
	unread := slices.ContainsFunc(d.Rule.Requirements, func(r evidence.Requirement) bool { return known.Unread(&r) != "" })
	switch {
	case all.Holds(i, node):
		p.State = Held
		if since := d.Was.Record.Since.Time; !since.IsZero() {
			p.Since = seconds(since)
		} else {
			p.Since = seconds(node.CreationTimestamp.Time) // tainted when it was created
		}
	case d.State == "":
		return p
	case unread:
		p.State, p.Reason = Unknown, "Unread"
	case d.WouldClaim:
		p.State = WouldHold
	case d.State == v1alpha1.NodeStateHeld && d.Rule.Taint != nil:
		p.State = Pending
	case d.State == v1alpha1.NodeStateHeld: // a rule without a taint holds nothing
		p.State = Exempt
	case d.State == v1alpha1.NodeStateReady:
		p.Reason, p.Since, p.New = "", 0, false
	}
	if !verdict.Ready && p.State != Ready {
		p.Waits = waits(verdict)
	}
	return p
}

// waits returns the names of the evidence that is missing.
func waits(v *readiness.Verdict) (out []string) {
	for i := range v.Results {
		r := &v.Results[i]
		switch {
		case r.Satisfied:
		case r.Type != "":
			out = append(out, "condition "+r.Type)
		default:
			out = append(out, "requirement "+r.Name)
		}
	}
	return out
}
