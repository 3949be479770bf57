// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/page"
)

// Kyverno cannot run here. A policy of the API server's own, with the nodes as its parameters, denies the same
// deletions.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kosmos-node-not-ready}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: Node}
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}
  matchConditions:
  - {name: user, expression: "request.userInfo.username == 'system:serviceaccount:kube-system:node-controller'"}
  validations:
  - expression: |-
      !has(oldObject.spec.nodeName) || oldObject.spec.nodeName != params.metadata.name ||
      has(params.status.conditions) && params.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')
    message: by the old policy
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kosmos-node-not-ready}
spec:
  policyName: kosmos-node-not-ready
  validationActions: [Deny]
  paramRef:
    selector: {matchExpressions: [{key: kosmos.io/node, operator: Exists}]}
    parameterNotFoundAction: Allow
`

// policed applies the old policy and waits until it denies deletions of pods of a node that is not ready.
func (e *env) policed() []*unstructured.Unstructured {
	e.T.Helper()
	objects := e.ApplyText(policy)
	node := e.node("probe", true)
	probe := e.pods(node, 1, 2)[0]
	e.SetKubelet(node, false)
	controller, err := e.As(nodeController)
	e.Must(err)
	e.Eventually("the old policy denies", func() error {
		err := controller.Delete(e.T.Context(), probe.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "by the old policy") {
			return fmt.Errorf("the answer is: %w", err)
		}
		return nil
	})
	return objects
}

// TestFromAKyvernoPolicy: the page's rule is that of examples/eviction-guard. It selects the nodes of other tests, too.
func TestFromAKyvernoPolicy(t *testing.T) {
	e := newEnv(t)
	p := page.Open(e.Env, "migrate-from-kyverno-policy.md")
	old := e.policed()
	leaf, plain := e.node("leaf", true), e.node("plain", false)
	kept, others := e.pods(leaf, 3, 2), e.pods(plain, 3, 2)

	e.SetKubelet(leaf, false)
	e.SetKubelet(plain, false)
	e.Eventually("the pods that are not guarded are evicted", e.gone(others))
	e.deniedAtLeast(kept, attempts)

	// The rule comes while the node is lost, and then the policy is deleted.
	e.Discard(&v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "kosmos-link"}})
	p.Must("kubectl apply -f kosmos-link.yaml")
	p.Must("kubectl wait nrr/kosmos-link --for=condition=Guarding --timeout=60s")
	for _, o := range old {
		e.Remove(o)
	}
	denies := func(what, want string) {
		t.Helper()
		const ask = "kubectl -n NAMESPACE delete pod POD --dry-run=server --as=" + nodeController
		e.Eventually(what, func() error {
			out, err := p.Run(ask, "NAMESPACE", "default", "POD", kept[0].Name)
			if err == nil || !strings.Contains(out, want) {
				return fmt.Errorf("the answer is %s (%w)", out, err)
			}
			return nil
		})
	}
	denies("only the rule denies", "the eviction guard of rule kosmos-link")
	before := e.denied(kept)
	e.tryAgain(leaf)
	e.deniedAtLeast(kept, before+attempts)
	const guarding = `kubectl get nrr kosmos-link -o jsonpath='{.status.conditions[?(@.type=="Guarding")].message}'`
	if out := p.Must(guarding); out == "" {
		t.Error("the condition says nothing")
	}

	e.SetKubelet(leaf, true)
	e.Eventually("the node controller removes its taints", e.evicting(leaf, false))
	e.guardEnded(leaf)

	// And back, while no node is guarded.
	e.ApplyText(policy)
	p.Must("kubectl delete nrr kosmos-link")
	before = e.denied(kept)
	e.SetKubelet(leaf, false)
	denies("the policy denies again", "by the old policy")
	e.deniedAtLeast(kept, before+attempts)
	e.Must(e.alive(kept)())
	e.noneDeleted(kept)
	p.Done("kubectl delete clusterpolicy kosmos-node-not-ready")
}
