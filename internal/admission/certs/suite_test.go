// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestCertificates(t *testing.T) {
	suite.Run(t, "Certificates")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(GinkgoLogr)
	server = suite.Server()
})

// replica is a manager that serves webhooks with a certificate.
type replica struct {
	*Certificate
	address string
	dir     string
	stop    func()
}

func start(add func(ctx context.Context, mgr manager.Manager, dir string) (*Certificate, error)) *replica {
	GinkgoHelper()
	taken, err := cluster.TakePorts(1)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(server.Config(), manager.Options{
		Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: false,
	})
	Expect(err).NotTo(HaveOccurred())
	r := &replica{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(taken[0])), dir: GinkgoT().TempDir()}
	r.Certificate, err = add(ctx, mgr, r.dir)
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: taken[0], TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = r.Get },
	}}))).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.stop = func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	}
	return r
}

// shown is the certificate that a client is shown who trusts what the API server has been told to.
func (r *replica) shown(ca []byte) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate authority")
	}
	conn, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: pool, ServerName: "localhost",
		MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0], nil
}

func (r *replica) ready() error { return r.Ready(nil) }

// createConfigurations creates those into which the authority is written.
func createConfigurations(ctx context.Context, name string) {
	GinkgoHelper()
	config := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: name}}
	none := admissionregistrationv1.SideEffectClassNone
	ignore := admissionregistrationv1.Ignore
	for _, o := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a.example.com", ClientConfig: config, SideEffects: &none,
				FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"}}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.example.com", ClientConfig: config,
				SideEffects:   &none,
				FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"}}}},
	} {
		Expect(server.Client.Create(ctx, o)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, o)).To(Succeed()) })
	}
}

func authorities(ctx context.Context, name string) (mutating, validating []byte) {
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(server.Client.Get(ctx, client.ObjectKey{Name: name}, m)).To(Succeed())
	Expect(server.Client.Get(ctx, client.ObjectKey{Name: name}, v)).To(Succeed())
	return m.Webhooks[0].ClientConfig.CABundle, v.Webhooks[0].ClientConfig.CABundle
}

var _ = Describe("A certificate that the operator keeps itself", func() {
	It("is made, served, trusted, renewed and replaced without a restart", func(ctx context.Context) {
		createConfigurations(ctx, "renewed")
		managed := Managed{Namespace: "default", Name: "renewed", CALifetime: time.Hour, Lifetime: 8 * time.Second,
			RenewBefore: 3 * time.Second, CheckEvery: 200 * time.Millisecond, Clock: clock.RealClock{}}
		r := start(func(ctx context.Context, mgr manager.Manager, _ string) (*Certificate, error) {
			m := managed
			m.Amend = func(o *unstructured.Unstructured) error {
				o.SetLabels(map[string]string{"amended": "true"})
				return nil
			}
			c, err := m.Add(ctx, mgr)
			if err == nil {
				Expect(c.Ready(nil)).To(MatchError(ContainSubstring("not in Secret default/renewed-cert yet")))
			}
			return c, err
		})
		defer r.stop()
		Eventually(r.ready).Should(Succeed())
		mutating, validating := authorities(ctx, "renewed")
		Expect(mutating).To(Equal(validating))
		var first *x509.Certificate
		Eventually(func() (err error) { first, err = r.shown(mutating); return err }).Should(Succeed())
		Expect(first.VerifyHostname("renewed.default.svc")).To(Succeed())

		amended := &admissionregistrationv1.MutatingWebhookConfiguration{}
		Expect(server.Client.Get(ctx, client.ObjectKey{Name: "renewed"}, amended)).To(Succeed())
		Expect(amended.Labels).To(HaveKeyWithValue("amended", "true"))

		By("being renewed before it expires")
		Eventually(func(g Gomega) {
			now, err := r.shown(mutating)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.NotAfter).To(BeTemporally(">", first.NotAfter))
			g.Expect(time.Now()).To(BeTemporally(">", first.NotAfter), "the first one has not expired yet")
		}).Should(Succeed())
		Eventually(r.ready).Should(Succeed())

		By("being created again when the Secret is emptied, with another authority")
		secret := &corev1.Secret{}
		Eventually(func(g Gomega) { // the operator renews it meanwhile
			g.Expect(server.Client.Get(ctx, managed.SecretKey(), secret)).To(Succeed())
			secret.Data = nil
			g.Expect(server.Client.Update(ctx, secret)).To(Succeed())
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			now, validating := authorities(ctx, "renewed")
			g.Expect(now).NotTo(Equal(mutating))
			g.Expect(now).To(Equal(validating))
			_, err := r.shown(now)
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())

		By("writing the authority again when a user has removed it")
		v := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(server.Client.Get(ctx, client.ObjectKey{Name: "renewed"}, v)).To(Succeed())
		v.Webhooks[0].ClientConfig.CABundle = nil
		Expect(server.Client.Update(ctx, v)).To(Succeed())
		Eventually(func() []byte { _, validating := authorities(ctx, "renewed"); return validating }).ShouldNot(BeEmpty())

		By("creating the Secret again when it is deleted")
		Expect(server.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(server.Client.Get(ctx, managed.SecretKey(), secret)).To(Succeed())
			ca, _ := authorities(ctx, "renewed")
			g.Expect(secret.Data).To(HaveKeyWithValue("ca.crt", ca))
			_, err := r.shown(ca)
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
		Eventually(func() float64 { return testutil.ToFloat64(problems) }).Should(BeZero())
	})

	It("is not written without a pause while another program writes another authority", func(ctx context.Context) {
		createConfigurations(ctx, "contested")
		r := start(func(ctx context.Context, mgr manager.Manager, _ string) (*Certificate, error) {
			return Managed{Namespace: "default", Name: "contested", Clock: clock.RealClock{}}.Add(ctx, mgr)
		})
		defer r.stop()
		Eventually(r.ready).Should(Succeed())
		theirs, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		writes := 0
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			v := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			Expect(server.Client.Get(ctx, client.ObjectKey{Name: "contested"}, v)).To(Succeed())
			if bundle := &v.Webhooks[0].ClientConfig.CABundle; !bytes.Equal(*bundle, theirs) {
				*bundle = theirs
				if server.Client.Update(ctx, v) == nil { // else the operator was as fast
					writes++
				}
			}
		}
		Expect(writes).To(And(BeNumerically(">", 1), BeNumerically("<", checksAtOnce+10)))
	})

	It("is left to cert-manager when the webhook configurations are", func(ctx context.Context) {
		createConfigurations(ctx, "handed-over")
		managed := Managed{Namespace: "default", Name: "handed-over", Clock: clock.RealClock{}}
		r := start(func(ctx context.Context, mgr manager.Manager, _ string) (*Certificate, error) {
			return managed.Add(ctx, mgr)
		})
		defer r.stop()
		Eventually(r.ready).Should(Succeed())
		theirs, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		m, v := &admissionregistrationv1.MutatingWebhookConfiguration{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{}
		update := func(o client.Object, change func()) {
			GinkgoHelper()
			Eventually(func(g Gomega) { // the operator may write it at the same time
				g.Expect(server.Client.Get(ctx, client.ObjectKey{Name: "handed-over"}, o)).To(Succeed())
				change()
				g.Expect(server.Client.Update(ctx, o)).To(Succeed())
			}).Should(Succeed())
		}
		update(m, func() { m.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "default/handed-over"} })
		update(v, func() { v.Annotations = m.Annotations })
		update(m, func() { m.Webhooks[0].ClientConfig.CABundle = theirs })
		update(v, func() { v.Webhooks[0].ClientConfig.CABundle = theirs })
		secret := &corev1.Secret{}
		Expect(server.Client.Get(ctx, managed.SecretKey(), secret)).To(Succeed())
		Expect(server.Client.Delete(ctx, secret)).To(Succeed())

		Consistently(func(g Gomega) {
			err := server.Client.Get(ctx, managed.SecretKey(), secret)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Secret has been created again")
			mutating, validating := authorities(ctx, "handed-over")
			g.Expect(mutating).To(Equal(theirs))
			g.Expect(validating).To(Equal(theirs))
		}, "2s").Should(Succeed())
		Expect(r.ready()).To(Succeed(), "replicas of the former kind answer until the rollout has ended")
		Expect(testutil.ToFloat64(problems)).To(Equal(1.0))

		By("keeping it again when cert-manager does not")
		update(m, func() { m.Annotations = nil })
		update(v, func() { v.Annotations = nil })
		Eventually(func(g Gomega) {
			mutating, validating := authorities(ctx, "handed-over")
			g.Expect(mutating).NotTo(Equal(theirs))
			g.Expect(mutating).To(Equal(validating))
			_, err := r.shown(mutating)
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
	})

	It("is the same one on all replicas", func(ctx context.Context) {
		createConfigurations(ctx, "shared")
		add := func(ctx context.Context, mgr manager.Manager, _ string) (*Certificate, error) {
			return Managed{Namespace: "default", Name: "shared", Clock: clock.RealClock{}}.Add(ctx, mgr)
		}
		replicas := []*replica{start(add), start(add)}
		for _, r := range replicas {
			defer r.stop()
		}
		Eventually(func(g Gomega) {
			ca, _ := authorities(ctx, "shared")
			var shown []*x509.Certificate
			for _, r := range replicas {
				g.Expect(r.ready()).To(Succeed())
				cert, err := r.shown(ca)
				g.Expect(err).NotTo(HaveOccurred())
				shown = append(shown, cert)
			}
			g.Expect(shown[0].Equal(shown[1])).To(BeTrue())
			g.Expect(shown[0].NotAfter).To(BeTemporally(">", time.Now().Add(300*24*time.Hour)))
		}).Should(Succeed())
	})
})

const day = 24 * time.Hour

var _ = Describe("The clock of a replica's machine", func() {
	It("does not date the certificate, nor end it", func(ctx context.Context) {
		createConfigurations(ctx, "ahead")
		theirs := time.Now().Add(-400 * day) // the API server's clock
		managed := Managed{Namespace: "default", Name: "ahead", Clock: testclock.NewFakePassiveClock(theirs)}
		r := start(func(ctx context.Context, mgr manager.Manager, _ string) (*Certificate, error) {
			return managed.Add(ctx, mgr)
		})
		defer r.stop()
		Eventually(r.ready).Should(Succeed())
		secret := &corev1.Secret{}
		Expect(server.Client.Get(ctx, managed.SecretKey(), secret)).To(Succeed())
		for _, file := range []string{caCertFile, certFile} {
			certificates, err := cert.ParseCertsPEM(secret.Data[file])
			Expect(err).NotTo(HaveOccurred())
			Expect(certificates[0].NotBefore).To(BeTemporally("~", theirs.Add(-time.Hour), time.Minute), file)
		}
		Expect(testutil.ToFloat64(problems)).To(BeZero())
	})
})

func TestACertificateFromTheFutureIsRenewed(t *testing.T) {
	k := &keeper{Managed: Managed{Namespace: "default", Name: "ahead", CALifetime: 3650 * day, Lifetime: 365 * day,
		RenewBefore: 90 * day}}
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	ahead, err := k.renew(nil, now.Add(20*day))
	if err != nil {
		t.Fatal(err)
	}
	data, err := k.renew(ahead, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[certFile], data[keyFile])
	if err != nil {
		t.Fatal(err)
	}
	if pair.Leaf.NotBefore.After(now) {
		t.Errorf("the API server does not accept it before %s", pair.Leaf.NotBefore)
	}
	if again, err := k.renew(data, now); err != nil || !maps.EqualFunc(data, again, bytes.Equal) {
		t.Errorf("it is renewed again (%v)", err)
	}
}

// TestTheSecretIsNotCreatedAgainIfConfigurationsCannotBeRead: cert-manager may keep the authority, and Helm has deleted
// the Secret.
func TestTheSecretIsNotCreatedAgainIfConfigurationsCannotBeRead(t *testing.T) {
	both := []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	errUnread := errors.New("etcdserver: request timed out")
	for name, c := range map[string]struct {
		unread  []string // kinds
		secret  bool
		written bool
	}{
		"none is read":                      {unread: both},
		"none is read, the Secret is there": {unread: both, secret: true, written: true},
		"one is read":                       {unread: both[:1], written: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(
				&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "w"}},
			).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch,
				key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if slices.Contains(c.unread, o.GetObjectKind().GroupVersionKind().Kind) {
					return errUnread
				}
				return api.Get(ctx, key, o, options...)
			}}).Build()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
			k := &keeper{Managed: Managed{Namespace: "default", Name: "w", Clock: clock.RealClock{}, CALifetime: 3650 * day,
				Lifetime: 365 * day, RenewBefore: 90 * day}, live: api, certificate: &Certificate{}}
			secret.Name = k.SecretKey().Name
			if c.secret {
				cluster.Must(t, api.Create(t.Context(), secret.DeepCopy()))
			}
			if err := k.keep(t.Context()); !errors.Is(err, errUnread) {
				t.Errorf("it says %v", err)
			}
			if err := api.Get(t.Context(), k.SecretKey(), secret); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if written := len(secret.Data) > 0; written != c.written {
				t.Errorf("the Secret is written: %t", written)
			}
		})
	}
}

func TestAnAuthorityOfAnotherKindIsReplaced(t *testing.T) {
	k := &keeper{Managed: Managed{Namespace: "default", Name: "kind", CALifetime: 3650 * day, Lifetime: 365 * day,
		RenewBefore: 90 * day}}
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: caName},
		DNSNames: []string{caName}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(3650 * day), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := k.renew(map[string][]byte{caKeyFile: keyPEM,
		caCertFile: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(data[certFile], data[keyFile]); err != nil {
		t.Error(err)
	}
}

func TestAnExpiredCertificateIsAProblem(t *testing.T) {
	before := serving.Load()
	t.Cleanup(func() { serving.Store(before) })
	c := waiting(clock.RealClock{}, "none yet")
	for _, tc := range []struct {
		expires time.Duration
		want    float64
	}{{time.Hour, 0}, {-time.Hour, 1}} {
		c.set(&tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Now().Add(tc.expires)}})
		c.succeed()
		if got := testutil.ToFloat64(problems); got != tc.want {
			t.Errorf("the metric is %v for a certificate that expires in %s", got, tc.expires)
		}
	}
}

var _ = Describe("A certificate from files", func() {
	It("is waited for, served, and replaced without a restart", func(ctx context.Context) {
		r := start(func(_ context.Context, mgr manager.Manager, dir string) (*Certificate, error) {
			return WebhooksFromFiles(mgr, clock.RealClock{}, dir)
		})
		defer r.stop()
		Eventually(r.ready).Should(MatchError(ContainSubstring("no such file")))
		first := writePair(r.dir)
		Eventually(r.ready).Should(Succeed())
		Eventually(func() error { _, err := r.shown(first); return err }).Should(Succeed())
		second := writePair(r.dir)
		Eventually(func() error { _, err := r.shown(second); return err }).Should(Succeed())
	})
})

// writePair writes a certificate and its key, and returns whom to trust.
func writePair(dir string) []byte {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, keyFile), key, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, certFile), certificate, 0o600)).To(Succeed())
	return certificate
}
