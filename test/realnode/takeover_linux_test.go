// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// migration is the page that takesOver goes by.
	migration = "docs/migrate-from-node-readiness-controller.md"

	networkTaint, storageTaint = "readiness.k8s.io/NetworkReady", "readiness.k8s.io/StorageReady"
	networkRule, storageRule   = "network-readiness-rule", "storage-readiness-rule"
)

// takesOver goes by the page about coming from the incumbent controller, on a cluster that looks as that controller
// leaves it. Its images are not at hand: what it and its reporter have written is written here in their place.
func takesOver(t *testing.T) {
	ctx := t.Context()
	nodes := atLeast(t, 4)
	held, completed, completedEarlier, relabelled := nodes[0], nodes[1].Name, nodes[2].Name, nodes[3].Name
	incumbent(t, held.Name, completed, completedEarlier, relabelled)
	network, storage := watchTaints(t, networkTaint), watchTaints(t, storageTaint)

	const steps = "Taking over a cluster"
	follow(t, documented(t, migration, steps, "kubectl -n nrr-system scale"))
	follow(t, documented(t, migration, steps, "kubectl delete validatingwebhookconfiguration"), "NAME",
		"nrr-validating-webhook-configuration")
	follow(t, documented(t, migration, steps, "kubectl replace"), inThisLab()...)
	installDocumented(t)

	eventually(t, "both rules are in force, and count their nodes", func() error {
		for rule, want := range map[string]v1alpha1.NodeCounts{
			networkRule: {Matched: 3, Ready: 2, Held: 1},
			storageRule: {Matched: 3, Ready: 2, Held: 1},
		} {
			if err := checks().Counts(rule, want)(); err != nil {
				return err
			}
		}
		return nil
	})
	eventually(t, "the taint that only the old status told of is gone",
		func() error { return tainted(relabelled, networkTaint, false) })
	wantTaints(t, map[string][]string{
		held.Name: {networkTaint + "=pending", storageTaint + "=waiting"},
		completed: nil, completedEarlier: nil, relabelled: nil,
	})

	// A rule can be edited, and the fields that were unknown are kept.
	kubectl(t, "patch", "nrr", storageRule, "--type=merge", "-p",
		`{"spec": {"maxUnavailable": "50%", "taint": {"value": "pending"}}}`)
	eventually(t, "the taint has the rule's new value", says(ctx, "pending", "get", "node", held.Name, "-o",
		`jsonpath={.spec.taints[?(@.key=="`+storageTaint+`")].value}`))
	if got := kubectl(t, "get", "nrr", storageRule, "-o", "jsonpath={.spec.maxUnavailable}"); got != "50%" {
		t.Errorf("maxUnavailable is %q", got)
	}

	// What is held goes on to be held for its reason, and no longer.
	report(t, held.Name, "projectcalico.org/CalicoReady", true)
	eventually(t, "the node is released", func() error { return tainted(held.Name, networkTaint, false) })
	uid := kubectl(t, "get", "nrr", networkRule, "-o", "jsonpath={.metadata.uid}")
	eventually(t, "it is marked as the others are", says(ctx, `{"rule-name":"`+networkRule+`"}`, "get", "node", held.Name,
		"-o",
		`jsonpath={.metadata.annotations.readiness\.k8s\.io/bootstrap-completed-`+uid+`}`))
	report(t, held.Name, "example.com/StorageReady", true)
	eventually(t, "so does the other rule", func() error { return tainted(held.Name, storageTaint, false) })

	got := network()
	slices.Sort(got)
	if diff := cmp.Diff([]string{held.Name + " is released", relabelled + " is released"}, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", networkTaint, diff)
	}
	if diff := cmp.Diff([]string{held.Name + " is released"}, storage()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", storageTaint, diff)
	}
	kubectl(t, "delete", "namespace", "nrr-system", "--timeout=5m")
	follow(t, documented(t, removal, "In order", "")) // the rules have their finalizer from the other controller
	nothingLeft(t)
}

// atLeast are the nodes, with new ones where there are too few.
func atLeast(t *testing.T, number int) []*Node {
	t.Helper()
	for len(lab.Nodes) < number {
		addNode(t, true)
	}
	for _, n := range lab.Nodes {
		eventually(t, n.Name+" registers", says(t.Context(), n.Name, "get", "node", n.Name, "-o",
			"jsonpath={.metadata.name}"))
		kubectl(t, "wait", "--for=condition=Ready", "node", n.Name, "--timeout=5m")
	}
	return lab.Nodes
}

// incumbent makes the cluster look as if that controller had run until now: one node held by both rules, two that have
// completed one, marked in its two forms, and one that was relabelled while it was held, which that controller forgets.
func incumbent(t *testing.T, held, completed, completedEarlier, relabelled string) {
	t.Helper()
	kubectl(t, "-n", "kube-system", "delete", "daemonset", "cni-reporter", "calico-node", "--ignore-not-found",
		"--timeout=5m")
	kubectl(t, "label", "node", "--overwrite", held, completed, completedEarlier, "example.com/pool=inherited")

	kubectl(t, "apply", "-f", "testdata/incumbent/definition.yaml")
	kubectl(t, "wait", "--for=condition=Established", "crd/nodereadinessrules.readiness.node.x-k8s.io", "--timeout=5m")
	eventually(t, "rules can be written", func() error {
		_, err := lab.Kubectl(t.Context(), "apply", "-f", "testdata/incumbent/rules.yaml")
		return err
	})
	_, err := lab.Kubectl(t.Context(), "patch", "nrr", networkRule, "--type=merge", "-p",
		`{"spec": {"enforcementMode": "continuous"}}`)
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Fatalf("the CRD is not the other controller's: %v", err)
	}
	kubectl(t, "apply", "-f", "testdata/incumbent/controller.yaml")
	kubectl(t, "-n", "nrr-system", "rollout", "status", "deployment/nrr-controller-manager", "--timeout=5m")

	for _, node := range []string{held, completed, completedEarlier} {
		report(t, node, "projectcalico.org/CalicoReady", false) // which is no matter for a node that was ready once
		report(t, node, "example.com/StorageReady", node != held)
	}
	uid := kubectl(t, "get", "nrr", networkRule, "-o", "jsonpath={.metadata.uid}")
	const mark = `readiness.k8s.io/bootstrap-completed-`
	kubectl(t, "annotate", "node", completed, mark+uid+`={"rule-name":"`+networkRule+`"}`)
	kubectl(t, "annotate", "node", completedEarlier, mark+networkRule+`=true`)
	kubectl(t, "taint", "node", held, relabelled, networkTaint+"=pending:NoSchedule")
	kubectl(t, "taint", "node", held, storageTaint+"=waiting:NoSchedule")
	writeStatus(t, networkRule, map[string]string{held: "Present", completed: "Absent", completedEarlier: "Absent",
		relabelled: "Present"})
	writeStatus(t, storageRule, map[string]string{held: "Present", completed: "Absent", completedEarlier: "Absent"})
}

// writeStatus writes the status of a rule as the incumbent controller does: all nodes, each time.
func writeStatus(t *testing.T, rule string, taints map[string]string) {
	t.Helper()
	type evaluation struct {
		NodeName           string `json:"nodeName"`
		TaintStatus        string `json:"taintStatus"`
		LastEvaluationTime string `json:"lastEvaluationTime"`
	}
	var applied []string
	var evaluations []evaluation
	for node, taint := range taints {
		applied = append(applied, node)
		evaluations = append(evaluations, evaluation{node, taint, "2026-01-02T03:04:05Z"})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"observedGeneration": 1, "appliedNodes": applied,
		"nodeEvaluations": evaluations}})
	cluster.Must(t, err)
	kubectl(t, "patch", "nrr", rule, "--subresource=status", "--type=merge", "-p", string(patch))
}

// wantTaints wants nodes to have just these taints of rules, with these values.
func wantTaints(t *testing.T, want map[string][]string) {
	t.Helper()
	for node, taints := range want {
		var got []string
		for taint := range strings.FieldsSeq(kubectl(t, "get", "node", node, "-o",
			`jsonpath={range .spec.taints[*]}{.key}={.value} {end}`)) {
			if strings.HasPrefix(taint, "readiness.k8s.io/") {
				got = append(got, taint)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(taints, got); diff != "" {
			t.Errorf("taints of %s (-want +got):\n%s", node, diff)
		}
	}
}
