// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/nodegate/nodegate/test/cluster"
)

const closing = `
What you saw
  - Ten nodes registered with the rule's taint, and the operator adopted the taint.
  - The condition projectcalico.org/CalicoReady turned True node by node, as a reporter beside the CNI sets it.
  - The operator removed a node's taint as soon as the condition was True, and the scheduler placed pods there.
    No pod was bound to a node before that: the demo checks each binding.
  - The rule, edited to be continuous, held a node again when its CNI failed.
`

var closingAdmission = `
  - Three nodes joined without the taint, and had it in the answer to the request that created them.
`[1:]

var closingReal = `
  kwok simulates nodes and pods. etcd, API server, scheduler, controller manager and operator are real.
`[1:]

// lookAround returns commands to continue with.
func lookAround(c *cluster.Cluster) string {
	return fmt.Sprintf(`
Look around, in another terminal
  export KUBECONFIG=%[1]s
  make -C %[3]s kubectl-nodegate
  export PATH=%[3]s/bin:%[2]s:$PATH

  kubectl nodegate status
  kubectl get nodereadinessrule %[4]s -o yaml      # the status has the state of each node
  kubectl explain nodereadinessrule.spec
  kubectl events -n default --for node/node-0
  curl -s %[5]s | grep ^node_readiness

  # break a CNI, and ask why the node is held
  kubectl patch node node-0 --subresource=status \
    -p '{"status":{"conditions":[{"type":"%[6]s","status":"False"}]}}'
  kubectl nodegate why node-0

The operator's log: %[7]s
Ctrl-C stops everything and removes its files.
`, c.Kubeconfig(), c.Assets(), cluster.Root(), ruleName, c.Operator.MetricsURL, condition, c.Operator.LogFile())
}
