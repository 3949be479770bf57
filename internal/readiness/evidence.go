// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Cause says why a piece of evidence counts as it does.
type Cause string

// The causes.
const (
	// CauseReported: it is as it was reported.
	CauseReported Cause = "Reported"
	// CauseMissing: nobody has reported it.
	CauseMissing Cause = "Missing"
	// CauseDefault: nobody has reported it, and the rule says what to assume then.
	CauseDefault Cause = "Default"
	// CauseStale: it has not been reported again within its maximum age.
	CauseStale Cause = "Stale"
	// CauseBeforeBoot: it was reported before the node's last boot.
	CauseBeforeBoot Cause = "BeforeBoot"
)

// judgement is what one piece of evidence is worth.
type judgement struct {
	satisfied bool
	status    v1alpha1.ConditionStatus
	cause     Cause
	since     time.Time // zero: it bears no time
	changesAt time.Time // zero: not by the passage of time
	heartbeat time.Time
	// awaits: a heartbeat alone would turn it.
	awaits bool
	// revived: at the latest at this heartbeat it ceased to be too old; zero: it never can have been. The transition time
	// does not tell, where a condition is reported again as it was.
	revived time.Time
}

// judge looks at one required condition.
func judge(c *v1alpha1.ConditionRequirement, facts *Facts, now time.Time) judgement {
	found := findCondition(facts.Node, c.Type)
	if found == nil {
		return judgeMissing(c)
	}
	j := judgement{
		status: v1alpha1.ConditionStatus(found.Status), cause: CauseReported,
		since: found.LastTransitionTime.Time, heartbeat: found.LastHeartbeatTime.Time,
	}
	j.satisfied = j.status == c.RequiredStatus
	if j.heartbeat.IsZero() {
		j.heartbeat = j.since
	}
	if j.since.Before(facts.NotBefore) {
		j.since = facts.NotBefore // what was so before the boot has to show itself again
	}
	// What is too old counts as Unknown. That makes no difference where Unknown is worth the same.
	ages := j.satisfied != (c.RequiredStatus == v1alpha1.ConditionUnknown)
	if j.heartbeat.Before(facts.NotBefore) {
		return j.tooOld(CauseBeforeBoot, facts.NotBefore, ages)
	}
	maxAge := c.MaxAge()
	if maxAge > 0 {
		var expires time.Time // what bears no time is stale, nobody knows since when
		if !j.heartbeat.IsZero() {
			expires = j.heartbeat.Add(maxAge)
		}
		if !now.Before(expires) {
			return j.tooOld(CauseStale, expires, ages)
		}
		if ages {
			j.changesAt = expires
		}
	}
	if ages && (maxAge > 0 || !facts.NotBefore.IsZero()) {
		j.revived = j.heartbeat
	}
	return j
}

func judgeMissing(c *v1alpha1.ConditionRequirement) judgement {
	j := judgement{status: v1alpha1.ConditionUnknown, cause: CauseMissing}
	if c.DefaultStatus != "" {
		j.status, j.cause = c.DefaultStatus, CauseDefault
	}
	j.satisfied = j.status == c.RequiredStatus
	return j
}

// tooOld is the judgement where evidence counts as Unknown since some time, which turns it or not.
func (j judgement) tooOld(cause Cause, since time.Time, turns bool) judgement {
	j.status, j.cause, j.awaits = v1alpha1.ConditionUnknown, cause, turns
	if turns {
		j.satisfied, j.since = !j.satisfied, since
	}
	return j
}

func findCondition(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Result is one piece of evidence, spelled out.
type Result struct {
	// Type is the condition's type; empty for a requirement.
	Type string
	// Name is the requirement's name; empty for a condition.
	Name string
	// Status is the status that counts.
	Status v1alpha1.ConditionStatus
	// Required is the status that the rule requires.
	Required v1alpha1.ConditionStatus
	// Default is the status that was assumed, empty if none was.
	Default v1alpha1.ConditionStatus
	// Satisfied is whether the evidence holds.
	Satisfied bool
	// Cause says why Status is what it is.
	Cause Cause
	// Since is since when; zero if that is not known.
	Since time.Time
	// Heartbeat is when it was last reported; zero if it is not reported, or nobody knows when.
	Heartbeat time.Time
	// ChangesAt is when it turns by the passage of time alone; zero if it does not.
	ChangesAt time.Time
	// Message says it in words.
	Message string
}

// Results spells out each piece of evidence of a rule on a node, in the rule's order.
func Results(rule *ruleset.Rule, facts *Facts, now time.Time) []Result {
	out := make([]Result, 0, len(rule.Spec.Conditions)+len(rule.Requirements))
	for i := range rule.Spec.Conditions {
		c := &rule.Spec.Conditions[i]
		j := judge(c, facts, now)
		r := Result{Type: c.Type, Status: j.status, Required: c.RequiredStatus, Satisfied: j.satisfied, Cause: j.cause, Since: j.since,
			Heartbeat: j.heartbeat, ChangesAt: j.changesAt}
		if j.cause == CauseDefault {
			r.Default = c.DefaultStatus
		}
		r.Message = message(c, j)
		out = append(out, r)
	}
	for i := range rule.Requirements {
		q := &rule.Requirements[i]
		j := judgeRequirement(q, facts, now)
		out = append(out, Result{Name: q.Name, Status: j.status, Required: v1alpha1.ConditionTrue, Satisfied: j.satisfied,
			Cause: j.cause, Since: j.since, ChangesAt: j.changesAt, Message: describe(rule, q, facts, j.satisfied, now)})
	}
	return out
}

func message(c *v1alpha1.ConditionRequirement, j judgement) string {
	must := ""
	if !j.satisfied {
		must = fmt.Sprintf(", must be %s", c.RequiredStatus)
	}
	switch j.cause {
	case CauseMissing:
		return fmt.Sprintf("condition %s has not been reported%s", c.Type, must)
	case CauseDefault:
		return fmt.Sprintf("condition %s has not been reported and is assumed to be %s%s", c.Type, j.status, must)
	case CauseStale:
		if j.heartbeat.IsZero() {
			return fmt.Sprintf("condition %s does not say when it was reported, and must have been within %s%s", c.Type, c.MaxAge(), must)
		}
		return fmt.Sprintf("condition %s is stale: last reported at %s, at least %s ago%s",
			c.Type, j.heartbeat.UTC().Format(time.RFC3339), c.MaxAge(), must)
	case CauseBeforeBoot:
		return fmt.Sprintf("condition %s has not been reported since the node booted%s", c.Type, must)
	}
	return fmt.Sprintf("condition %s is %s%s", c.Type, j.status, must)
}

// Blocking is, in words, what keeps a rule from holding; empty if it holds.
func Blocking(rule *ruleset.Rule, results []Result) string {
	out := ""
	for _, r := range results {
		if r.Satisfied {
			if rule.Spec.AnyOf() {
				return ""
			}
			continue
		}
		if out != "" {
			out += "; "
		}
		out += r.Message
	}
	return out
}
