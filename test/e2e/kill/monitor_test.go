// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// monitor watches all nodes and sees that at no moment more nodes in service are held than a breaker allows. The watch
// tells every version of every node, in the order in which they were written.
type monitor struct {
	w     *world
	nodes map[string]*corev1.Node
	// broken are the limits that were told of.
	broken map[types.UID]bool
}

// startMonitor watches until the test ends.
func startMonitor(t *testing.T, w *world) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := w.client.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	m := &monitor{w: w, nodes: map[string]*corev1.Node{}, broken: map[types.UID]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			m.see(e)
		}
		if ctx.Err() == nil {
			w.fault("the monitor's watch has ended")
		}
	}()
	t.Cleanup(func() {
		cancel()
		watcher.Stop()
		<-done
	})
}

func (m *monitor) see(e watch.Event) {
	node, ok := e.Object.(*corev1.Node)
	if !ok {
		return
	}
	before := m.nodes[node.Name]
	if e.Type == watch.Deleted {
		delete(m.nodes, node.Name)
	} else {
		m.nodes[node.Name] = node
		if is := marks(node); before == nil || before.UID != node.UID || marks(before) != is {
			m.w.note("  node %s @%s: %s", node.Name, node.ResourceVersion, is)
		}
	}
	for uid, limit := range m.w.rules.limits() {
		if held := m.held(uid); len(held) > limit && !m.broken[uid] {
			m.broken[uid] = true
			m.w.fault("rule %s allows for %d held nodes in service, and there are %d: %v (with %s @%s)",
				uid, limit, len(held), held, node.Name, node.ResourceVersion)
		}
	}
}

// held are the nodes in service that a rule claims.
func (m *monitor) held(uid types.UID) []string {
	spec := m.w.rules.spec(uid)
	if spec == nil {
		return nil
	}
	now := time.Now()
	rule := ruleset.Compile(&v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: *spec}, nil, now)
	var held []string
	for name, node := range m.nodes {
		if _, ok := node.Annotations[rule.RecordKey()]; !ok {
			continue
		}
		if s := taints.Stand(rule, node, now); s.Counted && s.Claimed {
			held = append(held, name)
		}
	}
	slices.Sort(held)
	return held
}

// marks are the rules' taints on a node, and what the operator has written down there.
func marks(node *corev1.Node) string {
	var out []string
	for _, t := range node.Spec.Taints {
		if !isForeign(t) {
			out = append(out, strings.TrimPrefix(taints.FormatTaint(t), ours))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if isMark(key) || key == v1alpha1.OverrideAnnotation {
			out = append(out, key[strings.LastIndex(key, "/")+1:]+"="+node.Annotations[key])
		}
	}
	return strings.Join(out, " ")
}

// isMark reports whether an annotation is the operator's: a record or a completion marker.
func isMark(key string) bool {
	return strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || strings.HasPrefix(key, v1alpha1.BootstrapAnnotationPrefix)
}

// describe is all about a node that bears on the rules.
func describe(node *corev1.Node) string {
	var conditions []string
	for _, c := range node.Status.Conditions {
		if strings.HasPrefix(string(c.Type), ours) || c.Type == corev1.NodeReady {
			conditions = append(conditions, fmt.Sprintf("%s=%s since %s, reported %s", strings.TrimPrefix(string(c.Type), ours), c.Status,
				c.LastTransitionTime.UTC().Format(time.TimeOnly), c.LastHeartbeatTime.UTC().Format(time.TimeOnly)))
		}
	}
	return fmt.Sprintf("node %s @%s (%s, created %s, boot %s, pool %q, steady %q, cordoned %v)\n    %s\n    %s",
		node.Name, node.ResourceVersion, node.UID, node.CreationTimestamp.UTC().Format(time.TimeOnly), node.Status.NodeInfo.BootID,
		node.Labels[poolLabel], node.Labels[steadyLabel], node.Spec.Unschedulable, marks(node), strings.Join(conditions, "; "))
}
