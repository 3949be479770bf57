// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodegate/nodegate/test/cluster/manifests"
	"github.com/nodegate/nodegate/test/cluster/ports"
)

// installWebhooks applies what the webhooks need, by the names that an installation gives them. The API server runs on this
// machine, and asks the replica that serves at w.webhook.
func (w *world) installWebhooks(ctx context.Context) error {
	address, err := ports.Address()
	if err != nil {
		return err
	}
	w.webhook = address
	if _, err := manifests.Apply(ctx, w.Client, nil, manifests.WebhookSecret, manifests.WebhookRole, manifests.WebhookRoleBinding); err != nil {
		return err
	}
	_, err = manifests.Apply(ctx, w.Client, func(o *unstructured.Unstructured) error {
		return manifests.Local(o, "https://localhost:"+portOf(address), nil)
	}, manifests.MutatingWebhooks, manifests.ValidatingWebhooks)
	return err
}
