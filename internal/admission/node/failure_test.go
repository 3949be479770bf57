// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestSetFailurePolicy: of what is shipped, the webhook for new nodes changes, and nothing else.
func TestSetFailurePolicy(t *testing.T) {
	for _, file := range []string{cluster.MutatingWebhooks, cluster.ValidatingWebhooks} {
		objects, err := cluster.ReadConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			before := o.DeepCopy()
			if err := SetFailurePolicy(o, admissionregistrationv1.Fail); err != nil {
				t.Fatal(err)
			}
			webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
			if err != nil || len(webhooks) == 0 {
				t.Fatalf("%s: %d webhooks, %v", file, len(webhooks), err)
			}
			for _, w := range webhooks {
				hook, ok := w.(map[string]any)
				want := "Ignore"
				if hook["name"] == webhookName {
					want = "Fail"
				}
				if !ok || hook["failurePolicy"] != want {
					t.Errorf("%s: %v of %v", file, hook["failurePolicy"], hook["name"])
				}
			}
			if err := SetFailurePolicy(o, admissionregistrationv1.Ignore); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Object, o.Object); diff != "" {
				t.Errorf("%s: something else has changed (-before +after):\n%s", file, diff)
			}
		}
	}
}
