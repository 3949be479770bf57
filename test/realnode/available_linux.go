// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tools are the programs that must be there, and the Debian packages that bring them.
var tools = []struct{ path, pkg string }{
	{"/usr/bin/containerd", "containerd"},
	{"/usr/bin/ctr", "containerd"},
	{"/usr/sbin/runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"/usr/sbin/iptables", "iptables"},
	{"/usr/sbin/conntrack", "conntrack"},
	{"/usr/bin/nsenter", "util-linux"},
	{"ip", "iproute2"},
}

// Unavailable says why real nodes cannot run on this machine; empty, if they can.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "it needs root, to make namespaces and mounts"
	}
	var missing, packages []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.path); err != nil {
			missing, packages = append(missing, t.path), append(packages, t.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("%s not found: apt-get install %s", strings.Join(missing, ", "), strings.Join(packages, " "))
	}
	return ""
}
