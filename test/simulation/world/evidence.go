// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// put creates or replaces an object of an actor.
func (w *World) put(kind api.Kind, name string, obj metav1.Object) {
	r := api.Request{User: "admin", Verb: "create", Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Object: obj}
	if w.server.Get(kind, name) != nil {
		r.Verb = "update"
	}
	w.send(r)
}

// driver lets a CSI driver register on a node with a number of volumes, or unregister.
func (w *World) driver(s *script.Step) {
	if w.server.Get(api.Nodes, nodeName(s.Node)) == nil {
		return
	}
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName(s.Node)}}
	if s.N != 0 {
		driver := storagev1.CSINodeDriver{Name: "csi.example.com", NodeID: nodeName(s.Node)}
		if s.N > 0 {
			driver.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(s.N))}
		}
		node.Spec.Drivers = []storagev1.CSINodeDriver{driver}
	}
	w.put(api.CSINodes, node.Name, node)
}

// devices lets a DRA driver publish the pool of a node again, with a number of devices, or a part of it.
func (w *World) devices(s *script.Step) {
	if w.server.Get(api.Nodes, nodeName(s.Node)) == nil {
		return
	}
	w.pools++
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: nodeName(s.Node) + "-gpu"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: new(nodeName(s.Node)),
		Pool: resourcev1.ResourcePool{Name: nodeName(s.Node), Generation: w.pools, ResourceSliceCount: 1}}
	if s.Of == "in part" {
		slice.Spec.Pool.ResourceSliceCount = 2
	}
	for i := range s.N {
		device := resourcev1.Device{Name: fmt.Sprintf("gpu%d", i)}
		if s.Of == "tainted" {
			device.Taints = []resourcev1.DeviceTaint{{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	w.put(api.ResourceSlices, slice.Name, slice)
}

func daemonsName(n int) string { return fmt.Sprintf("d%d", n) }

// doDaemons creates, edits or deletes a DaemonSet, or does what its controller does.
func (w *World) doDaemons(s *script.Step) {
	key := namespace + "/" + daemonsName(s.Pod)
	before := w.server.Get(api.DaemonSets, key)
	if before == nil && s.Do != "daemon.create" {
		return
	}
	switch s.Do {
	case "daemon.create":
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: daemonsName(s.Pod),
			Labels: map[string]string{"daemon": daemonsName(s.Pod)}}}
		d.Spec.MinReadySeconds = int32(s.N)
		pod := &d.Spec.Template.Spec
		pod.Containers = []corev1.Container{{Name: "main", ReadinessProbe: &corev1.Probe{}}}
		if s.Pod == 2 { // of the CSI driver
			pod.Volumes = []corev1.Volume{{Name: "socket", VolumeSource: corev1.VolumeSource{HostPath: &corev1.
				HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/csi.example.com"}}}}
		}
		if s.Value != "" {
			pod.NodeSelector = map[string]string{poolLabel: s.Value}
		}
		for key := range strings.SplitSeq(s.Of, ",") {
			pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		w.put(api.DaemonSets, key, d)
	case "daemon.delete":
		w.send(api.Request{User: "admin", Verb: "delete", Kind: api.DaemonSets, Namespace: namespace,
			Name: daemonsName(s.Pod)})
	case "daemon.edit":
		d := before.Meta.(*appsv1.DaemonSet).DeepCopy()
		d.ResourceVersion = ""
		if d.Spec.MinReadySeconds == int32(s.N) {
			d.Labels["daemon"] = map[bool]string{true: "other", false: d.Name}[d.Labels["daemon"] == d.Name]
		}
		d.Spec.MinReadySeconds = int32(s.N)
		w.put(api.DaemonSets, key, d)
	case "daemon.sync":
		w.daemons(before.Meta.(*appsv1.DaemonSet), s)
	}
}

// daemons creates the pods that a DaemonSet lacks, and deletes those on nodes where it has none, in a rollout all.
func (w *World) daemons(d *appsv1.DaemonSet, s *script.Step) {
	for n := 1; n <= script.MaxNodes; n++ {
		of := script.Step{Node: n, Pod: script.MaxPods + s.Pod}
		key := namespace + "/" + podName(&of)
		pod, node := w.server.Get(api.Pods, key), w.server.Get(api.Nodes, nodeName(n))
		fits := node != nil
		for label, value := range d.Spec.Template.Spec.NodeSelector {
			fits = fits && node.Meta.GetLabels()[label] == value
		}
		if pod != nil && (!fits || s.Of == "rollout") {
			w.send(api.Request{User: "admin", Verb: "delete", Kind: api.Pods, Namespace: namespace, Name: podName(&of),
				Grace: new(int64)})
			pod = nil
		}
		if pod != nil || !fits || s.N == n { // one may lag
			continue
		}
		owner := metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
		created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(&of),
			Labels: map[string]string{"app": "daemon"}, OwnerReferences: []metav1.OwnerReference{*owner}},
			Spec: *d.Spec.Template.Spec.DeepCopy()}
		created.Spec.NodeName = nodeName(n)
		created.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		w.send(api.Request{User: "scheduler", Verb: "create", Kind: api.Pods, Namespace: namespace, Name: created.Name,
			Object: created})
	}
}
