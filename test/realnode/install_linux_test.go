// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
		{"helm upgrades it, and nothing changes on the nodes", upgrade},
		{"a load balancer hears from the agents what is broken", agentsAnswer},
		{"an update of the agents takes nothing away from a load balancer", updatesAgents},
		{"a token is good for what it is needed for", permissions},
		{"no pod gets onto a held node past the scheduler", guardsBindings},
		{"pods live on when a kubelet is silent", guardsPods},
		{"a node waits for its network", waitsForNetwork},
		{"a node waits for what warms it up", waitsForWarmUp},
		{"uninstalled, nothing is left", uninstall},
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
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(checkout, "charts", "nodegate"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^version: .*`).ReplaceAll(text, []byte("version: 0.0.1"))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
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
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "deployment/nodegate-manager", "--timeout=180s")
}

// install installs the earlier chart. Its pods have a label that those of the upgrade do not have, so that the upgrade
// replaces them.
func install(t *testing.T) {
	chart(t, "install", earlier(t), "--create-namespace", "--set", "podLabels.version=earlier")
	// 90 % of the chart's 1Gi, read from the container's cgroup.
	logs := kubectl(t, "-n", "nodegate-system", "logs", "deployment/nodegate-manager")
	if want := `"GOMEMLIMIT":966367641`; !strings.Contains(logs, want) {
		t.Errorf("the operator's log does not say %s:\n%s", want, logs)
	}
}

// upgrade brings an earlier version to this one, with a rule, a node that is held and one that is not, while the leader
// is killed.
func upgrade(t *testing.T) {
	ctx := t.Context()
	held, open := lab.Nodes()[0].Name, lab.Nodes()[1].Name
	kubectl(t, "label", "node", held, open, "example.com/pool=upgraded")
	apply(t, `apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: {name: upgraded}
spec:
  nodeSelector: {matchLabels: {example.com/pool: upgraded}}
  conditions: [{type: example.com/Good, requiredStatus: "True"}]
  taint: {key: readiness.k8s.io/Upgraded, value: pending, effect: NoSchedule}
  enforcementMode: continuous
`)
	eventually(t, "both are held", func() error {
		return errors.Join(tainted(ctx, held, "readiness.k8s.io/Upgraded", true),
			tainted(ctx, open, "readiness.k8s.io/Upgraded", true))
	})
	report(t, open, "example.com/Good", "True")
	eventually(t, "one is released", func() error { return tainted(ctx, open, "readiness.k8s.io/Upgraded", false) })
	changes := watchTaints(t, "readiness.k8s.io/Upgraded")

	leader := kubectl(t, "-n", "nodegate-system", "get", "lease", "nodegate.readiness.node.x-k8s.io", "-o",
		"jsonpath={.spec.holderIdentity}")
	pod, _, _ := strings.Cut(leader, "_")
	kubectl(t, "-n", "nodegate-system", "delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
	chart(t, "upgrade", filepath.Join(checkout, "charts", "nodegate"), "--set", "agent.enabled=true", "--set",
		"agent.drainSeconds=10,agent.drainStatus=404,agent.runtimeSocket=true",
		"--set", "agent.agentCheckPort=25002", "--set", "agent.conditions={example.com/Published}", "--set",
		"podAdmission.enabled=true")
	if left := kubectl(t, "-n", "nodegate-system", "get", "jobs", "-o", "name"); left != "" {
		t.Errorf("%s is left of the upgrade", left)
	}
	eventually(t, "the new version leads, and looks at the rule", func() error {
		now, err := lab.Kubectl(ctx, "-n", "nodegate-system", "get", "lease", "nodegate.readiness.node.x-k8s.io", "-o",
			"jsonpath={.spec.holderIdentity}")
		if err == nil && (now == "" || now == leader) {
			err = fmt.Errorf("the leader is %q", now)
		}
		if err != nil {
			return err
		}
		pod, _, _ := strings.Cut(now, "_")
		return says(ctx, pod, "-n", "nodegate-system", "get", "pod", pod, "-o", "jsonpath={.metadata.name}")()
	})
	report(t, held, "example.com/Good", "True") // as soon as that is acted on, all else has been
	eventually(t, "the other one is released", func() error {
		return tainted(ctx, held, "readiness.k8s.io/Upgraded",
			false)
	})
	if got, want := changes(), []string{held + " is released"}; !slices.Equal(got, want) {
		t.Errorf("on the nodes %q, want only %q", got, want)
	}
	kubectl(t, "delete", "nrr", "upgraded", "--timeout=60s")
}

// report writes a condition of a node, as a reporter does.
func report(t *testing.T, node, conditionType, status string) {
	t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	kubectl(t, "patch", "node", node, "--subresource=status", "--type=strategic", "-p",
		fmt.Sprintf(`{"status": {"conditions": [{"type": %q, "status": %q, "reason": "Test",
			"lastHeartbeatTime": %q, "lastTransitionTime": %q}]}}`, conditionType, status, now, now))
}

// watchTaints watches a taint on all nodes. The function that it returns tells each change since.
func watchTaints(t *testing.T, key string) (changes func() []string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(lab.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	had := map[string]bool{}
	has := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	}
	for i := range list.Items {
		had[list.Items[i].Name] = has(&list.Items[i])
	}
	w, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	var seen []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok || had[n.Name] == has(n) {
				continue
			}
			had[n.Name] = has(n)
			seen = append(seen, n.Name+map[bool]string{true: " is held", false: " is released"}[has(n)])
		}
	}()
	return func() []string {
		w.Stop()
		<-done
		return seen
	}
}

// waitsForNetwork is the example of a CNI whose readiness a reporter tells, with a node that comes without a network
// for its pods, and a stand-in for Calico.
func waitsForNetwork(t *testing.T) {
	ctx := t.Context()
	example(t, "cni-readiness/network-readiness-rule.yaml")
	example(t, "cni-readiness/calico-rbac-node-status-patch-role.yaml")
	example(t, "cni-readiness/cni-reporter-ds.yaml", "ghcr.io/nodegate/nodegate:v0.1.0", Image)
	apply(t, calico)
	n := addNode(t, NodeOptions{WithoutNetwork: true})
	eventually(t, "the node registers", says(ctx, n.Name, "get", "node", n.Name, "-o", "jsonpath={.metadata.name}"))
	kubectl(t, "label", "node", n.Name, "node-role.kubernetes.io/worker=")
	eventually(t, "it is held", func() error { return tainted(ctx, n.Name, "readiness.k8s.io/NetworkReady", true) })
	apply(t, fill(web, "WORKLOAD", "web", "SELECTOR", `node-role.kubernetes.io/worker: ""`))
	pods := []string{"get", "pods", "-l", "app=web", "-o"}

	// The network comes, and kubelet calls the node Ready; what makes the network is not.
	if err := n.ConfigureNetwork(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "kubelet says that the node is Ready", says(ctx, "True", "get", "node", n.Name, "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}`))
	eventually(t, "the reporter says that Calico is not", says(ctx, "False", "get", "node", n.Name, "-o",
		`jsonpath={.status.conditions[?(@.type=="projectcalico.org/CalicoReady")].status}`))
	if err := tainted(ctx, n.Name, "readiness.k8s.io/NetworkReady", true); err != nil {
		t.Error(err)
	}
	if bound := kubectl(t, append(pods, "jsonpath={.items[*].spec.nodeName}")...); bound != "" {
		t.Errorf("pods were bound to %s too early", bound)
	}

	post(t, "http://"+n.Address+":9099/ready")
	kubectl(t, "rollout", "status", "deployment/web", "--timeout=180s")
	if err := tainted(ctx, n.Name, "readiness.k8s.io/NetworkReady", false); err != nil {
		t.Error(err)
	}
	for address := range strings.FieldsSeq(kubectl(t, append(pods, "jsonpath={.items[*].status.podIP}")...)) {
		if body := get(t, "http://"+address+":8080/"); !strings.Contains(body, "on "+n.Name) {
			t.Errorf("a pod answers %q", body)
		}
	}
}

// waitsForWarmUp is the example of an init DaemonSet, whose pod takes some seconds until it is ready.
func waitsForWarmUp(t *testing.T) {
	ctx := t.Context()
	for _, n := range lab.Nodes() { // those that are there are system nodes
		kubectl(t, "label", "node", n.Name, "kubernetes.azure.com/mode=system")
	}
	example(t, "startup-taint/rule.yaml")
	example(t, "startup-taint/init-daemonset.yaml", "registry.k8s.io/e2e-test-images/busybox:1.36.1-1", PodImage,
		`command: [sh, -c, "sleep 5 && touch /tmp/warm && sleep 2147483647"]`,
		"args: [serve, -listen=:8080, -ready-after=8s]",
		"exec: {command: [test, -f, /tmp/warm]}", "httpGet: {port: 8080, path: /readyz}")
	apply(t, fill(web, "WORKLOAD", "app", "SELECTOR", "example.com/pool: apps"))
	n := addNode(t, NodeOptions{Labels: map[string]string{"example.com/pool": "apps"}})
	eventually(t, "it is held", func() error { return tainted(ctx, n.Name, "startup.k8s.io/initializing", true) })
	kubectl(t, "rollout", "status", "deployment/app", "--timeout=180s")
	warm := when(t, "-n", "kube-system", "get", "pods", "-l", "startup.k8s.io/component=init",
		"--field-selector=spec.nodeName="+n.Name, "-o",
		`jsonpath={.items[0].status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
	for started := range strings.FieldsSeq(kubectl(t, "get", "pods", "-l", "app=app", "-o",
		"jsonpath={.items[*].status.containerStatuses[0].state.running.startedAt}")) {
		if at, err := time.Parse(time.RFC3339, started); err != nil || at.Before(warm) {
			t.Errorf("a pod started at %s, and the node was warm at %s (%v)", started, warm, err)
		}
	}
	eventually(t, "it is marked", func() error {
		out, err := lab.Kubectl(ctx, "get", "node", n.Name, "-o",
			`jsonpath={.metadata.annotations.startup\.k8s\.io/completedAt}`)
		if err == nil && out == "" {
			err = fmt.Errorf("no annotation startup.k8s.io/completedAt")
		}
		return err
	})
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
        args: [serve, -listen=:9099, -ready-after=24h]
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
func tainted(ctx context.Context, node, key string, want bool) error {
	out, err := lab.Kubectl(ctx, "get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
	if err != nil {
		return err
	}
	for k := range strings.FieldsSeq(out) {
		if k == key {
			if want {
				return nil
			}
			return fmt.Errorf("%s has %s", node, key)
		}
	}
	if want {
		return fmt.Errorf("%s does not have %s, but %s", node, key, out)
	}
	return nil
}

func when(t *testing.T, args ...string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, kubectl(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

var client = &http.Client{Timeout: 10 * time.Second}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
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
