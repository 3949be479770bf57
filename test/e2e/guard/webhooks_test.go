// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/demo/stage"
)

// installWebhooks applies what the webhooks need, by the names that an installation gives them. The API server runs on this
// machine, and asks the replica that serves at w.webhook.
func (w *world) installWebhooks(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	w.webhook = address
	for _, name := range []string{"secret.yaml", "role.yaml", "role_binding.yaml", "mutating.yaml", "validating.yaml"} {
		objects, err := stage.ReadObjects(filepath.Join(w.Root, "config", "webhook", name))
		if err != nil {
			return err
		}
		for _, o := range objects {
			switch o.GetKind() {
			case "Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				o.SetName("nodegate-" + o.GetName())
			}
			if err := callHere(o, "https://localhost:"+portOf(address)); err != nil {
				return err
			}
			if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl")); err != nil {
				return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// callHere has webhooks called at a URL instead of a Service.
func callHere(o *unstructured.Unstructured, url string) error {
	hooks, found, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	for _, h := range hooks {
		hook, ok := h.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: a webhook that is no object", o.GetName())
		}
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		hook["clientConfig"] = map[string]any{"url": url + path}
	}
	return unstructured.SetNestedSlice(o.Object, hooks, "webhooks")
}
