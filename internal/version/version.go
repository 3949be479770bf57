// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version says which version of Nodegate this is.
package version

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Version is set when a release is built, with -ldflags "-X
// github.com/nodegate/nodegate/internal/version.Version=v1.2.3".
var Version = "dev"

// Commit is the commit that the binary was built from, "unknown" if that was not recorded.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// BuildInfo is a metric that is always 1 and has the version as labels.
func BuildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "node_readiness_build_info",
		Help:        "Always 1; the labels say which version runs.",
		ConstLabels: prometheus.Labels{"version": Version, "commit": Commit(), "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
