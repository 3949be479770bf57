// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestWhatIsNeverDenied: while the guard stands, and the node controller is refused, a user drains the node, and lets
// single pods go. The webhook's own tests have other users.
func TestWhatIsNeverDenied(t *testing.T) {
	e := parallel(t)
	e.rule(600)
	node := e.node("n", true)
	pods := e.pods(node, 3, 1)
	e.SetKubelet(node, false)
	e.deniedAtLeast(pods, attempts)
	e.Must(e.alive(pods)())
	kubectl := func(args ...string) {
		t.Helper()
		args = append([]string{"--kubeconfig=" + e.Kubeconfig()}, args...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(e.Assets(), "kubectl"), args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %v: %v\n%s", args, err, out)
		}
	}

	// As the node controller deletes it, which by itself does not try again.
	controller, err := e.As(nodeController, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	e.Must(err)
	if err := controller.Delete(t.Context(), pods[0].DeepCopy()); err == nil {
		t.Error("its deletion is not denied")
	}
	kubectl("annotate", "pod", pods[0].Name, v1alpha1.OverrideAnnotation+"=Release")
	e.Must(controller.Delete(t.Context(), pods[0].DeepCopy()))
	e.Eventually("the pod goes", e.gone(pods[:1]))
	e.Must(e.alive(pods[1:])())

	kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout="+cluster.Limit.String())
	e.Eventually("all pods go", e.gone(pods))
}
