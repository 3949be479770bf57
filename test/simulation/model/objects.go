// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"
)

// Document is one version of an object. Key is its namespace and name; Into fills a struct with the fields of its JSON
// that the struct has; Memo keeps what was read from it. IntoBut leaves out one field, and Shared is a Memo of a rule's
// spec.
type Document interface {
	Key() string
	Into(out any)
	Memo(of string, build func() any) any
	IntoBut(out any, field string)
	Shared(of string, build func() any) any
}

type metadata struct {
	Name, UID         string
	Generation        int64
	OwnerReferences   []struct{ Kind, Name, UID string }
	Labels            map[string]string
	Annotations       map[string]string
	CreationTimestamp time.Time
	DeletionTimestamp *time.Time

	own string // its own UID, of a rule
}

type taint struct{ Key, Value, Effect string }

func (t taint) id() string { return t.Key + ":" + t.Effect }

type condition struct {
	Type, Status                          string
	Reason                                string
	ObservedGeneration                    int64
	LastHeartbeatTime, LastTransitionTime time.Time
}

// said is a condition of a rule.
type said struct {
	condition
	Message string
}

type node struct {
	Metadata metadata
	Spec     struct {
		Unschedulable bool
		ProviderID    string
		Taints        []taint
	}
	Status struct {
		Conditions  []condition
		Allocatable map[string]string
		NodeInfo    struct{ BootID string }
	}
	records map[string]*record // by rule, as far as they were read
	labels  domains            // if they were read
	keys    []string           // of records and markers, as they are on the node
}

type pod struct {
	Metadata metadata
	Spec     struct {
		NodeName   string
		Containers []struct{ ReadinessProbe *struct{} }
	}
	Status struct {
		Phase             string
		Conditions        []condition
		ContainerStatuses []struct {
			Ready bool
			State struct{ Running struct{ StartedAt time.Time } }
		}
	}
}

// ownedBy reports whether a DaemonSet of this name owns the pod.
func (p *pod) ownedBy(daemonSet string) bool {
	return slices.ContainsFunc(p.Metadata.OwnerReferences, func(o struct{ Kind, Name, UID string }) bool {
		return o.Kind == "DaemonSet" && o.Name == daemonSet
	})
}

type spec struct {
	NodeSelector selector
	Conditions   []struct {
		Type, RequiredStatus, DefaultStatus string
		MaxAgeSeconds                       int
	}
	Requirements    []requirement
	ConditionPolicy string
	Taint           taint
	EnforcementMode string
	RearmOn         []string
	ExistingNodes   string
	Stabilization   struct{ ReadySeconds, UnreadySeconds, MinHoldSeconds int }
	MaxUnavailable  json.RawMessage
	Limits          []limit
	Timeout         struct {
		Seconds       int
		AppearSeconds int
		Action        string
		Replace       struct {
			Method     string
			MaxPerHour int
		}
	}
	Publish       struct{ ConditionType string }
	EvictionGuard *struct {
		MaxHoldSeconds int
		Endpoints      *struct{ OutagePercent, MaxHoldSeconds int }
	}

	CompletionAnnotation, NodeAdmission, PodAdmission string
	DryRun, Suspend                                   bool
}

func (s *spec) bootstrap() bool { return s.EnforcementMode == "bootstrap-only" }
func (s *spec) rearms() bool    { return len(s.RearmOn) > 0 }
func (s *spec) enforced() bool  { return !s.DryRun && !s.Suspend }

type rule struct {
	listed   bool // it is an entry of the list for admission
	Metadata metadata
	Spec     spec
	Status   struct {
		ObservedGeneration int64
		Conditions         []said
		DryRunResults      struct{ NodesToTaint []string }
		Nodes              struct{ Matched, Ready, Held, Exempt, Failed, Pending int }
		InForce            struct{ StartTime time.Time }
		Limit              struct {
			InUse   int
			Deleted int
			Domains []struct {
				Per, Domain string
				InUse       int
			}
		}
		Rate struct{ ClaimTimes []time.Time }

		NodeEvaluations []evaluation
		Truncated       bool
		Replacements    struct{ Last []replacement }
	}
}

// read fills a new rule.
func (r *rule) read(d Document) {
	r.Spec = *d.Shared("model spec", func() any {
		var of struct{ Spec spec }
		d.Into(&of)
		for i := range of.Spec.Requirements {
			of.Spec.Requirements[i].finds()
		}
		return &of.Spec
	}).(*spec)
	d.IntoBut(r, "spec")
}

// invalid reports whether the rule has no evidence, or an invalid selector or expression. One that was written while a
// foreign CRD was served has lost fields.
func (r *rule) invalid() bool {
	none := len(r.Spec.Conditions)+len(r.Spec.Requirements) == 0
	return none || slices.ContainsFunc(r.Spec.Requirements, func(q requirement) bool {
		return q.DaemonSets != nil && !r.Spec.bootstrap() && (!r.Spec.limited() ||
			r.Spec.Taint.Effect == "NoExecute") || q.Pods != nil && !q.Pods.Selector.valid() ||
			q.CEL != nil && expressions[q.CEL.Expression] == nil
	})
}

// notInForce reports whether the status of the rule says so of its present generation.
func (r *rule) notInForce() bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c said) bool {
		return c.Type == "Ready" && c.Status == "False" && c.ObservedGeneration == r.Metadata.Generation
	})
}

// says is the condition of a type in the rule's status; zero if it has none.
func (r *rule) says(kind string) said {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return said{}
}

func (r *rule) key() string { return recordPrefix + r.Metadata.UID }

const (
	reasonPrefix = "NodegateRule" // of conditions that rules publish
	recordPrefix = "nodegate.io/rule-"
	markerPrefix = "readiness.k8s.io/bootstrap-completed-"
	override     = "nodegate.io/override"
	maintenance  = "nodegate.io/maintenance"
	unreachable  = "node.kubernetes.io/unreachable"
)

// record is of the operator's annotation what the documentation promises.
type record struct {
	Taint                         string
	Since, TimedOut, GuardedSince time.Time
	GuardEnded                    time.Time
	BootID, Published             string
	Released, RearmedAt           time.Time
	NotBefore, Former             time.Time
	Counted, Existing, Starting   bool
	Domains                       string
	Passed, Handed, Limited, Late bool
}

// started reports whether the start of the node has ended.
func (r record) started() bool {
	return r.Counted || r.Existing || !r.Released.IsZero() || !r.TimedOut.IsZero() || !r.RearmedAt.IsZero() && !r.Starting
}

// claim is the taint that a record claims, as key:effect.
func (r record) claim() string {
	if r.Taint == "" {
		return ""
	}
	key, effect, _ := strings.Cut(r.Taint, ":")
	key, _, _ = strings.Cut(key, "=")
	return key + ":" + effect
}

// claim is the taint that a rule's record on the node claims.
func (n *node) claim(ruleUID string) string { return n.record(ruleUID).claim() }

// claims are the taints that any record on the node claims.
func (n *node) claims() map[string]bool {
	out := map[string]bool{}
	for key := range n.Metadata.Annotations {
		if uid, ok := strings.CutPrefix(key, recordPrefix); ok {
			out[n.claim(uid)] = true
		}
	}
	return out
}

// claimsValue reports whether any record on the node claims a taint with its value.
func (n *node) claimsValue(t taint) bool {
	for key := range n.Metadata.Annotations {
		uid, ok := strings.CutPrefix(key, recordPrefix)
		if ok && n.record(uid).Taint == t.Key+"="+t.Value+":"+t.Effect {
			return true
		}
	}
	return false
}

// claimedByAnother reports whether another rule claims a taint: then a rule that claims it, too, does not adopt it.
// What a rule that is gone has claimed may be adopted.
func (v *View) claimedByAnother(n *node, ruleUID, taintID string) bool {
	for r := range v.rules() {
		if uid := r.Metadata.UID; uid != ruleUID && n.claim(uid) == taintID {
			return true
		}
	}
	return false
}

func (n *node) record(ruleUID string) record {
	if r := n.records[ruleUID]; r != nil {
		return *r
	}
	text := n.Metadata.Annotations[recordPrefix+ruleUID]
	if text == "" {
		return record{}
	}
	r := &record{}
	_ = json.Unmarshal([]byte(text), r)
	if n.records == nil {
		n.records = map[string]*record{}
	}
	n.records[ruleUID] = r
	return *r
}

func (n *node) has(taintID string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.id() == taintID })
}

// evicts reports whether the node has a NoExecute taint.
func (n *node) evicts() bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.Effect == "NoExecute" })
}

// condition is a node's condition of a type; zero if it has none.
func (n *node) condition(kind string) condition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// ours reports whether the operator has published the condition.
func (c *condition) ours() bool { return strings.HasPrefix(c.Reason, reasonPrefix) }

// undecided reports whether the rule that publishes the condition does not know whether the node is ready.
func (c *condition) undecided() bool {
	return c.Status == "Unknown" && (c.Reason == reasonPrefix+"Booting" || c.Reason == reasonPrefix+"EvidenceUnknown")
}

// reported is when the condition was reported.
func (c *condition) reported() time.Time {
	if c.LastHeartbeatTime.IsZero() {
		return c.LastTransitionTime
	}
	return c.LastHeartbeatTime
}

// counts is the status that counts: what is neither True nor False is Unknown.
func (c *condition) counts() string {
	if c.Status == "True" || c.Status == "False" {
		return c.Status
	}
	return "Unknown"
}

func (n *node) marked(r *rule) bool {
	_, ok := n.Metadata.Annotations[markerPrefix+r.Metadata.UID]
	return ok
}

// override is the action of the override annotation, and when it ends; zero: when the annotation is removed.
func (n *node) override() (action string, until time.Time) {
	action, end, ends := strings.Cut(n.Metadata.Annotations[override], ";until=")
	if ends {
		until, _ = time.Parse(time.RFC3339, end)
	}
	return action, until
}

// override is the action of the override that is in force on a node, by the time of the replica: a write that is under
// way when the override ends was made for it. A rule in dry-run ignores it.
func (v *View) override(n *node) string {
	action, until := n.override()
	if v.Rehearses || !until.IsZero() && !v.Now.Before(until) {
		return ""
	}
	return action
}

// lapsed reports whether a node has an override that has ended.
func (v *View) lapsed(n *node) bool {
	_, until := n.override()
	return !until.IsZero() && !v.Now.Before(until)
}

// each ranges over objects in the order of their names, so that a script fails in the same way each time.
func each[T any](of map[string]Document) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, d := range sorted(of) {
			if !yield(read[T](d)) {
				return
			}
		}
	}
}

// nodes ranges over the nodes in the order of their names, and rules over the rules.
func (v *View) nodes() iter.Seq[*node] { return inOrder(&v.reading().nodes, v.Nodes) }
func (v *View) rules() iter.Seq[*rule] { return inOrder(&v.reading().rules, v.Rules) }

func inOrder[T any](known *[]*T, of map[string]Document) iter.Seq[*T] {
	if *known == nil {
		*known = slices.Collect(each[T](of))
	}
	return slices.Values(*known)
}

func read[T any](d Document) *T {
	if d == nil {
		return nil
	}
	return d.Memo("model", func() any {
		out := new(T)
		if r, ok := any(out).(*rule); ok {
			r.read(d)
		} else {
			d.Into(out)
		}
		if of, ok := any(out).(interface{ continues() }); ok {
			of.continues()
		}
		return out
	}).(*T)
}
