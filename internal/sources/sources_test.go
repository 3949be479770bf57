// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestEvidence(t *testing.T) {
	suite.Run(t, "Evidence")
}

var _ = BeforeSuite(func() { server = suite.Server() })

type heard struct {
	mu           sync.Mutex
	nodes        []string
	availability int
}

func (h *heard) NodesChanged(nodes ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = append(h.nodes, nodes...)
}

func (h *heard) AvailabilityChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.availability++
}

func (h *heard) has(node string) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.nodes, node)
	}
}

func (h *heard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = nil
}

func setOf(requirements ...v1alpha1.Requirement) *ruleset.Set {
	r := build.MakeRule("r").UID("u").Selector("a", "b").Taint("example.com/t", "", corev1.TaintEffectNoSchedule).Obj()
	for i := range requirements {
		requirements[i].Name = string(rune('a' + i))
	}
	r.Spec.Requirements = requirements
	rule := ruleset.Compile(r, nil, time.Now())
	Expect(rule.Problems).To(BeEmpty())
	return ruleset.NewSet(rule)
}

func initPods(namespace string) v1alpha1.Requirement {
	return v1alpha1.Requirement{Pods: &v1alpha1.PodsRequirement{Namespace: namespace,
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"component": "init"}}}}
}

func pod(name, node string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example.com/c",
		Env: []corev1.EnvVar{{Name: "A", Value: "B"}}}}
	return p
}

func start(ctx context.Context, config *rest.Config, set *ruleset.Set) (*Sources, *heard) {
	clients, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(cancel)
	h := &heard{}
	s := New(ClientInformers{Clients: clients}, h)
	s.SetRules(ctx, set)
	return s, h
}

func clientInformer(s *Sources, k key) *informer {
	i, ok := s.running[k].(*informer)
	Expect(ok).To(BeTrue())
	return i
}

func gathered(s *Sources, set *ruleset.Set, node string) *evidence.Gathered {
	e := &evidence.Gathered{}
	s.Gather(set, node, e)
	return e
}

var _ = Describe("A snapshot of evidence", func() {
	It("has what the sources have, read once", func(ctx context.Context) {
		named := map[string]string{"component": "init"}
		for _, p := range []*corev1.Pod{pod("seen", "s1", named), pod("seen-elsewhere", "s2", named),
			pod("seen-other", "s1", map[string]string{"component": "web"})} {
			Expect(server.Client.Create(ctx, p)).To(Succeed())
			DeferCleanup(server.Client.Delete, p, client.GracePeriodSeconds(0)) // no kubelet is there to end it
		}
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "s1"},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs", NodeID: "s1"}}}}
		Expect(server.Client.Create(ctx, n)).To(Succeed())
		DeferCleanup(server.Client.Delete, n)
		set := setOf(initPods("default"), v1alpha1.Requirement{CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs"}})
		clients, err := kubernetes.NewForConfig(server.Config())
		Expect(err).NotTo(HaveOccurred())

		pinned := pod("seen-unbound", "", named) // as the controller of DaemonSets creates it
		pinned.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
					Values: []string{"s1"}}}}}}}}
		Expect(server.Client.Create(ctx, pinned)).To(Succeed())
		DeferCleanup(server.Client.Delete, pinned, client.GracePeriodSeconds(0))
		pods := set.All()[0].Pods()[0]
		of := func(s *Snapshot, node string) *evidence.Gathered {
			e := &evidence.Gathered{}
			s.Gather(set, node, e)
			return e
		}

		s := Read(ctx, clients, set)
		for i := range set.All()[0].Requirements {
			Expect(s.Unread(&set.All()[0].Requirements[i])).To(BeEmpty())
		}
		both := ConsistOf(HaveField("Name", "seen"), HaveField("Name", "seen-unbound"))
		Expect(of(s, "s1").Pods[pods]).To(both)
		Expect(of(s, "s2").Pods[pods]).To(HaveLen(1))
		Expect(of(s, "s1").CSINode.Spec.Drivers[0].Name).To(Equal("ebs"))
		Expect(of(s, "s1").Devices).To(BeNil(), "no rule requires devices, so they are not read")

		s = Read(ctx, clients, set, "s1")
		Expect(of(s, "s1").Pods[pods]).To(both)
		Expect(of(s, "s2").Pods[pods]).To(BeEmpty(), "the pods of other nodes are not listed")
		Expect(of(s, "s1").CSINode.Spec.Drivers[0].Name).To(Equal("ebs"))
	})
})

var _ = Describe("The sources of evidence", func() {
	It("keep just the pods that a rule names, stripped, and tell of their nodes", func(ctx context.Context) {
		named := map[string]string{"component": "init"}
		for _, p := range []*corev1.Pod{pod("named", "n1", named), pod("elsewhere", "n2", named),
			pod("other", "n1", map[string]string{"component": "web"})} {
			Expect(server.Client.Create(ctx, p)).To(Succeed())
			DeferCleanup(server.Client.Delete, p, client.GracePeriodSeconds(0)) // no kubelet is there to end it
		}
		set := setOf(initPods("default"))
		s, h := start(ctx, server.Config(), set)
		rule := set.All()[0]
		Eventually(func() *ruleset.Problem { return s.Unavailable(rule) }).Should(BeNil())
		pods := gathered(s, set, "n1").Pods[rule.Pods()[0]]
		Expect(pods).To(HaveLen(1))
		Expect(pods[0].Name).To(Equal("named"))
		Expect(pods[0].Spec.Containers).To(Equal([]corev1.Container{{Name: "c"}}))
		Expect(pods[0].ManagedFields).To(BeEmpty())
		Expect(clientInformer(s, podsKey(rule.Pods()[0])).ListKeys()).To(ConsistOf("default/named", "default/elsewhere"))

		Eventually(h.has("n1")).Should(BeTrue())
		Eventually(h.has("n2")).Should(BeTrue(), "else it would be told of later")
		h.forget()
		live := pod("named", "n1", named)
		live.Annotations = map[string]string{"ready": "true"}
		Expect(server.Client.Update(ctx, live)).To(Succeed())
		Eventually(h.has("n1")).Should(BeTrue())
		Expect(h.has("n2")()).To(BeFalse())
	})

	It("see CSI drivers and published devices", func(ctx context.Context) {
		server.Needs(GinkgoTB(), cluster.ResourceSlices)
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: "i-1"}}
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n1-gpu"}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: new("n1"),
			Pool:    resourcev1.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}}
		set := setOf(v1alpha1.Requirement{CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}},
			v1alpha1.Requirement{Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.example.com", Min: 2}})
		s, h := start(ctx, server.Config(), set)
		Eventually(func() *ruleset.Problem { return s.Unavailable(set.All()[0]) }).Should(BeNil())
		Expect(gathered(s, set, "n1").CSINode).To(BeNil())

		Expect(server.Client.Create(ctx, csi)).To(Succeed())
		DeferCleanup(server.Client.Delete, csi)
		Eventually(h.has("n1")).Should(BeTrue())
		Expect(gathered(s, set, "n1").CSINode.Spec.Drivers).To(HaveLen(1))

		Expect(server.Client.Create(ctx, slice)).To(Succeed())
		DeferCleanup(server.Client.Delete, slice)
		Eventually(func() int64 { return gathered(s, set, "n1").Devices["gpu.example.com"] }).Should(BeEquivalentTo(2))
		Expect(gathered(s, set, "n2").Devices).To(BeEmpty())
	})

	It("end what no rule needs any more", func(ctx context.Context) {
		set := setOf(initPods("default"))
		s, _ := start(ctx, server.Config(), set)
		Eventually(func() *ruleset.Problem { return s.Unavailable(set.All()[0]) }).Should(BeNil())
		informer := clientInformer(s, podsKey(set.All()[0].Pods()[0]))
		s.StopUnused(ruleset.NewSet())
		Expect(s.running).To(BeEmpty())
		another, _ := start(ctx, server.Config(), set)
		Eventually(func() *ruleset.Problem { return another.Unavailable(set.All()[0]) }).Should(BeNil())
		n := 0
		Eventually(func(g Gomega) { // the watch ends in the background
			n++
			late := pod(fmt.Sprintf("late-%d", n), "n1", map[string]string{"component": "init"})
			g.Expect(server.Client.Create(ctx, late)).To(Succeed())
			DeferCleanup(server.Client.Delete, late, client.GracePeriodSeconds(0))
			g.Eventually(clientInformer(another, podsKey(set.All()[0].Pods()[0])).ListKeys).
				Should(ContainElement("default/" + late.Name))
			g.Consistently(informer.ListKeys, "300ms").ShouldNot(ContainElement("default/" + late.Name))
		}).WithTimeout(2 * time.Minute).Should(Succeed())
	})
})

func TestStripKeepsWhatRulesReadAndNothingElse(t *testing.T) {
	status := corev1.PodStatus{Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		StartTime:  new(metav1.Unix(1, 0)),
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(2, 0)}}}}}
	want := pod("a", "n", map[string]string{"component": "init"})
	want.Spec = corev1.PodSpec{NodeName: "n", Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		Tolerations: []corev1.Toleration{{Key: "k"}},
		Containers:  []corev1.Container{{Name: "c", ReadinessProbe: &corev1.Probe{}}}}
	want.Status = status
	p := want.DeepCopy()
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	p.Spec.Volumes = []corev1.Volume{{Name: strings.Repeat("x", 10)}}
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ReadinessProbe.PeriodSeconds = "registry.example.com/c", 5
	p.Status.HostIP, p.Status.ContainerStatuses[0].ImageID = "192.0.2.1", "sha256:0"
	if diff := cmp.Diff(any(want), stripPod(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
