// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	definition = "nodereadinessrules.readiness.node.x-k8s.io"
	removed    = "readiness.k8s.io/Removed"
	foreign    = "example.com/foreign"
)

// uninstall goes by the page, with what the parts before have left: rules of all kinds, and agents.
func uninstall(t *testing.T) {
	n := lab.Nodes[0].Name
	kubectl(t, "taint", "node", n, foreign+"=yes:NoSchedule")
	kubectl(t, "label", "node", n, "--overwrite", "node-role.kubernetes.io/worker=")
	eventually(t, "it is held", func() error { return tainted(n, networkTaint, true) })

	follow(t, documented(t, removal, "In order", ""))
	nothingLeft(t)
	if err := tainted(n, foreign, true); err != nil {
		t.Error(err)
	}
	kubectl(t, "taint", "node", n, foreign+"-")
}

// uninstallsInAnyOrder takes away first what should go last, sees that the cluster can be lived with, and gets it clean
// as the page says.
func uninstallsInAnyOrder(t *testing.T) {
	inOrder := documented(t, removal, "In order", "")
	afterRelease := inOrder[1+slices.IndexFunc(inOrder, func(command []string) bool { return command[0] == "helm" }):]
	deleteNamespace := func(t *testing.T) { kubectl(t, "delete", "namespace", "nodegate-system", "--timeout=5m") }
	for _, order := range []struct {
		name  string
		more  []string // of the installation
		chart bool     // whether the rule is one of the chart's values
		wrong func(t *testing.T)
		held  bool // whether what was held is held then
		again bool // whether it is installed again after that
		then  [][]string
	}{
		{name: "the release first, with its rules", chart: true, wrong: uninstallRelease, then: afterRelease},
		{name: "the CRD first", chart: true, wrong: func(t *testing.T) {
			kubectl(t, "delete", "crd", definition, "--timeout=5m")
		}, then: documented(t, removal, "The CRD was deleted first", "")},
		{name: "the operator first", held: true, wrong: func(t *testing.T) {
			uninstallRelease(t)
			kubectl(t, "delete", "nrr", "--all", "--wait=false")
			kubectl(t, "delete", "crd", definition, "--wait=false")
		}, then: documented(t, removal, "The operator was deleted first", "")},
		{name: "the namespace first", held: true, more: []string{"--set",
			"nodeAdmission.failurePolicy=Fail,evictionGuard.endpoints.enabled=true,daemonSetNamespaces={kube-system}"},
			wrong: func(t *testing.T) {
				deleteNamespace(t)
				err := join(t, "no-answer", "")
				if err == nil || !strings.Contains(err.Error(), "nodes.webhooks.nodegate.io") {
					t.Errorf("with failurePolicy Fail a node should be refused: %v", err)
				}
				cluster.Must(t, join(t, "let-through", "node-restriction.kubernetes.io/skip-admission: ''"))
				follow(t, documented(t, removal, "The namespace was deleted first", "kubectl delete validatingwebhook"))
			}, then: documented(t, removal, "The namespace was deleted first", "")},
		{name: "the namespace first, and installed again", held: true, wrong: deleteNamespace, again: true, then: inOrder},
	} {
		t.Run(order.name, func(t *testing.T) {
			holdOne(t, order.chart, order.more...)
			order.wrong(t)
			n, other := lab.Nodes[0].Name, lab.Nodes[1].Name
			if err := errors.Join(tainted(n, removed, order.held),
				tainted(other, foreign, true)); err != nil {
				t.Error(err)
			}
			usable(t)
			if order.again {
				installDocumented(t)
			}
			follow(t, order.then, inThisLab()...)
			nothingLeft(t)
			if err := tainted(other, foreign, true); err != nil {
				t.Error(err)
			}
		})
	}
}

func uninstallRelease(t *testing.T) {
	t.Helper()
	follow(t, documented(t, removal, "In order", "helm uninstall"))
}

// holdOne installs Nodegate, with a rule that holds one node; another one has an unrelated taint.
func holdOne(t *testing.T, chart bool, more ...string) {
	t.Helper()
	nodes := atLeast(t, 2)
	kubectl(t, "label", "node", nodes[0].Name, "--overwrite", "example.com/pool=removed")
	kubectl(t, "taint", "node", nodes[1].Name, "--overwrite", foreign+"=yes:NoSchedule")
	const spec = `{"nodeSelector": {"matchLabels": {"example.com/pool": "removed"}}, "enforcementMode": "bootstrap-only",
		"conditions": [{"type": "example.com/Removed", "requiredStatus": "True"}],
		"taint": {"key": "readiness.k8s.io/Removed", "value": "pending", "effect": "NoSchedule"}}`
	if chart {
		more = append(more, "--set-json", `rules={"removed": {"spec": `+spec+`}}`)
	}
	installDocumented(t, more...)
	if !chart {
		apply(t, `{"apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule",
			"metadata": {"name": "removed"}, "spec": `+spec+`}`)
	}
	eventually(t, "the node is held", func() error { return tainted(nodes[0].Name, removed, true) })
}

// usable is a cluster that nodes can join, and where pods come and go.
func usable(t *testing.T) {
	t.Helper()
	cluster.Must(t, join(t, "joins", ""))
	apply(t, fill(`apiVersion: v1
kind: Pod
metadata: {name: passing}
spec:
  nodeSelector: {kubernetes.io/hostname: NODE}
  tolerations: [{key: example.com/foreign, operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: IMAGE}]
`, "NODE", lab.Nodes[1].Name, "IMAGE", PodImage))
	kubectl(t, "wait", "--for=condition=Ready", "pod/passing", "--timeout=5m")
	kubectl(t, "delete", "pod", "passing", "--timeout=5m")
}

// join has a node join, as far as the API server goes, and leave.
func join(t *testing.T, name, label string) error {
	t.Helper()
	_, err := lab.KubectlWith(t.Context(),
		fill(`{apiVersion: v1, kind: Node, metadata: {name: NAME, labels: {example.com/pool: removed, LABEL}}}`,
			"NAME", name, ", LABEL", strings.TrimSuffix(", "+label, ", ")), "create", "-f", "-")
	if err == nil {
		kubectl(t, "delete", "node", name, "--timeout=5m")
	}
	return err
}

// nothingLeft wants nothing of Nodegate to be left: on nodes, of what the cluster has, and of what it made for itself.
func nothingLeft(t *testing.T) {
	t.Helper()
	for _, node := range lab.Nodes {
		text := kubectl(t, "get", "node", node.Name, "-o", "yaml")
		for _, trace := range []string{networkTaint, storageTaint, removed,
			v1alpha1.Domain, "readiness.k8s.io/bootstrap"} {
			if strings.Contains(text, trace) {
				t.Errorf("%s is left on %s", trace, node.Name)
			}
		}
	}
	left := kubectl(t, "get", "clusterroles,clusterrolebindings,customresourcedefinitions,priorityclasses,namespaces,"+
		"validatingwebhookconfigurations,mutatingwebhookconfigurations,"+
		"validatingadmissionpolicies,validatingadmissionpolicybindings,"+
		"mutatingadmissionpolicies,mutatingadmissionpolicybindings", "-o", "name")
	left += "\n" + kubectl(t, "get", "roles,rolebindings,leases,configmaps,secrets,serviceaccounts,pods,jobs", "-A", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	for name := range strings.FieldsSeq(left) {
		if strings.Contains(name, "nodegate") || strings.Contains(name, "nodereadiness") {
			t.Errorf("%s is left", name)
		}
	}
}
