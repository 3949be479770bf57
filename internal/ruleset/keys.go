// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"strings"
)

// ReasonForbiddenKey is the reason of a rule with a key on nodes that the installation does not allow.
const ReasonForbiddenKey = "ForbiddenKey"

// freezeForbidden returns the set with the rules frozen whose keys of taints or annotations on nodes have none of the
// prefixes. Without prefixes, all keys are allowed. before is as in freezeInvalid.
func (s *Set) freezeForbidden(prefixes []string, before *Set) *Set {
	if len(prefixes) == 0 {
		return s
	}
	rules, broken := slices.Clone(s.rules), false
	for i, r := range rules {
		if r.Mode == Deleting { // its taints must be removed
			continue
		}
		if p := r.Forbidden(prefixes); p != nil {
			rules[i], broken = r.FreezeLike(before.Rule(r.UID), *p), true
		}
	}
	if !broken {
		return s
	}
	return NewSet(rules...)
}

// KeyAllowed reports whether rules may have a key on nodes.
func KeyAllowed(prefixes []string, key string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// Forbidden returns the problem that a key of the rule on nodes has none of the prefixes, or nil. Without prefixes, all
// keys are allowed.
func (r *Rule) Forbidden(prefixes []string) *Problem {
	type key struct{ field, value string }
	keys := []key{{"spec.completionAnnotation", r.Spec.CompletionAnnotation}}
	if r.Spec.Taint != nil {
		keys = append(keys, key{"spec.taint.key", r.Spec.Taint.Key})
	}
	if t := r.Spec.Timeout; t != nil && t.Replace != nil && t.Replace.Annotation != nil {
		keys = append(keys, key{"spec.timeout.replace.annotation.key", t.Replace.Annotation.Key})
	}
	for _, k := range keys {
		if k.value != "" && !KeyAllowed(prefixes, k.value) {
			return &Problem{Field: k.field, Reason: ReasonForbiddenKey, Message: fmt.Sprintf("the key %q is not allowed: the "+
				"operator's flag --rule-key-prefixes allows keys that begin with %s", k.value, strings.Join(prefixes, ", "))}
		}
	}
	return nil
}
