// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The network of the lab: a bridge, on which all nodes are neighbours; the control plane and the tests have its last
// address. Each node has a network for its pods behind it.
const (
	bridge = "nodes0"
	// Gateway is the address of the control plane, and of the tests.
	Gateway = "10.199.0.254"
)

func nodeAddress(number int) string { return fmt.Sprintf("10.199.0.%d", number) }
func podNetwork(number int) string  { return fmt.Sprintf("10.244.%d.0/24", number) }

// setUpNetwork makes the bridge.
func setUpNetwork() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	return ip(
		"link set lo up",
		"link add "+bridge+" type bridge",
		"addr add "+Gateway+"/24 dev "+bridge,
		"link set "+bridge+" up",
	)
}

// plugIn connects a node's network namespace with the bridge.
func plugIn(number, pid int) error {
	outer := "node" + strconv.Itoa(number)
	if err := ip(
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", outer, pid),
		fmt.Sprintf("link set %s master %s", outer, bridge),
		fmt.Sprintf("link set %s up", outer),
		fmt.Sprintf("route add %s via %s", podNetwork(number), nodeAddress(number)),
	); err != nil {
		return err
	}
	inside := []string{"--target=" + strconv.Itoa(pid), "--net", "ip"}
	for _, args := range []string{
		"link set lo up",
		"addr add " + nodeAddress(number) + "/24 dev eth0",
		"link set eth0 up",
		"route add default via " + Gateway,
	} {
		if err := command("nsenter", append(inside, strings.Fields(args)...)...); err != nil {
			return err
		}
	}
	return nil
}

// Unplug cuts the node off from all others, as if it were dead. Plug ends that.
func (n *Node) Unplug() error { return ip(fmt.Sprintf("link set node%d down", n.number)) }

// Plug ends Unplug.
func (n *Node) Plug() error { return ip(fmt.Sprintf("link set node%d up", n.number)) }

func ip(lines ...string) error {
	for _, line := range lines {
		if err := command("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
