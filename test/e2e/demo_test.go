// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestDemo runs the demo as "make demo ARGS=-admission DASHBOARD=1" does, with a control plane of its own: once to its
// end. Then it runs the demo as "make demo" does, and interrupts it right after its beginning.
func TestDemo(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "demo")
	cluster.Must(t, cluster.Build(t.Context(), binary, "./test/demo"))
	for _, test := range []struct {
		name string
		args []string
		// interruptAt is the output at which Ctrl-C is pressed.
		interruptAt string
		fails       bool
		says        []string
	}{
		{
			name: "stays until Ctrl-C", args: []string{"-admission", "-dashboard"}, interruptAt: "Ctrl-C stops everything",
			says: []string{
				"Open this address, which works once: http://127.0.0.1:",
				"10 nodes: CNI not ready, held, 0 pods",
				"CNI up, open, 3 pods", "The CNI of node-", "What you saw",
				"export KUBECONFIG=", "kubectl nodegate status", "kubectl get nodereadinessrule ",
				"late-2: CNI not reported, held, 0 pods", "late-2: CNI up, open, 3 pods",
			},
		},
		{name: "ends in order in the middle", interruptAt: "nodes register", fails: true, says: []string{"interrupted"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tmp := t.TempDir()
			cmd := exec.CommandContext(t.Context(), binary, test.args...)
			cmd.Env = append(os.Environ(), "DEMO_WAIT=", "TMPDIR="+tmp)
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.WaitDelay = 30 * time.Second
			stdout, err := cmd.StdoutPipe()
			cluster.Must(t, err)
			cmd.Stderr = cmd.Stdout
			cluster.Must(t, cmd.Start())
			out, interrupted := "", false
			for lines := bufio.NewReader(stdout); err == nil; {
				var line string
				line, err = lines.ReadString('\n')
				out += line
				if !interrupted && strings.Contains(line, test.interruptAt) {
					interrupted = true
					_ = cmd.Process.Signal(os.Interrupt)
				}
			}
			if err := cmd.Wait(); (err != nil) != test.fails {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range test.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("there is no terminal, and it writes escape sequences: %q", out)
			}
			for line := range strings.Lines(out) {
				line = strings.TrimSpace(strings.ReplaceAll(line, tmp, "/tmp"))
				if utf8.RuneCountInString(line) > 120 || strings.Contains(line, "SetLogger") ||
					strings.Contains(line, "goroutine ") {
					t.Errorf("a line that is no part of the story: %s", line)
				}
			}
			nothingLeft(t, tmp)
		})
	}
}

// nothingLeft checks that no process and no file of a run is left. Each process is told, on its command line, of the
// run's directory for temporary files.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	cluster.Must(t, err)
	for _, entry := range left {
		t.Errorf("left %s", entry.Name())
	}
	cluster.Eventually(t, "no process is left", func() error {
		out, err := exec.CommandContext(t.Context(), "ps", "-e", "-o", "args=").Output()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, tmp) {
				return fmt.Errorf("it runs: %s", strings.TrimSpace(line))
			}
		}
		return nil
	})
}
