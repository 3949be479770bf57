// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestThePolicyOfPublishedConditions: with the component, the operator may change the conditions that rules publish,
// and nothing else in the status of nodes.
func TestThePolicyOfPublishedConditions(t *testing.T) {
	g := NewWithT(t)
	var added []object
	for _, o := range overlay(t, "", nil, []string{"published-conditions"}) {
		if strings.Contains(o.GetName(), "published-conditions") {
			added = append(added, o)
		}
	}
	g.Expect(added).To(HaveLen(4))
	cluster.Must(t, apply(t.Context(), added))
	t.Cleanup(func() {
		for _, o := range added {
			_ = kube.Delete(context.Background(), o)
		}
		cluster.Must(t, cluster.AwaitPolicies(context.Background(), kube)) // it refuses nothing in another test
	})
	as := stolen(t)
	n := build.MakeNode("published")
	for name, reason := range map[string]string{"Ready": "Theirs", "example.com/Theirs": "Theirs",
		"example.com/Ours": "NodegateRuleReady", "example.com/Old": "NodegateRuleReady"} {
		n.Condition(name, corev1.ConditionTrue, time.Now()).Reason(name, reason, "")
	}
	node := n.Obj()
	create(t, node)
	patch := func(body string) error {
		return as.Status().Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}},
			client.RawPatch(types.StrategicMergePatchType, []byte(body)), client.DryRunAll)
	}
	for name, c := range map[string]struct {
		body    string
		refused string
	}{
		"a new condition":      {body: conditionPatch("example.com/New", "NodegateRuleNotReady")},
		"its own condition":    {body: conditionPatch("example.com/Ours", "NodegateRuleNotReady")},
		"its own is removed":   {body: `{"status":{"conditions":[{"$patch":"delete","type":"example.com/Old"}]}}`},
		"another reason":       {conditionPatch("example.com/Ours", "Other"), "begins with NodegateRule"},
		"another controller's": {conditionPatch("example.com/Theirs", "NodegateRuleReady"), "begins with NodegateRule"},
		"kubelet's":            {conditionPatch("Ready", "NodegateRuleReady"), "begins with NodegateRule"},
		"another controller's is removed": {
			`{"status":{"conditions":[{"$patch":"delete","type":"example.com/Theirs"}]}}`,
			"begins with NodegateRule"},
		"a type without a domain": {conditionPatch("New", "NodegateRuleReady"), "has a domain"},
		"a type of Kubernetes":    {conditionPatch("node.kubernetes.io/New", "NodegateRuleReady"), "has a domain"},
		"a label":                 {`{"metadata":{"labels":{"a":"b"}}}`, "metadata"},
		"the capacity":            {`{"status":{"capacity":{"cpu":"1"}}}`, "nothing of a node's status"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, patch(c.body), c.refused)
		})
	}
}
