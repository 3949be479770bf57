// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Reason and action of events on pods.
const (
	reasonEvicted        = "Evicted"
	reasonEvictionFailed = "EvictionFailed"
	actionEvict          = "EvictPod"
)

var evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "node_readiness_guard_evictions_total",
	Help: "Pods that the operator evicted because a rule's maxHoldSeconds had passed.",
}, []string{"rule"})

func init() { metrics.Registry.MustRegister(evictions) }

// ForgetRule deletes the metrics of a deleted rule.
func ForgetRule(rule string) { evictions.DeleteLabelValues(rule) }
