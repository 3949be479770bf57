// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletImages is how many images a kubelet reports at most (its flag --node-status-max-images).
const kubeletImages = 50

// createParallelism is how many nodes are created at a time.
const createParallelism = 16

// NodeOptions says what a node has beside what every node has.
type NodeOptions struct {
	// Labels and Annotations come on top of some twenty labels that a kubelet and a cloud provider set, and win
	// over them.
	Labels, Annotations map[string]string
	// Taints are those it registers with.
	Taints []corev1.Taint
	// Images is how many images it reports: 0 means 50, as many as a kubelet does; a negative number none.
	Images int
	// Unmanaged means that kwok leaves it alone. It then says that it is Ready, and does not renew that: a
	// controller manager finds it Unknown after a minute.
	Unmanaged bool
}

// NewNode returns a node object of the size of a real one, for AddNodes or for a test without a cluster.
func NewNode(name string, o NodeOptions) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: nodeLabels(name), Annotations: map[string]string{
			"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			"node.alpha.kubernetes.io/ttl":                           "0",
		}},
		Spec: corev1.NodeSpec{
			ProviderID: "example:///zone-a/" + name,
			Taints:     o.Taints,
		},
		Status: nodeStatus(name),
	}
	maps.Copy(node.Labels, o.Labels)
	maps.Copy(node.Annotations, o.Annotations)
	if o.Unmanaged {
		node.Status.Conditions = kubeletConditions(metav1.Now())
	} else {
		node.Annotations[ManagedAnnotation] = "fake"
	}
	images := o.Images
	if images == 0 {
		images = kubeletImages
	}
	for i := range images {
		repository := fmt.Sprintf("registry.example.com/platform/component-%02d", i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%064x", repository, i), fmt.Sprintf("%s:v1.%d.0", repository, i)},
			SizeBytes: int64(100+i) << 20,
		})
	}
	return node
}

// AddNodes creates n nodes called prefix-0, prefix-1 and so on. It does not wait until kwok has made them Ready.
func (c *Cluster) AddNodes(ctx context.Context, prefix string, n int, o NodeOptions) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(createParallelism)
	for i := range n {
		all.Go(func() error {
			name := fmt.Sprintf("%s-%d", prefix, i)
			if _, err := c.Clientset.CoreV1().Nodes().Create(ctx, NewNode(name, o), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating node %q: %w", name, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// nodeLabels are twenty, in the mix of a managed cluster; all of them a kubelet may set on its own node.
func nodeLabels(name string) map[string]string {
	return map[string]string{
		corev1.LabelHostname:                   name,
		corev1.LabelOSStable:                   "linux",
		corev1.LabelArchStable:                 "amd64",
		"beta.kubernetes.io/os":                "linux",
		"beta.kubernetes.io/arch":              "amd64",
		corev1.LabelInstanceTypeStable:         "example.8xlarge",
		corev1.LabelInstanceType:               "example.8xlarge",
		corev1.LabelTopologyZone:               "region-1a",
		corev1.LabelTopologyRegion:             "region-1",
		corev1.LabelFailureDomainBetaZone:      "region-1a",
		corev1.LabelFailureDomainBetaRegion:    "region-1",
		"topology.ebs.csi.aws.com/zone":        "region-1a",
		"node.example.com/account":             "0123456789abcdef0123456789abcdef",
		"karpenter.sh/capacity-type":           "on-demand",
		"karpenter.sh/nodepool":                "general",
		"karpenter.k8s.aws/instance-category":  "m",
		"karpenter.k8s.aws/instance-cpu":       "32",
		"karpenter.k8s.aws/instance-memory":    "131072",
		"node.example.com/image":               "node-image-2026.07",
		"node.example.com/provisioning-system": "autoscaler",
	}
}

func nodeStatus(name string) corev1.NodeStatus {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	id := h.Sum32()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("128Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	}
	return corev1.NodeStatus{
		Capacity:    capacity,
		Allocatable: capacity.DeepCopy(),
		Addresses: []corev1.NodeAddress{
			// Not an address of anything: it only has to differ from node to node.
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", 128+id>>16&63, id>>8&255, id&255)},
			{Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               fmt.Sprintf("%032x", id),
			SystemUUID:              fmt.Sprintf("%08x-0000-4000-8000-000000000000", id),
			BootID:                  fmt.Sprintf("%08x-0000-4000-8000-000000000001", id),
			KernelVersion:           "6.8.0",
			OSImage:                 "Example Linux 2026.07",
			ContainerRuntimeVersion: "containerd://2.1.0",
			KubeletVersion:          "v1.37.2",
			OperatingSystem:         "linux",
			Architecture:            "amd64",
		},
	}
}

// kubeletConditions are those of a healthy kubelet.
func kubeletConditions(now metav1.Time) []corev1.NodeCondition {
	var conditions []corev1.NodeCondition
	for _, c := range []struct {
		kind            corev1.NodeConditionType
		status          corev1.ConditionStatus
		reason, message string
	}{
		{corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
			"kubelet has sufficient memory available"},
		{corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
	} {
		conditions = append(conditions, corev1.NodeCondition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastHeartbeatTime: now, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
		})
	}
	return conditions
}
