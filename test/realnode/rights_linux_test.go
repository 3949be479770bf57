// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/cluster"
)

// permissions uses the token that kubelet gave to a pod of the agent: it is good for the conditions of its own node
// that the chart names. test/integration/install shows all that the service accounts may do.
func permissions(t *testing.T) {
	node, other := lab.Nodes()[0], lab.Nodes()[1]
	uid := kubectl(t, "-n", "nodegate-system", "get", "pods", "-l", "app.kubernetes.io/component=agent",
		"--field-selector=spec.nodeName="+node.Name, "-o", "jsonpath={.items[0].metadata.uid}")
	token, err := node.Run(t.Context(), "/bin/sh", "-c",
		"cat /var/lib/kubelet/pods/"+uid+"/volumes/kubernetes.io~projected/kube-api-access-*/token")
	cluster.Must(t, err)
	config := lab.Cluster.Config()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: strings.TrimSpace(token),
		TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	cluster.Must(t, err)
	for _, tc := range []struct {
		node      *Node
		condition string
		allowed   bool
	}{
		{node, "example.com/Published", true}, // agent.conditions names it
		{node, "example.com/Another", false},
		{other, "example.com/Published", false},
	} {
		patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Test"}]}}`,
			tc.condition)
		_, err := client.CoreV1().Nodes().Patch(t.Context(), tc.node.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		if tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s of %s, allowed: %t: %v", tc.condition, tc.node.Name, tc.allowed, err)
		}
	}
}
