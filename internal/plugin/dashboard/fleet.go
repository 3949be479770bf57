// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// maxGroups is from how many values on a label makes no groups, as kubernetes.io/hostname.
const maxGroups = 200

// Fleet is what concerns no single node.
type Fleet struct {
	Identity Identity `json:"identity"`
	// Status is what "kubectl nodegate status -o json" prints.
	Status   *report.RuleStatusList `json:"status"`
	Rules    map[string]RuleView    `json:"rules"`
	Problems []string               `json:"problems,omitempty"` // of the operator, its webhooks and the CRD
	Gaps     []string               `json:"gaps,omitempty"`     // what cannot be read, or not be watched
	Labels   []string               `json:"labels,omitempty"`   // by which nodes can be grouped
	Loading  bool                   `json:"loading,omitempty"`  // rules or nodes were not read yet
	Lost     int64                  `json:"lost,omitempty"`     // since when the API server does not answer
	Why      string                 `json:"why,omitempty"`
}

// RuleView is what is shown of a rule beside its status.
type RuleView struct {
	Sentence string `json:"sentence"`
	DryRun   bool   `json:"dryRun,omitempty"`
	Limit    *Limit `json:"limit,omitempty"`
}

// Limit is a rule's maxUnavailable or limits.
type Limit struct {
	Text    string                  `json:"text"` // as in the rule
	Max     int                     `json:"max"`
	InUse   int32                   `json:"inUse"`
	Deleted int32                   `json:"deleted,omitempty"`
	Domains []v1alpha1.DomainStatus `json:"domains,omitempty"`
}

// fleetView returns what concerns no single node.
func (l *Live) fleetView(now time.Time) *Fleet {
	stored := l.stored()
	f := &Fleet{Identity: l.Identity, Status: report.Statuses(stored), Rules: map[string]RuleView{}, Labels: l.labels,
		Problems: slices.Clone(l.problems), Loading: !l.loaded || !l.ruled}
	f.Status.Operator, f.Status.ManagedBy = l.operator, l.managers
	if l.frozen != nil {
		f.Status.Frozen = l.frozen.Message
		f.Problems = append(f.Problems, "The operator changes nothing for any rule: "+l.frozen.Message)
	}
	if o := l.operator; o != nil && !o.Leads {
		f.Problems = append(f.Problems, fmt.Sprintf("The operator does not run: its lease was renewed %s ago.",
			report.Age(now.Truncate(time.Minute), o.RenewedAt.Time)))
	}
	if len(l.managers) > 0 {
		f.Problems = append(f.Problems, "Another tool may manage the CRD, and replace it with its own: "+
			strings.Join(l.managers, ", ")+".")
	}
	for i := range stored {
		s := &f.Status.Items[i] // both are in the order of the names
		view := RuleView{DryRun: stored[i].Spec.DryRun, Sentence: sentence(s), Limit: l.limits[s.Rule]}
		if s.Message != "" {
			f.Problems = append(f.Problems, "Rule "+s.Rule+": "+s.Message)
		}
		f.Rules[s.Rule] = view
	}
	f.Gaps, f.Lost, f.Why = l.connection.gaps()
	f.Gaps = append(f.Gaps, l.unread...)
	for _, rule := range l.set.All() {
		if p := l.evidence.Unavailable(rule); p != nil && p.Reason == ruleset.ReasonUnavailable {
			f.Gaps = append(f.Gaps, "Rule "+rule.Name+": "+p.Message)
		}
	}
	return f
}

// limitsNow returns the limits of the rules, by the operator's report of their use.
func (l *Live) limitsNow(now time.Time) map[string]*Limit {
	released, out := map[string]int{}, map[string]*Limit{}
	for _, r := range l.rows {
		for i := range r.Rules {
			if !r.Rules[i].New {
				released[r.Rules[i].Rule]++
			}
		}
	}
	for name, stored := range l.rules {
		rule := l.set.Named(name)
		if rule == nil || !rule.Limited() {
			continue
		}
		limit := &Limit{Text: rule.Limit.String(), Max: rule.Limit.Of(released[name])}
		if rule.Limit.ByDomain() {
			limit.Max = l.uses(rule, now).Allowed()
		}
		if s := stored.Status.Limit; s != nil {
			limit.InUse, limit.Deleted, limit.Domains = s.InUse, s.Deleted, s.Domains
		}
		out[name] = limit
	}
	return out
}

// uses returns what count did in this round.
func (l *Live) uses(rule *ruleset.Rule, now time.Time) *limit.Limit {
	if l.counted[rule.Name] == nil {
		l.counted[rule.Name] = l.count(rule, now)
	}
	return l.counted[rule.Name]
}

// count returns the uses of a rule's limits by all nodes, since the rule's status lists only some domains, and by the
// places of deleted nodes.
func (l *Live) count(rule *ruleset.Rule, now time.Time) *limit.Limit {
	out, n := limit.New(rule.Limit, true, func(a, b int32) bool { return a < b }), int32(0)
	for _, node := range l.nodes {
		if s := nodeview.StateOf(rule, node, now); s.Concerns(rule, node) {
			out.Recount(n, limit.Node{}, limit.Node{Counted: s.Counted, Claimed: s.Claimed, Marked: s.MarkedFalse}, s.Domains)
			n++
		}
	}
	if stored := l.rules[rule.Name]; stored != nil && stored.Status.Limit != nil {
		out.Restore(stored.Status.Limit, 0, nil, now)
	}
	return out
}

// labelsNow returns the labels by which nodes can be grouped.
func (l *Live) labelsNow() []string {
	values := map[string]map[string]bool{}
	for _, node := range l.nodes {
		for k, v := range node.Labels {
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			if len(values[k]) < maxGroups {
				values[k][v] = true
			}
		}
	}
	maps.DeleteFunc(values, func(_ string, v map[string]bool) bool { return len(v) >= maxGroups })
	return slices.Sorted(maps.Keys(values))
}

// gaps returns what cannot be read or watched, and since when no request succeeds.
func (c *connection) gaps() (out []string, lost int64, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.denied)) {
		out = append(out, c.denied[what])
	}
	for _, what := range slices.Sorted(maps.Keys(c.polled)) {
		out = append(out, fmt.Sprintf("You have no permission to watch %s: they are listed every %s.", what, pollEvery))
	}
	if !c.lost.IsZero() {
		why = c.why
	}
	return out, seconds(c.lost), why
}

// sentence tells the state of a rule.
func sentence(s *report.RuleStatus) string {
	state := map[string]string{"InForce": "In force", "DryRun": "Dry-run: the rule changes no node",
		"Suspended":            "Suspended: the operator changes nothing for the rule",
		report.StateUnreported: "The operator has not reported on the rule yet"}[s.State]
	if state == "" {
		state = s.State
	}
	if s.Paused != nil {
		state = "Paused with kubectl nodegate pause: the operator changes nothing for the rule"
	}
	n := s.Nodes
	if n == nil {
		return state + "."
	}
	if n.Matched == 0 {
		return state + ". It selects no nodes."
	}
	text := fmt.Sprintf("%s. Of %s, %d ready, %d held, %d exempt", state, report.Plural(int(n.Matched), "node", "nodes"),
		n.Ready, n.Held, n.Exempt)
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d could not be updated", n.Failed)
	}
	if n.Pending > 0 {
		text += fmt.Sprintf(", %d not evaluated yet", n.Pending)
	}
	if s.BudgetExhausted {
		text += ". The limit is used up: some nodes that are not ready are not held, or not published as False"
	}
	return text + "."
}

func sameFleet(a, b *Fleet) bool { return equality.Semantic.DeepEqual(a, b) }
