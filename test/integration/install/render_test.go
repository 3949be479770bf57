// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

type object = *unstructured.Unstructured

// executables are where the pinned tools are, by name.
var executables = map[string]string{}

// modules pin the tools that hack/tools does not.
var modules = map[string]string{"helm-unittest": "hack/tools/chart"}

// tool runs one of the pinned tools in the checkout. It is looked up, and built if need be, once.
func tool(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, ok := executables[name]
	if !ok {
		module := cmp.Or(modules[name], "hack/tools")
		out, err := execute(ctx, "go", "tool", "-modfile="+module+"/go.mod", "-n", name)
		if err != nil {
			return nil, err
		}
		path = strings.TrimSpace(string(out))
		executables[name] = path
	}
	return execute(ctx, path, args...)
}

// execute runs a command in the checkout.
func execute(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+scratch, "HELM_CONFIG_HOME="+scratch, "HELM_DATA_HOME="+scratch)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %v: %w\n%s%s", name, args, err, stderr.String(), stdout.String())
	}
	return stdout.Bytes(), nil
}

func kustomize(ctx context.Context, dir string) ([]object, error) {
	out, err := tool(ctx, "kustomize", "build", dir)
	if err != nil {
		return nil, err
	}
	return parse(out)
}

// helm renders the chart as a release of the name that it is meant to have, CustomResourceDefinitions included.
func helm(ctx context.Context, args ...string) ([]object, error) {
	out, err := tool(ctx, "helm", append([]string{"template", "nodegate", "charts/nodegate", "--namespace", namespace,
		"--include-crds", "--no-hooks", "--kube-version", "1.32.0"}, args...)...)
	if err != nil {
		return nil, err
	}
	return parse(out)
}

func parse(manifests []byte) ([]object, error) {
	var out []object
	for docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading rendered YAML: %w", err)
		}
		u := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSONStrict(doc)
		if err == nil && string(raw) != "null" {
			err = u.UnmarshalJSON(raw)
			out = append(out, u)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a rendered object: %w\n%s", err, doc)
		}
	}
}

// apply applies objects on the server's side, without taking any field away from another owner: namespaces and
// definitions first, each after a dry run.
func apply(ctx context.Context, objects []object, owner string) error {
	rank := func(o object) int {
		return slices.Index([]string{"CustomResourceDefinition", "Namespace"}, o.GetKind())
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b object) int { return rank(b) - rank(a) })
	for _, o := range objects {
		for _, opts := range [][]client.ApplyOption{{client.DryRunAll}, nil} {
			sent := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
			if err := kube.Apply(ctx, sent, append(opts, client.FieldOwner(owner))...); err != nil {
				return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// find is the object of a kind and name, in another type.
func find[T any](objects []object, kind, name string) (T, error) {
	var out T
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return out, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &out, true)
		}
	}
	return out, fmt.Errorf("there is no %s %s", kind, name)
}
