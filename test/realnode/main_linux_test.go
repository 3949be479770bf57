// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// checkout is the project's root.
	checkout = "../.."
	// patience bounds what comes soon or not at all.
	patience = 5 * time.Minute
)

var (
	lab *Lab
	// unavailable says why there is no lab.
	unavailable string
)

// TestMain gives all tests one control plane. Each adds the nodes that it needs.
func TestMain(m *testing.M) {
	if unavailable = Unavailable(); unavailable != "" {
		os.Exit(m.Run())
	}
	os.Exit(Run(prepare, func(dir string) int {
		if err := startLab(dir); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			return 1
		}
		code := m.Run()
		if err := lab.Cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			return 1
		}
		return code
	}))
}

// prepare builds what the lab needs: inside there is no network.
func prepare(dir string) error {
	assets, err := lastLine(filepath.Join("hack", "assets.sh"), "-node")
	if err != nil {
		return fmt.Errorf("making sure of the cluster's binaries: %w", err)
	}
	helm, err := lastLine("go", "tool", "-modfile=hack/tools/go.mod", "-n", "helm")
	if err != nil {
		return fmt.Errorf("building helm: %w", err)
	}
	commands, err := Commands(context.Background(), dir)
	if err != nil {
		return err
	}
	for name, path := range map[string]string{
		"assets": assets, "helm": helm, "kubectl-nodegate": filepath.Join(commands, "kubectl-nodegate"),
	} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	_, err = BuildImages(checkout, commands, dir)
	return err
}

// lastLine runs a command in the checkout, and returns the last line that it prints.
func lastLine(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = checkout
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], err
}

func startLab(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	assets, err := os.Readlink(filepath.Join(dir, "assets"))
	if err != nil {
		return err
	}
	tars, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	if lab, err = Start(ctx, dir, assets, tars); err != nil {
		return err
	}
	for range 2 {
		if _, err := lab.AddNode(ctx, true); err != nil {
			return err
		}
	}
	_, err = lab.Kubectl(ctx, "create", "-f", filepath.Join(checkout, "test", "realnode", "testdata", "system.yaml"))
	return err
}

func helm(ctx context.Context, args ...string) (string, error) {
	return lab.Tool(ctx, filepath.Join(lab.Dir, "helm"), args...)
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := lab.Kubectl(t.Context(), args...)
	cluster.Must(t, err)
	return strings.TrimSpace(out)
}

// example applies a file of examples/, with what it has on other clusters replaced.
func example(t *testing.T, file string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, "examples", file))
	cluster.Must(t, err)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%s does not contain %q", file, replace[i])
		}
	}
	apply(t, strings.NewReplacer(replace...).Replace(string(text)))
}

func apply(t *testing.T, text string) {
	t.Helper()
	cluster.Must(t, lab.Apply(t.Context(), text))
}

func addNode(t *testing.T, network bool) *Node {
	t.Helper()
	n, err := lab.AddNode(t.Context(), network)
	cluster.Must(t, err)
	return n
}

// eventually waits until there is no error any more.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	state, _ := lab.Kubectl(context.WithoutCancel(t.Context()), "get", "nodes,pods,nrr", "-A", "-o", "wide")
	t.Fatalf("%s: %v\n%s", what, err, state)
}

// says wants a kubectl command to print something.
func says(ctx context.Context, want string, args ...string) func() error {
	return func() error {
		out, err := lab.Kubectl(ctx, args...)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("kubectl %s says %q, not %q", strings.Join(args, " "), strings.TrimSpace(out), want)
		}
		return err
	}
}
