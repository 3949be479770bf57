// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import "github.com/nodegate/nodegate/api/v1alpha1"

// The warnings of rules that replace nodes.
var (
	// NoNodeClaim: the rule selects nodes that Karpenter did not create, and replaces nodes by their NodeClaims.
	NoNodeClaim = kind("NoNodeClaim")
	// ReplacedTwice: another rule may replace the same nodes, so that the limits of both add up.
	ReplacedTwice = kind("ReplacedTwice")
)

// replace warns about other rules that replace the same nodes, and about nodes without a NodeClaim.
func (l *linter) replace() {
	t := l.rule.Spec.Timeout
	if !t.Replaces() {
		return
	}
	for _, o := range l.overlapping() {
		if o.Spec.Timeout.Replaces() {
			l.warn(ReplacedTwice, "spec.timeout.replace.maxPerHour", "rule %s replaces nodes, too: on %s both may hand nodes "+
				"over, and maxPerHour of both adds up", o.Name, l.whereBoth(o))
		}
	}
	if t.Replace.MethodOrDefault() != v1alpha1.ReplaceMethodNodeClaim {
		return
	}
	selected, foreign := l.facts.selected(l.rule), 0
	for _, n := range selected {
		if _, ok := n.Labels[nodePoolLabel]; !ok {
			foreign++
		}
	}
	if foreign > 0 {
		l.warn(NoNodeClaim, "spec.timeout.replace.method", "%d of %d nodes that the rule selects do not have the label %s: "+
			"Karpenter did not create them, and they have no NodeClaim; select by that label, or use method: Annotation",
			foreign, len(selected), nodePoolLabel)
	}
}

// nodePoolLabel is the label of all nodes that Karpenter created.
const nodePoolLabel = "karpenter.sh/nodepool"
