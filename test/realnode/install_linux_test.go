// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// TestRealNodes installs the chart as the README says, goes through what it is for, and takes it off again. The parts
// are one after another, on one cluster.
func TestRealNodes(t *testing.T) {
	if unavailable != "" {
		needs.Missing(t, unavailable)
	}
	for _, part := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"helm installs an earlier version", install},
		{"helm upgrades it", upgrade},
		{"the agents tell what is broken", agentsAnswer},
		{"an update of the agents has one of them answer at all times", updatesAgents},
		{"no pod gets onto a held node past the scheduler", guardsBindings},
		{"a node waits for its network", waitsForNetwork},
		{"endpoints stay when all kubelets are silent", keepsEndpoints},
		{"uninstalled, nothing is left", uninstall},
		{"the API group changes, and changes back", changesGroup},
		{"a cluster of the Node Readiness Controller is taken over", takesOver},
		{"uninstalled in the wrong order, it gets clean anyway", uninstallsInAnyOrder},
		{"the quickstart works as written", quickstart},
	} {
		t.Run(part.name, part.run)
	}
}

// earlier is this chart under an earlier version.
func earlier(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cluster.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(checkout, "charts", "nodegate"))))
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	cluster.Must(t, err)
	text = regexp.MustCompile(`(?m)^version: .*`).ReplaceAll(text, []byte("version: 0.0.1"))
	cluster.Must(t, os.WriteFile(file, text, 0o600))
	return dir
}

// chart lets Helm install or upgrade a chart as the README says.
func chart(t *testing.T, action, path string, more ...string) {
	t.Helper()
	args := append([]string{action, "nodegate", path, "-n", "nodegate-system",
		"--set", "image.repository=" + strings.Split(Image, ":")[0], "--set", "image.tag=" + strings.Split(Image, ":")[1]},
		more...)
	out, err := helm(t.Context(), args...)
	if err != nil {
		state, _ := lab.Kubectl(t.Context(), "-n", "nodegate-system", "get", "pods,jobs,events", "-o", "wide")
		t.Fatalf("%v\n%s", err, state)
	}
	if !strings.Contains(out, "STATUS: deployed") {
		t.Errorf("helm says:\n%s", out)
	}
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "deployment/nodegate-manager", "--timeout=5m")
}

// install installs the earlier chart. Its pods have a label that those of the upgrade do not have, so that the upgrade
// replaces them.
func install(t *testing.T) {
	chart(t, "install", earlier(t), "--create-namespace", "--set", "podLabels.version=earlier")
	// 90 % of the chart's 1Gi, read from the container's cgroup. Each node has one of the two replicas. The API server
	// cannot resolve the names of the nodes, so that "kubectl logs" has no answer.
	logs, err := lab.Nodes[0].Run(t.Context(), "/bin/sh", "-c",
		"cat /var/log/pods/nodegate-system_nodegate-manager-*/manager/*.log")
	if want := `"GOMEMLIMIT":966367641`; err != nil || !strings.Contains(logs, want) {
		t.Errorf("the operator's log does not say %s: %v\n%s", want, err, logs)
	}
}

// upgrade brings an earlier version to this one, and adds the agents. test/e2e/replicas shows that nothing changes on
// the nodes when another version leads.
func upgrade(t *testing.T) {
	chart(t, "upgrade", filepath.Join(checkout, "charts", "nodegate"), "--set", "agent.enabled=true", "--set",
		"agent.drainSeconds=10,agent.drainStatus=404,agent.runtimeSocket=true", "--set", "podAdmission.enabled=true",
		"--set", "evictionGuard.endpoints.enabled=true")
	if left := kubectl(t, "-n", "nodegate-system", "get", "jobs", "-o", "name"); left != "" {
		t.Errorf("%s is left of the upgrade", left)
	}
}

// report sets a condition of a node, as a reporter does.
func report(t *testing.T, node, condition string, ready bool) {
	t.Helper()
	cluster.Must(t, lab.Cluster.Report(t.Context(), node, condition, ready))
}

// watchTaints watches a taint on all nodes. The function that it returns tells each change since.
func watchTaints(t *testing.T, key string) (changes func() []string) {
	t.Helper()
	nodes := lab.Cluster.Clientset.CoreV1().Nodes()
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	cluster.Must(t, err)
	had := map[string]bool{}
	for i := range list.Items {
		had[list.Items[i].Name] = cluster.HasTaint(&list.Items[i], key)
	}
	w, err := nodes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	cluster.Must(t, err)
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	var seen []string
	go func() {
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				continue
			}
			mu.Lock()
			if had[n.Name] != cluster.HasTaint(n, key) {
				had[n.Name] = !had[n.Name]
				seen = append(seen, n.Name+map[bool]string{true: " is held", false: " is released"}[had[n.Name]])
			}
			mu.Unlock()
		}
	}()
	return func() []string {
		now, err := nodes.List(t.Context(), metav1.ListOptions{})
		cluster.Must(t, err)
		eventually(t, "the watch has seen what the nodes are now", func() error {
			mu.Lock()
			defer mu.Unlock()
			for i := range now.Items {
				if n := &now.Items[i]; had[n.Name] != cluster.HasTaint(n, key) {
					return fmt.Errorf("node %s has taints %v", n.Name, n.Spec.Taints)
				}
			}
			return nil
		})
		w.Stop()
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// waitsForNetwork is the example of a CNI whose readiness a reporter tells, with a node that comes without a network
// for its pods, and a stand-in for Calico.
func waitsForNetwork(t *testing.T) {
	ctx := t.Context()
	example(t, "cni-readiness/network-readiness-rule.yaml")
	example(t, "cni-readiness/cni-reporter-ds.yaml", "ghcr.io/nodegate/nodegate:v0.1.0", Image)
	manifest := filepath.Join(t.TempDir(), "calico.yaml")
	cluster.Must(t, os.WriteFile(manifest, []byte(calico), 0o600))
	_, err := lab.Tool(ctx, "env", "CALICO_MANIFEST="+manifest, "PATH="+lab.Cluster.Assets()+":"+os.Getenv("PATH"), "sh",
		filepath.Join(checkout, "examples", "cni-readiness", "apply-calico.sh"))
	cluster.Must(t, err)
	n := addNode(t, false)
	eventually(t, "the node registers", says(ctx, n.Name, "get", "node", n.Name, "-o", "jsonpath={.metadata.name}"))
	kubectl(t, "label", "node", n.Name, "node-role.kubernetes.io/worker=")
	eventually(t, "it is held", func() error { return tainted(n.Name, "readiness.k8s.io/NetworkReady", true) })
	apply(t, fill(web, "WORKLOAD", "web", "SELECTOR", `node-role.kubernetes.io/worker: ""`))
	pods := []string{"get", "pods", "-l", "app=web", "-o"}

	// The network comes, and kubelet calls the node Ready; what makes the network is not.
	cluster.Must(t, n.ConfigureNetwork())
	eventually(t, "kubelet says that the node is Ready", says(ctx, "True", "get", "node", n.Name, "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}`))
	eventually(t, "the reporter says that Calico is not", says(ctx, "False", "get", "node", n.Name, "-o",
		`jsonpath={.status.conditions[?(@.type=="projectcalico.org/CalicoReady")].status}`))
	if err := tainted(n.Name, "readiness.k8s.io/NetworkReady", true); err != nil {
		t.Error(err)
	}
	if bound := kubectl(t, append(pods, "jsonpath={.items[*].spec.nodeName}")...); bound != "" {
		t.Errorf("pods were bound to %s too early", bound)
	}

	post(t, "http://"+n.Address+":9099/ready")
	kubectl(t, "rollout", "status", "deployment/web", "--timeout=5m")
	if err := tainted(n.Name, "readiness.k8s.io/NetworkReady", false); err != nil {
		t.Error(err)
	}
	for address := range strings.FieldsSeq(kubectl(t, append(pods, "jsonpath={.items[*].status.podIP}")...)) {
		if body := get(t, "http://"+address+":8080/"); !strings.Contains(body, "on "+n.Name) {
			t.Errorf("a pod answers %q", body)
		}
	}
}

// calico is what answers where Calico does.
var calico = fill(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: calico-node, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: calico-node}}
  template:
    metadata: {labels: {k8s-app: calico-node}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      nodeSelector: {node-role.kubernetes.io/worker: ""}
      containers:
      - name: calico-node
        image: IMAGE
        args: [serve, -listen=:9099, -unready]
`, "IMAGE", PodImage)

// web is a workload that runs on some nodes.
var web = fill(`apiVersion: apps/v1
kind: Deployment
metadata: {name: WORKLOAD}
spec:
  replicas: 2
  selector: {matchLabels: {app: WORKLOAD}}
  template:
    metadata: {labels: {app: WORKLOAD}}
    spec:
      nodeSelector: {SELECTOR}
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: IMAGE
        args: [serve]
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        readinessProbe: {httpGet: {port: 8080, path: /readyz}, periodSeconds: 1}
`, "IMAGE", PodImage)

// tainted wants a taint to be there, or not to be.
func tainted(node, key string, want bool) error { return checks().Tainted(node, key, want)() }

// checks has the checks of the other end-to-end tests.
func checks() *cluster.Env { return &cluster.Env{Cluster: lab.Cluster} }

var client = &http.Client{Timeout: time.Minute}

func get(t *testing.T, url string) string {
	t.Helper()
	_, body, err := cluster.GetWith(t.Context(), client, url, "")
	cluster.Must(t, err)
	return body
}

func post(t *testing.T, url string) {
	t.Helper()
	eventually(t, "posting to "+url, func() error {
		resp, err := client.Post(url, "", http.NoBody)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
}
