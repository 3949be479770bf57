// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// domainKeys are the labels by which limits of stories count.
var domainKeys = []string{"example.com/rack", "topology.kubernetes.io/zone"}

// domains are the failure domains of a node: key=value for each of the keys.
type domains string

// labelled are the domains that the labels of a node say.
func (n *node) labelled() domains {
	if n.labels == "" {
		n.labels = n.in("")
	}
	return n.labels
}

// domains are those in which the limits of a rule count a node: those of its record, or else of its labels.
func (n *node) domains(r *rule) domains {
	if recorded := n.record(r.Metadata.UID).Domains; recorded != "" {
		return n.in(recorded)
	}
	return n.labelled()
}

func (n *node) in(recorded string) domains {
	var all []string
	for _, key := range domainKeys {
		value := n.Metadata.Labels[key]
		for pair := range strings.SplitSeq(recorded, ",") {
			if of, ok := strings.CutPrefix(pair, key+"="); ok {
				value = of
			}
		}
		all = append(all, key+"="+value)
	}
	return domains(strings.Join(all, ","))
}

// all are the domain "", in which all nodes are, and one of each key.
func (d domains) all() []string { return append([]string{""}, strings.Split(string(d), ",")...) }

// of is the domain of a key; of no key, the one of all nodes.
func (d domains) of(key string) string {
	for _, one := range d.all()[1:] {
		if key != "" && strings.HasPrefix(one, key+"=") {
			return one
		}
	}
	return ""
}

// counted notes in which domains a claim counts until it is released: the node may be moved meanwhile.
func (u *underRule) counted(shown *node, r *rule) {
	u.at, u.version = shown.domains(r), r.Metadata.Generation
}

// uses count the nodes of each domain that use a limit, some of them surely, and those that it is a share of.
type uses struct{ taken, sure, all map[string]int }

func newUses() *uses { return &uses{map[string]int{}, map[string]int{}, map[string]int{}} }

func (u *uses) take(at domains, sure bool) {
	for _, d := range at.all() {
		u.taken[d]++
		if sure {
			u.sure[d]++
		}
	}
}

// claim takes a place for a node that a rule claims, if the claim uses one.
func (u *uses) claim(n *node, r *rule, by *underRule) {
	if by.place(n) > 0 {
		u.take(n.domains(r), by.used && by.version == r.Metadata.Generation)
	}
}

func (u *uses) count(n *node) { u.counts(n.labelled()) }

func (u *uses) counts(at domains) {
	for _, d := range at.all() {
		u.all[d]++
	}
}

// open is the number of domains of a key in which nodes use the limit.
func (u *uses) open(key string) (n int) {
	for d := range u.taken {
		if strings.HasPrefix(d, key+"=") {
			n++
		}
	}
	return n
}

// stays: a held node keeps its place in the domain in which it was held until it is released, even if its label
// changes. The status counts the places.
func (m *Model) stays(r *rule, v *View) {
	if !r.Spec.limited() || !r.Spec.enforced() || v.frozen(r) != "" {
		return
	}
	least := newUses()
	for n := range v.nodes() {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		if n.claim(r.Metadata.UID) != "" && u.used && u.version == r.Metadata.Generation &&
			r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			least.take(u.at, true)
		}
	}
	for d, held := range sorted(least.taken) {
		key, value, _ := strings.Cut(d, "=")
		if d != "" && !r.Spec.per(key) {
			continue
		}
		counted := 0
		if d == "" {
			counted = r.Status.Limit.InUse
		}
		for _, s := range r.Status.Limit.Domains {
			if s.Per == key && s.Domain == value {
				counted = s.InUse
			}
		}
		m.check("stays", counted >= held, "the status of rule %s counts %d held nodes in %q, and there are %d",
			r.Metadata.Name, counted, d, held)
	}
}
