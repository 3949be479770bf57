// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// changesGroup goes by the page about the change of the API group, there and back, with a rule of the chart, a node
// that it holds and one that has completed it. Helm refuses to go back before the rules are moved back.
func changesGroup(t *testing.T) {
	const page = "docs/change-api-group.md"
	groups, nodes := v1alpha1.Groups(), atLeast(t, 2)
	held, completed := nodes[0].Name, nodes[1].Name
	holdOne(t, true)
	report(t, completed, "example.com/Removed", true)
	kubectl(t, "label", "node", completed, "--overwrite", "example.com/pool=removed")
	recorded := func(in v1alpha1.Group) {
		t.Helper()
		kubectl(t, "-n", "nodegate-system", "rollout", "status", "deployment/nodegate-manager", "--timeout=5m")
		uid := kubectl(t, "get", "nodereadinessrules."+in.Name, "removed", "-o",
			"jsonpath={.metadata.uid}{.metadata.deletionTimestamp}")
		for node, key := range map[string]string{held: v1alpha1.RecordAnnotationPrefix, completed: in.MarkerPrefix} {
			eventually(t, node+" has "+key+uid, func() error {
				text, err := lab.Kubectl(t.Context(), "get", "node", node, "-o", "jsonpath={.metadata.annotations}")
				if err == nil && !strings.Contains(text, key+uid) {
					err = fmt.Errorf("annotations: %s", text)
				}
				return err
			})
		}
	}
	recorded(groups[0])
	changes := watchTaints(t, removed)
	pairs := append([]string{"config/own-group-crd", filepath.Join(checkout, "config", "own-group-crd")}, inThisLab()...)
	move := func(to string) {
		follow(t, documented(t, page, "", "kubectl -n nodegate-system scale"))
		eventually(t, "the rules are moved", func() error {
			out, err := lab.Tool(t.Context(), filepath.Join(lab.Dir, "kubectl-nodegate"), "convert", "--live", "--yes",
				"--to="+to)
			t.Log(out)
			return err
		})
	}

	follow(t, documented(t, page, "", "kubectl apply"), pairs...)
	move(groups[1].Name)
	follow(t, documented(t, page, "", "helm upgrade"), pairs...)
	recorded(groups[1])
	out, err := helm(t.Context(), "rollback", "nodegate", "-n", "nodegate-system")
	if err == nil || !strings.Contains(err.Error(), "nodegate-group-check") {
		t.Fatalf("a rollback to a revision of the other group: %v\n%s", err, out)
	}
	follow(t, documented(t, page, "", "kubectl -n nodegate-system delete secret"))
	follow(t, documented(t, page, "", "helm upgrade"), pairs...)
	recorded(groups[1])

	move(groups[0].Name)
	follow(t, documented(t, page, "", "helm upgrade"), append(pairs, groups[1].Name, groups[0].Name)...)
	recorded(groups[0])
	if got := changes(); len(got) > 0 {
		t.Errorf("the change of the API group has changed taints: %q", got)
	}
	follow(t, documented(t, removal, "In order", ""))
	kubectl(t, "delete", "crd", "nodereadinessrules."+groups[1].Name, "--timeout=5m")
	nothingLeft(t)
	kubectl(t, "label", "node", completed, "example.com/pool-")
	kubectl(t, "taint", "node", completed, foreign+"-")
}
