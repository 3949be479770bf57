// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
)

// keepsEndpoints: one node dies, and its endpoint goes. Then all kubelets are silent, and the pods behind a Service
// answer each request. Without evictionGuard.endpoints, the Service has no endpoints then.
func keepsEndpoints(t *testing.T) {
	ctx := t.Context()
	for _, n := range lab.Nodes {
		kubectl(t, "label", "node", n.Name, "example.com/link=shared")
	}
	apply(t, strings.NewReplacer("WORKLOAD", "linked", "SELECTOR", "example.com/link: shared").Replace(web))
	kubectl(t, "scale", "deployment/linked", "--replicas", strconv.Itoa(len(lab.Nodes)))
	kubectl(t, "rollout", "status", "deployment/linked", "--timeout=5m")
	kubectl(t, "expose", "deployment/linked", "--port=80", "--target-port=8080")
	apply(t, `apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: {name: link}
spec:
  nodeSelector: {matchLabels: {example.com/link: shared}}
  conditions: [{type: Ready, requiredStatus: "True"}]
  evictionGuard: {endpoints: {}}
`)
	armed := func() error {
		got, err := lab.Kubectl(ctx, "get", "keptendpoints", "nodegate", "-o", "jsonpath={.rules[0].nodes}")
		if err == nil && strings.Count(got, `:""`) != len(lab.Nodes) {
			err = fmt.Errorf("the states are %s", got)
		}
		return err
	}
	eventually(t, "all nodes are armed", armed)
	answered, failed := requests(t, kubectl(t, "get", "service", "linked", "-o", "jsonpath={.spec.clusterIP}"))
	eventually(t, "the Service answers", func() error { return atLeastMore(answered, 0, 1) })

	// The last node dies: no replica of the operator is there.
	last := lab.Nodes[len(lab.Nodes)-1]
	cluster.Must(t, last.Unplug())
	t.Cleanup(func() { _ = last.Plug() })
	ready := func() string {
		return kubectl(t, "get", "endpointslices", "-l", "kubernetes.io/service-name=linked", "-o",
			`jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.nodeName}{"\n"}{end}`)
	}
	eventually(t, "its endpoints are gone", func() error {
		if nodes := ready(); strings.Contains(nodes, last.Name) || nodes == "" {
			return fmt.Errorf("the endpoints are on %s", strings.Fields(nodes))
		}
		return nil
	})
	since := answered.Load()
	eventually(t, "the Service answers without it", func() error { return atLeastMore(answered, since, 20) })
	cluster.Must(t, last.Plug())
	kubectl(t, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5m")
	eventually(t, "all nodes are armed again", armed)
	kubectl(t, "rollout", "status", "deployment/linked", "--timeout=5m")
	since = answered.Load()
	eventually(t, "the Service answers with it", func() error { return atLeastMore(answered, since, 20) })
	failed.Store(0)

	for _, n := range lab.Nodes {
		cluster.Must(t, n.Kubelet.Pause())
		t.Cleanup(func() { _ = n.Kubelet.Resume() })
	}
	pods := kubectl(t, "get", "pods", "-l", "app=linked", "-o", "jsonpath={.items[*].metadata.name}")
	for pod := range strings.FieldsSeq(pods) {
		eventually(t, "the node controller has tried to mark "+pod, func() error {
			of := "reason=NodeNotReady,involvedObject.name=" + pod
			out, err := lab.Kubectl(ctx, "get", "events", "--field-selector", of, "-o", "name")
			if err == nil && out == "" {
				err = fmt.Errorf("there is no event")
			}
			return err
		})
	}
	since = answered.Load()
	eventually(t, "the Service still answers", func() error { return atLeastMore(answered, since, 20) })
	if n := failed.Load(); n > 0 {
		t.Errorf("%d requests failed in the outage", n)
	}

	kubectl(t, "patch", "nrr", "link", "--type=json", "-p", `[{"op": "remove", "path": "/spec/evictionGuard/endpoints"}]`)
	eventually(t, "without endpoints it does not answer", func() error { return atLeastMore(failed, 0, 1) })
	for _, n := range lab.Nodes {
		cluster.Must(t, n.Kubelet.Resume())
	}
	kubectl(t, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5m")
	since = answered.Load()
	eventually(t, "the Service answers again", func() error { return atLeastMore(answered, since, 5) })
	kubectl(t, "delete", "nrr/link", "service/linked", "deployment/linked", "--timeout=5m")
	kubectl(t, "label", "nodes", "--all", "example.com/link-")
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "deployment/nodegate-manager", "--timeout=5m")
}

// requests sends requests to a Service from the first node, until the test ends, and counts what becomes of them.
func requests(t *testing.T, address string) (answered, failed *atomic.Int64) {
	t.Helper()
	answered, failed = &atomic.Int64{}, &atomic.Int64{}
	cmd := lab.Nodes[0].Command(t.Context(), "/bin/bash", "-c", fill(`while :; do
		if exec 3<>/dev/tcp/ADDRESS/80 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && read -r -t 60 line <&3 &&
			[[ $line == *200* ]]
		then echo answered; else echo failed; fi
		exec 3>&-
		sleep 0.1
	done`, "ADDRESS", address))
	out, err := cmd.StdoutPipe()
	cluster.Must(t, err)
	cluster.Must(t, cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "answered" {
				answered.Add(1)
			} else {
				failed.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return answered, failed
}

// atLeastMore wants a count to have grown.
func atLeastMore(count *atomic.Int64, since, more int64) error {
	if got := count.Load() - since; got < more {
		return fmt.Errorf("%d requests", got)
	}
	return nil
}
