// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nodegate/nodegate/test/cluster"
)

// history is how a taint has come and gone on nodes.
type history struct {
	mu    sync.Mutex
	gates map[string][]bool // whether it was on, at first and after each change
}

// follow writes down every version of every node from now on, and none is left out.
func (w *world) follow(t *testing.T, key string) *history {
	t.Helper()
	h := &history{gates: map[string][]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	nodes, err := w.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
	for i := range nodes.Items {
		h.note(&nodes.Items[i], key)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, nodes.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.Clientset.CoreV1().Nodes().Watch(ctx, o)
		},
	})
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watcher.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok {
				h.note(n, key)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h
}

func (h *history) note(n *corev1.Node, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	had, on := h.gates[n.Name], tainted(n, key)
	if len(had) == 0 || had[len(had)-1] != on {
		h.gates[n.Name] = append(had, on)
	}
}

// is checks what has become of a node, from the first to the last.
func (h *history) is(node string, want ...bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.gates[node]; !slices.Equal(got, want) {
		return fmt.Errorf("node %s was tainted %v, and should have been %v", node, got, want)
	}
	return nil
}

// seen waits until the watch has told of a node, and checks what it was then.
func (h *history) seen(t *testing.T, node string, want ...bool) error {
	t.Helper()
	cluster.Eventually(t, node+" is seen", func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.gates[node]) == 0 {
			return errors.New("the watch is behind")
		}
		return nil
	})
	return h.is(node, want...)
}
