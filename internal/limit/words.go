// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Why says which limit keeps a node in some domains from using the limits, or "" if there is room.
func (l *Limit) Why(u Use, domains string) string { return l.why(l.cell(domains), u) }

// why says which limit keeps a node of the cell from being used, and in which domain. It returns "" if there is room.
func (l *Limit) why(c *cell, u Use) string {
	e, d := c.full(u)
	if e == nil {
		return ""
	}
	what, in := "are held already", ""
	if u == Marks {
		what = "are already False"
	}
	if e.Per != "" {
		in = fmt.Sprintf("the domain %s of %s", quoted(d.name), e.Per)
	}
	name := l.rule.name(e.index)
	switch {
	case e.MaxDomains != nil && *e.MaxDomains == 0:
		return fmt.Sprintf("%s allows no domain of %s (maxDomains: 0)", name, e.Per)
	case e.MaxDomains == nil && e.number == 0:
		return fmt.Sprintf("%s allows no node (%s)", name, describe(e.Limit))
	case e.MaxDomains != nil:
		return fmt.Sprintf("nodes %s in %s, and this node is in %s: there is room when all of %s are ready%s",
			strings.TrimSuffix(what, " already"), d.inUseBy(u, e, name), quoted(d.name), d.missing(u, e),
			gone(d.group.deleted))
	case d.held(u) == 0: // a percentage of no nodes
		return fmt.Sprintf("%s allows %s of the nodes in service%s, and there are none: a node is in service when it was "+
			"ready once", name, e.Max, prefixed(" in ", in))
	}
	text := fmt.Sprintf("as many nodes%s as %s allows (%s) %s", prefixed(" of ", in), name, e.Max, what)
	switch more := d.held(u) - e.allows(d.inService) + 1; {
	case l.rule.short || more > d.taken[u]:
	case more > 1: // the limit was edited
		text += fmt.Sprintf(", and there is room when %d of them are ready", more)
	default:
		text += ", and there is room when one of them is ready"
	}
	return text + gone(d.deleted)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// gone says how many places deleted nodes use, and what to do.
func gone(nodes int) string {
	switch nodes {
	case 0:
		return ""
	case 1:
		return "; one of these nodes was deleted, and counts until a new node becomes ready: find out what deletes nodes, " +
			"or raise the limit"
	}
	return fmt.Sprintf("; %d of these nodes were deleted, and count until new nodes become ready: find out what deletes "+
		"nodes, or raise the limit", nodes)
}

// inUseBy says in which domains a limit of their number is used.
func (d *domain) inUseBy(u Use, e *entry, name string) string {
	var open []string
	for _, o := range d.group.domains {
		if o.held(u) > 0 {
			open = append(open, quoted(o.name))
		}
	}
	text := "as many domains of %s as %s allows (maxDomains: %d), %s"
	if len(open) > int(*e.MaxDomains) { // the limit was edited
		text = "more domains of %s than %s allows (maxDomains: %d), %s"
	}
	return fmt.Sprintf(text, d.group.key, name, *e.MaxDomains, few(open))
}

// missing says how many domains must become ready before there is room in this one.
func (d *domain) missing(u Use, e *entry) string {
	other := ""
	if d.held(u) > 0 {
		other = "other "
	}
	if n := d.others(u) - int(*e.MaxDomains) + 1; n > 1 {
		return fmt.Sprintf("%d %sdomains", n, other)
	}
	return "one " + other + "domain"
}

// Reached says which limits keep nodes waiting, and in which domains.
func (l *Limit) Reached() []string {
	domains := map[int][]string{}
	for _, c := range l.cells {
		for u := range kinds {
			if e, d := c.full(u); e != nil && c.waiting[u].Len() > 0 {
				domains[e.index] = append(domains[e.index], quoted(d.name))
			}
		}
	}
	var out []string
	for _, i := range slices.Sorted(maps.Keys(domains)) {
		text := fmt.Sprintf("%s (%s)", l.rule.name(i), describe(&l.rule.entries[i]))
		if l.rule.entries[i].Per != "" {
			slices.Sort(domains[i])
			text += " in " + few(slices.Compact(domains[i]))
		}
		out = append(out, text)
	}
	return out
}

func quoted(domain string) string { return `"` + domain + `"` }

// few lists the first names in alphabetical order.
func few(names []string) string {
	slices.Sort(names)
	if more := len(names) - 3; more > 0 {
		names = append(slices.Clone(names[:3]), "...")
	}
	return strings.Join(names, ", ")
}
