// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"bytes"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// format are the files that say how a record is written, and where they were before.
var format = []string{"internal/nodeview/record.go", "internal/nodeview/codec.go", "internal/gate/record.go",
	"internal/gate/codec.go"}

// withoutPrevious are commits that no operator of an earlier commit works beside, and the texts that they added. No
// release is that old.
var withoutPrevious = []struct{ text, file string }{
	{"RecordAnnotationPrefix = Domain", "api/v1alpha1/names.go"}, // records are under nodegate.io
	{"json:\"minHoldSeconds", "api/v1alpha1"},                    // fields have other names
	{"json:\"groups", "api/admission/v1alpha1"},                  // AdmissionRules have groups
}

// buildPrevious builds the operator of the commit before the last change of the records' format, from an archive beside
// this checkout. Once there is a release, it is the last one.
func buildPrevious(t *testing.T) string {
	t.Helper()
	git := needs.Command(t, "git", "git")
	dir := t.TempDir()
	inRoot := []string{"-C", cluster.Root()}
	changed, err := exec.CommandContext(t.Context(), git, append(inRoot,
		append([]string{"log", "-1", "-M", "--diff-filter=M", "--format=%H", "--"}, format...)...)...).Output()
	if err != nil || len(changed) == 0 {
		needs.Missing(t, "the history of git")
	}
	previous := strings.TrimSpace(string(changed)) + "~1"
	for _, without := range withoutPrevious {
		commit, err := exec.CommandContext(t.Context(), git, append(inRoot, "log", "-1", "--format=%H", "-S", without.text,
			"--", without.file)...).Output()
		at := strings.TrimSpace(string(commit))
		if err != nil || at == "" {
			needs.Missing(t, "the history of git")
		}
		isOlder := append(inRoot, "merge-base", "--is-ancestor", at, previous)
		if exec.CommandContext(t.Context(), git, isOlder...).Run() != nil {
			previous = at
		}
	}
	source, err := exec.CommandContext(t.Context(), git, append(inRoot, "archive", previous)...).Output()
	if err != nil {
		needs.Missing(t, "the history of git, with "+previous)
	}
	t.Logf("the previous version is %s", previous)
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(source)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpacking %s: %v\n%s", previous, err, out)
	}
	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags=grpcnotrace", "-o", binary,
		"./cmd/manager")
	build.Dir, build.Env = dir, append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the operator of %s: %v\n%s", previous, err, out)
	}
	return binary
}

// TestUpgradeAndBack has rules and held nodes. The previous version, both versions at the same time, this version
// alone, both again, and the previous version alone read each other's records: no change of leader changes a node.
func TestUpgradeAndBack(t *testing.T) {
	old := buildPrevious(t)
	e := newPool(t, 0)
	const ready, completed, held, heldLater = 0, 1, 2, 3
	before := e.replica(cluster.OperatorOptions{Name: "previous", Binary: old})
	leader := e.leads("")
	continuous := e.Rule().MaxUnavailable("50%").Obj()
	bootstrap := e.Rule().Taint("readiness.example.com/boot", "", corev1.TaintEffectNoSchedule).BootstrapOnly().Obj()
	bootstrap.Name += "-bootstrap"
	e.Create(continuous)
	e.Create(bootstrap)
	pool := map[string]string{cluster.PoolKey: e.Name}
	e.Join(4, pool)
	e.Eventually("the new nodes are held", e.taintedAre(4))
	for _, i := range []int{ready, completed, heldLater} {
		e.Report(e.Nodes[i], cluster.GPUReady, true)
	}
	e.Eventually("three are released", e.taintedAre(1))
	e.Report(e.Nodes[heldLater], cluster.GPUReady, false)
	e.Eventually("one is held again, within the limit", e.Tainted(e.Nodes[heldLater], cluster.GPUTaint, true))
	state := e.state()

	after := e.replica(cluster.OperatorOptions{Name: "this"})
	e.unchanged("beside a new follower", state)
	e.Must(before.Stop())
	leader = e.leads(leader)
	e.unchanged("after the upgrade", state)
	e.Report(e.Nodes[held], cluster.GPUReady, true)
	e.Eventually("this version releases what the previous one held", e.Tainted(e.Nodes[held], cluster.GPUTaint, false))
	e.Join(1, pool)
	e.Eventually("and holds a new node", e.Tainted(e.Nodes[4], cluster.GPUTaint, true))
	e.Report(e.Nodes[completed], cluster.GPUReady, false)
	e.Eventually("and a node that fails, within the limit", e.Tainted(e.Nodes[completed], cluster.GPUTaint, true))
	e.Must(e.Tainted(e.Nodes[completed], "readiness.example.com/boot", false)())
	state = e.state()

	e.Must(before.Start(t.Context()))
	e.unchanged("beside the previous version as a follower", state)
	e.Must(after.Stop())
	e.leads(leader)
	e.unchanged("after the rollback", state)
	e.ReportAll(true)
	e.Eventually("the previous version releases what this one held", e.taintedAre(0))
	e.Must(e.Client.Delete(t.Context(), continuous))
	e.Must(e.Client.Delete(t.Context(), bootstrap))
	e.Eventually("and cleans up", e.Gone(continuous))
	e.Eventually("and cleans up after the other rule", e.Gone(bootstrap))
	for _, name := range e.Nodes {
		for key := range e.Node(name).Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
				t.Errorf("node %s has the record %s", name, key)
			}
		}
	}
}

// nodeState is what an operator has written to a node.
type nodeState struct {
	Taints      []corev1.Taint
	Annotations map[string]string
}

func (e *env) state() map[string]nodeState {
	e.T.Helper()
	out := map[string]nodeState{}
	for _, name := range e.Nodes {
		n := e.Node(name)
		out[name] = nodeState{n.Spec.Taints, maps.Clone(n.Annotations)}
	}
	return out
}

// unchanged waits until the leader has looked: no node has changed.
func (e *env) unchanged(when string, want map[string]nodeState) {
	e.T.Helper()
	e.Looked()
	if diff := cmp.Diff(want, e.state()); diff != "" {
		e.T.Errorf("%s nodes have changed, -want +got:\n%s", when, diff)
	}
}
