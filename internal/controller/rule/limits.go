// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/text"
)

// limitCondition sets the condition that says what the rule's limits keep it from doing.
func limitCondition(m *fleet.Material, set setter) {
	switch {
	case !m.Rule.Limited():
		set(v1alpha1.ConditionBudgetExhausted, false, ReasonNoLimit, "The rule has no maxUnavailable and no limits")
	case m.Waiting+m.Unmarked > 0 && (len(m.Reached) > 0 || !m.Rule.Limit.Rated()):
		set(v1alpha1.ConditionBudgetExhausted, true, ReasonMaxUnavailable, "%s: %s%s: %s", waiting(m), reached(m),
			deletedPlaces(m), text.Few(slices.Concat(m.WaitingNodes, m.UnmarkedNodes), maxNames, m.Waiting+m.Unmarked))
	case m.Waiting > 0: // each node waits for the write of its time
		set(v1alpha1.ConditionBudgetExhausted, false, ReasonWithinBudget,
			"No limit is reached: the rule holds %s as soon as status.rate counts that",
			text.Plural(m.Waiting, "more node", "more nodes"))
	default:
		set(v1alpha1.ConditionBudgetExhausted, false, ReasonWithinBudget,
			"No node is exempt because of %s%s%s", limitField(m), unlabeled(m), deletedPlaces(m))
	}
}

// limitField is the field of the rule's limit.
func limitField(m *fleet.Material) string {
	if m.Rule.Spec.MaxUnavailable == nil {
		return "limits"
	}
	return "maxUnavailable"
}

// waiting says what limits keep the rule from doing, and on how many nodes.
func waiting(m *fleet.Material) string {
	var out []string
	if m.Waiting > 0 {
		out = append(out, text.Plural(m.Waiting, "node is", "nodes are")+" not ready but not held")
	}
	if m.Unmarked > 0 {
		out = append(out, fmt.Sprintf("condition %s is Unknown and not False on %s", m.Rule.Spec.Publishes(),
			text.Nodes(m.Unmarked)))
	}
	return strings.Join(out, ", ")
}

// reached says which limits keep nodes waiting.
func reached(m *fleet.Material) string {
	if m.Rule.Spec.MaxUnavailable == nil {
		return "these limits are reached: " + cmp.Or(strings.Join(m.Reached, "; "), m.Rule.Limit.String()) + unlabeled(m)
	}
	if m.Waiting == 0 {
		return fmt.Sprintf("maxUnavailable (%s) allows False on %s", m.Rule.Limit, text.Nodes(m.MaxUnavailable))
	}
	return fmt.Sprintf("maxUnavailable (%s) allows the rule to hold %d of %s in service", m.Rule.Limit, m.MaxUnavailable,
		text.Nodes(m.Released))
}

// unlabeled says how many nodes are in no failure domain.
func unlabeled(m *fleet.Material) string {
	out := strings.Builder{}
	if m.Places != nil {
		for i := range m.Places.Domains {
			if d := &m.Places.Domains[i]; d.Domain == "" && d.InService > 0 {
				fmt.Fprintf(&out, "; %s as one domain, without the label %s now or when they were held",
					text.Plural(int(d.InService), "node in service counts", "nodes in service count"), d.Per)
			}
		}
	}
	return out.String()
}

// deletedPlaces says how many places of the limit deleted nodes use, and what to do.
func deletedPlaces(m *fleet.Material) string {
	if m.Places == nil || m.Places.Deleted == 0 {
		return ""
	}
	return fmt.Sprintf("; %s, too, until new nodes become ready: find out what deletes nodes, or raise "+limitField(m),
		text.Plural(int(m.Places.Deleted), "node that was deleted while it was held counts",
			"nodes that were deleted while they were held count"))
}
