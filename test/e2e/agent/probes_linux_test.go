// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/needs"
)

// TestProbesOfADiskThatHangs: a stopped FUSE server is to the agent what a dead disk or NFS server is.
func TestProbesOfADiskThatHangs(t *testing.T) {
	const node = "hanging-disk"
	disk := needs.NewFUSE(t, "/ready", "/var/lib/kubelet/file")
	newNode(t, node)
	one, two := int32(1), int32(2)
	probe := func(name string) v1alpha1.Probe {
		return v1alpha1.Probe{ConditionType: name, PeriodSeconds: &one, TimeoutSeconds: &one, FailureThreshold: &two}
	}
	file, statfs, edited := probe("example.com/File"), probe("example.com/Disk"), probe("example.com/Edited")
	file.File = &v1alpha1.FileAction{Path: "/ready"}
	statfs.Check = "disk_pressure"
	edited.File = &v1alpha1.FileAction{Path: "/ready"}
	rules := newRules(t, config.Rule{Name: "r", Probes: []v1alpha1.Probe{file, statfs, edited}})
	startAgentWith(t, disk.Root, "127.0.0.1", node, account(t, node, watching),
		"--host-root=/proc/self/fd/3", "--config", rules)
	condition(t, node, "example.com/File", "True", "NodegateProbeSucceeded")
	condition(t, node, "example.com/Disk", "True", "NodegateProbeSucceeded")
	condition(t, node, "example.com/Edited", "True", "NodegateProbeSucceeded")

	disk.Stop()
	condition(t, node, "example.com/File", "False", "ProbeTimedOut")
	condition(t, node, "example.com/Disk", "False", "ProbeTimedOut")

	// An edited probe does not wait for the run of the one before, which still hangs.
	edited.File = nil
	edited.Check = "kubelet"
	writeRules(t, rules, config.Rule{Name: "r", Probes: []v1alpha1.Probe{file, statfs, edited}})
	condition(t, node, "example.com/Edited", "False", "NodegateProbeFailed")

	disk.Continue()
	condition(t, node, "example.com/File", "True", "NodegateProbeSucceeded")
	condition(t, node, "example.com/Disk", "True", "NodegateProbeSucceeded")
}
