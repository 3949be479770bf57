// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/cluster"
)

// Node is a real node.
type Node struct {
	// Name is the node's.
	Name string
	// Address is where the node, and what has its network, is reached from the tests.
	Address string
	// Runtime, Kubelet and Proxy are its processes; each can be paused, killed and started again.
	Runtime, Kubelet, Proxy *cluster.Component

	lab    *Lab
	number int
	dir    string
	holder *exec.Cmd
	stdin  io.Closer
}

// AddNode starts a node. It is registered some seconds later. Without the configuration of the pods' network, it is not
// ready until ConfigureNetwork.
func (l *Lab) AddNode(ctx context.Context, network bool) (*Node, error) {
	number := len(l.Nodes) + 1
	n := &Node{lab: l, number: number, Name: "node" + strconv.Itoa(number), Address: nodeAddress(number)}
	n.dir = filepath.Join(l.Dir, n.Name)
	if err := n.start(ctx, network); err != nil {
		return nil, fmt.Errorf("starting %s: %w", n.Name, err)
	}
	l.Nodes = append(l.Nodes, n)
	return n, nil
}

func (n *Node) start(ctx context.Context, network bool) error {
	if err := os.MkdirAll(filepath.Join(n.dir, cniDir), 0o755); err != nil {
		return err
	}
	if network {
		if err := n.ConfigureNetwork(); err != nil {
			return err
		}
	}
	if err := n.hold(); err != nil {
		return fmt.Errorf("making its namespaces: %w", err)
	}
	if err := plugIn(n.number, n.holder.Process.Pid); err != nil {
		return err
	}
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	return n.startProxy(ctx)
}

// ConfigureNetwork gives the node the configuration of its pods' network, as a CNI does when it is installed.
func (n *Node) ConfigureNetwork() error {
	return os.WriteFile(filepath.Join(n.dir, cniDir, "10-lab.conflist"), []byte(cniConfig(n.dir, n.number)), 0o600)
}

// hold makes the node's namespaces, with a process that keeps them until the lab ends.
func (n *Node) hold() error {
	n.holder = again(roleNode, n.dir)
	n.holder.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	stdin, err := n.holder.StdinPipe()
	if err != nil {
		return err
	}
	n.stdin = stdin
	n.holder.Stdout = nil
	stdout, err := n.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.holder.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "ready\n" {
		return errors.Join(fmt.Errorf("it says %q", line), err, n.holder.Wait())
	}
	return nil
}

// process is one that runs on the node. It enters no PID namespace, so that it is the very process that is started.
func (n *Node) process(name, path string, args ...string) cluster.Process {
	return cluster.Process{Name: name + "-" + n.Name, Path: "nsenter",
		Args: n.enter(append([]string{path}, args...)...)}
}

func (n *Node) enter(args ...string) []string {
	return append([]string{"--target=" + strconv.Itoa(n.holder.Process.Pid), "--mount", "--net", "--ipc", "--uts",
		"--wd=" + n.dir, "--"}, args...)
}

// Command is a command that runs on the node.
func (n *Node) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", n.enter(args...)...)
}

// Run runs a command on the node, and returns what it prints.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	out, err := n.Command(ctx, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %s: %w: %s", n.Name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func (n *Node) write(name, content string) (string, error) {
	path := filepath.Join(n.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

func (n *Node) startRuntime(ctx context.Context) (err error) {
	config, err := n.write("containerd.toml", containerdConfig(n.dir, snapshotter(n.dir)))
	if err != nil {
		return err
	}
	p := n.process("containerd", "containerd", "--config="+config)
	p.Ready = func(ctx context.Context) error {
		_, err := n.ctr(ctx, "version")
		return err
	}
	if n.Runtime, err = n.lab.Cluster.Run(ctx, p); err != nil {
		return err
	}
	for _, image := range n.lab.images {
		if _, err := n.ctr(ctx, "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	return n.Run(ctx, append([]string{"ctr", "--address=" + runtimeSocket, "--namespace=k8s.io"}, args...)...)
}

func (n *Node) startKubelet(ctx context.Context) error {
	cgroup, err := makeCgroup(filepath.Base(n.lab.Dir), n.Name)
	if err != nil {
		return fmt.Errorf("making its cgroup: %w", err)
	}
	config, err := n.write("kubelet.yaml", kubeletConfig(n.dir, cgroup, n.lab.Cluster.CAFile()))
	if err != nil {
		return err
	}
	kubeconfig, err := n.lab.Cluster.KubeconfigFor("system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	args := []string{"--config=" + config, "--kubeconfig=" + kubeconfig, "--root-dir=/var/lib/kubelet",
		"--cert-dir=/var/lib/kubelet/pki",
		"--hostname-override=" + n.Name, "--node-ip=" + n.Address}
	p := n.process("kubelet", filepath.Join(n.lab.Cluster.Assets(), "kubelet"), args...)
	p.Ready = func(ctx context.Context) error { // it serves before it has registered
		return n.Command(ctx, "/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/10248").Run()
	}
	n.Kubelet, err = n.lab.Cluster.Run(ctx, p)
	return err
}

func (n *Node) startProxy(ctx context.Context) error {
	kubeconfig, err := n.lab.Cluster.KubeconfigFor("system:kube-proxy")
	if err != nil {
		return err
	}
	config, err := n.write("kube-proxy.yaml", proxyConfig(n.Name, kubeconfig))
	if err != nil {
		return err
	}
	n.Proxy, err = n.lab.Cluster.Run(ctx, n.process("kube-proxy", filepath.Join(n.lab.Cluster.Assets(), "kube-proxy"),
		"--config="+config))
	return err
}

// snapshotter is overlayfs, where it can be mounted; not where the directory is on such a file system itself.
func snapshotter(dir string) string {
	trial := filepath.Join(dir, "trial")
	for _, sub := range []string{"lower", "upper", "work", "merged"} {
		if os.MkdirAll(filepath.Join(trial, sub), 0o700) != nil {
			return "native"
		}
	}
	merged := filepath.Join(trial, "merged")
	err := unix.Mount("overlay", merged, "overlay", 0, fill("lowerdir=T/lower,upperdir=T/upper,workdir=T/work", "T",
		trial))
	if err != nil {
		return "native"
	}
	_ = unix.Unmount(merged, 0)
	return "overlayfs"
}
