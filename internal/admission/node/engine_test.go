// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodegate/nodegate/test/cluster"
)

var _ = Describe("An engine that is asked for by name and does not exist", func() {
	It("says what is missing, and the replica starts", func(ctx context.Context) {
		mgr, err := ctrl.NewManager(server.Config(), manager.Options{
			Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(tellAgain)
		e := NewEngine(ModePolicy, true, "another-policy")
		Expect(e.SetupWithManager(ctx, mgr)).To(Succeed())
		Expect(e.Acting()).To(Equal(EngineNone))
		want := `no MutatingAdmissionPolicy "another-policy"`
		if !server.Has(GinkgoTB(), cluster.MutatingAdmissionPolicies) {
			want = "(Kubernetes 1.36): upgrade Kubernetes, and restart the operator"
		}
		Expect(e.Ready(nil)).To(MatchError(ContainSubstring(want)))
	})

	It("is ready without the object, which only the leader writes, but not without its CRD", func(ctx context.Context) {
		DeferCleanup(tellAgain)
		e := NewEngine(ModePolicy, true, "installed")
		e.served = true
		e.set("policy", true)
		e.set("binding", true)
		Expect(e.Ready(nil)).To(MatchError(ContainSubstring("does not serve the CRD admissionrules.nodegate.io")))
		Expect(e.ByStatus()).To(BeFalse(), "the webhook may not act")
		e.SetCRD(ctx, true)
		Expect(e.Ready(nil)).To(Succeed())
		Expect(e.Acting()).To(Equal(EngineNone))
		Eventually(func() bool {
			engine.mu.RLock()
			defer engine.mu.RUnlock()
			return engine.found["crd"]
		}).Should(BeTrue(), "the watch of the replica of all specs tells it")
	})

	It("says whether the webhook goes by the status of rules", func(ctx context.Context) {
		DeferCleanup(tellAgain)
		e := NewEngine(ModeAuto, true, "installed")
		e.set("policy", true)
		e.set("binding", true)
		Expect(e.Acting()).To(Equal(EngineWebhook), "the policy has no rules")
		Expect(e.ByStatus()).To(BeTrue())
		e.SetRules(ctx, true)
		Expect(e.Acting()).To(Equal(EnginePolicy))
		Expect(e.ByStatus()).To(BeFalse())
		e.set("policy", false)
		Expect(e.Acting()).To(Equal(EngineWebhook))
		Expect(e.ByStatus()).To(BeFalse(), "it reads the object")
	})
})

// tellAgain sets the metric, which the engine of one spec has set, to that of the replica of all specs, whose watches
// go on.
func tellAgain() {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	engine.tell()
}
