// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheChangeOfTheAPIGroup follows docs/change-api-group.md, there and back. It sees every version of every node:
// none that is held loses its taint, and no other one gets one. The plugin is interrupted at each of its writes, and
// the operator is killed while it moves records.
func TestTheChangeOfTheAPIGroup(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	ctx, c := t.Context(), cluster.ForTest(t, cluster.Options{})
	m := &mover{t: t, g: g, c: c, policy: c.Has(t, cluster.MutatingAdmissionPolicies)}
	var err error
	m.plugin, err = c.Binary(ctx, "kubectl-nodegate")
	cluster.Must(t, err)
	manager, err := c.Binary(ctx, "manager")
	cluster.Must(t, err)
	m.install(ctx, "config/default")
	operator := m.start(ctx, true)
	m.createRules(ctx)
	m.createNodes(ctx)
	before, inForce := m.nodes(ctx), m.inForce(ctx, 0)
	m.watch(ctx)

	for i, config := range []string{"config/own-group", "config/default"} {
		groups := v1alpha1.GroupNames()
		from, to := groups[i], groups[1-i]
		former := m.uids(ctx, i)
		_, err := m.convert(ctx, to)
		g.Expect(err).To(MatchError(ContainSubstring("is running, according to its lease")))
		g.Expect(operator.Stop()).To(Succeed())
		g.Eventually(func() error { _, err := m.convert(ctx, to); return err }).
			Should(MatchError(ContainSubstring("kubectl -n nodegate-system scale deployment nodegate-manager --replicas=0")))
		m.scaleDown(ctx)
		if i == 0 {
			_, err = m.convert(ctx, to)
			g.Expect(err).To(MatchError(ContainSubstring("the server has no CRD for rules of the API group " + to)))
			m.prune(ctx, "config/own-group-crd", to)
		}
		m.apply(ctx, []string{"config/own-group-crd", "config/crd"}[i])
		m.createNode(ctx, fmt.Sprintf("new-%d", i))
		_, err = execute(ctx, m.plugin, "convert", "--live", "--to", to, "--kubeconfig", c.Kubeconfig())
		g.Expect(err).To(MatchError(And(
			ContainSubstring("Steps:\n1. copy to the API group "+to+", with their status: 3 rules"),
			ContainSubstring("stdin is not a terminal"))))
		m.refuse(ctx, from, to)

		m.interrupt(ctx, to)
		_, err = m.convert(ctx, from) // the rules there would continue the copies, and not the rules of the records
		g.Expect(err).To(MatchError(ContainSubstring("start the operator with --api-group=" + to)))
		_, err = execute(ctx, manager, "--api-group="+from, "--kubeconfig="+c.Kubeconfig(), "apply-crd")
		g.Expect(err).To(MatchError(ContainSubstring("set --api-group=" + to)))
		list := listOf(groups[i])
		cluster.Must(t, c.Client.List(ctx, list))
		g.Expect(list.Items).To(BeEmpty())
		theirs := m.another(ctx, to, from, "theirs")
		_, err = m.convert(ctx, to)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Client.Delete(ctx, theirs)).To(Succeed(), "it is another controller's")
		listed := &admissionv1alpha1.AdmissionRules{}
		cluster.Must(t, c.Client.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, listed))
		g.Expect(listed.Groups).NotTo(BeEmpty())
		for _, uid := range former {
			g.Expect(fmt.Sprint(listed.Groups)).NotTo(ContainSubstring(uid))
		}
		if diff := cmp.Diff(inForce, m.inForce(ctx, 1-i)); diff != "" {
			t.Errorf("status.inForce: %s", diff)
		}
		m.createNode(ctx, fmt.Sprintf("newer-%d", i))

		m.install(ctx, config)
		for _, most := range []int{100, 30} { // the nodes of which the operator has not moved the records
			operator := m.start(ctx, false)
			g.Eventually(func() int { return m.with(ctx, former) }).WithPolling(time.Millisecond).
				Should(BeNumerically("<", most))
			g.Expect(operator.Kill()).To(Succeed())
		}
		operator = m.start(ctx, true)
		g.Eventually(func() int { return m.with(ctx, former) }).Should(BeZero())
		g.Eventually(func() string { return cmp.Diff(before, m.nodes(ctx)) }).Should(BeEmpty())
		if diff := cmp.Diff(inForce, m.inForce(ctx, 1-i)); diff != "" {
			t.Errorf("status.inForce: %s", diff)
		}
	}
	g.Expect(operator.Stop()).To(Succeed())
}

// mover changes the API group of an installation.
type mover struct {
	t      *testing.T
	g      *WithT
	c      *cluster.Cluster
	plugin string
	policy bool // taints new nodes, also while no operator runs
	args   []string
	// deployment is the operator's.
	deployment object
}

// tainted are the nodes, by the first part of their names, that have a taint from the watch on. The others never have
// one.
var tainted = map[string]bool{"held": true, "lost": true, "new": true, "newer": true,
	"serving": false, "completed": false, "over": false}

func listOf(group string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/" + v1alpha1.Version)
	list.SetKind("NodeReadinessRuleList")
	return list
}

func (m *mover) apply(ctx context.Context, config string) []object {
	m.t.Helper()
	objects, err := kustomize(ctx, config)
	cluster.Must(m.t, err)
	cluster.Must(m.t, applyTo(ctx, client.WithFieldValidation(m.c.Client, "Strict"), objects))
	return objects
}

func (m *mover) install(ctx context.Context, config string) {
	m.t.Helper()
	objects := m.apply(ctx, config)
	if m.policy {
		m.apply(ctx, "config/node-admission-policy")
	}
	m.deployment = objects[slices.IndexFunc(objects, func(o object) bool { return o.GetKind() == "Deployment" })]
	d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
	cluster.Must(m.t, err)
	m.args = slices.DeleteFunc(d.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return strings.Contains(arg, "webhook") || strings.Contains(arg, "-address=") || strings.Contains(arg, "leader-elect")
	})
}

func (m *mover) start(ctx context.Context, elect bool) *cluster.Operator {
	m.t.Helper()
	operator, err := m.c.StartOperator(ctx, cluster.OperatorOptions{Args: m.args, Rendered: true, Elect: elect})
	cluster.Must(m.t, err)
	return operator
}

// scaleDown scales the operator's Deployment to 0, as kubectl does, which then owns the field.
func (m *mover) scaleDown(ctx context.Context) {
	m.t.Helper()
	cluster.Must(m.t, m.c.Client.SubResource("scale").Update(ctx, m.deployment,
		client.WithSubResourceBody(&autoscalingv1.Scale{}), client.FieldOwner("kubectl")))
}

// createRules creates rules in the default group. The older one has the name that sorts last.
func (m *mover) createRules(ctx context.Context) {
	rule := func(name string) *build.RuleWrapper {
		return build.MakeRule(name).Selector("pool", name).Condition(conditionType).
			Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	}
	starting := rule("starting").BootstrapOnly().Obj()
	cluster.Must(m.t, m.c.Client.Create(ctx, starting))
	m.g.Eventually(time.Now).Should(BeTemporally(">", starting.CreationTimestamp.Add(time.Second)))
	cluster.Must(m.t, m.c.Client.Create(ctx, rule("serving").UnreadySeconds(3600).Obj()))
	cluster.Must(m.t, m.c.Client.Create(ctx, rule("limited").MaxUnavailable("1").Obj()))
}

// createNodes creates nodes that are held by "starting", that completed it, and that are in service under "serving". Of
// the two lost ones, the limit allows to taint one.
func (m *mover) createNodes(ctx context.Context) {
	const each = 40
	create := func(name, pool string, ready bool) {
		cluster.Must(m.t, m.c.Client.Create(ctx, build.MakeNode(name).Label("pool", pool).Obj()))
		if ready {
			cluster.Must(m.t, m.c.Report(ctx, name, conditionType, true))
		}
	}
	for i := range each {
		create(fmt.Sprintf("held-%d", i), "starting", false)
		create(fmt.Sprintf("completed-%d", i), "starting", true)
		create(fmt.Sprintf("serving-%d", i), "serving", true)
	}
	create("lost-0", "limited", true)
	create("over-0", "limited", true)
	want := map[string]string{"serving": `"released"`, "completed": "completed", "held": "taint example.com/starting",
		"lost": `"released"`, "over": `"released"`}
	m.await(ctx, want)
	for i := range each { // within unreadySeconds
		cluster.Must(m.t, m.c.Report(ctx, fmt.Sprintf("serving-%d", i), conditionType, false))
		cluster.Must(m.t, m.c.Report(ctx, fmt.Sprintf("completed-%d", i), conditionType, false))
	}
	cluster.Must(m.t, m.c.Report(ctx, "lost-0", conditionType, false))
	want["lost"] = "taint example.com/limited"
	m.await(ctx, want)
	cluster.Must(m.t, m.c.Report(ctx, "over-0", conditionType, false))
}

// await waits until the nodes have what they should have.
func (m *mover) await(ctx context.Context, want map[string]string) {
	m.t.Helper()
	m.g.Eventually(func(g Gomega) {
		for name, has := range m.nodes(ctx) {
			kind, _, _ := strings.Cut(name, "-")
			g.Expect(strings.Join(has, "\n")).To(ContainSubstring(want[kind]), name)
			if !tainted[kind] || kind == "lost" && want[kind] == `"released"` {
				g.Expect(strings.Join(has, "\n")).NotTo(ContainSubstring("taint"), name)
			}
		}
	}).Should(Succeed())
}

// createNode creates a node while no operator runs, if the admission policy taints it.
func (m *mover) createNode(ctx context.Context, name string) {
	m.t.Helper()
	node := func() *corev1.Node { return build.MakeNode(name).Label("pool", "starting").Obj() }
	if !m.policy {
		return
	}
	m.g.Eventually(func(g Gomega) {
		tried := node()
		g.Expect(m.c.Client.Create(ctx, tried, client.DryRunAll)).To(Succeed())
		g.Expect(tried.Spec.Taints).To(ContainElement(HaveField("Key", "example.com/starting")), "the policy is in force")
	}).Should(Succeed())
	cluster.Must(m.t, m.c.Client.Create(ctx, node()))
}

// nodes returns the taints and annotations of Nodegate on the first nodes, without UIDs and groups.
func (m *mover) nodes(ctx context.Context) map[string][]string {
	list, out := &corev1.NodeList{}, map[string][]string{}
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	for i := range list.Items {
		n := &list.Items[i]
		if strings.HasPrefix(n.Name, "new") {
			continue
		}
		out[n.Name] = []string{}
		for _, taint := range n.Spec.Taints {
			if strings.HasPrefix(taint.Key, "example.com/") {
				out[n.Name] = append(out[n.Name], "taint "+taint.ToString())
			}
		}
		for key, value := range n.Annotations {
			if strings.Contains(key, "bootstrap-completed-") {
				out[n.Name] = append(out[n.Name], "completed "+value)
			} else if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
				out[n.Name] = append(out[n.Name], value)
			}
		}
		slices.Sort(out[n.Name])
	}
	return out
}

// with returns how many nodes have annotations with one of the UIDs.
func (m *mover) with(ctx context.Context, uids []string) (n int) {
	list := &corev1.NodeList{}
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	for i := range list.Items {
		for key := range list.Items[i].Annotations {
			if slices.ContainsFunc(uids, func(uid string) bool { return strings.HasSuffix(key, uid) }) {
				n++
				break
			}
		}
	}
	return n
}

func (m *mover) uids(ctx context.Context, group int) (out []string) {
	list := listOf(v1alpha1.GroupNames()[group])
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	for i := range list.Items {
		out = append(out, string(list.Items[i].GetUID()))
	}
	return out
}

// inForce returns since when each rule is in force.
func (m *mover) inForce(ctx context.Context, group int) map[string]any {
	list, out := listOf(v1alpha1.GroupNames()[group]), map[string]any{}
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	for i := range list.Items {
		out[list.Items[i].GetName()], _, _ = unstructured.NestedMap(list.Items[i].Object, "status", "inForce")
	}
	return out
}

// watch fails the test if a version of a node has a taint that it must not have, or lacks one.
func (m *mover) watch(ctx context.Context) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var wrong sync.Map
	ended, err := m.c.Watch(ctx, &corev1.NodeList{}, func(e watch.Event) error {
		if n, ok := e.Object.(*corev1.Node); ok {
			kind, _, _ := strings.Cut(n.Name, "-")
			if has := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return strings.HasPrefix(t.Key, "example.com/")
			}); has != tainted[kind] {
				wrong.Store(n.Name, n.ResourceVersion)
			}
		}
		return nil
	})
	cluster.Must(m.t, err)
	m.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			m.t.Error(err)
		}
		wrong.Range(func(name, version any) bool {
			m.t.Errorf("node %s, at resource version %s: tainted, or not tainted, and should not be", name, version)
			return true
		})
	})
}

func (m *mover) convert(ctx context.Context, to string, more ...string) (string, error) {
	out, err := execute(ctx, m.plugin, append([]string{"convert", "--live", "--yes", "--to", to, "--kubeconfig",
		m.c.Kubeconfig()}, more...)...)
	return string(out), err
}

// refuse checks that rules of the same name in both groups are left as they are.
func (m *mover) refuse(ctx context.Context, from, to string) {
	m.t.Helper()
	other := m.another(ctx, from, to, "serving")
	_, err := m.convert(ctx, to)
	m.g.Expect(err).To(MatchError(ContainSubstring(`rule "serving" exists in the API group ` + to + ", too")))
	cluster.Must(m.t, m.c.Client.Delete(ctx, other))
	if to != v1alpha1.GroupNames()[0] {
		return
	}
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"),
		RenewTime: new(metav1.NowMicro())}}
	lease.Name, lease.Namespace = ruleset.IncumbentLease, "default"
	cluster.Must(m.t, m.c.Client.Create(ctx, lease))
	_, err = m.convert(ctx, to)
	m.g.Expect(err).To(MatchError(ContainSubstring("another controller acts on the rules: incumbent-0")))
	cluster.Must(m.t, m.c.Client.Delete(ctx, lease))
	definition := &apiextensionsv1.CustomResourceDefinition{}
	cluster.Must(m.t, m.c.Client.Get(ctx, client.ObjectKey{Name: "nodereadinessrules." + to}, definition))
	label := func(value string) {
		cluster.Must(m.t, m.c.Client.Patch(ctx, definition, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"labels":{"addonmanager.kubernetes.io/mode":%s}}}`, value))))
	}
	label(`"Reconcile"`)
	_, err = m.convert(ctx, to)
	m.g.Expect(err).To(MatchError(ContainSubstring("an add-on manager manages the CRD " + definition.Name)))
	m.g.Expect(m.uids(ctx, 0)).To(BeEmpty())
	label("null")
}

// prune serves another schema of the rules, which keeps nothing of their specs, and then that of config. No rule may be
// copied before.
func (m *mover) prune(ctx context.Context, config, to string) {
	m.t.Helper()
	objects, err := kustomize(ctx, config)
	cluster.Must(m.t, err)
	name := "nodereadinessrules." + to
	definition := objects[slices.IndexFunc(objects, func(o object) bool { return o.GetName() == name })]
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	cluster.Must(m.t, err)
	version, _ := versions[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
		"properties": map[string]any{"spec": map[string]any{"type": "object"}}}}
	delete(version, "additionalPrinterColumns")
	delete(version, "selectableFields")
	cluster.Must(m.t, unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"))
	cluster.Must(m.t, applyTo(ctx, m.c.Client, []object{definition}))
	m.g.Eventually(func() error { _, err := m.convert(ctx, to); return err }).
		Should(MatchError(ContainSubstring("the API server does not keep all fields")))
	list := listOf(to)
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	m.g.Expect(list.Items).To(BeEmpty())
	m.apply(ctx, config)
	m.g.Eventually(func() map[string]any {
		tried := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"nodeSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
			"conditions":   []any{map[string]any{"type": conditionType, "requiredStatus": "True"}},
			"taint":        map[string]any{"key": "example.com/tried", "effect": "NoSchedule"}}}}
		tried.SetAPIVersion(to + "/" + v1alpha1.Version)
		tried.SetKind("NodeReadinessRule")
		tried.SetName("tried")
		_ = m.c.Client.Create(ctx, tried, client.DryRunAll) // with the schema of before, it loses its spec
		spec, _, _ := unstructured.NestedMap(tried.Object, "spec", "nodeSelector")
		return spec
	}).ShouldNot(BeEmpty())
}

// another creates a rule in an API group, with the spec of one of the other group.
func (m *mover) another(ctx context.Context, like, group, name string) *unstructured.Unstructured {
	m.t.Helper()
	list := listOf(like)
	cluster.Must(m.t, m.c.Client.List(ctx, list))
	i := slices.IndexFunc(list.Items, func(o unstructured.Unstructured) bool { return o.GetName() == "serving" })
	other := &unstructured.Unstructured{Object: map[string]any{"spec": list.Items[i].Object["spec"]}}
	other.SetAPIVersion(group + "/" + v1alpha1.Version)
	other.SetKind("NodeReadinessRule")
	other.SetName(name)
	cluster.Must(m.t, m.c.Client.Create(ctx, other))
	return other
}

// interrupt runs the conversion again and again, until nothing is left to do. In each run, one write reaches the API
// server, and its answer does not come back.
func (m *mover) interrupt(ctx context.Context, to string) {
	m.t.Helper()
	transport, err := rest.TransportFor(m.c.Config())
	cluster.Must(m.t, err)
	target, err := url.Parse(m.c.Config().Host)
	cluster.Must(m.t, err)
	var written atomic.Bool
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet {
				return nil
			}
			written.Store(true)
			return errors.New("interrupted")
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && written.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	const writes = 3 /* rules */ *3 /* rule, status, field managers */ + 1 /* AdmissionRules */ + 3*2 /* finalizer, rule */
	for range writes {
		_, err := m.convert(ctx, to, "--server", server.URL)
		m.g.Expect(err).To(HaveOccurred())
		m.g.Expect(written.Swap(false)).To(BeTrue(), "%v", err)
	}
	_, err = m.convert(ctx, to)
	m.g.Expect(err).NotTo(HaveOccurred())
}
