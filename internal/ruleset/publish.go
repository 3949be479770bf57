// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Publishable reports whether a rule may publish a condition of this type.
func Publishable(conditionType string) bool {
	return qualifiedCondition.MatchString(conditionType) && !v1alpha1.ReservedCondition(conditionType)
}

// publish validates the condition that a rule publishes.
func (v *validator) publish(p *v1alpha1.Publish) {
	switch {
	case p == nil:
	case v1alpha1.ReservedCondition(p.ConditionType):
		v.Invalid("spec.publish.conditionType", "conditions under kubernetes.io and k8s.io belong to Kubernetes: use a "+
			"domain of your own, for example example.com/NetworkReady")
	case !qualifiedCondition.MatchString(p.ConditionType):
		v.Invalid("spec.publish.conditionType", "%q is not a condition type with a domain, such as example.com/NetworkReady",
			p.ConditionType)
	}
}

func (s *Set) addPublisher(r *Rule) {
	t := r.Spec.Publishes()
	if t == "" || r.Mode == Deleting {
		return
	}
	if s.publishers == nil {
		s.publishers = map[string][]*Rule{}
	}
	s.publishers[t] = append(s.publishers[t], r)
}

// HoldsByVerdict reports whether the rule holds nodes by its verdict alone, for /health or a published condition.
func (r *Rule) HoldsByVerdict() bool {
	return r.Taint == nil && (r.Spec.Health != nil || r.Spec.Publish != nil)
}

// keepsCondition reports whether younger rules may not publish the rule's condition. While its evidence is read for the
// first time, they may not either: otherwise each start of the operator would move the condition there and back.
func (r *Rule) keepsCondition() bool { return r.Mode == Enforced || r.Pending() && !r.Withdrawn() }

// Publishes reports whether a rule publishes a node condition.
func (s *Set) Publishes() bool { return len(s.publishers) > 0 }

// Displaced says why a rule does not publish conditions on a node. Each is empty if the rule publishes it.
type Displaced struct {
	Probe   string // the condition of a probe; of several, the first
	Verdict string // the rule's own condition
}

// Displaced returns, by name, the rules that do not publish one of their conditions on a node with these labels, and
// why not. A probe does not publish a condition if a probe of an older rule does. A rule does not publish its condition
// if any probe or an older rule does. Probes of suspended rules and of rules in dry-run publish, too. A rule in dry-run
// publishes no condition of its own, and a suspended or frozen rule leaves it to any other rule.
func (s *Set) Displaced(nodeLabels map[string]string) map[string]Displaced {
	if !s.probes && len(s.publishers) == 0 {
		return nil
	}
	out, publisher := map[string]Displaced{}, map[string]string{}
	take := func(r *Rule, conditionType string) string {
		by, taken := publisher[conditionType]
		if !taken {
			publisher[conditionType] = r.Name
		} else if by != r.Name {
			return fmt.Sprintf("condition %s is published by the older rule %s", conditionType, by)
		}
		return ""
	}
	for _, r := range s.rules {
		if r.Mode == Deleting || len(r.Spec.Probes) == 0 || !r.Matches(nodeLabels) {
			continue
		}
		for i := range r.Spec.Probes {
			if why := take(r, r.Spec.Probes[i].ConditionType); why != "" {
				out[r.Name] = Displaced{Probe: cmp.Or(out[r.Name].Probe, why)}
			}
		}
	}
	if len(s.publishers) == 0 {
		return out
	}
	probed := maps.Clone(publisher)
	for _, r := range s.rules {
		t, why := r.Spec.Publishes(), ""
		switch by := probed[t]; {
		case t == "" || !r.keepsCondition() || !r.Matches(nodeLabels):
		case by != "":
			why = fmt.Sprintf("condition %s is published by a probe of rule %s", t, by)
		default:
			why = take(r, t)
		}
		if why != "" {
			out[r.Name] = Displaced{Probe: out[r.Name].Probe, Verdict: why}
		}
	}
	return out
}
