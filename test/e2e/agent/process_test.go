// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/internal/agent/health"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// process is an agent that runs.
type process struct {
	*cluster.Log
	cmd       *exec.Cmd
	addresses map[string]string // by server
	exited    chan struct{}
	err       error
}

// env is what is in an agent's environment beside the variables that a test sets.
func env(variables ...string) []string {
	return append(variables, "PATH=/nonexistent", "HOME=/nonexistent")
}

// launch starts an agent that runs until the test ends.
func launch(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	return launchWith(t, nil, variables, args...)
}

func launchWith(t *testing.T, file *os.File, variables []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env = env(variables...)
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	return launchCommand(t, cmd)
}

func launchCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Log: &cluster.Log{}, cmd: cmd, addresses: map[string]string{}, exited: make(chan struct{})}
	p.cmd.Stderr = p.Log
	if err := needs.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
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
	return startAgentWith(t, nil, address, node, kubeconfig, args...)
}

// startAgentWith starts an agent that has a file open as /proc/self/fd/3.
func startAgentWith(t *testing.T, file *os.File, address, node, kubeconfig string, args ...string) *process {
	t.Helper()
	variables := []string{"NODE_NAME=" + node}
	if node == "" {
		variables = nil
	}
	p := launchWith(t, file, variables, append([]string{
		"--kubeconfig", kubeconfig, "--listen-address", address, "--listen-port=0", "--metrics-bind-address",
		net.JoinHostPort(address, "0"),
		"--drain-time=0",
	}, args...)...)
	p.listens(t)
	return p
}

// listens waits until the agent has told that it is up, and takes note of where its servers listen.
func (p *process) listens(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "the agent is up", func() error {
		select {
		case <-p.exited:
			t.Fatalf("the agent has ended: %v\n%s", p.err, p.Log)
		default:
		}
		up := false
		for line := range strings.Lines(p.String()) {
			var entry struct{ Msg, Server, Address string }
			if json.Unmarshal([]byte(line), &entry) != nil {
				continue
			}
			if entry.Msg == "Listening" {
				p.addresses[entry.Server] = entry.Address
			}
			up = up || entry.Msg == "Starting"
		}
		if !up {
			return errors.New("it has not told")
		}
		return nil
	})
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// hurry ends an agent that drains, by a second signal.
func (p *process) hurry(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	<-p.exited
}

// answer is an answer of /health with its status.
type answer struct {
	health.Answer
	code int
	raw  string
}

func (p *process) health(t *testing.T, query string) answer {
	t.Helper()
	code, body := p.get(t, "health", "/health"+query)
	a := answer{code: code, raw: body}
	if err := json.Unmarshal([]byte(body), &a.Answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return a
}

// is waits until /health answers like this; reason is that of the first check.
func (p *process) is(t *testing.T, code int, failOpen bool, reason string) {
	t.Helper()
	cluster.Eventually(t, "/health", func() error {
		a := p.health(t, "")
		if a.code != code || a.FailOpen != failOpen || !strings.Contains(a.Checks[0].Reason, reason) {
			return fmt.Errorf("status %d: %s", a.code, a.raw)
		}
		return nil
	})
}

func (p *process) get(t *testing.T, server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + p.addresses[server] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// metric is the value of a line of the agent's metrics, 0 where there is none.
func (p *process) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, text := p.get(t, "metrics", "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// freePort is a port that is free at all addresses.
func freePort(t *testing.T) string {
	t.Helper()
	taken, err := cluster.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(taken[0])
}
