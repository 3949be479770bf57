// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// What an init-taint webhook puts on nodes.
const (
	initTaint   = "startup.k8s.io/initializing"
	completedAt = "startup.k8s.io/completedAt"
	// seenBy marks requests that the old webhook has seen, which it does not do in life.
	seenBy = "example.com/old-webhook"
)

// initWebhook registers an init-taint webhook that does what the page says of it, and serves it here. It returns what
// ends the serving.
func (e *env) initWebhook() (stop func()) {
	e.T.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		review, node := &admissionv1.AdmissionReview{}, &corev1.Node{}
		if json.NewDecoder(in.Body).Decode(review) != nil || review.Request == nil ||
			json.Unmarshal(review.Request.Object.Raw, node) != nil {
			http.Error(out, "no review of a node", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if node.Labels["kubernetes.azure.com/mode"] != "system" {
			taint := corev1.Taint{Key: initTaint, Value: "wait", Effect: corev1.TaintEffectNoSchedule}
			patch, err := json.Marshal([]map[string]any{
				{"op": "add", "path": "/metadata/annotations", "value": with(node.Annotations, seenBy)},
				{"op": "add", "path": "/spec/taints", "value": append(node.Spec.Taints, taint)},
			})
			if err != nil {
				http.Error(out, err.Error(), http.StatusInternalServerError)
				return
			}
			review.Response.Patch, review.Response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
		}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review)
	}))
	e.T.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "node-startup-taint"}}
	config.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: "node-startup-taint.startup.k8s.io",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      new(server.URL),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"},
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}}
	e.Create(config)
	e.born("new nodes have the taint of the old webhook", func(n *corev1.Node) bool {
		return n.Annotations[seenBy] != "" && cluster.HasTaint(n, initTaint)
	})
	return server.Close
}

func with(annotations map[string]string, key string) map[string]string {
	out := map[string]string{key: "yes"}
	maps.Copy(out, annotations)
	return out
}

// born waits until new nodes are as they should; none is created.
func (e *env) born(what string, check func(*corev1.Node) bool) {
	e.T.Helper()
	e.Eventually(what, func() error {
		n := cluster.NewNode("unborn", cluster.NodeOptions{Images: -1})
		if err := e.Client.Create(e.T.Context(), n, client.DryRunAll); err != nil {
			return err
		}
		if !check(n) {
			return fmt.Errorf("taints %v, annotations %v", n.Spec.Taints, n.Annotations)
		}
		return nil
	})
}

// complete releases a node as the old controller does: it removes the taint and adds the annotation in one write.
func (e *env) complete(name string, at int) {
	e.T.Helper()
	e.EditNode(name, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == initTaint })
		n.Annotations[completedAt] = strconv.Itoa(at)
	})
}
