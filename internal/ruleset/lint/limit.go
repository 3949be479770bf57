// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/text"
)

// limit warns about a NoExecute taint without maxUnavailable, unless only new nodes can get it.
func (l *linter) limit() {
	l.domains()
	t, spec := l.rule.Taint, l.rule.Spec
	if t == nil || t.Effect != corev1.TaintEffectNoExecute || l.rule.Limit.Total() {
		return
	}
	when := "lose their evidence, for example when one reporter breaks"
	if spec.BootstrapOnly() {
		switch {
		case spec.ExistingNodesOrDefault() != v1alpha1.ExistingNodesAll && !spec.RearmsOnReboot():
			return
		case spec.ExistingNodesOrDefault() != v1alpha1.ExistingNodesAll:
			when = "reboot"
		default:
			when = "are not ready when the rule is created"
		}
	}
	u := l.unlimited("30%")
	l.warn(NoMaxUnavailable, u.field, "NoExecute without %s evicts the pods of %s if they %s: %s", u.without, u.nodes,
		when, u.cure)
}

// unlimited is what a warning says about a rule that has no limit for all nodes together: the field and the name of
// that limit, how many nodes the other limits allow, and what to do.
type unlimited struct{ field, without, nodes, cure string }

// unlimited returns the words about such a rule. most is an example of a limit.
func (l *linter) unlimited(most string) unlimited {
	if !l.rule.Limit.Set() {
		return unlimited{"spec.maxUnavailable", "maxUnavailable", "all nodes at once",
			"set a limit, such as maxUnavailable: " + most}
	}
	// maxUnavailable cannot be combined with limits.
	u := unlimited{"spec.limits", "a limit for all nodes together", "all nodes one after another",
		"add an entry with only max, such as max: " + most}
	var domains []string
	for _, n := range l.facts.selected(l.rule) {
		domains = append(domains, l.rule.Limit.Domains("", n.Labels))
	}
	switch {
	case !l.rule.Limit.ByDomain():
	case len(domains) == 0:
		u.nodes = "as many nodes at a time as the limits by failure domain allow"
	default:
		u.nodes = fmt.Sprintf("up to %d of %s at a time", l.rule.Limit.Most(domains), text.Nodes(len(domains)))
	}
	return u
}

// domains warns about failure domains that may lose most of their nodes, and about domains that are no limit.
func (l *linter) domains() {
	selected := l.facts.selected(l.rule)
	for i := range l.rule.Spec.Limits {
		e, field := &l.rule.Spec.Limits[i], fmt.Sprintf("spec.limits[%d]", i)
		if e.Per == "" || len(selected) == 0 {
			continue
		}
		sizes, missing := map[string]int{}, 0
		for _, n := range selected {
			if _, ok := n.Labels[e.Per]; !ok {
				missing++
			}
			sizes[n.Labels[e.Per]]++
		}
		switch {
		case e.MaxDomains != nil && *e.MaxDomains == 0: // it holds no node in service, with any label
		case 2*missing > len(selected):
			l.warn(FewDomains, field+".per", "%d of %s that the rule selects do not have the label %s: they are one domain, so "+
				"that maxDomains does not limit how many of them the rule holds, and max counts all of them together; check "+
				"the label", missing, text.Nodes(len(selected)), e.Per)
		case e.MaxDomains != nil && int(*e.MaxDomains) >= len(sizes):
			l.warn(FewDomains, field+".maxDomains", "this is no limit: the nodes that the rule selects have %d values of %s",
				len(sizes), e.Per)
		}
		if e.Max == nil || e.Max.Type == intstr.Int {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if n := limit.Scaled(e.Max, sizes[name]); 2*n > sizes[name] && limit.Scaled(e.Max, 100) <= 50 {
				l.warn(SmallDomains, field+".max", "%s of %s in the domain %q of %s, rounded up, "+
					"is %d: the rule may hold most nodes of small domains; use a number, or larger domains", e.Max,
					text.Nodes(sizes[name]), name, e.Per, n)
				break
			}
		}
	}
}
