// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plugin runs the plugin as a person does, and gives its exit code and what it wrote.
type plugin struct {
	w      *world
	binary string
}

func newPlugin(w *world) *plugin {
	w.t.Helper()
	p := &plugin{w: w, binary: filepath.Join(w.t.TempDir(), "kubectl-nodegate")}
	cmd := exec.CommandContext(w.t.Context(), "go", "build", "-o", p.binary, "./cmd/kubectl-nodegate")
	cmd.Dir = w.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	return p
}

func (p *plugin) run(args ...string) (code int, out string) {
	p.w.t.Helper()
	cmd := exec.CommandContext(p.w.t.Context(), p.binary, append(args, "--kubeconfig", p.w.Kubeconfig())...)
	var written bytes.Buffer
	cmd.Stdout, cmd.Stderr = &written, &written
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.w.t.Fatalf("kubectl nodegate %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), written.String()
}

// says runs a command line that must succeed, and looks for words in what it writes.
func (p *plugin) says(words string, args ...string) {
	p.w.t.Helper()
	if code, out := p.run(args...); code != 0 || !strings.Contains(out, words) {
		p.w.t.Errorf("kubectl nodegate %s: exit code %d; want %q in\n%s", strings.Join(args, " "), code, words, out)
	}
}

// tells waits until a command line that changes nothing writes these words: what it is about is written by the operator.
func (p *plugin) tells(words string, args ...string) {
	p.w.t.Helper()
	p.w.eventually("kubectl nodegate "+strings.Join(args, " "), func() error {
		if code, out := p.run(args...); code != 0 || !strings.Contains(out, words) {
			return fmt.Errorf("exit code %d; want %q in\n%s", code, words, out)
		}
		return nil
	})
}

// tainted checks the taint of one node.
func (w *world) tainted(i int, want bool) func() error {
	return func() error {
		n := &corev1.Node{}
		if err := w.Client.Get(w.t.Context(), client.ObjectKey{Name: w.name(i)}, n); err != nil {
			return err
		}
		if got := hasTaint(n, gpuTaint); got != want {
			return fmt.Errorf("node %s: tainted %t, want %t", n.Name, got, want)
		}
		return nil
	}
}

func TestThePluginAndTheOperatorAgree(t *testing.T) {
	w := newWorld(t, 2)
	p := newPlugin(w)
	first := w.name(0)
	w.create(w.rule())
	w.eventually("the nodes are held", w.held(true))

	p.tells(fmt.Sprintf("Node %s is held by rule %s", first, w.pool), "explain", "node", first)
	p.tells("is on: put there by this rule", "explain", "node", first) // as the events say

	// Release and clear wait for the operator: what they are about has happened when they end.
	p.says("released", "release", "node", first, "--yes", "--timeout=120s")
	w.do(w.tainted(0, false)())
	w.do(w.tainted(1, true)())
	p.tells(fmt.Sprintf("Node %s is released by hand", first), "explain", "node", first)
	p.says("cleared", "clear", "node", first, "--yes", "--timeout=120s")
	w.do(w.tainted(0, true)())

	// What holds again is released while the rule is paused; what ceases to hold is not held.
	p.says("paused", "pause", w.pool, "--yes")
	w.report(true)
	w.eventually("the nodes are released", w.held(false))
	w.report(false)
	throughout(t, "nothing is held while the rule is paused", w.held(false))
	w.eventually("the status says so", func() error {
		if _, out := p.run("status", w.pool); !strings.Contains(out, "Suspended") || !strings.Contains(out, "paused") {
			return errors.New(out)
		}
		return nil
	})
	p.says("resumed", "resume", "--yes")
	w.eventually("the nodes are held again", w.held(true))

	p.says("held", "hold", "node", first, "--for=1h", "--yes", "--timeout=120s")
	w.report(true)
	w.eventually("the other node is released", w.tainted(1, false))
	p.tells(fmt.Sprintf("Node %s is held by hand", first), "explain", "node", first)
	p.says("cleared", "clear", "node", first, "--yes", "--timeout=120s")
	w.do(w.tainted(0, false)())
}
