// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const networkTaint = "readiness.k8s.io/NetworkReady"

// cni is the DaemonSet that the page's rule waits for; its pods come where the test says.
const cni = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cni-node, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: cni-node}}
  template:
    metadata: {labels: {k8s-app: cni-node}}
    spec:
      nodeSelector: {example.com/warm: "yes"}
      tolerations: [{operator: Exists}]
      containers:
      - name: cni
        image: registry.example.com/cni:1
        readinessProbe: {httpGet: {path: /, port: 9099}}
`

// plugin builds kubectl-nodegate to where the commands of the pages find it.
func (w *world) plugin(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(w.Dir(), "kubectl-nodegate"), "./cmd/kubectl-nodegate")
	cmd.Dir, cmd.Env = w.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
}

func TestTheFirstRule(t *testing.T) {
	w := sharedCluster(t)
	w.plugin(t)
	p := open(t, w, "first-rule.md")
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Name = "network"
	w.discard(t, rule)
	w.apply(t, cni)
	workers := map[string]string{"example.com/pool": "workers"}
	w.node(t, "worker", workers)
	h := w.follow(t, networkTaint)
	gate := func(what string, node string, want ...bool) {
		t.Helper()
		cluster.Eventually(t, what, func() error { return h.is(node, want...) })
	}

	p.must("kubectl nodegate lint --live -f network.yaml")
	var exit *exec.ExitError
	if out, err := p.run("kubectl nodegate simulate -f network.yaml --enforce"); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(out, "worker") {
		t.Errorf("the simulation ends with %v, and says:\n%s", err, out)
	}

	p.must("kubectl apply -f network.yaml")
	p.must("kubectl get nrr network")
	cluster.Eventually(t, "the rehearsal names the node", func() error {
		out := p.must(`kubectl get nrr network -o jsonpath='{.status.dryRunResults.summary}{"\n"}{.status.dryRunResults.nodesToTaint}{"\n"}'`)
		if !strings.Contains(out, `["worker"]`) {
			return errors.New(out)
		}
		return nil
	})
	must(t, h.is("worker", false))

	p.must(`kubectl patch nrr network --type=merge -p '{"spec":{"dryRun":false}}'`)
	p.must("kubectl wait nrr/network --for=condition=Ready --timeout=60s")
	gate("a node that was there is held", "worker", false, true)
	cluster.Eventually(t, "nodes are born gated", func() error {
		out := p.must(`kubectl create -f probe.yaml --dry-run=server -o jsonpath='{.spec.taints}{"\n"}'`)
		if !strings.Contains(out, networkTaint) {
			return errors.New(out)
		}
		return nil
	})
	w.node(t, "newcomer", workers)
	must(t, h.seen(t, "newcomer", true))

	if out := p.must("kubectl nodegate status"); !strings.Contains(out, "network") {
		t.Error(out)
	}
	p.must("kubectl get nrr network -o wide")
	if out := p.must("kubectl nodegate explain node NODE", "NODE", "newcomer"); !strings.Contains(out, "is held by rule network") {
		t.Error(out)
	}
	p.must("kubectl events --for node/NODE", "NODE", "newcomer")
	w.troubleshoot(t)

	p.must("kubectl nodegate release node NODE --yes", "NODE", "newcomer")
	gate("it is released by hand", "newcomer", true, false)
	p.must("kubectl nodegate clear node NODE --yes", "NODE", "newcomer")
	gate("and held again", "newcomer", true, false, true)
	p.must("kubectl annotate node NODE readiness.node.x-k8s.io/override=Release", "NODE", "newcomer")
	gate("and so without the plugin", "newcomer", true, false, true, false)
	p.must("kubectl annotate node NODE readiness.node.x-k8s.io/override-", "NODE", "newcomer")
	gate("and back", "newcomer", true, false, true, false, true)

	w.warmed(t, "worker", "newcomer")
	p.must("kubectl wait nrr/network --for=condition=NodesReady --timeout=30m")
	gate("the pods are ready, and the node opens", "worker", false, true, false)
	p.must("kubectl delete nrr network")
	p.done()
}

// troubleshoot runs what the page about symptoms asks the cluster, while a rule holds nodes. What is about pods of the operator and of
// the agents, which run here as processes or not at all, is left out.
func (w *world) troubleshoot(t *testing.T) {
	t.Helper()
	p := open(t, w, "troubleshooting.md")
	ran := 0
	for _, command := range p.commands {
		asks := strings.HasPrefix(command, "kubectl get ") || strings.HasPrefix(command, "kubectl events ") ||
			strings.HasPrefix(command, "kubectl nodegate explain ") || strings.HasPrefix(command, "kubectl nodegate status")
		if !asks || strings.Contains(command, "pod POD") {
			continue
		}
		ran++
		p.must(command, "NODE", "newcomer", "RULE", "network")
	}
	if ran < 10 {
		t.Errorf("only %d commands found: this test has gone blind", ran)
	}
	p.must(`kubectl patch mutatingwebhookconfiguration nodegate-webhook --type=json -p '[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'`)
}
