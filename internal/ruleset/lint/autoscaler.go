// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// The prefixes of taint keys that autoscalers know.
const (
	karpenterPrefix = "readiness.k8s.io/"
	startupPrefix   = "startup-taint.cluster-autoscaler.kubernetes.io/"
	ignorePrefix    = "ignore-taint.cluster-autoscaler.kubernetes.io/" // the former name of startupPrefix
	statusPrefix    = "status-taint.cluster-autoscaler.kubernetes.io/"
)

// By default, cluster-autoscaler stops scaling a cluster while more nodes than both of these are not ready.
const (
	autoscalerPercent = 45 // --max-total-unready-percentage
	autoscalerCount   = 3  // --ok-total-unready-count
)

// usualFleet is the assumed number of nodes if they are unknown.
const usualFleet = 1000

// karpenterStartup says what to do with Karpenter for a key that it does not know.
const karpenterStartup = "name it in startupTaints of Karpenter's NodePools"

// autoscalers warns about a taint that no autoscaler knows.
func (l *linter) autoscalers() {
	t := l.rule.Taint
	if !evidence.Repels(t) || autoscalerPrefix(t.Key) != "" { // autoscalers ignore PreferNoSchedule
		return
	}
	l.warn(UnknownToAutoscalers, "spec.taint.key",
		"no autoscaler treats %s as a startup taint, so an autoscaler may add more and more nodes for the pending pods: "+
			"%s, or in --startup-taint of cluster-autoscaler, or choose a key under %s "+
			"or %s", t.Key, karpenterStartup, karpenterPrefix, startupPrefix)
}

// autoscalerPrefix returns the prefix by which an autoscaler knows a key, or "" if none does.
func autoscalerPrefix(key string) string {
	for _, p := range []string{karpenterPrefix, startupPrefix, ignorePrefix, statusPrefix} {
		if strings.HasPrefix(key, p) {
			return p
		}
	}
	return ""
}

// Advice reports whether a code is advice, and not a warning.
func (c Code) Advice() bool { return c == StartupTaint || c == AutoscalerLimit }

// Advice returns what to configure in autoscalers. It depends on the autoscaler, so it is not a warning about the rule.
func Advice(rule *ruleset.Rule, facts Facts) []Warning {
	l := &linter{rule: rule, facts: facts}
	if t := rule.Taint; evidence.Repels(t) {
		l.startupTaint(t)
		l.autoscalerLimit(t)
	}
	return l.found
}

// startupTaint advises about an autoscaler that does not know the taint.
func (l *linter) startupTaint(t *corev1.Taint) {
	const field = "spec.taint.key"
	switch autoscalerPrefix(t.Key) {
	case karpenterPrefix:
		l.warn(StartupTaint, field, "Karpenter treats keys under %s as temporary while a node starts; with "+
			"cluster-autoscaler, pass --startup-taint-prefix=%s (1.36 and newer), or --startup-taint with the key",
			karpenterPrefix, karpenterPrefix)
	case startupPrefix, ignorePrefix:
		l.warn(StartupTaint, field, "cluster-autoscaler treats this key as a startup taint; with Karpenter, %s",
			karpenterStartup)
	case statusPrefix:
		l.warn(StartupTaint, field, "cluster-autoscaler counts nodes with this key as ready, and adds other nodes for "+
			"pending pods; "+
			"with Karpenter, %s", karpenterStartup)
	}
}

// autoscalerLimit advises about the limit of a continuous rule. A bootstrap-only rule taints only nodes that start.
func (l *linter) autoscalerLimit(t *corev1.Taint) {
	if l.rule.Spec.BootstrapOnly() || strings.HasPrefix(t.Key, statusPrefix) {
		return
	}
	// Other nodes may be not ready for other reasons, so the limit must be lower.
	all, most := usualFleet, l.rule.Limit.Of(usualFleet)
	if l.facts.Nodes != nil {
		var selected []string
		for _, n := range l.facts.selected(l.rule) {
			selected = append(selected, l.rule.Limit.Domains("", n.Labels))
		}
		all, most = len(l.facts.Nodes), l.rule.Limit.Most(selected)
	}
	if most <= autoscalerCount || most*100 < autoscalerPercent*all {
		return
	}
	field, lower := "spec.maxUnavailable", "maxUnavailable: 30%"
	if len(l.rule.Spec.Limits) > 0 {
		field, lower = "spec.limits", "an entry with only max: 30%"
	}
	l.warn(AutoscalerLimit, field, "cluster-autoscaler counts a node with a startup taint as not ready, and by default "+
		"stops scaling the whole cluster while more than %d nodes and more than %d%% are not ready: set a lower limit, such "+
		"as %s", autoscalerCount, autoscalerPercent, lower)
}
