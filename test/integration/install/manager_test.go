// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	agentcfg "github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const conditionType = "example.com/CNIReady"

// TestTheOperatorRuns runs the operator's binary with the permissions and the arguments of config/default. The operator
// needs no other permissions, and uses each of them.
func TestTheOperatorRuns(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx := t.Context()
	withAgents(t) // to whose ServiceAccount it writes
	m := startManager(t)
	g.Expect(m.probe(ctx, "/healthz")).To(Succeed())

	m.callWebhooks(t, g)

	lease := &coordinationv1.Lease{}
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "operator.nodegate.io"},
			lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
	}).Should(Succeed(), "the lease is held")

	node := build.MakeNode("n1").Label("example.com/pool", "workers").Obj()
	create(t, node)
	rule := build.MakeRule("network").Selector("example.com/pool", "workers").Condition(conditionType).
		Taint("readiness.k8s.io/NetworkReady", "pending", corev1.TaintEffectNoSchedule).
		Probe("example.com/Probed", 9099).Obj()
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
			taint := corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: corev1.TaintEffectNoSchedule}
			g.Expect(slices.Contains(node.Spec.Taints, taint)).To(Equal(want), "taints: %v", node.Spec.Taints)
		}
	}
	g.Eventually(tainted(true)).Should(Succeed(), "the node is held")
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		g.Expect(rule.Finalizers).To(ContainElement(v1alpha1.Served().Finalizer))
		g.Expect(meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
		g.Expect(rule.Status.Nodes).To(HaveValue(Equal(v1alpha1.NodeCounts{Matched: 1, Held: 1})))
	}).Should(Succeed(), "the finalizer and the status are written")

	// Several times, so that events repeat.
	for range 3 {
		cluster.Must(t, control.Report(ctx, node.Name, conditionType, true))
		g.Eventually(tainted(false)).Should(Succeed(), "the node is released")
		cluster.Must(t, control.Report(ctx, node.Name, conditionType, false))
		g.Eventually(tainted(true)).Should(Succeed(), "the node is held again")
	}
	g.Eventually(func(g Gomega) {
		reasons := map[string]bool{}
		list := &eventsv1.EventList{}
		g.Expect(kube.List(ctx, list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == "Node" && e.Regarding.Name == node.Name &&
				e.ReportingController == "nodegate" {
				reasons[e.Reason+"/"+e.Action] = true
				reasons["repeated"] = reasons["repeated"] || e.Series != nil && e.Series.Count > 1
			}
		}
		g.Expect(reasons).To(Equal(map[string]bool{"TaintAdded/AddTaint": true, "TaintRemoved/RemoveTaint": true,
			"repeated": true}))
	}).Should(Succeed(), "the events are recorded")

	m.checkMetrics(t, g)
	evictAfterAHold(t, g)
	evidence := createEvidenceRule(t, g)

	// The operator removes the finalizer only when nothing of the rule is left on the node.
	tainted(true)(g)
	g.Expect(node.Annotations).To(HaveKey(HavePrefix(v1alpha1.RecordAnnotationPrefix)))
	deleteRule(ctx, g, rule)
	tainted(false)(g)
	g.Expect(node.Annotations).NotTo(HaveKey(HavePrefix(v1alpha1.RecordAnnotationPrefix)))

	g.Expect(m.Stop()).To(Succeed())
	g.Expect(m.Err()).NotTo(HaveOccurred(), "the operator exits with status 0")
	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
	g.Expect(lease.Spec.HolderIdentity).To(Or(BeNil(), HaveValue(BeEmpty())), "the lease is handed over")
	g.Expect(m.log()).NotTo(ContainSubstring("forbidden"))

	// Older API servers cannot stream a list, so that clients request it.
	older := startManager(t, "KUBE_FEATURE_WatchListClient=false")
	g.Eventually(func() map[string]bool { return used(t) }).Should(And(HaveKey("nodes list"),
		HaveKey("pods list"), HaveKey("csinodes.storage.k8s.io list"), HaveKey("resourceslices.resource.k8s.io list")))
	deleteRule(ctx, g, evidence)
	g.Expect(older.Stop()).To(Succeed())
	g.Expect(older.Err()).NotTo(HaveOccurred())
	checkAudit(t)
}

// deleteRule deletes a rule and waits until the operator has removed its finalizer.
func deleteRule(ctx context.Context, g *WithT, rule *v1alpha1.NodeReadinessRule) {
	g.Expect(kube.Delete(ctx, rule)).To(Succeed())
	g.Eventually(func() error { return kube.Get(ctx, client.ObjectKeyFromObject(rule), rule.DeepCopy()) }).
		Should(MatchError(apierrors.IsNotFound, "not found"))
}

// callWebhooks has the API server call the webhooks of this process, since no network leads to the Service. It keeps
// the certificate authority that the operator has written.
func (m *process) callWebhooks(t *testing.T, g *WithT) {
	t.Helper()
	_, port, err := net.SplitHostPort(m.webhooks)
	g.Expect(err).NotTo(HaveOccurred())
	services := map[any]any{}
	edit := func(ctx context.Context, change func(Gomega, map[string]any)) {
		for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
			g.Eventually(func(g Gomega) { // the operator writes it, too
				g.Expect(kube.Get(ctx, client.ObjectKey{Name: webhookName}, o)).To(Succeed())
				hooks, _ := o.Object["webhooks"].([]any)
				for _, h := range hooks {
					hook, _ := h.(map[string]any)
					config, _ := hook["clientConfig"].(map[string]any)
					change(g, config)
				}
				g.Expect(kube.Update(ctx, o)).To(Succeed())
			}).Should(Succeed())
		}
	}
	edit(t.Context(), func(g Gomega, config map[string]any) {
		g.Expect(config["caBundle"]).NotTo(BeEmpty(), "the authority is written")
		if service, ok := config["service"].(map[string]any); ok {
			config["url"] = fmt.Sprintf("https://localhost:%s%s", port, service["path"])
			services[config["url"]] = service
			delete(config, "service")
		}
	})
	t.Cleanup(func() {
		edit(context.Background(), func(_ Gomega, config map[string]any) {
			if service, ok := services[config["url"]]; ok {
				config["service"] = service
				delete(config, "url")
			}
		})
	})
}

// createEvidenceRule creates a rule that requires every kind of evidence that has to be watched, and waits until it is
// in force: until all of that can be read.
func createEvidenceRule(t *testing.T, g *WithT) *v1alpha1.NodeReadinessRule {
	t.Helper()
	rule := build.MakeRule("evidence").Selector("example.com/pool", "none").
		Taint("readiness.k8s.io/Evidence", "", corev1.TaintEffectNoSchedule).Obj()
	rule.Spec.Requirements = []v1alpha1.Requirement{
		{Name: "pods", Pods: &v1alpha1.PodsRequirement{Namespace: metav1.NamespaceSystem,
			Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"component": "init"}}}},
		{Name: "driver", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}},
		{Name: "devices", Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.example.com", Min: 1}},
	}
	g.Expect(kube.Create(t.Context(), rule)).To(Succeed())
	ready := func(want metav1.ConditionStatus, message string) func(g Gomega) {
		return func(g Gomega) {
			g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(rule), rule)).To(Succeed())
			c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(c).To(HaveValue(And(HaveField("Status", want), HaveField("Message", ContainSubstring(message)))))
		}
	}
	if !control.Has(t, cluster.ResourceSlices) { // the operator works, and only this rule waits for the evidence
		g.Eventually(ready(metav1.ConditionFalse, "requirement devices cannot be read: the API server does not serve "+
			"ResourceSlices of resource.k8s.io/v1, which need Kubernetes 1.34")).
			Should(Succeed(), "the rule says what is missing")
		g.Eventually(func() error {
			rule.Spec.Requirements = rule.Spec.Requirements[:2]
			return errors.Join(kube.Update(t.Context(), rule), kube.Get(t.Context(), client.ObjectKeyFromObject(rule), rule))
		}).Should(Succeed(), "the requirement is removed")
	}
	g.Eventually(ready(metav1.ConditionTrue, "")).Should(Succeed(), "the evidence can be read")
	return rule
}

// checkAudit compares the requests of the operator with its permissions.
func checkAudit(t *testing.T) {
	t.Helper()
	// A user who may list objects may as well get one: this helps people who look for a fault with the account.
	unused := map[string]bool{
		"nodereadinessrules.readiness.node.x-k8s.io get":     true,
		"customresourcedefinitions.apiextensions.k8s.io get": true,
		// A server-side apply that creates an object is a patch in the audit log, and needs the permission to create.
		"configmaps create": true, "secrets create": true,
	}
	if !control.Has(t, cluster.MutatingAdmissionPolicies) {
		for _, resource := range []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
			unused[resource+admissionGroup+" list"], unused[resource+admissionGroup+" watch"] = true, true
		}
	}
	granted := map[string]bool{}
	for id, verbs := range permissions(t, operator) {
		resource, _, _ := strings.Cut(strings.TrimPrefix(id, ownNamespace), " ")
		for _, verb := range verbs {
			if key := resource + " " + verb; !unused[key] {
				granted[key] = true
			}
		}
	}
	if diff := cmp.Diff(granted, used(t)); diff != "" {
		t.Errorf("permissions and their use (-granted +used):\n%s", diff)
	}
}

// used returns what the operator has requested, by the API server's audit log. A refused request fails the test.
func used(t *testing.T) map[string]bool {
	t.Helper()
	events, err := cluster.ReadAudit[struct {
		Verb, RequestURI string
		ObjectRef        *struct{ APIGroup, Resource, Subresource string }
		ResponseStatus   struct{ Code int }
	}](control.AuditLog())
	cluster.Must(t, err)
	out := map[string]bool{}
	for i := range events {
		e := &events[i]
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
		out[schema.GroupResource{Group: e.ObjectRef.APIGroup, Resource: resource}.String()+" "+e.Verb] = true
	}
	return out
}

// process is the operator.
type process struct {
	*cluster.Component
	probes, metrics, webhooks string
}

// startManager builds the operator and starts it as its service account, with the arguments of its Deployment.
func startManager(t *testing.T, environment ...string) *process {
	t.Helper()
	binary, err := control.Binary(t.Context(), "manager")
	cluster.Must(t, err)
	m := &process{}
	kubeconfig, err := control.KubeconfigFor(operator, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	cluster.Must(t, err)
	for _, address := range []*string{&m.probes, &m.metrics, &m.webhooks} {
		*address, err = cluster.FreeAddress()
		cluster.Must(t, err)
	}
	d, err := find[appsv1.Deployment](installed, "Deployment", serviceAccount)
	cluster.Must(t, err)
	args := append(d.Spec.Template.Spec.Containers[0].Args,
		"--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace, // found in a pod
		"--health-probe-bind-address="+m.probes, "--metrics-bind-address="+m.metrics,
		"--webhook-bind-address="+m.webhooks, "--webhook-cert-dir="+t.TempDir())
	m.Component, err = control.Run(t.Context(), cluster.Process{
		Name: "manager-" + strings.ToLower(t.Name()), Path: binary, Args: args, Env: environment,
		Ready: func(ctx context.Context) error { return m.probe(ctx, "/readyz") },
	})
	cluster.Must(t, err)
	t.Cleanup(func() {
		_ = m.Stop()
		if t.Failed() {
			t.Logf("the operator's log:\n%s", m.log())
		}
	})
	return m
}

func (m *process) log() string {
	text, err := os.ReadFile(m.LogFile())
	return fmt.Sprint(string(text), err)
}

func (m *process) probe(ctx context.Context, path string) error {
	status, body, err := get(ctx, "http://"+m.probes+path, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

// checkMetrics: only users with the role metrics-reader may read the metrics.
func (m *process) checkMetrics(t *testing.T, g *WithT) {
	t.Helper()
	for _, name := range []string{"scraper", "other"} {
		create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	}
	bind(t, "nodegate-metrics-reader", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"})
	for who, want := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusForbidden,
		"scraper": http.StatusOK} {
		bearer := ""
		if who != "" {
			bearer = token(t, "default", who)
		}
		var body string
		g.Eventually(func() (status int, err error) { // a binding takes a moment
			status, body, err = get(t.Context(), "https://"+m.metrics+"/metrics", bearer)
			return status, err
		}).Should(Equal(want), "what %q gets", who)
		for _, metric := range []string{
			`node_readiness_taint_operations_total{operation="add",rule="network"}`,
			`node_readiness_rule_nodes{rule="network",state="held"}`, "node_readiness_build_info",
		} {
			if shown := strings.Contains(body, metric); shown != (want == http.StatusOK) {
				t.Errorf("%q is shown %s: %t\n%s", who, metric, shown, body)
			}
		}
	}
	if status, _, err := get(t.Context(), "http://"+m.metrics+"/metrics", ""); err == nil && status == http.StatusOK {
		t.Error("metrics are served without encryption")
	}
}

func get(ctx context.Context, url, bearer string) (int, string, error) {
	c := &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return cluster.GetWith(ctx, c, url, bearer)
}

// token returns a token of a service account, bound to a pod if there is one.
func token(t *testing.T, ns, name string, pods ...*corev1.Pod) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	for _, pod := range pods {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	cluster.Must(t, kube.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}
