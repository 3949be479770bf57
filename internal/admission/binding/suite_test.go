// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestBindings(t *testing.T) {
	suite.Run(t, "Admission of pods to nodes")
}

var _ = BeforeSuite(func(ctx context.Context) {
	server = suite.Server()
	for _, n := range []*build.NodeWrapper{
		build.MakeNode("held").Label("pool", "a").Taint("readiness.example.com/cni", "pending", corev1.TaintEffectNoSchedule),
		build.MakeNode("ready").Label("pool", "a"),
		build.MakeNode("other").Label("pool", "b").Taint("readiness.example.com/cni", "pending",
			corev1.TaintEffectNoSchedule),
		build.MakeNode("relabelled").Label("pool", "b").Taint("readiness.example.com/cni", "pending",
			corev1.TaintEffectNoSchedule).Annotation(v1alpha1.RecordAnnotationPrefix+"u",
			`{"rule":"cni","taint":"readiness.example.com/cni=pending:NoSchedule"}`),
	} {
		Expect(server.Client.Create(ctx, n.Obj())).To(Succeed())
	}
})

func rule() *build.RuleWrapper {
	r := build.MakeRule("cni").UID("u").Created(time.Now()).Condition("example.com/CNIReady").Selector("pool", "a").
		Taint("readiness.example.com/cni", "pending", corev1.TaintEffectNoSchedule)
	r.Spec.PodAdmission = v1alpha1.PodAdmissionDeny
	return r
}

func pod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations,
			Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}},
	}
}

func webhook(r *build.RuleWrapper) *Webhook {
	set := ruleset.NewSet(ruleset.Compile(r.Obj(), nil, time.Now()))
	return &Webhook{Rules: func() *ruleset.Set { return set }, Nodes: server.Client, Pods: server.Client}
}

func review(p *corev1.Pod, kind string, object any) admission.Request {
	raw, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: kind},
		Namespace: p.Namespace, Name: p.Name, Object: runtime.RawExtension{Raw: raw},
	}}
}

var tolerating = corev1.Toleration{Key: "readiness.example.com/cni", Operator: corev1.TolerationOpExists}

var _ = DescribeTable("A pod that gets a node",
	func(ctx context.Context, edit func(*build.RuleWrapper), p *corev1.Pod, allowed bool) {
		r := rule()
		if edit != nil {
			edit(r)
		}
		w := webhook(r)
		got := w.Handle(ctx, review(p, "Pod", p))
		Expect(got.Allowed).To(Equal(allowed), "created on the node: %+v", got.Result)

		bound := p.DeepCopy()
		bound.Spec.NodeName = ""
		Expect(server.Client.Create(ctx, bound)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, bound)).To(Succeed()) })
		got = w.Handle(ctx, review(p, "Binding", &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node",
			Name: p.Spec.NodeName}}))
		Expect(got.Allowed).To(Equal(allowed), "bound to the node: %+v", got.Result)
		if !allowed {
			Expect(got.Result.Message).To(Equal("pod default/" + p.Name +
				" cannot run on node " + p.Spec.NodeName + " yet: rule cni holds it, and the pod does not tolerate " +
				"readiness.example.com/cni=pending:NoSchedule"))
		}
	},
	Entry("is refused on one that is held", nil, pod("a", "held"), false),
	Entry("is let onto it if it tolerates the taint", nil, pod("b", "held", tolerating), true),
	Entry("and if it tolerates everything", nil, pod("c", "held", corev1.Toleration{Operator: corev1.TolerationOpExists}),
		true),
	Entry("is refused if it tolerates something else", nil,
		pod("d", "held", corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists}), false),
	Entry("is let onto one that is ready", nil, pod("e", "ready"), true),
	Entry("is let onto one that the rule does not select", nil, pod("f", "other"), true),
	Entry("is admitted to an unknown node", nil, pod("g", "nowhere"), true),
	Entry("podAdmission: None", func(r *build.RuleWrapper) { r.Spec.PodAdmission = v1alpha1.PodAdmissionNone },
		pod("h", "held"), true),
	Entry("a rule in dry-run", func(r *build.RuleWrapper) { r.DryRun(true) }, pod("i", "held"), true),
	Entry("a rule in dry-run that is also invalid",
		func(r *build.RuleWrapper) { r.DryRun(true).MaxUnavailable("nonsense") }, pod("n", "held"), true),
	Entry("a rule that is suspended", func(r *build.RuleWrapper) { r.Suspend(true) }, pod("j", "held"), false),
	Entry("a rule that is suspended, also if the node's labels have changed since",
		func(r *build.RuleWrapper) { r.Suspend(true) }, pod("l", "relabelled"), false),
	Entry("a rule in force that does not select the node any more", nil, pod("m", "relabelled"), true),
	Entry("a rule that is being deleted", func(r *build.RuleWrapper) { r.Deleted(time.Now()) }, pod("k", "held"), true),
)

var _ = It("A pod must tolerate the taints of all rules that hold the node", func(ctx context.Context) {
	both := build.MakeNode("both").Label("pool", "a").Taint("readiness.example.com/cni", "pending",
		corev1.TaintEffectNoSchedule).Taint("readiness.example.com/storage", "pending", corev1.TaintEffectNoSchedule).Obj()
	Expect(server.Client.Create(ctx, both)).To(Succeed())
	storage := rule().Taint("readiness.example.com/storage", "pending", corev1.TaintEffectNoSchedule).UID("v").Obj()
	storage.Name = "storage"
	set := ruleset.NewSet(ruleset.Compile(rule().Obj(), nil, time.Now()), ruleset.Compile(storage, nil, time.Now()))
	w := &Webhook{Rules: func() *ruleset.Set { return set }, Nodes: server.Client, Pods: server.Client}
	p := pod("o", "both", tolerating)
	Expect(w.Handle(ctx, review(p, "Pod", p)).Result.Message).To(HaveSuffix("yet: rule storage holds it, and the pod " +
		"does not tolerate readiness.example.com/storage=pending:NoSchedule"))
	p = pod("o", "both", tolerating, corev1.Toleration{Key: "readiness.example.com/storage", Operator: "Exists"})
	Expect(w.Handle(ctx, review(p, "Pod", p)).Allowed).To(BeTrue())
})

// install makes the API server call the webhook as it is shipped.
func install(ctx context.Context, w *Webhook) {
	GinkgoHelper()
	s := httptest.NewTLSServer(&admission.Webhook{Handler: w})
	DeferCleanup(s.Close)
	raw, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "components", "pod-admission", "webhook_patch.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var patch []struct {
		Value admissionregistrationv1.ValidatingWebhook
	}
	Expect(yaml.Unmarshal(raw, &patch)).To(Succeed())
	hook := patch[0].Value
	Expect(*hook.ClientConfig.Service.Path).To(Equal(w.Path()))
	hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &s.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bindings"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}
	Expect(server.Client.Create(ctx, config)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, config)).To(Succeed()) })
}

var _ = Describe("The webhook as it is shipped", func() {
	It("is asked about each way in which a pod gets a node", func(ctx context.Context) {
		install(ctx, webhook(rule()))
		refused := MatchError(ContainSubstring("rule cni holds it"))
		Eventually(func() error { return server.Client.Create(ctx, pod("placed", "held"), client.DryRunAll) }).
			Should(refused)
		p := pod("bound", "")
		Expect(server.Client.Create(ctx, p)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, p)).To(Succeed()) })
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
			Target: corev1.ObjectReference{Kind: "Node", Name: "held"}}
		Expect(server.Client.SubResource("binding").Create(ctx, p, binding.DeepCopy(), client.DryRunAll)).To(refused)
		Expect(server.Client.Create(ctx, binding, client.DryRunAll)).To(refused, "by the older resource")
	})
})

var _ = Describe("What is not refused", func() {
	It("is a pod that runs there already", func(ctx context.Context) {
		p := pod("static", "held")
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		Expect(webhook(rule()).Handle(ctx, review(p, "Pod", p)).Allowed).To(BeTrue())
	})
	It("is a pod that cannot be read", func(ctx context.Context) {
		p := pod("unknown", "held")
		got := webhook(rule()).Handle(ctx, review(p, "Binding",
			&corev1.Binding{Target: corev1.ObjectReference{Name: "held"}}))
		Expect(got.Allowed).To(BeTrue())
	})
	DescribeTable("is a pod that the scheduler puts there for its comparison with the taint",
		func(ctx context.Context, than string, allowed bool) {
			r := rule()
			r.Spec.Taint.Value = "5"
			p := pod("compares", "held", corev1.Toleration{Key: r.Spec.Taint.Key, Operator: corev1.TolerationOpGt, Value: than})
			Expect(webhook(r).Handle(ctx, review(p, "Pod", p)).Allowed).To(Equal(allowed))
		}, Entry("5 is greater than 4", "4", true), Entry("5 is not greater than 5", "5", false))
	It("is a review without an object", func(ctx context.Context) {
		req := review(pod("x", "held"), "Pod", nil)
		req.Object.Raw = nil
		got := webhook(rule()).Handle(ctx, req)
		Expect(got.Allowed).To(BeTrue())
		Expect(got.Warnings).To(HaveLen(1))
	})
})
