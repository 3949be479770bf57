// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// plugin runs the plugin as a person does.
type plugin struct {
	*env
	binary string
}

// run returns the exit code of a command line and what it wrote.
func (p *plugin) run(args ...string) (code int, out string) {
	p.T.Helper()
	cmd := exec.CommandContext(p.T.Context(), p.binary, append(args, "--kubeconfig", p.Kubeconfig())...)
	var written bytes.Buffer
	cmd.Stdout, cmd.Stderr = &written, &written
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.T.Fatalf("kubectl nodegate %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), written.String()
}

// says runs a command line that must succeed, and looks for words in what it writes.
func (p *plugin) says(words string, args ...string) {
	p.T.Helper()
	if code, out := p.run(args...); code != 0 || !strings.Contains(out, words) {
		p.T.Errorf("kubectl nodegate %s: exit code %d; want %q in\n%s", strings.Join(args, " "), code, words, out)
	}
}

// tells waits until a command line that changes nothing writes these words: what it is about is written by the
// operator.
func (p *plugin) tells(words string, args ...string) {
	p.T.Helper()
	p.Eventually("kubectl nodegate "+strings.Join(args, " "), func() error {
		if code, out := p.run(args...); code != 0 || !strings.Contains(out, words) {
			return fmt.Errorf("exit code %d; want %q in\n%s", code, words, out)
		}
		return nil
	})
}

func TestThePluginAndTheOperatorAgree(t *testing.T) {
	p := &plugin{env: newPool(t, 2)}
	var err error
	p.binary, err = p.Binary(t.Context(), "kubectl-nodegate")
	p.Must(err)
	first, second := p.Nodes[0], p.Nodes[1]
	p.create(p.Rule())
	p.Eventually("the nodes are held", p.held(true))

	p.tells(fmt.Sprintf("Node %s is held by rule %s", first, p.Name), "why", first)
	p.tells("is on the node: added by this rule", "why", first) // as the record says

	// Release and its undo wait for the operator: what they are about has happened when they end.
	p.says("released", "release", first, "--yes", "--timeout=5m")
	p.Must(p.Tainted(first, cluster.GPUTaint, false)())
	p.Must(p.Tainted(second, cluster.GPUTaint, true)())
	p.tells(fmt.Sprintf("Node %s is released by its override", first), "why", first)
	p.says("override removed", "release", "--undo", first, "--yes", "--timeout=5m")
	p.Must(p.Tainted(first, cluster.GPUTaint, true)())

	// A paused rule changes nothing: nodes stay held although their evidence holds, until the rule is resumed.
	p.says("paused", "pause", p.Name, "--yes")
	p.ReportAll(true)
	p.Consistently("nothing is released while the rule is paused", 2*time.Second, p.held(true))
	p.Eventually("the status says so", func() error {
		if _, out := p.run("status", p.Name); !strings.Contains(out, "Suspended") || !strings.Contains(out, "paused") {
			return errors.New(out)
		}
		return nil
	})
	p.says("resumed", "resume", "--all", "--yes")
	p.Eventually("the nodes are released", p.held(false))
	p.ReportAll(false)
	p.Eventually("the nodes are held again", p.held(true))

	p.says("held", "hold", first, "--duration=1h", "--yes", "--timeout=5m")
	p.ReportAll(true)
	p.Eventually("the other node is released", p.Tainted(second, cluster.GPUTaint, false))
	p.tells(fmt.Sprintf("Node %s is held by its override", first), "why", first)
	p.says("override removed", "release", "--undo", first, "--yes", "--timeout=5m")
	p.Must(p.Tainted(first, cluster.GPUTaint, false)())
}
