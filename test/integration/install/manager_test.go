// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	agentcfg "github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/cluster"
)

const conditionType = "example.com/CNIReady"

// TestTheOperatorRuns runs the operator's binary with the rights that config/default gives it, and the arguments of its
// deployment: they are enough for all that it does, and there is none that it does not use.
func TestTheOperatorRuns(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx := t.Context()
	withAgents(t) // to whose ServiceAccount it writes
	m := startManager(t)
	g.Eventually(func() error { return m.probe(ctx, "/readyz") }).Should(Succeed())
	g.Expect(m.probe(ctx, "/healthz")).To(Succeed())

	m.callWebhooks(t, g)

	lease := &coordinationv1.Lease{}
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "nodegate.readiness.node.x-k8s.io"}, lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
	}).Should(Succeed(), "the lease is held")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"example.com/pool": "workers"}}}
	g.Expect(kube.Create(ctx, node)).To(Succeed())
	t.Cleanup(func() { _ = kube.Delete(context.Background(), node) })
	rule := &v1alpha1.NodeReadinessRule{
		ObjectMeta: metav1.ObjectMeta{Name: "network"},
		Spec: v1alpha1.NodeReadinessRuleSpec{
			NodeSelector:    v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"example.com/pool": "workers"}},
			Conditions:      []v1alpha1.ConditionRequirement{{Type: conditionType, RequiredStatus: v1alpha1.ConditionTrue}},
			Taint:           &v1alpha1.Taint{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: "NoSchedule"},
			EnforcementMode: v1alpha1.EnforcementModeContinuous,
			Probes:          []v1alpha1.Probe{{ConditionType: "example.com/Probed", TCPSocket: &v1alpha1.TCPSocketAction{Port: 9099}}},
		},
	}
	g.Expect(kube.Create(ctx, rule)).To(Succeed())
	g.Eventually(func(g Gomega) {
		agents := &corev1.ConfigMap{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "nodegate-agent-config"}, agents)).To(Succeed())
		g.Expect(agents.Data).To(HaveKeyWithValue("rules.json", ContainSubstring("example.com/Probed")))
		account := &corev1.ServiceAccount{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: agentAccount}, account)).To(Succeed())
		g.Expect(account.Annotations).To(HaveKeyWithValue(agentcfg.ConditionsAnnotation, "example.com/Probed"))
	}).Should(Succeed(), "the agents' configuration is written")

	tainted := func(want bool) func(g Gomega) {
		return func(g Gomega) {
			g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
			has := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == "readiness.k8s.io/NetworkReady" && t.Value == "pending" && t.Effect == corev1.TaintEffectNoSchedule
			})
			g.Expect(has).To(Equal(want), "taints: %v", node.Spec.Taints)
		}
	}
	g.Eventually(tainted(true)).Should(Succeed(), "the node is held")
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		g.Expect(rule.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		g.Expect(meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
		g.Expect(rule.Status.Nodes).To(HaveValue(Equal(v1alpha1.NodeCounts{Matched: 1, Held: 1})))
	}).Should(Succeed(), "the finalizer and the status are written")

	report := func(status corev1.ConditionStatus) {
		t.Helper()
		now := metav1.Now()
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
			conditionType, status, now.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		g.Expect(kube.Status().Patch(ctx, node, client.RawPatch("application/strategic-merge-patch+json", patch))).To(Succeed())
	}
	// Several times, so that events repeat.
	for range 3 {
		report(corev1.ConditionTrue)
		g.Eventually(tainted(false)).Should(Succeed(), "the node is released")
		report(corev1.ConditionFalse)
		g.Eventually(tainted(true)).Should(Succeed(), "the node is held again")
	}
	g.Eventually(func(g Gomega) {
		reasons := map[string]bool{}
		list := &eventsv1.EventList{}
		g.Expect(kube.List(ctx, list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == "Node" && e.Regarding.Name == node.Name && e.ReportingController == "nodegate" {
				reasons[e.Reason+"/"+e.Action] = true
				reasons["repeated"] = reasons["repeated"] || e.Series != nil && e.Series.Count > 1
			}
		}
		g.Expect(reasons).To(Equal(map[string]bool{"TaintAdded/AddTaint": true, "TaintRemoved/RemoveTaint": true, "repeated": true}))
	}).Should(Succeed(), "the events are recorded")

	m.checkMetrics(t, g)
	evictAfterAHold(t, g)
	evidence := createEvidenceRule(t, g)

	g.Expect(kube.Delete(ctx, rule)).To(Succeed())
	g.Eventually(func() bool { return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(rule), rule)) }).
		Should(BeTrue(), "the finalizer goes")
	g.Expect(func() error { tainted(false)(g); return nil }()).To(Succeed(), "and the taint with it")

	if err := m.stop(); err != nil {
		t.Errorf("the operator does not end well: %v", err)
	}
	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
	g.Expect(lease.Spec.HolderIdentity).To(Or(BeNil(), HaveValue(BeEmpty())), "the lease is handed over")
	if strings.Contains(m.log(), "forbidden") {
		t.Error("something was forbidden, as the operator's log says")
	}

	// Older API servers cannot stream a list: it is asked for.
	older := startManager(t, "KUBE_FEATURE_WatchListClient=false")
	g.Eventually(func() error { return older.probe(ctx, "/readyz") }).Should(Succeed())
	g.Eventually(func() map[string]bool { return used(t) }).Should(And(HaveKey("nodes list"),
		HaveKey("pods list"), HaveKey("csinodes.storage.k8s.io list"), HaveKey("resourceslices.resource.k8s.io list")))
	g.Expect(kube.Delete(ctx, evidence)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(evidence), evidence))
	}).Should(BeTrue())
	g.Expect(older.stop()).To(Succeed())
	checkAudit(t)
}

// callWebhooks lets the API server call the webhooks of this process, since there is no network for the Service. What the
// operator has written about its certificate stays.
func (m *process) callWebhooks(t *testing.T, g *WithT) {
	t.Helper()
	_, port, err := net.SplitHostPort(m.webhooks)
	g.Expect(err).NotTo(HaveOccurred())
	edit := func(ctx context.Context, config func(Gomega, *admissionregistrationv1.WebhookClientConfig)) {
		t.Helper()
		mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
		g.Eventually(func(g Gomega) { // the operator writes them, too
			g.Expect(kube.Get(ctx, client.ObjectKey{Name: "nodegate-webhook"}, mutating)).To(Succeed())
			for i := range mutating.Webhooks {
				config(g, &mutating.Webhooks[i].ClientConfig)
			}
			g.Expect(kube.Update(ctx, mutating)).To(Succeed())
		}).Should(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(kube.Get(ctx, client.ObjectKey{Name: "nodegate-webhook"}, validating)).To(Succeed())
			for i := range validating.Webhooks {
				config(g, &validating.Webhooks[i].ClientConfig)
			}
			g.Expect(kube.Update(ctx, validating)).To(Succeed())
		}).Should(Succeed())
	}
	services := map[string]*admissionregistrationv1.ServiceReference{}
	edit(t.Context(), func(g Gomega, c *admissionregistrationv1.WebhookClientConfig) {
		g.Expect(c.CABundle).NotTo(BeEmpty(), "the authority is written")
		if c.Service != nil {
			url := "https://localhost:" + port + *c.Service.Path
			services[url] = c.Service
			c.URL, c.Service = &url, nil
		}
	})
	t.Cleanup(func() {
		edit(context.Background(), func(_ Gomega, c *admissionregistrationv1.WebhookClientConfig) {
			if c.URL != nil {
				c.URL, c.Service = nil, services[*c.URL]
			}
		})
	})
}

// createEvidenceRule creates a rule that requires every kind of evidence that has to be watched, and waits until it is
// in force: until all of that can be read.
func createEvidenceRule(t *testing.T, g *WithT) *v1alpha1.NodeReadinessRule {
	t.Helper()
	rule := &v1alpha1.NodeReadinessRule{
		ObjectMeta: metav1.ObjectMeta{Name: "evidence"},
		Spec: v1alpha1.NodeReadinessRuleSpec{
			NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"example.com/pool": "nobody"}},
			Requirements: []v1alpha1.Requirement{
				{Name: "pods", Pods: &v1alpha1.PodsRequirement{Namespace: metav1.NamespaceSystem,
					Selector: metav1.LabelSelector{MatchLabels: map[string]string{"component": "init"}}}},
				{Name: "driver", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}},
				{Name: "devices", Resource: &v1alpha1.ResourceRequirement{Name: "gpu.example.com", Minimum: resource.MustParse("1"),
					Source: v1alpha1.ResourceSourceResourceSlice}},
			},
			Taint:           &v1alpha1.Taint{Key: "readiness.k8s.io/Evidence", Effect: "NoSchedule"},
			EnforcementMode: v1alpha1.EnforcementModeContinuous,
		},
	}
	g.Expect(kube.Create(t.Context(), rule)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "%v", rule.Status.Conditions)
	}).Should(Succeed(), "the evidence can be read")
	return rule
}

// checkAudit compares what the operator has asked for with what it may do.
func checkAudit(t *testing.T) {
	t.Helper()
	// Who may list or watch objects may just as well get one: that is granted for the person who looks for a fault.
	unused := map[string]bool{
		"nodereadinessrules.readiness.node.x-k8s.io get":     true,
		"customresourcedefinitions.apiextensions.k8s.io get": true,
		// A server-side apply that creates is a patch to the audit log, and needs the right to create.
		"configmaps create": true,
	}
	granted := map[string]bool{}
	grant := func(rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						granted[right(group, resource, verb)] = true
					}
				}
			}
		}
	}
	for _, role := range []string{"nodegate-manager-role", "nodegate-webhook-role"} {
		cluster, err := find[rbacv1.ClusterRole](installed, "ClusterRole", role)
		if err != nil {
			t.Fatal(err)
		}
		own, err := find[rbacv1.Role](installed, "Role", role)
		if err != nil {
			t.Fatal(err)
		}
		grant(cluster.Rules)
		grant(own.Rules)
	}
	for u := range unused {
		delete(granted, u)
	}
	if diff := cmp.Diff(granted, used(t)); diff != "" {
		t.Errorf("rights and their use (-granted +used):\n%s", diff)
	}
}

func right(group, resource, verb string) string {
	if group != "" {
		resource += "." + group
	}
	return resource + " " + verb
}

// used is what the operator has asked for, by the API server's audit log; refusals fail the test.
func used(t *testing.T) map[string]bool {
	t.Helper()
	events, err := cluster.ReadAudit[struct {
		Verb, RequestURI, UserAgent string
		ObjectRef                   *struct{ APIGroup, Resource, Subresource string }
		ResponseStatus              struct{ Code int }
	}](auditLog())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for i := range events {
		e := &events[i]
		if e.UserAgent == testAgent {
			continue
		}
		if e.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("%s %s was forbidden", e.Verb, e.RequestURI)
		}
		if e.ObjectRef == nil {
			continue // discovery
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		out[right(e.ObjectRef.APIGroup, resource, e.Verb)] = true
	}
	return out
}

// process is the operator.
type process struct {
	cmd             *exec.Cmd
	out             *output
	probes, metrics string
	webhooks        string
	ended           chan error
	once            sync.Once
	err             error
}

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (m *process) log() string {
	m.out.mu.Lock()
	defer m.out.mu.Unlock()
	return m.out.buf.String()
}

// startManager builds the operator and starts it as its service account.
func startManager(t *testing.T, environment ...string) *process {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "manager")
	build := exec.Command("go", "build", "-o", binary, "./cmd/manager")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, kubeconfigAs(t, namespace, serviceAccount), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &process{out: &output{}, ended: make(chan error, 1)}
	for _, address := range []*string{&m.probes, &m.metrics, &m.webhooks} {
		var err error
		if *address, err = cluster.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	args := append(slices.Clone(deployment(t).Spec.Template.Spec.Containers[0].Args),
		"--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace, // in a pod they are found
		"--health-probe-bind-address="+m.probes, "--metrics-bind-address="+m.metrics,
		"--webhook-bind-address="+m.webhooks, "--webhook-cert-dir="+dir)
	m.cmd = exec.Command(binary, args...)
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.Env = m.out, m.out, append(os.Environ(), environment...)
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.ended <- m.cmd.Wait() }()
	t.Cleanup(func() {
		_ = m.stop()
		if t.Failed() {
			t.Logf("the operator's log:\n%s", m.log())
		}
	})
	return m
}

// stop ends the operator as a kubelet does.
func (m *process) stop() error {
	m.once.Do(func() {
		if m.err = m.cmd.Process.Signal(syscall.SIGTERM); m.err != nil {
			return
		}
		select {
		case m.err = <-m.ended:
		case <-time.After(2 * time.Minute):
			_ = m.cmd.Process.Kill()
			m.err = fmt.Errorf("killed: %w", <-m.ended)
		}
	})
	return m.err
}

func (m *process) probe(ctx context.Context, path string) error {
	select {
	case err := <-m.ended:
		m.ended <- err
		return fmt.Errorf("the operator has ended: %w\n%s", err, m.log())
	default:
	}
	status, body, err := get(ctx, "http://"+m.probes+path, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

// checkMetrics: metrics are for those only whom the role metrics-reader is bound to.
func (m *process) checkMetrics(t *testing.T, g *WithT) {
	t.Helper()
	for _, name := range []string{"scraper", "stranger"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		g.Expect(kube.Create(t.Context(), account)).To(Succeed())
		t.Cleanup(func() { _ = kube.Delete(context.Background(), account) })
	}
	bind(t, "nodegate-metrics-reader", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"})
	for who, want := range map[string]int{"": http.StatusUnauthorized, "stranger": http.StatusForbidden, "scraper": http.StatusOK} {
		bearer := ""
		if who != "" {
			bearer = token(t, "default", who)
		}
		var body string
		g.Eventually(func() (status int, err error) { // a binding takes a moment
			status, body, err = get(t.Context(), "https://"+m.metrics+"/metrics", bearer)
			return status, err
		}).Should(Equal(want), "what %q gets", who)
		if shown := strings.Contains(body, `node_readiness_taint_operations_total{operation="added",rule="network"}`); shown != (want == http.StatusOK) {
			t.Errorf("%q is shown metrics: %t\n%s", who, shown, body)
		}
	}
	if status, _, err := get(t.Context(), "http://"+m.metrics+"/metrics", ""); err == nil && status == http.StatusOK {
		t.Error("metrics are served without encryption")
	}
}

func get(ctx context.Context, url, bearer string) (int, string, error) {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// token is a token of a service account, as a pod gets it.
func token(t *testing.T, ns, name string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	if err := kube.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("asking for a token of %s: %v", name, err)
	}
	return request.Status.Token
}

// testAgent is what a test calls itself that acts as the operator.
const testAgent = "test"

func clientAs(t *testing.T, ns, name string) client.Client {
	t.Helper()
	c := rest.AnonymousClientConfig(config)
	c.BearerToken, c.UserAgent, c.QPS = token(t, ns, name), testAgent, -1
	out, err := client.New(c, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubeconfigAs(t *testing.T, ns, name string) []byte {
	t.Helper()
	out, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token(t, ns, name)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
