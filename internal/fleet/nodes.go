// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodes are numbered from 0. Numbers of nodes that are gone are used again.
type nodes struct {
	number map[string]int32
	names  []string
	uids   []types.UID
	// created are the times of their creation, in seconds since 1970.
	created []uint32
	// recorded are the numbers of their last Records.
	recorded []int
	byName   []int32 // the numbers of the nodes that there are, sorted by name
	free     []int32
}

// add returns the number of a node.
func (n *nodes) add(name string) int32 {
	if i, ok := n.number[name]; ok {
		return i
	}
	var i int32
	if last := len(n.free) - 1; last >= 0 {
		i, n.free = n.free[last], n.free[:last]
		n.names[i], n.uids[i] = name, ""
	} else {
		i = int32(len(n.names)) //nolint:gosec // there are fewer nodes
		n.names, n.uids = append(n.names, name), append(n.uids, "")
		n.created, n.recorded = append(n.created, 0), append(n.recorded, 0)
	}
	n.number[name] = i
	at, _ := n.position(name)
	n.byName = slices.Insert(n.byName, at, i)
	return i
}

// is stores the identity of the node with a number: a node of the same name may have been deleted and created again.
func (n *nodes) is(i int32, node *corev1.Node) {
	n.uids[i] = node.UID
	n.created[i] = uint32(node.CreationTimestamp.Unix()) //nolint:gosec // until 2106
}

func (n *nodes) remove(name string) {
	i := n.number[name]
	if at, ok := n.position(name); ok {
		n.byName = slices.Delete(n.byName, at, at+1)
	}
	delete(n.number, name)
	n.names[i], n.uids[i] = "", ""
	n.free = append(n.free, i)
}

// position returns the position of a name in byName, and whether it is there. A join thus moves numbers, and sorts
// nothing.
func (n *nodes) position(name string) (int, bool) {
	return slices.BinarySearchFunc(n.byName, name, func(i int32, name string) int {
		return strings.Compare(n.names[i], name)
	})
}

// addAll adds the new nodes in the order of their names, so that the first ones are appended to byName and move none.
// It drops what is known of a deleted node if another one has its name, and returns what to tell the listener.
func (f *Fleet) addAll(nodes []*corev1.Node, now time.Time) (changed, enqueue []string) {
	var fresh []*corev1.Node
	for _, node := range nodes {
		n, known := f.number[node.Name]
		switch {
		case !known:
			fresh = append(fresh, node)
		case f.uids[n] != "" && f.uids[n] != node.UID && int64(f.created[n]) <= node.CreationTimestamp.Unix():
			rules, waiting := f.drop(n, now)
			changed, enqueue = append(changed, rules...), append(enqueue, waiting...)
			f.is(n, node)
		}
	}
	slices.SortFunc(fresh, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, node := range fresh {
		f.is(f.add(node.Name), node)
	}
	return changed, enqueue
}
