// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// webhookName is the name of the webhook for new nodes in its configuration. The webhook for changes of labels always
// ignores failures: Fail would refuse every such change while no replica answers.
const webhookName = "nodes.webhooks.nodegate.io"

// SetFailurePolicy sets the failure policy of the webhook for new nodes in a webhook configuration. It changes no other
// webhook and no other configuration.
func SetFailurePolicy(o *unstructured.Unstructured, policy admissionregistrationv1.FailurePolicyType) error {
	webhooks, found, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	for i, w := range webhooks {
		hook, ok := w.(map[string]any)
		if !ok {
			return fmt.Errorf("webhooks[%d] is not an object", i)
		}
		if hook["name"] == webhookName {
			hook["failurePolicy"] = string(policy)
		}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}
