// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/nodegate/nodegate/test/cluster"
)

// deletion is one request to delete a pod, by its name: no two pods here have the same.
type deletion struct {
	user, pod string
	code      int32
}

// deletions counts all requests to delete pods, as the API server has written them down.
func (c *test) deletions() map[deletion]int {
	c.t.Helper()
	events, err := cluster.ReadAudit[auditv1.Event](c.AuditLog())
	c.do(err)
	counts := map[deletion]int{}
	for i := range events {
		e := &events[i]
		if e.Verb != "delete" || e.ObjectRef == nil || e.ObjectRef.Resource != "pods" || e.ObjectRef.Subresource != "" || e.ResponseStatus == nil {
			continue
		}
		counts[deletion{e.User.Username, e.ObjectRef.Name, e.ResponseStatus.Code}]++
	}
	return counts
}

// denied is how often the node controller was refused a pod, at least.
func (c *test) denied(pods []*corev1.Pod) int {
	c.t.Helper()
	all := c.deletions()
	least := -1
	for _, p := range pods {
		if n := all[deletion{nodeController, p.Name, 403}]; least < 0 || n < least {
			least = n
		}
	}
	return least
}
