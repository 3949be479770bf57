// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/test/needs"
)

// tools are the programs that real nodes need, and the Debian packages that bring them.
var tools = []struct{ name, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"nsenter", "util-linux"},
	{"ip", "iproute2"},
}

// Unavailable says why real nodes cannot run on this machine. It is empty if they can.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "real nodes need root, to make namespaces and mounts"
	}
	var missing, packages []string
	for _, t := range tools {
		if _, err := needs.Find(t.name); err != nil {
			missing, packages = append(missing, t.name), append(packages, t.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("real nodes need %s (apt-get install %s)",
			strings.Join(missing, ", "), strings.Join(slices.Compact(packages), " "))
	}
	return ""
}
