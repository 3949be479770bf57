// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Example is the path of a file below examples.
func (s *Stage) Example(elements ...string) string {
	return filepath.Join(append([]string{s.Root, "examples"}, elements...)...)
}

// Apply applies all objects of a file, as "kubectl apply --server-side" does, and returns them as they are stored.
func (s *Stage) Apply(ctx context.Context, file string) ([]*unstructured.Unstructured, error) {
	objects, err := ReadObjects(file)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl")); err != nil {
			return nil, fmt.Errorf("applying %s %q of %s: %w", o.GetKind(), o.GetName(), filepath.Base(file), err)
		}
	}
	return objects, nil
}

// ReadObjects reads all objects of a YAML file.
func ReadObjects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []*unstructured.Unstructured
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}
