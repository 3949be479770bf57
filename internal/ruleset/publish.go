// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"maps"
	"regexp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// qualifiedCondition is the grammar of a condition type that a rule publishes.
var qualifiedCondition = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/` +
	`[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// Publishable reports whether a rule may publish a condition of this type.
func Publishable(conditionType string) bool {
	return qualifiedCondition.MatchString(conditionType) && !v1alpha1.ReservedCondition(conditionType)
}

// publish validates the condition that a rule publishes.
func (v *validator) publish(p *v1alpha1.Publish) {
	switch {
	case p == nil:
	case v1alpha1.ReservedCondition(p.ConditionType):
		v.invalid("spec.publish.conditionType", "conditions under kubernetes.io and k8s.io belong to Kubernetes: use a "+
			"domain of your own, for example example.com/NetworkReady")
	case !qualifiedCondition.MatchString(p.ConditionType):
		v.invalid("spec.publish.conditionType", "%q is not a condition type with a domain, such as example.com/NetworkReady",
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

// Publishes reports whether a rule publishes a node condition.
func (s *Set) Publishes() bool { return len(s.publishers) > 0 }

// Displaced says, by the names of the rules for which it is so, why a rule does not publish a condition on a node with
// these labels: a probe of an older rule publishes it, or for the condition that the rule itself publishes, any probe
// or an older rule; of several such conditions it names the first. Probes of rules in dry-run and of suspended rules
// publish as well; the condition of a rule in dry-run is removed.
func (s *Set) Displaced(nodeLabels map[string]string) map[string]string {
	if !s.probes && len(s.publishers) == 0 {
		return nil
	}
	out, publisher := map[string]string{}, map[string]string{}
	take := func(r *Rule, conditionType string) {
		by, taken := publisher[conditionType]
		if !taken {
			publisher[conditionType] = r.Name
		} else if _, told := out[r.Name]; !told && by != r.Name {
			out[r.Name] = fmt.Sprintf("condition %s is published by the older rule %s", conditionType, by)
		}
	}
	for _, r := range s.rules {
		if r.Mode == Deleting || len(r.Spec.Probes) == 0 || !r.Matches(nodeLabels) {
			continue
		}
		for i := range r.Spec.Probes {
			take(r, r.Spec.Probes[i].ConditionType)
		}
	}
	if len(s.publishers) == 0 {
		return out
	}
	probed := maps.Clone(publisher)
	for _, r := range s.rules {
		t := r.Spec.Publishes()
		switch by := probed[t]; {
		case t == "" || r.Mode == Deleting || r.Mode == DryRun || !r.Matches(nodeLabels):
		case by != "":
			out[r.Name] = fmt.Sprintf("condition %s is published by a probe of rule %s", t, by)
		default:
			take(r, t)
		}
	}
	return out
}
