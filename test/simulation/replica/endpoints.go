// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/guard/endpoints"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// leaseKind is the kind of leases. The API server of stories does not have them: they are made when they are read.
const leaseKind api.Kind = "leases"

// holderLabel tells on the operator's lease which process has taken it.
const holderLabel = "nodegate.io/process"

// lease is the operator's lease, as the process knows it.
func (r *Replica) lease() *leader.Lease {
	return &leader.Lease{ObjectKey: client.ObjectKey{Namespace: "nodegate-system", Name: "nodegate"},
		Labels: map[string]string{holderLabel: fmt.Sprint(r.process)}}
}

// keepEndpoints starts the controllers that keep endpoints, where their policy is installed.
func (r *Replica) keepEndpoints() {
	if !r.World.Endpoints || r.operator.Endpoints == nil {
		return
	}
	passes := &controller{name: "endpoints", reconciler: r.operator.Endpoints, queue: newQueue(r.World.Now)}
	passes.queue.limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second,
		5*time.Second)
	pods := &controller{name: "endpoint-pods", reconciler: r.operator.Endpoints.Pods(), queue: newQueue(r.World.Now)}
	utilruntime.Must(r.operator.EndpointsQueue.Start(r.ctx, passes.queue))
	utilruntime.Must(r.operator.EndpointPodsQueue.Start(r.ctx, pods.queue))
	relevant, look := endpoints.Relevant(), func() {
		passes.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: endpoints.Pass}})
	}
	passes.source = r.stores[api.Nodes].subscribe(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { look() },
		UpdateFunc: func(before, after any) {
			if relevant.Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before.(*corev1.Node),
				ObjectNew: after.(*corev1.Node)}) {
				look()
			}
		},
		DeleteFunc: func(any) { look() },
	})
	pods.source = passes.source
	r.controllers = append(r.controllers, passes, pods)
}

// around reads what surrounds the operator. It reports false for other objects.
func (l live) around(out client.Object) (bool, error) {
	r := l.replica
	switch out := out.(type) {
	case *coordinationv1.Lease:
		if err := r.unread(leaseKind); err != nil {
			return true, err
		}
		holder := fmt.Sprint(r.World.holder)
		*out = coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{holderLabel: holder}}}
		out.Spec.HolderIdentity = &holder
	case *admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		if !r.World.Endpoints {
			return true, apierrors.NewNotFound(schema.GroupResource{Resource: "mutatingadmissionpolicies"}, "")
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		out.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: "pods.webhooks.nodegate.io"},
			{Name: "bindings.webhooks.nodegate.io"}}
	default:
		return false, nil
	}
	return true, nil
}

// leases lists the leases of nodes.
func (l live) leases(out *coordinationv1.LeaseList) error {
	r := l.replica
	if err := r.unread(leaseKind); err != nil {
		return err
	}
	slow := r.Slow
	if r.Slow = 0; slow > 0 {
		r.World.Met("a list of leases is slow", string(leaseKind))
	}
	out.Items = r.World.Leases(slow)
	return nil
}
