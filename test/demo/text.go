// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/nodegate/nodegate/test/cluster"
)

const closing = `
What you saw
  - Nodes that registered with the rule's taint, and that the rule held: the operator adopted the taint.
  - The condition projectcalico.org/CalicoReady, set node by node, as a reporter beside the CNI would.
  - The operator taking off a node's taint as soon as its condition was True, and the real scheduler placing pods there.
    No pod was bound to a node earlier than that; every binding was checked.
  - The same rule, edited in place to be continuous, holding a node again whose CNI had failed.
  Nodes and pods were simulated by kwok. etcd, API server, scheduler, controller manager and the operator were real.
`

// lookAround says how to go on.
func lookAround(c *cluster.Cluster) string {
	return fmt.Sprintf(`
Look around, in another terminal
  export KUBECONFIG=%s
  export PATH=%s:$PATH

  kubectl get nodereadinessrules
  kubectl get nodereadinessrule %s -o yaml      # the status tells of each node
  kubectl explain nodereadinessrule.spec
  kubectl events --for node/node-0
  curl -s %s | grep ^node_readiness

  # break a CNI, and look at the node's taints
  kubectl patch node node-0 --subresource=status \
    -p '{"status":{"conditions":[{"type":"%s","status":"False"}]}}'
  kubectl get node node-0 -o jsonpath='{.spec.taints}{"\n"}'

The operator's log is %s
Ctrl-C ends it all; nothing stays behind.
`, c.Kubeconfig(), c.Assets(), ruleName, c.Operator.MetricsURL, condition, c.Operator.LogFile())
}
