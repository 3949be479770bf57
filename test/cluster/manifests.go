// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

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
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Files below config.
const (
	NodeAdmissionPolicy = "node-admission-policy/policy.yaml"
	RecordGuard         = "components/record-guard/policy.yaml"
	MutatingWebhooks    = "components/webhooks/mutating.yaml"
	ValidatingWebhooks  = "components/webhooks/validating.yaml"
)

// WebhookAccess are the Secret of the webhooks' certificate and the roles that the webhooks need.
var WebhookAccess = []string{
	"components/webhooks/secret.yaml", "components/webhooks/role.yaml", "components/webhooks/role_binding.yaml",
}

// prefix is the name prefix of config/default.
const prefix = "nodegate-"

// ParseObjects reads all objects of a YAML text. It refuses fields that are given twice.
func ParseObjects(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// ReadObjects reads all objects of a YAML file.
func ReadObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objects, err := ParseObjects(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return objects, nil
}

// ReadConfig reads the objects of a file below config and gives them the names that config/default gives them.
func ReadConfig(file string) ([]*unstructured.Unstructured, error) {
	objects, err := ReadObjects(filepath.Join(Root(), "config", filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.SetName(prefixed(o.GetName()))
		if role, ok := o.Object["roleRef"].(map[string]any); ok {
			role["name"] = prefixed(role["name"])
		}
		subjects, _ := o.Object["subjects"].([]any)
		for _, s := range subjects {
			if subject, ok := s.(map[string]any); ok {
				subject["name"] = prefixed(subject["name"])
			}
		}
	}
	return objects, nil
}

func prefixed(name any) string { return prefix + strings.TrimPrefix(fmt.Sprint(name), prefix) }

// Local returns an edit of webhook configurations: the API server calls the webhooks at a URL such as
// https://localhost:9443 instead of a Service. ca is the authority to trust; nil if the operator fills it in.
func Local(url string, ca []byte) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
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
}

// ApplyConfig applies the objects of files below config, each changed by edit before, if there is one.
func (c *Cluster) ApplyConfig(
	ctx context.Context, edit func(*unstructured.Unstructured) error, files ...string,
) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := ReadConfig(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if edit != nil {
				if err := edit(o); err != nil {
					return nil, err
				}
			}
		}
		if err := c.Apply(ctx, objects...); err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// ApplyEndpointPolicy applies config/endpoint-policy, in which names are written out.
func (c *Cluster) ApplyEndpointPolicy(ctx context.Context) error {
	for _, file := range []string{"nodegate.io_keptendpoints.yaml", "policy.yaml", "role.yaml"} {
		objects, err := ReadObjects(filepath.Join(Root(), "config", "endpoint-policy", file))
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, objects...); err != nil {
			return err
		}
	}
	return nil
}

// Apply applies objects as "kubectl apply --server-side" does, and leaves in them what is stored.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		apply := client.ApplyConfigurationFromUnstructured(o)
		if err := c.Client.Apply(ctx, apply, client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
