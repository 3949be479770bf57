// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/controller/admissionrules"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var (
	server *cluster.Cluster
	engine *Engine
	// operator is a client of the operator, to the policies, who may do everything.
	operator client.Client
)

func TestNodes(t *testing.T) {
	suite.Run(t, "Admission of nodes")
}

// One API server, and one replica that serves the webhook as it is shipped. Which engine acts follows from whether the
// policy is installed.
var _ = BeforeSuite(func(ctx context.Context) {
	ctrl.SetLogger(GinkgoLogr)
	server = suite.Server()
	relaxCRD(ctx)
	var err error
	operator, err = server.As("system:serviceaccount:nodegate-system:nodegate-manager", "system:masters")
	Expect(err).NotTo(HaveOccurred())

	mgr, err := ctrl.NewManager(server.Config(), manager.Options{
		Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: false,
	})
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.Background())
	rules, leader := watch.NewRules(clock.RealClock{}), watch.NewRules(clock.RealClock{})
	Expect(rules.SetupWithCache(running, mgr.GetCache())).To(Succeed())
	Expect(leader.SetupWithCache(running, mgr.GetCache())).To(Succeed())
	engine = NewEngine(ModeAuto, true, "nodegate-node-admission")
	Expect(engine.SetupWithManager(running, mgr)).To(Succeed())

	// The leader's part, which decides by the status here, and does not read evidence.
	writer := &admissionrules.Writer{Client: operator}
	admitted := &watch.Admission{Rules: rules,
		Served: func(served bool) { engine.SetCRD(running, served) },
		Changed: func(exists bool) {
			engine.SetRules(running, exists)
			writer.Wake()
		}}
	Expect(mgr.Add(manager.RunnableFunc(writer.Start))).To(Succeed())
	Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		var last *ruleset.Set
		return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if now := leader.Reported(); now != last {
				writer.Propose(now)
				last = now
			}
			return false, nil
		})
	}))).To(Succeed())
	Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return admitted.Run(ctx, server.Config()) }))).
		To(Succeed())

	taken, err := cluster.TakePorts(1)
	Expect(err).NotTo(HaveOccurred())
	certificate, ca := makeCertificate()
	s := &admission.Server{Address: fmt.Sprintf("127.0.0.1:%d", taken[0]),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
		Handlers:    []admission.Handler{&Webhook{Rules: admitted.Current, Acting: engine.Acting, Clock: clock.RealClock{}}}}
	Expect(mgr.Add(s)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Eventually(func() error { return s.Ready(nil) }).Should(Succeed())
	_, err = server.ApplyConfig(ctx, cluster.Local(fmt.Sprintf("https://localhost:%d", taken[0]), ca),
		cluster.MutatingWebhooks)
	Expect(err).NotTo(HaveOccurred())
	_, err = server.ApplyConfig(ctx, nil, cluster.RecordGuard)
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.AwaitPolicies(ctx, server.Client)).To(Succeed())
})

// relaxCRD lets the API server store rules with any taint, as a CRD of another version might.
func relaxCRD(ctx context.Context) {
	GinkgoHelper()
	served := &apiextensionsv1.CustomResourceDefinition{}
	Expect(server.Client.Get(ctx, client.ObjectKey{Name: crd.Name()}, served)).To(Succeed())
	spec := served.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	taint := spec.Properties["taint"]
	for name, field := range taint.Properties {
		field.Pattern, field.XValidations, field.Enum, field.MaxLength = "", nil, nil, nil
		taint.Properties[name] = field
	}
	spec.Properties["taint"] = taint
	health := spec.Properties["health"]
	health.XValidations = nil
	spec.Properties["health"] = health
	served.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	Expect(server.Client.Update(ctx, served)).To(Succeed())
}

func makeCertificate() (pair tls.Certificate, trust []byte) {
	GinkgoHelper()
	trust, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	pair, err = tls.X509KeyPair(trust, key)
	Expect(err).NotTo(HaveOccurred())
	return pair, trust
}
