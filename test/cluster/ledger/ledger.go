// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is safe for concurrent use.
type Ledger struct {
	// Condition is the condition that opens a node's gate when it is True.
	Condition corev1.NodeConditionType
	// Taint is the taint that closes it. It is told by its key and effect.
	Taint corev1.Taint

	mu         sync.Mutex
	nodes      map[string]*node
	pods       map[types.UID]pod
	unjudged   []binding
	violations []string
}

// node is what a node was, version by version.
type node struct {
	history []version
	gone    bool
}

// version is one version of a node. Resource versions of one etcd have one order, over all kinds of objects.
type version struct {
	resourceVersion uint64
	condition       corev1.ConditionStatus // empty: not reported
	taint           string                 // empty: the taint is not there
	other           int                    // how many other taints there are
}

type pod struct {
	node    string
	running bool
}

// binding is a pod on a node, from this resource version on.
type binding struct {
	pod, node       string
	resourceVersion uint64
}

// Node takes a version of a node, as watched or listed.
func (l *Ledger) Node(n *corev1.Node) error {
	rv, err := parse(n.ResourceVersion)
	if err != nil {
		return fmt.Errorf("node %q: %w", n.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = map[string]*node{}
	}
	known := l.nodes[n.Name]
	if known == nil {
		known = &node{}
		l.nodes[n.Name] = known
	}
	if known.gone { // another node of the same name
		*known = node{}
	}
	if k := len(known.history); k > 0 && known.history[k-1].resourceVersion >= rv {
		return nil
	}
	v := version{resourceVersion: rv}
	for _, c := range n.Status.Conditions {
		if c.Type == l.Condition {
			v.condition = c.Status
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Key == l.Taint.Key && t.Effect == l.Taint.Effect {
			v.taint = t.ToString()
		} else {
			v.other++
		}
	}
	known.history = append(known.history, v)
	l.judge(rv)
	return nil
}

// NodeGone takes the end of a node.
func (l *Ledger) NodeGone(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[name]; n != nil {
		n.gone = true
	}
}

// Pod takes a version of a pod, as watched. What makes a binding is the first version that names a node.
func (l *Ledger) Pod(p *corev1.Pod) error {
	rv, err := parse(p.ResourceVersion)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods == nil {
		l.pods = map[types.UID]pod{}
	}
	if p.Spec.NodeName != "" && l.pods[p.UID].node == "" {
		l.unjudged = append(l.unjudged, binding{pod: p.Name, node: p.Spec.NodeName, resourceVersion: rv})
	}
	l.pods[p.UID] = pod{node: p.Spec.NodeName, running: p.Status.Phase == corev1.PodRunning}
	return nil
}

// PodGone takes the end of a pod.
func (l *Ledger) PodGone(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

// judge decides about the bindings before a resource version up to which all versions of nodes are known: nodes come by
// one watch, in order. A binding that is later than that could be judged too early, by a node's outdated version.
func (l *Ledger) judge(upTo uint64) {
	l.unjudged = slices.DeleteFunc(l.unjudged, func(b binding) bool {
		if b.resourceVersion >= upTo {
			return false
		}
		if why := l.nodes[b.node].closedAt(b.resourceVersion); why != "" {
			l.violations = append(l.violations, fmt.Sprintf("pod %s was bound to %s, %s", b.pod, b.node, why))
		}
		return true
	})
}

// closedAt says why a node was closed at a resource version; empty if it was open. Between the moment at which an open
// node's condition ceases to be True and its taint the gate is open still: no operator could close it earlier.
func (n *node) closedAt(rv uint64) string {
	if n == nil {
		return "which is unknown"
	}
	var at *version
	everTrue := false
	for i := range n.history {
		if n.history[i].resourceVersion >= rv {
			break
		}
		at = &n.history[i]
		everTrue = everTrue || at.condition == corev1.ConditionTrue
	}
	switch {
	case at == nil:
		return "which did not exist yet"
	case at.condition == corev1.ConditionTrue:
		return ""
	case !everTrue:
		return "whose condition had never been True"
	case at.taint != "":
		return "which was held by its taint"
	}
	return ""
}

// Settle judges all bindings up to a resource version, if everything about nodes up to there is known: nodes are those
// of a list, and the resource version is the list's. It reports whether it is.
func (l *Ledger) Settle(resourceVersion string, nodes []corev1.Node) (bool, error) {
	rv, err := parse(resourceVersion)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range nodes {
		listed, err := parse(nodes[i].ResourceVersion)
		if err != nil {
			return false, fmt.Errorf("node %q: %w", nodes[i].Name, err)
		}
		known := l.nodes[nodes[i].Name]
		if known == nil || known.history[len(known.history)-1].resourceVersion < listed {
			return false, nil
		}
	}
	l.judge(rv + 1)
	return true, nil
}

func parse(resourceVersion string) (uint64, error) {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no number: %w", resourceVersion, err)
	}
	return rv, nil
}

// Gates returns whether the taint was on a node, at first and after each change.
func (l *Ledger) Gates(node string) []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gates []bool
	if n := l.nodes[node]; n != nil {
		for i := range n.history {
			gates = append(gates, n.history[i].taint != "")
		}
	}
	return slices.Compact(gates)
}

// Row is a node as it is now.
type Row struct {
	Name string
	// Condition is the condition's status, empty where it has not been reported.
	Condition corev1.ConditionStatus
	// Taint is the taint as key=value:effect, empty where it is not on the node.
	Taint string
	// OtherTaints is how many other taints are on the node.
	OtherTaints int
	// Pods is how many pods are bound to the node.
	Pods int
}

// Held reports whether the taint is on the node.
func (r *Row) Held() bool { return r.Taint != "" }

// Snapshot is everything as it is now.
type Snapshot struct {
	// Rows are the nodes by name, node-2 before node-10.
	Rows []Row
	// Pods is how many pods there are, Bound how many of them have a node, and Running how many run there.
	Pods, Bound, Running int
	// Violations are the pods that were bound too early.
	Violations []string
}

// Row is the row of a node, nil if there is none.
func (s *Snapshot) Row(name string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Name == name {
			return &s.Rows[i]
		}
	}
	return nil
}

// Held is how many nodes are held.
func (s *Snapshot) Held() int {
	n := 0
	for i := range s.Rows {
		if s.Rows[i].Held() {
			n++
		}
	}
	return n
}

// Snapshot is everything as it is now.
func (l *Ledger) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Snapshot{Pods: len(l.pods), Violations: slices.Clone(l.violations)}
	on := map[string]int{}
	for _, p := range l.pods {
		if p.node != "" {
			s.Bound++
			on[p.node]++
		}
		if p.running {
			s.Running++
		}
	}
	for name, n := range l.nodes {
		if n.gone {
			continue
		}
		v := n.history[len(n.history)-1]
		s.Rows = append(s.Rows, Row{Name: name, Condition: v.condition, Taint: v.taint, OtherTaints: v.other, Pods: on[name]})
	}
	slices.SortFunc(s.Rows, func(a, b Row) int {
		if n := len(a.Name) - len(b.Name); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	return s
}
