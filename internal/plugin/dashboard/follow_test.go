// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// TestGaps has what the page says after lists of the given results, which begin with a watch as reflectors do.
func TestGaps(t *testing.T) {
	var (
		forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
		expired   = apierrors.NewUnauthorized("expired")
		missing   = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "NodeReadinessRule"}}
		refused   = errors.New("connection refused")
	)
	for name, c := range map[string]struct {
		what    string
		results []error
		want    string // in the gaps; empty: there are none
		lost    string
	}{
		"all is read":                           {results: []error{nil}},
		"no permission":                         {results: []error{forbidden}, want: "listing nodes: permission denied"},
		"permission is given":                   {results: []error{forbidden, nil}},
		"a token expires":                       {results: []error{nil, expired}, want: "What is shown of them is from "},
		"the CRD is missing":                    {results: []error{missing}, want: "does not have the CRD"},
		"the API server is away from the start": {results: []error{refused}, lost: "connection refused"},
		"the API server is back":                {results: []error{refused, nil}},
		"evidence, which is told for each rule": {what: evidenceName, results: []error{forbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			connection := newConnection(func() {})
			what := c.what
			if what == "" {
				what = "nodes"
			}
			for _, result := range c.results {
				lw := connection.wrap(what, &cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, result },
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
						return nil, result
					},
				})
				_, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)})
				if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { // otherwise the watch is tried again
					_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
				}
			}
			gaps, since, why := connection.gaps()
			if text := strings.Join(gaps, "\n"); !strings.Contains(text, c.want) || c.want == "" && text != "" {
				t.Errorf("gaps %q, want %q", text, c.want)
			}
			if why != c.lost || (since != 0) != (c.lost != "") {
				t.Errorf("lost since %d: %q, want %q", since, why, c.lost)
			}
		})
	}
}

// TestFirstList: 5,000 nodes with their images and managed fields would be 200 MB before the first is stored.
func TestFirstList(t *testing.T) {
	store, ok := any(emptyLive().nodeStore()).(cache.TransformingStore)
	if !ok {
		t.Fatal("the reflector stores whole nodes first")
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}}
	if _, err := store.Transformer()(node); err != nil || node.Status.Images != nil {
		t.Errorf("%v, %d images", err, len(node.Status.Images))
	}
}

// TestLoading: without its rules, a node would look as if no rule selected it.
func TestLoading(t *testing.T) {
	l := emptyLive()
	for i, store := range []*store{nil, l.nodeStore(), l.ruleStore()} {
		if store != nil {
			store.all(nil)
		}
		if got, want := l.fleetView(start).Loading, i < 2; got != want {
			t.Errorf("after %d stores: loading %t, want %t", i, got, want)
		}
	}
}
