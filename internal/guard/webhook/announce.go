// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reasons and the action of events on pods, nodes and rules.
const (
	reasonEvictionDenied    = "EvictionDenied"
	reasonEvictionRehearsed = "EvictionWouldBeDenied"

	actionDenyEviction = "DenyEviction"
)

var (
	denials = fleet.NewCounterByRule("node_readiness_guard_denials_total",
		"Deletions of pods that this replica has denied, by rule. The node controller tries each five times.")
	guardedPods = fleet.NewCounterByRule("node_readiness_guarded_pods_total",
		"Pods whose deletion this replica has denied, by rule. Each pod counts once while a guard is active.")
	rehearsals = fleet.NewCounterByRule("node_readiness_guard_rehearsals_total",
		"Deletions of pods that a rule in dry-run would have denied, by rule.")
)

// reported holds what has been reported. The node controller tries each pod five times, and a node has many pods: they
// must not cause as many events.
type reported struct {
	once sync.Once
	seen *lru.Cache
}

// remembered is the size of that memory: the pods of a hundred nodes.
const remembered = 16384

// ruleEventEvery is the least time between two events about a rule, for any number of nodes.
const ruleEventEvery = 10 * time.Minute

type report struct {
	about any // a UID, or a name
	rule  string
	hold  time.Time
}

// first reports whether this was not reported before, and records it.
func (t *reported) first(what report) bool {
	t.once.Do(func() { t.seen = lru.New(remembered) })
	if _, ok := t.seen.Get(what); ok {
		return false
	}
	t.seen.Add(what, true)
	return true
}

// announce emits events about a denial: one on the pod and one on the node for each active guard, and from time to time
// one on the rule, for all its nodes.
func (h *Handler) announce(pod *corev1.Pod, node *corev1.Node, d *guard.Decision) {
	rule := d.Rule
	denials.WithLabelValues(rule.Name).Inc()
	since := d.Hold.Since
	if !h.reported.first(report{pod.UID, rule.Name, since}) {
		return
	}
	guardedPods.WithLabelValues(rule.Name).Inc()
	h.event(pod, rule.Reference(), reasonEvictionDenied, "%s", d.Message)
	if h.reported.first(report{node.UID, rule.Name, since}) {
		h.event(node, rule.Reference(), reasonEvictionDenied, "Rule %s guards the pods of this node against eviction, "+
			"first pod %s/%s", rule.Name, pod.Namespace, pod.Name)
	}
	if h.reported.first(report{rule.UID, rule.Name, h.Clock.Now().Truncate(ruleEventEvery)}) {
		h.event(rule.Reference(), node, reasonEvictionDenied, "Pods of node %s, and possibly of others, are guarded "+
			"against eviction",
			node.Name)
	}
}

// announceRehearsal emits an event about a deletion that a rule in dry-run would have denied.
func (h *Handler) announceRehearsal(pod *corev1.Pod, node *corev1.Node, rule *ruleset.Rule) {
	rehearsals.WithLabelValues(rule.Name).Inc()
	if h.reported.first(report{about: pod.UID, rule: rule.Name}) {
		h.event(pod, rule.Reference(), reasonEvictionRehearsed, "Rule %s is in dry-run; if enforced, it would have denied "+
			"the eviction of this pod from node %s", rule.Name, node.Name)
	}
	if h.reported.first(report{about: node.UID, rule: rule.Name}) {
		h.event(rule.Reference(), node, reasonEvictionRehearsed, "If enforced, the rule would have denied evictions from "+
			"node %s",
			node.Name)
	}
}

func (h *Handler) event(regarding, related runtime.Object, reason, format string, args ...any) {
	h.Recorder.Eventf(regarding, related, corev1.EventTypeWarning, reason, actionDenyEviction, format, args...)
}
