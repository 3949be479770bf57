// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

type selector struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	}
}

func (s *selector) matches(labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if labels[k] != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, has := labels[e.Key]
		in := has && slices.Contains(e.Values, value)
		fits := false
		switch e.Operator {
		case "In":
			fits = in
		case "NotIn":
			fits = !in
		case "Exists":
			fits = has
		case "DoesNotExist":
			fits = !has
		}
		if !fits {
			return false
		}
	}
	return true
}

// valid reports whether the API server would take the selector for a watch.
func (s *selector) valid() bool {
	for _, e := range s.MatchExpressions {
		if slices.ContainsFunc(e.Values, func(v string) bool { return strings.Contains(v, " ") }) {
			return false
		}
	}
	return true
}

// String is the selector as a watch has it.
func (s *selector) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		parts = append(parts, k+"="+s.MatchLabels[k])
	}
	for _, e := range s.MatchExpressions {
		parts = append(parts, map[string]string{"Exists": e.Key, "DoesNotExist": "!" + e.Key}[e.Operator])
		if len(e.Values) > 0 {
			parts[len(parts)-1] = e.Key + " " + strings.ToLower(e.Operator) + " (" + strings.Join(e.Values, ",") + ")"
		}
	}
	return strings.Join(parts, ",")
}

type podsRequirement struct {
	Namespace string
	Selector  selector
	MinReady  int

	OwnerDaemonSet, ReadyWhen string
	ReadyAnnotation           struct{ Key, Value string }
	MinReadySeconds           *int
}

// watch is a watch of evidence.
type watch struct {
	kind, namespace string
	labels          selector
	key             string
}

// finds notes the watches that the requirement needs.
func (q *requirement) finds() {
	switch {
	case q.Pods != nil:
		q.needs = []watch{{kind: "pods", namespace: q.Pods.Namespace, labels: q.Pods.Selector}}
	case q.DaemonSets != nil:
		q.needs = []watch{{kind: "daemonsets", namespace: "apps"}, {kind: "pods", namespace: "apps"}}
	case q.CSIDriver != nil:
		q.needs = []watch{{kind: "csinodes"}}
	case q.Devices != nil:
		q.needs = []watch{{kind: "resourceslices"}}
	}
	for i := range q.needs {
		w := &q.needs[i]
		w.key = w.kind + ":" + w.namespace + "/" + w.labels.String()
	}
}

type requirement struct {
	Name       string
	DaemonSets *daemonSetsRequirement
	CSIDriver  *struct {
		Name           string
		MinAllocatable int
	}
	Devices *struct {
		Driver string
		Min    int
	}
	Pods          *podsRequirement
	Resource      *struct{ Name string } // the least quantity is 1
	RuleSatisfied *struct{ Name string }
	NoTaint       *struct{ Key, Effect string }
	CEL           *struct{ Expression string }

	needs []watch
}

// expressions are those of valid rules, as functions of a node. One that cannot be evaluated is unknown.
var expressions = map[string]func(*node) answer{
	`node.metadata.labels["example.com/pool"].matches("^(a|b)$")`: func(n *node) answer {
		pool, there := n.Metadata.Labels["example.com/pool"]
		return evaluated(there, pool == "a" || pool == "b")
	},
	`node.status.conditions.exists(c, c.type == "example.com/B" && c.status == "True")`: func(n *node) answer {
		return sure(n.condition("example.com/B").Status == "True")
	},
	`node.metadata.annotations["nodegate.io/maintenance"] != "true"`: func(n *node) answer {
		value, there := n.Metadata.Annotations[maintenance]
		return evaluated(there, value != "true")
	},
}

// evaluated is the answer of an expression that reads a label or an annotation, which the node may not have.
func evaluated(there, is bool) answer {
	if !there {
		return unknown
	}
	return sure(is)
}

type csiNode struct {
	Metadata metadata
	Spec     struct {
		Drivers []struct {
			Name        string
			Allocatable struct{ Count *int }
		}
	}
}

// drives reports whether the driver of a requirement is registered on a node, and attaches enough volumes.
func (q *requirement) drives(n *node, v *View) bool {
	for _, d := range v.Evidence["csinodes:/"] {
		c := read[csiNode](d)
		for _, driver := range c.Spec.Drivers {
			if c.Metadata.Name == n.Metadata.Name && driver.Name == q.CSIDriver.Name {
				return driver.Allocatable.Count == nil || *driver.Allocatable.Count >= q.CSIDriver.MinAllocatable
			}
		}
	}
	return false
}

type resourceSlice struct {
	Metadata metadata
	Spec     struct {
		Driver, NodeName string
		Pool             struct{ Generation, ResourceSliceCount int }
		Devices          []struct{ Taints []taint }
	}
}

// devices: those of the newest generation of the node's pool count that have no taint. Each driver of a story has one
// pool on a node. While a driver publishes it again, the last complete count stands, which is left open.
func (m *Model) devices(n *node, r *rule, q *requirement, v *View) answer {
	newest, published, count, complete := 0, 0, 0, false
	for _, d := range v.Evidence["resourceslices:/"] {
		s := read[resourceSlice](d)
		if s.Spec.NodeName != n.Metadata.Name || s.Spec.Driver != q.Devices.Driver ||
			s.Spec.Pool.Generation < newest {
			continue
		}
		if s.Spec.Pool.Generation > newest {
			newest, published, count = s.Spec.Pool.Generation, 0, 0
		}
		published++
		complete = published == s.Spec.Pool.ResourceSliceCount
		for _, device := range s.Spec.Devices {
			if len(device.Taints) == 0 {
				count++
			}
		}
	}
	if published > 0 && !complete {
		return unknown
	}
	return m.undated(n, r, count >= q.Devices.Min)
}

type daemonSetsRequirement struct {
	Selector                           selector
	Exclude                            []struct{ Namespace, Name string }
	MinMatching                        int
	MinReadySeconds, DisruptionSeconds *int
	Untolerated                        string
}

type daemonSet struct {
	Metadata metadata
	Spec     struct {
		MinReadySeconds int
		Template        struct {
			Spec struct {
				NodeSelector map[string]string
				Tolerations  []struct{ Key string }
				Volumes      []struct{ HostPath struct{ Path string } }
			}
		}
	}
}

// tolerates reports whether pods of the DaemonSet tolerate the taints of a key.
func (d *daemonSet) tolerates(key string) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Tolerations, func(t struct{ Key string }) bool {
		return t.Key == "" || t.Key == key
	})
}

// selects reports whether a requirement is about a DaemonSet.
func (q *daemonSetsRequirement) selects(d *daemonSet) bool {
	return d.Metadata.DeletionTimestamp == nil && q.Selector.matches(d.Metadata.Labels) &&
		!slices.ContainsFunc(q.Exclude, func(e struct{ Namespace, Name string }) bool { return e.Name == d.Metadata.Name })
}

// daemonSets: each DaemonSet that belongs on the node has a ready pod there.
func (m *Model) daemonSets(n *node, r *rule, q *daemonSetsRequirement, v *View) answer {
	found, belong := answers{}, 0
	if v.Compiling {
		return unknown
	}
	for _, doc := range v.Evidence["daemonsets:apps/"] {
		d := read[daemonSet](doc)
		fits := selector{MatchLabels: d.Spec.Template.Spec.NodeSelector}
		if !q.selects(d) || !fits.matches(n.Metadata.Labels) {
			continue
		}
		switch m.belongs(n, r, q, d, v) {
		case unknown:
			return unknown
		case yes:
			belong++
			found[m.daemon(n, r, q, d, v)]++
		}
	}
	switch {
	case found[no] > 0, belong < max(1, q.MinMatching):
		return no
	case found[unknown] > 0:
		return unknown
	}
	return yes
}

// belongs says whether a DaemonSet that fits a node belongs there by its tolerations. Taints of other rules make rules
// wait for each other, which is left open.
func (m *Model) belongs(n *node, r *rule, q *daemonSetsRequirement, d *daemonSet, v *View) answer {
	own := r.Spec.Taint
	for other := range v.rules() {
		if other.Spec.DryRun && v.frozenByOthers(other) == "" {
			continue // also if it is frozen
		}
		if t := other.Spec.Taint; t.Key != "" && !d.tolerates(t.Key) && (t.id() != own.id() || m.edits(other)) {
			return unknown
		}
	}
	for _, t := range n.Spec.Taints {
		if d.tolerates(t.Key) || t.Effect == "PreferNoSchedule" || strings.HasPrefix(t.Key, "node.kubernetes.io/") ||
			t.id() == own.id() && r.Spec.enforced() {
			continue
		}
		if strings.HasPrefix(t.Key, "example.com/t") {
			return unknown // of a rule that is or was there
		}
		return no
	}
	if own.Key != "" && own.Effect != "PreferNoSchedule" && !d.tolerates(own.Key) && q.Untolerated != "Hold" {
		return no
	}
	return yes
}

// deadlocked reports whether a rule is not in force by its status, and waits for a DaemonSet that waits for a rule that
// waits for it, or it requires such a rule in the end.
func (v *View) deadlocked(r *rule) bool {
	if r.notInForce() && r.says("Ready").Reason != "DryRun" { // else the rule is valid
		for other := range v.rules() {
			if (other == r || v.awaits(r, other, 0)) && v.awaits(other, other, 0) {
				return true
			}
		}
	}
	return false
}

// awaits reports whether a rule waits for another one in the end: it requires that rule, or a DaemonSet that does not
// tolerate that rule's taint. With anyOf it waits for no certain one.
func (v *View) awaits(r, other *rule, depth int) bool {
	if r.Spec.ConditionPolicy == "anyOf" {
		return false
	}
	for next := range v.rules() {
		for i := range r.Spec.Requirements {
			q := &r.Spec.Requirements[i]
			waits := q.RuleSatisfied != nil && q.RuleSatisfied.Name == next.Metadata.Name ||
				q.DaemonSets != nil && v.keepsAway(next, r, q.DaemonSets)
			if waits && (next == other || depth < len(v.Rules) && v.awaits(next, other, depth+1)) {
				return true
			}
		}
	}
	return false
}

// keepsAway reports whether a DaemonSet that a rule requires does not tolerate the taint of another rule.
func (v *View) keepsAway(other, r *rule, q *daemonSetsRequirement) bool {
	t := other.Spec.Taint
	return t.Key != "" && t.id() != r.Spec.Taint.id() && !other.Spec.DryRun && other.Metadata.DeletionTimestamp == nil &&
		slices.ContainsFunc(v.Evidence["daemonsets:apps/"], func(doc Document) bool {
			d := read[daemonSet](doc)
			return q.selects(d) && !d.tolerates(t.Key)
		})
}

// edits reports whether a rule has had several taints.
func (m *Model) edits(r *rule) bool {
	h := m.rules[r.Metadata.UID]
	return h == nil || len(h.taints) > 1
}

// of reports whether a DaemonSet owns a pod.
func (p *pod) of(d *daemonSet) bool {
	return slices.ContainsFunc(p.Metadata.OwnerReferences,
		func(o struct{ Kind, Name, UID string }) bool { return o.UID == d.Metadata.UID })
}

// daemonPod says whether a pod of a DaemonSet counts as ready on its node.
func (m *Model) daemonPod(n *node, r *rule, p *pod, least time.Duration, v *View) answer {
	h, is := m.node(n.Metadata.UID), p.readyFor(least, v.Now, m.skewed(n))
	switch {
	case is != no && p.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp):
		return unknown
	case is == yes && r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened:
		return m.sinceBoot(n, r, p, v)
	}
	return is
}

// daemon says whether a DaemonSet that belongs on a node counts as ready there.
func (m *Model) daemon(n *node, r *rule, q *daemonSetsRequirement, d *daemonSet, v *View) answer {
	least := time.Duration(*cmp.Or(q.MinReadySeconds, &d.Spec.MinReadySeconds)) * time.Second
	u, rec := m.node(n.Metadata.UID).under(r.Metadata.UID), n.record(r.Metadata.UID)
	best, replaced := no, true
	for _, doc := range v.Evidence["pods:apps/"] {
		if p := read[pod](doc); p.Spec.NodeName == n.Metadata.Name && p.Metadata.DeletionTimestamp == nil && p.of(d) {
			best = max(best, m.daemonPod(n, r, p, least, v))
			replaced = replaced && !p.Metadata.CreationTimestamp.Before(rec.Released)
		}
	}
	if best != no {
		return best
	}
	served := u.opened || u.perhaps || u.served || !rec.Released.IsZero() || m.existing(n, r) != no
	disrupted := q.DisruptionSeconds == nil || *q.DisruptionSeconds > 0
	switch {
	case served && !d.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp):
		return unknown // it may be later than the release
	case served && replaced && v.Process != 0 && disrupted:
		return unknown // it may be replaced, and counts meanwhile
	case m.rebooted(n, r) == yes && v.Process != 0:
		return unknown
	}
	return no
}
