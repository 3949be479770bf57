// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/page"
)

const networkTaint = "readiness.k8s.io/NetworkReady"

// cni is the DaemonSet that the page's rule waits for; its pods come where the test says.
const cni = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: calico-node, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: calico-node}}
  template:
    metadata: {labels: {k8s-app: calico-node}}
    spec:
      nodeSelector: {example.com/warm: "yes"}
      tolerations: [{operator: Exists}]
      containers:
      - name: cni
        image: registry.example.com/cni:1
        readinessProbe: {httpGet: {path: /, port: 9099}}
`

func TestTheFirstRule(t *testing.T) {
	e := newEnv(t)
	p := page.Open(e.Env, "first-rule.md")
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Name = "network"
	e.Discard(rule)
	e.ApplyText(cni)
	e.AddNode("worker-1", nil)
	e.follow(networkTaint)
	gate := func(what string, node string, want ...bool) {
		t.Helper()
		e.Eventually(what, e.gates(node, want...))
	}

	p.Must("kubectl nodegate lint --live -f network.yaml")
	var exit *exec.ExitError
	out, err := p.Run("kubectl nodegate simulate -f network.yaml --enforce")
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(out, "worker-1") {
		t.Errorf("the simulation ends with %v, and says:\n%s", err, out)
	}

	p.Must("kubectl apply -f network.yaml")
	p.Must("kubectl wait nrr/network --for=jsonpath='{.status.dryRunResults.summary}' --timeout=60s")
	p.Must("kubectl get nrr network")
	p.Becomes("the rehearsal names the node", `\["worker-1"\]`,
		`kubectl get nrr network -o jsonpath='{.status.dryRunResults.summary}{"\n"}`+
			`{.status.dryRunResults.nodesToTaint}{"\n"}'`)
	e.settle()
	e.Must(e.gates("worker-1", false)())

	p.Must(`kubectl patch nrr network --type=merge -p '{"spec":{"dryRun":false}}'`)
	p.Must("kubectl wait nrr/network --for=condition=Ready --timeout=60s")
	gate("a node that was there is held", "worker-1", false, true)
	p.Becomes("nodes are tainted at creation", networkTaint,
		`kubectl create -f probe.yaml --dry-run=server -o jsonpath='{.spec.taints}{"\n"}'`)
	e.AddNode("worker-2", nil)
	gate("a new node is held", "worker-2", true)

	p.Becomes("the status counts both", `network .* 2 +0 +2 `, "kubectl nodegate status")
	p.Shows("kubectl nodegate status")
	p.Shows("kubectl nodegate why NODE", "NODE", "worker-2")
	p.Shows("kubectl get nrr network")
	p.Shows("kubectl events -n default --for node/NODE", "NODE", "worker-1")
	troubleshoot(e)

	p.Must("kubectl nodegate release NODE --yes", "NODE", "worker-2")
	gate("it is released by hand", "worker-2", true, false)
	p.Must("kubectl nodegate release NODE --undo --yes", "NODE", "worker-2")
	gate("and held again", "worker-2", true, false, true)
	p.Must("kubectl annotate node NODE nodegate.io/override=Release", "NODE", "worker-2")
	gate("and so without the plugin", "worker-2", true, false, true, false)
	p.Must("kubectl annotate node NODE nodegate.io/override-", "NODE", "worker-2")
	gate("and back", "worker-2", true, false, true, false, true)

	e.warmUp("worker-1", "worker-2")
	p.Must("kubectl wait nrr/network --for=condition=NodesReady --timeout=30m")
	gate("the pods are ready, and the node opens", "worker-1", false, true, false)
	p.Must("kubectl delete nrr network")
	p.Done()
}

// troubleshoot runs the commands with which the page about symptoms asks the cluster, while a rule holds nodes. It
// leaves out those about pods of the operator and of the agents, which run here as processes or not at all.
func troubleshoot(e *env) {
	e.T.Helper()
	p := page.Open(e.Env, "troubleshooting.md")
	ran := 0
	for _, command := range p.Commands {
		asks := strings.HasPrefix(command, "kubectl get ") || strings.HasPrefix(command, "kubectl events ") ||
			strings.HasPrefix(command, "kubectl nodegate why ") || strings.HasPrefix(command, "kubectl nodegate status")
		if !asks || strings.Contains(command, "pod POD") {
			continue
		}
		ran++
		p.Must(command, "NODE", "worker-2", "RULE", "network")
	}
	if ran < 10 {
		e.T.Errorf("only %d commands found: this test has gone blind", ran)
	}
	p.Must(`kubectl patch mutatingwebhookconfiguration nodegate-webhook --type=json ` +
		`-p '[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'`)
}
