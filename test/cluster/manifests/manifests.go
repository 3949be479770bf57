// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads what is shipped in config for an API server that runs beside the tests: with the names that
// config/default gives, and with webhooks called on this machine. It is imported by tests only.
package manifests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// What is there.
const (
	NodeAdmissionPolicy = "node-admission-policy/policy.yaml"
	RecordGuard         = "record-guard/policy.yaml"
	MutatingWebhooks    = "webhook/mutating.yaml"
	ValidatingWebhooks  = "webhook/validating.yaml"
	WebhookSecret       = "webhook/secret.yaml"
	WebhookRole         = "webhook/role.yaml"
	WebhookRoleBinding  = "webhook/role_binding.yaml"
)

// prefix is config/default's.
const prefix = "nodegate-"

// Read reads the objects of a file below config, by the names that they have in a cluster.
func Read(file string) ([]*unstructured.Unstructured, error) {
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "..", "config", filepath.FromSlash(file))
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if len(o.Object) > 0 {
			o.SetName(prefix + strings.TrimPrefix(o.GetName(), prefix))
			if role, ok, _ := unstructured.NestedString(o.Object, "roleRef", "name"); ok {
				if err := unstructured.SetNestedField(o.Object, prefix+role, "roleRef", "name"); err != nil {
					return nil, err
				}
			}
			out = append(out, o)
		}
	}
}

// As replaces the operator's user name in a policy.
func As(o *unstructured.Unstructured, user string) error {
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return o.UnmarshalJSON(bytes.ReplaceAll(text, []byte("system:serviceaccount:nodegate-system:nodegate-manager"), []byte(user)))
}

// Local lets the API server call webhooks at a URL such as https://localhost:9443 instead of a Service. ca is whom to
// trust; nil where the operator fills that in.
func Local(o *unstructured.Unstructured, url string, ca []byte) error {
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range webhooks {
		hook, ok := w.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: a webhook is not an object", o.GetName())
		}
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		config := map[string]any{"url": url + path}
		if ca != nil {
			config["caBundle"] = base64.StdEncoding.EncodeToString(ca)
		}
		hook["clientConfig"] = config
		hook["timeoutSeconds"] = int64(30) // a busy machine is no reason to let something through
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

// Apply applies the objects of files, each changed by edit, if there is one, before.
func Apply(ctx context.Context, c client.Client, edit func(*unstructured.Unstructured) error, files ...string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, file := range files {
		objects, err := Read(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if edit != nil {
				if err := edit(o); err != nil {
					return nil, err
				}
			}
			if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("tests"), client.ForceOwnership); err != nil {
				return nil, fmt.Errorf("applying %s %q: %w", o.GetKind(), o.GetName(), err)
			}
			out = append(out, o)
		}
	}
	return out, nil
}
