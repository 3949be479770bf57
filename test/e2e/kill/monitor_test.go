// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// monitor watches all nodes and rules, and sees that at no moment more nodes in service are held than a limit allows,
// and that a deleted rule is there until no node has a mark of it, if it was there for long enough to get its
// finalizer. A watch tells every version, in the order in which they were written; their numbers put those of nodes and
// of rules in one order.
type monitor struct {
	mu sync.Mutex // there are two watches

	w     *model
	nodes map[string]*corev1.Node
	// kept are the rules that have or had the finalizer.
	kept map[string]bool
	// unmarked is when the last mark of a rule was taken off a node, gone when the rule went.
	unmarked, gone map[string]uint64
	// broken are the rules that something was told of.
	broken map[string]bool
}

// startMonitor watches until the test ends.
func startMonitor(t *testing.T, w *model) {
	t.Helper()
	m := &monitor{
		w: w, nodes: map[string]*corev1.Node{}, kept: map[string]bool{},
		unmarked: map[string]uint64{}, gone: map[string]uint64{}, broken: map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watches []<-chan error
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &v1alpha1.NodeReadinessRuleList{}} {
		ended, err := w.Watch(ctx, list, func(e watch.Event) error {
			m.see(e)
			return nil
		})
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		watches = append(watches, ended)
	}
	t.Cleanup(func() {
		cancel()
		for _, ended := range watches {
			if err := <-ended; err != nil {
				t.Errorf("a watch of the monitor has ended: %v", err)
			}
		}
	})
}

func (m *monitor) see(e watch.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o := e.Object.(type) {
	case *corev1.Node:
		m.seeNode(o, e.Type == watch.Deleted)
	case *v1alpha1.NodeReadinessRule:
		uid := string(o.UID)
		m.kept[uid] = m.kept[uid] || slices.Contains(o.Finalizers, v1alpha1.Finalizer)
		// One that never was about to go was deleted while it got its finalizer: the API server had looked for one just
		// before.
		if e.Type == watch.Deleted && m.kept[uid] && !o.DeletionTimestamp.IsZero() {
			m.gone[uid] = version(o)
			m.w.note("  rule %s (%s) is gone @%s", o.Name, uid, o.ResourceVersion)
			m.compare(uid)
		}
	}
}

func (m *monitor) seeNode(node *corev1.Node, deleted bool) {
	before := m.nodes[node.Name]
	var left map[string]bool
	if deleted {
		delete(m.nodes, node.Name)
	} else {
		m.nodes[node.Name] = node
		left = marked(node)
		if is := marks(node); before == nil || before.UID != node.UID || marks(before) != is {
			m.w.note("  node %s @%s: %s", node.Name, node.ResourceVersion, is)
		}
	}
	if before != nil {
		for uid := range marked(before) {
			if !left[uid] {
				m.unmarked[uid] = version(node)
				m.compare(uid)
			}
		}
	}
	for uid, limit := range m.w.rules.limits() {
		if held := m.held(uid); len(held) > limit {
			m.tell(string(uid), "rule %s allows for %d held nodes in service, and there are %d: %v (with %s @%s)",
				uid, limit, len(held), held, node.Name, node.ResourceVersion)
		}
	}
}

// compare sees whether a rule went before the last mark of it.
func (m *monitor) compare(uid string) {
	if gone := m.gone[uid]; gone > 0 && m.unmarked[uid] > gone {
		m.tell(uid, "rule %s is gone @%d, and the last mark of it was taken off a node @%d", uid, gone, m.unmarked[uid])
	}
}

func (m *monitor) tell(uid, format string, args ...any) {
	if !m.broken[uid] {
		m.broken[uid] = true
		m.w.fault(format, args...)
	}
}

// version is the number of an object's version.
func version(o client.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// marked are the UIDs of the rules that a node has marks of.
func marked(node *corev1.Node) map[string]bool {
	out := map[string]bool{}
	for key := range node.Annotations {
		if isMark(key) {
			out[ruleOf(key)] = true
		}
	}
	return out
}

// ruleOf is the UID in the key of a mark.
func ruleOf(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, v1alpha1.RecordAnnotationPrefix), v1alpha1.BootstrapAnnotationPrefix)
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
		if s := gate.StateOf(rule, node, now); s.Counted && s.Claimed {
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
			out = append(out, strings.TrimPrefix(gate.FormatTaint(t), ours))
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
	return strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) ||
		strings.HasPrefix(key, v1alpha1.BootstrapAnnotationPrefix)
}

// describe describes a node, as far as the rules are concerned.
func describe(node *corev1.Node) string {
	var conditions []string
	for _, c := range node.Status.Conditions {
		if strings.HasPrefix(string(c.Type), ours) || c.Type == corev1.NodeReady {
			conditions = append(conditions, fmt.Sprintf("%s=%s since %s, reported %s", strings.TrimPrefix(string(c.Type), ours),
				c.Status,
				c.LastTransitionTime.UTC().Format(time.TimeOnly), c.LastHeartbeatTime.UTC().Format(time.TimeOnly)))
		}
	}
	return fmt.Sprintf("node %s @%s (%s, created %s, boot %s, pool %q, steady %q, cordoned %v)\n    %s\n    %s",
		node.Name, node.ResourceVersion, node.UID, node.CreationTimestamp.UTC().Format(time.TimeOnly),
		node.Status.NodeInfo.BootID,
		node.Labels[poolLabel], node.Labels[steadyLabel], node.Spec.Unschedulable, marks(node),
		strings.Join(conditions, "; "))
}
