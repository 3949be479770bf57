// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	writes = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "node_readiness_agent_config_writes_total",
		Help: "Writes of the node agents' configuration.",
	})
	size = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "node_readiness_agent_config_bytes",
		Help: "Size of the node agents' configuration. A ConfigMap holds 1 MiB.",
	})
	// current is exported by the leader, once it writes the configuration: an alert fires while it is 0 everywhere.
	current = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "node_readiness_agent_config_current",
		Help: "1 if the node agents' configuration is up to date, 0 if it could not be written or is too large. Only the " +
			"leader exports it, unless --agent-config is empty.",
	})
	exportCurrent = sync.OnceFunc(func() { metrics.Registry.MustRegister(current) })
)
