// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

type object = *unstructured.Unstructured

// executables are the paths of the pinned tools, by name.
var executables = map[string]string{}

// modules pin the tools that hack/tools does not.
var modules = map[string]string{"helm-unittest": "hack/tools/chart"}

// tool runs a pinned tool in the checkout. The first call builds it if needed.
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
	for _, home := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		cmd.Env = append(cmd.Environ(), home+"="+control.Dir())
	}
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
	return cluster.ParseObjects(out)
}

// helm renders the chart as the release "nodegate", with its CRDs.
func helm(ctx context.Context, args ...string) ([]object, error) {
	out, err := tool(ctx, "helm", append([]string{"template", "nodegate", "charts/nodegate", "--namespace", namespace,
		"--include-crds", "--no-hooks", "--kube-version", "1.32.0"}, args...)...)
	if err != nil {
		return nil, err
	}
	return cluster.ParseObjects(out)
}

// apply applies objects on the server side, and takes no field from another owner: namespaces and CRDs first, each
// after a dry run. It waits until validating policies among them are in force.
func apply(ctx context.Context, objects []object) error { return applyTo(ctx, kube, objects) }

func applyTo(ctx context.Context, kube client.Client, objects []object) error {
	rank := func(o object) int {
		return slices.Index([]string{"CustomResourceDefinition", "Namespace"}, o.GetKind())
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b object) int { return rank(b) - rank(a) })
	for _, o := range objects {
		for _, opts := range [][]client.ApplyOption{{client.DryRunAll}, nil} {
			sent := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
			if err := kube.Apply(ctx, sent, append(opts, client.FieldOwner("kustomize"))...); err != nil {
				return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return cluster.AwaitPolicies(ctx, kube)
}

// find returns the object of a kind and name as a T.
func find[T any](objects []object, kind, name string) (T, error) {
	var out T
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return out, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &out, true)
		}
	}
	return out, fmt.Errorf("there is no %s %s", kind, name)
}
