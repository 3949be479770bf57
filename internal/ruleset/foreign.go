// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// ReasonForeignRule means that a rule of another controller has the rule's taint.
const ReasonForeignRule = "ForeignRule"

// Foreign are the taints that another controller manages, each with the name of one of its rules, or no name if its
// rules cannot be read. An installation in Nodegate's own API group never writes them, not even if a record claims
// them.
type Foreign map[TaintID]string

// unread is in Foreign if these are only assumed, because the rules of another controller have not been read.
var unread = TaintID{}

// ForeignTaint returns the taint of another controller's rule, and whether that controller manages it: in dry-run it
// manages none. content is an object of any version of that controller's API.
func ForeignTaint(content map[string]any) (id TaintID, managed bool) {
	spec, _ := content["spec"].(map[string]any)
	taint, _ := spec["taint"].(map[string]any)
	key, _ := taint["key"].(string)
	effect, _ := taint["effect"].(string)
	dryRun, _ := spec["dryRun"].(bool)
	return TaintID{key, corev1.TaintEffect(effect)}, key != "" && !dryRun
}

// Add adds a taint that another controller's rule manages.
func (f Foreign) Add(name string, id TaintID) {
	if first, ok := f[id]; !ok || name < first { // the same one each time
		f[id] = name
	}
}

// Has reports whether another controller manages a taint.
func (f Foreign) Has(t *corev1.Taint) bool {
	if len(f) == 0 {
		return false
	}
	_, ok := f[TaintIDOf(*t)]
	return ok
}

// Problem returns the problem that another controller manages the rule's taint, or nil.
func (f Foreign) Problem(r *Rule) *Problem {
	if r.Taint == nil || !f.Has(r.Taint) {
		return nil
	}
	name, group := f[TaintIDOf(*r.Taint)], v1alpha1.GroupNames()[0]
	message := fmt.Sprintf("rule %s of another controller, in the API group %s, has the same key and effect: choose "+
		"another key, or delete that rule", name, group)
	switch {
	case name != "" && r.former.record != "":
		message = fmt.Sprintf("rule %s in the API group %s has the same key and effect: run kubectl nodegate convert --live "+
			"--to=%s again, which has not ended. If that says that nothing is to do, choose another key, or delete that rule",
			name, group, v1alpha1.Served().Name)
	case name == "":
		message = fmt.Sprintf("the rules of another controller, in the API group %s, cannot be read: one of them may have "+
			"the same key and effect. The operator's log has the error", group)
	}
	return &Problem{Field: "spec.taint", Reason: ReasonForeignRule, Message: message}
}

// AssumedForeign returns the taints of all rules except those of rules that are trusted not to have a foreign one.
func (s *Set) AssumedForeign(trusted func(*Rule) bool) Foreign {
	out := Foreign{unread: ""}
	for _, trust := range []bool{false, true} {
		for _, r := range s.rules {
			switch {
			case r.Taint == nil || trusted(r) != trust:
			case trust:
				delete(out, TaintIDOf(*r.Taint))
			default:
				out[TaintIDOf(*r.Taint)] = ""
			}
		}
	}
	return out
}

// PerhapsForeign reports whether another controller may manage a taint of no trusted rule, because its rules have not
// been read.
func (s *Set) PerhapsForeign(t *corev1.Taint) bool {
	_, assumed := s.foreign[unread]
	return assumed && (s.Manager(t) == nil || s.foreign.Has(t))
}

// Foreign returns the taints that another controller manages.
func (s *Set) Foreign() Foreign { return s.foreign }

// WithForeign returns the set with the taints that another controller manages. It freezes no rule; see Resolve.
func (s *Set) WithForeign(f Foreign) *Set {
	if len(f)+len(s.foreign) == 0 {
		return s
	}
	out := *s
	out.foreign = f
	return &out
}

// Yield returns the set after a change of the taints that another controller manages. A rule whose taint that
// controller no longer manages is put in force now: meanwhile, that controller may have released nodes. So a claim
// whose taint is gone ends, as after a suspension, and limits apply before the rule adds the taint again.
func (s *Set) Yield(f Foreign, now time.Time) *Set {
	rules, changed := slices.Clone(s.rules), false
	for i, r := range rules {
		if yields := f.Problem(r) != nil; yields != r.yielded {
			rules[i], changed = r.yield(yields, now), true
		}
	}
	if !changed {
		return s
	}
	return NewSet(rules...)
}

func (r *Rule) yield(yields bool, now time.Time) *Rule {
	out := *r
	out.yielded = yields
	if !yields && r.Mode == Enforced {
		out.yieldedSince = r.InForceSince
		if out.begin(now); !out.InForceSince.After(r.InForceSince) { // else its status could not be told from the former
			out.InForceSince = r.InForceSince.Add(time.Second)
		}
		if !r.GuardSince.IsZero() {
			out.GuardSince = out.InForceSince
		}
	}
	return &out
}

// freezeForeign returns the set with the rules frozen whose taint another controller manages. before is as in
// freezeInvalid. A rule that is being deleted or in dry-run removes its records: the plan for a node leaves the taint.
// That waits while the taint may be the rule's own: without a record, it would stay on the node.
func (s *Set) freezeForeign(f Foreign, before *Set) *Set {
	rules, broken := slices.Clone(s.rules), false
	for i, r := range rules {
		p := f.Problem(r)
		if p != nil && (r.Mode != Deleting && r.Mode != DryRun || f[TaintIDOf(*r.Taint)] == "") {
			rules[i], broken = r.FreezeLike(before.Rule(r.UID), *p), true
		}
	}
	if !broken {
		return s
	}
	return NewSet(rules...)
}

// inherited returns the nodes with the rule's taint by what the incumbent controller has written to the status. Unlike
// the operator, it does not write their state.
func inherited(obj *v1alpha1.NodeReadinessRule) map[string]struct{} {
	var nodes map[string]struct{}
	for _, e := range obj.Status.NodeEvaluations {
		if e.TaintStatus == v1alpha1.TaintPresent && e.State == "" {
			if nodes == nil {
				nodes = map[string]struct{}{}
			}
			nodes[e.NodeName] = struct{}{}
		}
	}
	return nodes
}
