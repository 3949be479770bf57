// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"

	"github.com/nodegate/nodegate/test/cluster"
)

// installWebhooks applies what the webhooks need, by the names that an installation gives them. The API server runs on this
// machine, and asks the replica that serves at w.webhook.
func (w *world) installWebhooks(ctx context.Context) error {
	address, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	w.webhook = address
	if _, err := w.ApplyConfig(ctx, nil, cluster.WebhookAccess...); err != nil {
		return err
	}
	_, err = w.ApplyConfig(ctx, cluster.Local("https://localhost:"+portOf(address), nil), cluster.MutatingWebhooks, cluster.ValidatingWebhooks)
	return err
}
