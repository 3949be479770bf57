// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nodegate/nodegate/test/cluster"
)

// fragile are pods that are evicted five seconds after their node is lost.
var fragile = fill(`apiVersion: apps/v1
kind: Deployment
metadata: {name: fragile}
spec:
  replicas: 2
  selector: {matchLabels: {app: fragile}}
  template:
    metadata: {labels: {app: fragile}}
    spec:
      nodeSelector: {kosmos.io/node: ""}
      terminationGracePeriodSeconds: 1
      tolerations:
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers: [{name: main, image: IMAGE, args: [serve]}]
`, "IMAGE", PodImage)

// guardsPods is the example of a node that is silent for a while: its kubelet is stopped, its pods run. A node
// beside it is well, or else the controller manager would take itself to be the one who is cut off.
func guardsPods(t *testing.T) {
	ctx := t.Context()
	node := lab.Nodes()[0]
	kubectl(t, "label", "node", node.Name, "kosmos.io/node=")
	example(t, "eviction-guard/rule.yaml")
	apply(t, fragile)
	kubectl(t, "rollout", "status", "deployment/fragile", "--timeout=180s")
	before := fragilePods(t)
	guarding := func(reason string) func() error {
		return says(ctx, reason, "get", "nrr", "kosmos-link", "-o",
			`jsonpath={.status.conditions[?(@.type=="Guarding")].reason}`)
	}

	cluster.Must(t, node.Kubelet.Pause())
	eventually(t, "the pods are guarded", guarding("PodsGuarded"))
	eventually(t, "each pod's eviction is denied", func() error {
		out, err := lab.Kubectl(ctx, "get", "events", "--field-selector=reason=EvictionDenied,involvedObject.kind=Pod", "-o",
			"jsonpath={.items[*].involvedObject.name}")
		for uid, p := range before {
			if err == nil && !strings.Contains(out, p.name) {
				err = fmt.Errorf("pod %s (%s) is not among %q", p.name, uid, out)
			}
		}
		return err
	})
	cluster.Must(t, node.Kubelet.Resume())
	kubectl(t, "wait", "--for=condition=Ready", "node", node.Name, "--timeout=120s")
	eventually(t, "the guard ends", guarding("NothingToGuard"))
	if diff := cmp.Diff(before, fragilePods(t), cmp.AllowUnexported(container{})); diff != "" {
		t.Errorf("the pods did not just live on (-before +after):\n%s", diff)
	}

	// And once more, until the hold ends.
	kubectl(t, "patch", "nrr", "kosmos-link", "--type=merge", "-p", `{"spec": {"evictionGuard": {"maxHoldSeconds": 40}}}`)
	cluster.Must(t, node.Kubelet.Pause())
	eventually(t, "the operator evicts them in the end", func() error {
		for _, p := range listFragile(t) {
			if _, ok := before[p.UID]; ok && p.DeletionTimestamp.IsZero() {
				return fmt.Errorf("pod %s is not evicted", p.Name)
			}
		}
		return nil
	})
	cluster.Must(t, node.Kubelet.Resume())
	kubectl(t, "wait", "--for=condition=Ready", "node", node.Name, "--timeout=120s")
	kubectl(t, "rollout", "status", "deployment/fragile", "--timeout=180s")
	kubectl(t, "delete", "deployment", "fragile", "--timeout=120s")
	kubectl(t, "delete", "nrr", "kosmos-link", "--timeout=60s")
}

// container is the one container of a pod: a restarted one has another ID.
type container struct {
	name, id string
	restarts int32
}

// fragilePods are the pods, and what runs in them.
func fragilePods(t *testing.T) map[types.UID]container {
	t.Helper()
	out := map[types.UID]container{}
	for _, p := range listFragile(t) {
		c := container{name: p.Name}
		for _, s := range p.Status.ContainerStatuses {
			c.id, c.restarts = s.ContainerID, s.RestartCount
		}
		if p.DeletionTimestamp.IsZero() {
			out[p.UID] = c
		}
	}
	return out
}

func listFragile(t *testing.T) []corev1.Pod {
	t.Helper()
	client, err := kubernetes.NewForConfig(lab.Cluster.Config())
	cluster.Must(t, err)
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=fragile"})
	cluster.Must(t, err)
	return pods.Items
}
