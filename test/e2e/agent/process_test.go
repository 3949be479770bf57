// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/test/child"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/agentclient"
)

// process is an agent that runs.
type process struct {
	*agentclient.Client
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// env is what is in an agent's environment beside the variables that a test sets.
func env(variables ...string) []string {
	return append(variables, "PATH=/nonexistent", "HOME=/nonexistent")
}

// launch starts an agent that runs until the test ends.
func launch(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env = env(variables...)
	return launchCommand(t, cmd)
}

func launchCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Client: agentclient.New(), cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stderr = p.Log
	cluster.Must(t, child.Start(p.cmd))
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("the agent's log:\n%s", p.Log)
		}
	})
	return p
}

// startAgent starts an agent on an address of its own, on ports of the system's choice unless the arguments say
// otherwise, and waits until it listens.
func startAgent(t *testing.T, address, node, kubeconfig string, args ...string) *process {
	t.Helper()
	variables := []string{"NODE_NAME=" + node}
	if node == "" {
		variables = nil
	}
	p := launch(t, variables, append([]string{
		"--kubeconfig", kubeconfig, "--listen-address", address, "--listen-port=0", "--metrics-bind-address",
		net.JoinHostPort(address, "0"),
		"--drain-time=0",
	}, args...)...)
	p.Listens(t, p.exited)
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	cluster.Must(t, p.cmd.Process.Signal(s))
}

// hurry ends an agent that drains, by a second signal.
func (p *process) hurry(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	<-p.exited
}

// freePort is a port that is free at all addresses.
func freePort(t *testing.T) string {
	t.Helper()
	taken, err := cluster.TakePorts(1)
	cluster.Must(t, err)
	return strconv.Itoa(taken[0])
}
