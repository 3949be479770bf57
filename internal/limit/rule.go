// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Rule are the limits of a rule. The zero value is no limit.
type Rule struct {
	entries []v1alpha1.Limit
	// keys are the labels that the entries have in per, each once.
	keys []string
	// short says that the rule has maxUnavailable, which is one entry.
	short bool
}

// Of returns the limits of a spec.
func Of(spec *v1alpha1.NodeReadinessRuleSpec) Rule {
	if spec.MaxUnavailable != nil {
		return Rule{entries: []v1alpha1.Limit{{Max: spec.MaxUnavailable}}, short: true}
	}
	r := Rule{entries: spec.Limits}
	for i := range r.entries {
		if key := r.entries[i].Per; key != "" && !slices.Contains(r.keys, key) {
			r.keys = append(r.keys, key)
		}
	}
	return r
}

// Set reports whether there is a limit.
func (r Rule) Set() bool { return len(r.entries) > 0 }

// ByDomain reports whether a limit counts failure domains.
func (r Rule) ByDomain() bool { return len(r.keys) > 0 }

// Total reports whether a limit bounds how many of all nodes the rule holds at a time.
func (r Rule) Total() bool {
	return slices.ContainsFunc(r.entries, func(e v1alpha1.Limit) bool { return total(&e) })
}

// String returns the limits for people.
func (r Rule) String() string {
	var texts []string
	for i := range r.entries {
		texts = append(texts, describe(&r.entries[i]))
	}
	return strings.Join(texts, ", ")
}

// total reports whether an entry bounds how many of all nodes the rule holds at a time.
func total(e *v1alpha1.Limit) bool { return e.Per == "" && e.WithinSeconds == nil }

func describe(e *v1alpha1.Limit) string {
	switch {
	case e.WithinSeconds != nil:
		return fmt.Sprintf("%s within %s", e.Max.String(), within(e))
	case e.MaxDomains != nil:
		return fmt.Sprintf("in %d %s", *e.MaxDomains, e.Per)
	case e.Per != "":
		return fmt.Sprintf("%s per %s", e.Max.String(), e.Per)
	}
	return e.Max.String()
}

// name names an entry as users find it in the rule.
func (r Rule) name(entry int) string {
	if r.short {
		return "maxUnavailable"
	}
	return fmt.Sprintf("limits[%d]", entry)
}

// Of returns how many of the nodes in service the rule may hold at a time, wherever they are.
func (r Rule) Of(inService int) int {
	most := -1
	for i := range r.entries {
		if e := &r.entries[i]; total(e) {
			if n := Scaled(e.Max, inService); most < 0 || n < most {
				most = n
			}
		}
	}
	if most < 0 {
		return inService
	}
	return most
}

// Most returns how many of the nodes in service in these domains the rule may hold at a time. Each is a node's, as
// Domains has it.
func (r Rule) Most(nodes []string) int {
	l := New(r, false, nil)
	for i, domains := range nodes {
		l.Recount(int32(i), Node{}, Node{Counted: true}, domains)
	}
	return l.Allowed()
}

// Scaled returns a number, or a percentage of nodes, which is rounded up.
func Scaled(limit *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, of, true)
	if err != nil || n < 0 {
		return 0 // invalid: such a rule is frozen and never gets here
	}
	return n
}

// Problems returns the invalid fields of a spec's limits, and why each is invalid.
func Problems(spec *v1alpha1.NodeReadinessRuleSpec) map[string]string {
	out := map[string]string{}
	if m := spec.MaxUnavailable; m != nil {
		number(out, "spec.maxUnavailable", m)
		if len(spec.Limits) > 0 {
			out["spec.limits"] = "cannot be combined with maxUnavailable, which is short for one entry with max"
		}
	}
	for i := range spec.Limits {
		e, field := &spec.Limits[i], fmt.Sprintf("spec.limits[%d]", i)
		switch {
		case (e.Max == nil) == (e.MaxDomains == nil):
			out[field] = "needs either max or maxDomains"
		case e.MaxDomains != nil && (e.Per == "" || *e.MaxDomains < 0 || e.WithinSeconds != nil):
			out[field+".maxDomains"] = "must not be negative, and needs per"
		case e.WithinSeconds != nil && (e.Per != "" || e.Max.Type == intstr.String || e.Max.IntVal < 1 ||
			e.Max.IntVal > v1alpha1.MaxRate || *e.WithinSeconds < 1):
			out[field+".withinSeconds"] = fmt.Sprintf("must be at least 1, and needs max, a number from 1 to %d, without per",
				v1alpha1.MaxRate)
		case e.Max != nil:
			number(out, field+".max", e.Max)
		}
		if e.Per != "" {
			if problems := validation.IsQualifiedName(e.Per); len(problems) > 0 {
				out[field+".per"] = strings.Join(problems, "; ")
			}
		}
	}
	return out
}

func number(out map[string]string, field string, m *intstr.IntOrString) {
	if n, err := intstr.GetScaledValueFromIntOrPercent(m, 100, true); err != nil || n < 0 || m.Type == intstr.String &&
		n > 100 {
		out[field] = fmt.Sprintf("must be a number from 0 on, or a percentage such as 30%%, not %q", m.String())
	}
}

// Domains returns the domains of a node, as a record keeps them: key=value for each label that the rule has in per. The
// domains that a record has already stay. A node without the label is in the domain "". It returns "" for a rule
// without domains.
func (r Rule) Domains(recorded string, labels map[string]string) string {
	var b strings.Builder
	for i, key := range r.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		value, known := valueIn(recorded, key)
		if !known {
			value = labels[key]
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(value)
	}
	return b.String()
}

// valueIn returns the value of a label in recorded domains.
func valueIn(domains, key string) (value string, known bool) {
	for pair := range strings.SplitSeq(domains, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}
