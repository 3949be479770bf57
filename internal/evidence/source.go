// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/internal/watch"
)

// source is one watch, indexed by node.
type source struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	failed   atomic.Pointer[string]
}

const nodeIndex = "node"

func newSource(object runtime.Object, lw cache.ListerWatcher, strip cache.TransformFunc) *source {
	s := &source{cancel: func() {}}
	s.informer = watch.NewInformer(lw, object, 0, cache.Indexers{
		nodeIndex: func(o any) ([]string, error) { return nodesOf(o), nil },
	})
	if err := s.informer.SetTransform(strip); err != nil {
		s.fail(err) // it has not been started: cannot happen
	}
	return s
}

func (s *source) fail(err error) {
	text := err.Error()
	s.failed.Store(&text)
}

func (s *source) failure() string {
	if text := s.failed.Load(); text != nil {
		return *text
	}
	return ""
}

func (s *source) synced() bool { return s.informer.HasSynced() }

func (s *source) stop() { s.cancel() }

func (s *source) run(ctx context.Context, listener Listener) {
	ctx, s.cancel = context.WithCancel(ctx)
	tell := func(objects ...any) {
		var nodes []string
		for _, o := range objects {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			for _, n := range nodesOf(o) {
				if n != "" {
					nodes = append(nodes, n)
				}
			}
		}
		if len(nodes) > 0 {
			listener.NodesChanged(nodes...)
		}
	}
	err := s.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		if !s.synced() {
			s.fail(err)
			listener.AvailabilityChanged()
		}
	})
	if err != nil {
		s.fail(err)
	}
	registration, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { tell(o) },
		UpdateFunc: func(before, after any) {
			if version(before) != version(after) {
				tell(before, after)
			}
		},
		DeleteFunc: func(o any) { tell(o) },
	})
	if err != nil {
		s.fail(err)
		return
	}
	go s.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			listener.AvailabilityChanged()
		}
	}()
}

func version(o any) string {
	accessor, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// of are the objects that belong to a node.
func (s *source) of(node string) []any {
	objects, err := s.informer.GetIndexer().ByIndex(nodeIndex, node)
	if err != nil { // there is that index
		return nil
	}
	return objects
}

func listWatch[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watchAll func(context.Context, metav1.ListOptions) (apiwatch.Interface, error),
	filter func(*metav1.ListOptions),
) *cache.ListWatch {
	if filter == nil {
		filter = func(*metav1.ListOptions) {}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			filter(&o)
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			filter(&o)
			return watchAll(ctx, o)
		},
	}
}

// stripPod keeps of a pod what is looked at: who and where it is, whether it is ready, and what it tolerates.
func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	kept := corev1.PodSpec{NodeName: pod.Spec.NodeName, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations}
	for i := range pod.Spec.Containers {
		c := corev1.Container{Name: pod.Spec.Containers[i].Name}
		if pod.Spec.Containers[i].ReadinessProbe != nil {
			c.ReadinessProbe = &corev1.Probe{}
		}
		kept.Containers = append(kept.Containers, c)
	}
	pod.Spec = kept
	status := corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, State: c.State})
	}
	pod.Status = status
	return pod, nil
}

// stripSlice keeps of a device its name only: devices are counted.
func stripSlice(o any) (any, error) {
	slice, ok := o.(*resourcev1.ResourceSlice)
	if !ok {
		return o, nil
	}
	slice.ManagedFields = nil
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i] = resourcev1.Device{Name: slice.Spec.Devices[i].Name}
	}
	return slice, nil
}

func stripMeta(o any) (any, error) {
	if accessor, err := meta.Accessor(o); err == nil {
		accessor.SetManagedFields(nil)
	}
	return o, nil
}
