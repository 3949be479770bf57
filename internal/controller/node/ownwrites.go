// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/taints"
)

const (
	// firstUndone and lastUndone bound the delay before a write is repeated that another client has undone, such as a
	// component that removes a taint with the same key whenever it sees it. Otherwise, both would write as fast as they
	// can. The delay doubles. The first repetition is at once: usually a user has removed the taint by hand.
	firstUndone, lastUndone = 250 * time.Millisecond, 30 * time.Second
	// writeLasts is how long after the delay a write must last to be repeated at once again.
	writeLasts = 10 * time.Second
)

// ownWrites holds this controller's last write of each node. It is safe for concurrent use. The zero value is ready.
type ownWrites struct {
	mu    sync.Mutex
	nodes map[string]ownWrite
}

type ownWrite struct {
	// version is the node's resource version after the last write of its taints or its conditions. The fleet has the
	// result since the API server answered, so the node need not be reconciled again when the watch brings it.
	version string
	// moved are the taints that were last added or removed, as by movedTaints, and at is when. The same may be written
	// again after the delay.
	moved string
	at    time.Time
	delay time.Duration
}

func (o *ownWrites) change(node string, change func(*ownWrite)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nodes == nil {
		o.nodes = map[string]ownWrite{}
	}
	w := o.nodes[node]
	change(&w)
	o.nodes[node] = w
}

// expect notes the version of a node after a write.
func (o *ownWrites) expect(node *corev1.Node) {
	o.change(node.Name, func(w *ownWrite) { w.version = node.ResourceVersion })
}

func (o *ownWrites) is(node *corev1.Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.nodes[node.Name]
	return ok && w.version == node.ResourceVersion
}

func (o *ownWrites) forget(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.nodes, node)
}

// movedTaints says which taints a patch adds and removes, and on which node: another node may get its name.
func movedTaints(node *corev1.Node, changes []taints.Change) string {
	var b strings.Builder
	for i := range changes {
		if c := &changes[i]; c.Operation == taints.Added || c.Operation == taints.Removed {
			fmt.Fprintf(&b, "%s %s %s\n", node.UID, c.Operation, c.Taint.ToString())
		}
	}
	return b.String()
}

// wrote notes which taints a write of a node has added and removed.
func (o *ownWrites) wrote(node, moved string, now time.Time) {
	if moved == "" {
		return
	}
	o.change(node, func(w *ownWrite) {
		delay := time.Duration(0)
		if w.moved == moved && now.Before(w.at.Add(w.delay+writeLasts)) {
			delay = min(max(2*w.delay, firstUndone), lastUndone)
		}
		w.moved, w.at, w.delay = moved, now, delay
	})
}

// wait returns how long to wait before the same taints of a node are added and removed again.
func (o *ownWrites) wait(node, moved string, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.nodes[node]
	if w.moved != moved || now.Before(w.at) { // the clock has been set back
		return 0
	}
	return max(0, w.at.Add(w.delay).Sub(now))
}

// undone is the failure of a write that another client undoes.
func undone(node string) *failure {
	return &failure{reason: failureUndone, rejected: true, message: fmt.Sprintf("another client undoes the changes of "+
		"taints on node %q: the operator waits up to %s before it repeats them. The node's managed fields name the client",
		node, lastUndone)}
}
