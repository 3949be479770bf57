// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/nodegate/nodegate/test/bench/measure"
)

const (
	// requestLimit bounds each request of the bench.
	requestLimit = 30 * time.Second
	// heartbeatStep is by how much the heartbeats' times differ. They have a resolution of a second: two in one second
	// would be the same, and no write at all.
	heartbeatStep = 10 * time.Second
)

// writer plays the reporters and the kubelets: it writes conditions, and asks for no more than the metadata in return,
// so that it takes little of the machine.
type writer struct {
	client metadata.Interface
	rules  int
	names  []string

	beat time.Time // of the latest heartbeats
}

func newWriter(c metadata.Interface, rules int, names ...string) *writer {
	return &writer{client: c, rules: rules, names: names, beat: time.Now().Add(-10 * time.Hour)}
}

// writes says when the first patch was sent, and when that of each node was acknowledged.
type writes struct {
	first        time.Time
	acknowledged []time.Time
}

// conditions are those that the rules look at.
func conditions(rules int, status corev1.ConditionStatus, beat time.Time) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	reason, message := "EndpointOK", "the endpoint answers 200"
	if status != corev1.ConditionTrue {
		reason, message = "EndpointNotReady", "the endpoint answers 503"
	}
	for i := range rules {
		out = append(out, corev1.NodeCondition{
			Type: corev1.NodeConditionType(conditionType(i)), Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.NewTime(beat), LastTransitionTime: metav1.Now(),
		})
	}
	return out
}

// setConditions writes all conditions of each node, with one patch.
func (w *writer) setConditions(ctx context.Context, status corev1.ConditionStatus) (*writes, error) {
	w.beat = w.beat.Add(heartbeatStep)
	return w.patchStatuses(ctx, conditions(w.rules, status, w.beat))
}

// kubeletConditions are in kubelet's order.
var kubeletConditions = []string{
	string(corev1.NodeMemoryPressure), string(corev1.NodeDiskPressure), string(corev1.NodePIDPressure),
	string(corev1.NodeReady),
}

// heartbeat renews the times of each node's conditions and nothing else: of kubelet's and of the reporters' in turns,
// for that is how they come.
func (w *writer) heartbeat(ctx context.Context, kubelet bool) (*writes, error) {
	w.beat = w.beat.Add(heartbeatStep)
	kinds := kubeletConditions
	if !kubelet {
		kinds = nil
		for i := range w.rules {
			kinds = append(kinds, conditionType(i))
		}
	}
	var conditions []map[string]any
	for _, kind := range kinds {
		conditions = append(conditions, map[string]any{"type": kind, "lastHeartbeatTime": metav1.NewTime(w.beat)})
	}
	return w.patchStatuses(ctx, conditions)
}

// patchStatuses merges conditions into the status of each node.
func (w *writer) patchStatuses(ctx context.Context, conditions any) (*writes, error) {
	body := map[string]any{"status": map[string]any{"conditions": conditions}}
	return w.patchAll(ctx, types.StrategicMergePatchType, body, "status")
}

// clear removes all taints, also those of others, and the records of the floor, which has nothing to clean up with.
func (w *writer) clear(ctx context.Context) error {
	records := map[string]any{}
	for i := range w.rules {
		records[floorRecordKey(i)] = nil
	}
	_, err := w.patchAll(ctx, types.MergePatchType, map[string]any{"spec": map[string]any{"taints": nil},
		"metadata": map[string]any{"annotations": records}})
	return err
}

func (w *writer) patchAll(ctx context.Context, kind types.PatchType, body any, subresources ...string) (
	*writes, error,
) {
	nodes := w.client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	return w.patchEach(ctx, body, func(ctx context.Context, name string, patch []byte) error {
		_, err := nodes.Patch(ctx, name, kind, patch, metav1.PatchOptions{}, subresources...)
		return err
	})
}

// patchEach sends the same patch for each node.
func (w *writer) patchEach(
	ctx context.Context, body any, send func(ctx context.Context, node string, patch []byte) error,
) (*writes, error) {
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	out := &writes{first: time.Now(), acknowledged: make([]time.Time, len(w.names))}
	return out, forEach(ctx, w.names, func(ctx context.Context, i int, name string) error {
		err := send(ctx, name, patch)
		out.acknowledged[i] = time.Now()
		return err
	})
}

// forEach sends a request for each node, some of them at a time.
func forEach(ctx context.Context, names []string, send func(ctx context.Context, i int, name string) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(writers)
	for i, name := range names {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, requestLimit)
			defer cancel()
			if err := send(ctx, i, name); err != nil {
				return fmt.Errorf("writing for node %q: %w", name, err)
			}
			return nil
		})
	}
	return all.Wait()
}

const (
	// evidenceNamespace is where the pods are that rules go by, one on each node.
	evidenceNamespace = "default"
	evidenceLabel     = "bench.example.com/component"
	evidenceValue     = "warm-up"
)

// turnFirst writes the evidence of the first node.
func (b *bench) turnFirst(ctx context.Context, status corev1.ConditionStatus) error {
	_, err := b.turn(ctx, newWriter(b.writer.client, b.Rules, b.writer.names[0]), status)
	return err
}

// turn writes the evidence of the nodes of a writer.
func (b *bench) turn(ctx context.Context, w *writer, status corev1.ConditionStatus) (*writes, error) {
	if b.Evidence != measure.ByPods {
		return w.setConditions(ctx, status)
	}
	pods := w.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(evidenceNamespace)
	body := map[string]any{"status": podStatus(status)}
	return w.patchEach(ctx, body, func(ctx context.Context, node string, patch []byte) error {
		_, err := pods.Patch(ctx, evidencePod(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func evidencePod(node string) string { return evidenceValue + "-" + node }

func podStatus(status corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: status == corev1.ConditionTrue}},
	}
}

// createPods makes the pods that rules go by.
func (b *bench) createPods(ctx context.Context) error {
	if b.Evidence != measure.ByPods {
		return nil
	}
	return forEach(ctx, b.writer.names, func(ctx context.Context, _ int, node string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: evidencePod(node),
			Labels: map[string]string{evidenceLabel: evidenceValue}}}
		pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main",
			Image: "registry.example.com/app:1",
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				Exec: &corev1.ExecAction{Command: []string{"true"}}}}}}}
		_, err := b.cluster.Clientset.CoreV1().Pods(evidenceNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}
