// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/bench/synthetic"
	"github.com/nodegate/nodegate/test/browser"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestManyNodes shows 15,000 nodes, a third of them held, from a server that keeps them in memory.
func TestManyNodes(t *testing.T) {
	const many, changed = 15000, 50
	b := browser.Start(t)
	definition, err := crd.Load()
	cluster.Must(t, err)
	server := synthetic.New(definition.DeepCopy())
	api, stop, err := server.Serve()
	cluster.Must(t, err)
	defer stop()
	taint := corev1.Taint{Key: "readiness.k8s.io/network", Value: "pending", Effect: corev1.TaintEffectNoSchedule}
	rule := build.MakeRule("network").SelectorExpression("example.com/pool", "Exists").Condition(cni).
		Taint(taint.Key, taint.Value, taint.Effect).Obj()
	rule.UID, rule.Generation = "rule", 1
	server.Put("nodereadinessrules", rule)
	key := ruleset.Compile(rule, nil, time.Now()).RecordKey()
	record := nodeview.Record{Rule: rule.Name, Taint: nodeview.FormatTaint(taint), Since: metav1.Now()}
	name := func(i int) string { return fmt.Sprintf("ip-10-%d-%d-%d.region-1.internal", i>>16, i>>8&255, i&255) }
	for i := range many {
		node := build.MakeNode(name(i)).Label("example.com/pool", fmt.Sprint(i%12)).
			Condition(cni, corev1.ConditionTrue, time.Now())
		if i%3 == 0 {
			node = node.Condition(cni, corev1.ConditionFalse, time.Now()).Taint(taint.Key, taint.Value, taint.Effect).
				Annotation(key, record.Encode())
		}
		server.Put("nodes", node.Obj())
	}
	url, _ := start(t, "--kubeconfig", cluster.Kubeconfig(t, api, nil, ""))
	page := browser.Open(b, t, url)
	page.Look(1280, 800, "screen", "prefers-color-scheme", "light")
	page.AwaitText("h1", "5000 nodes are held")
	page.Set("location.hash = '#/fleet'")
	page.Await("all nodes are cells on one screen", fmt.Sprintf("board.canvas?.dataset.cells === '%d' && "+
		"!board.layout && document.documentElement.scrollHeight <= innerHeight + 1", many))

	drawn := browser.Eval[int](page, "app.drawn")
	for i := range changed {
		server.Change(name(3*i), func(n *corev1.Node) { n.Spec.Taints, n.Annotations = nil, nil })
	}
	page.AwaitText("main", fmt.Sprintf("%d nodes, %d held.", many, many/3-changed))
	page.Await("all is drawn", "board.dirty.size === 0")
	if n := browser.Eval[int](page, "app.drawn") - drawn; n != changed {
		t.Errorf("%d cells were drawn for %d changed nodes", n, changed)
	}
}
