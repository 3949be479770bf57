// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("why", func() {
	It("says what a node waits for, as text and as an object", func(ctx context.Context) {
		node(ctx, "explained")
		ruleFor(ctx, "explained", "explained")

		code, out, err := nodegate(ctx, "why", "explained")
		Expect(err).To(BeEmpty())
		Expect(code).To(Equal(0))
		Expect(out).To(HavePrefix("Node explained is not held yet; rule explained would, if an operator acted on it, hold " +
			"it: condition example.com/CNI has not been reported, must be True.\n"))
		Expect(out).To(ContainSubstring("\nNothing acts on rule explained: no operator has reported on it.\nTo see whether " +
			"the operator runs: kubectl get pods -A -l app.kubernetes.io/name=nodegate"))
		Expect(out).To(ContainSubstring("; the rule would, if an operator acted on it, add it.\n"))

		_, out, _ = nodegate(ctx, "explain", "node", "explained", "-o", "json")
		e := &report.NodeExplanation{}
		Expect(json.Unmarshal([]byte(out), e)).To(Succeed())
		Expect(e.Kind).To(Equal("NodeExplanation"))
		Expect(e.APIVersion).To(Equal(report.APIVersion))
		Expect(e.Rules).To(HaveLen(1))
		Expect(e.Rules[0].WaitsFor).To(Equal([]string{"condition example.com/CNI has not been reported, must be True"}))

		_, out, _ = nodegate(ctx, "why", "node/explained", "-o", "jsonpath={.rules[0].taint.change}")
		Expect(out).To(Equal("Add"))
	})

	It("decides as the operator does about a node that is new in a dry-run", func(ctx context.Context) {
		n := node(ctx, "rehearsed")
		for name, since := range map[string]time.Duration{"before-it": 0, "after-it": time.Minute} {
			rule := create(ctx, network(name, "rehearsed").ExistingNodes("None").DryRun(true).Obj())
			rule.Status = build.WrapRule(rule).StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse).
				StatusDryRun(n.CreationTimestamp.Add(since)).Status
			rule.Status.Conditions[0].LastTransitionTime = n.CreationTimestamp
			Expect(server.Client.Status().Update(ctx, rule)).To(Succeed())
		}
		_, out, _ := nodegate(ctx, "why", "rehearsed")
		Expect(out).To(And(MatchRegexp("rule before-it .*\n.*if enforced, it would hold the node"),
			MatchRegexp("rule after-it .*\n.*if enforced, it would change nothing here")))
	})

	It("tells the time by the API server's clock", func(ctx context.Context) {
		create(ctx, build.MakeNode("punctual").Annotation(v1alpha1.OverrideAnnotation,
			"Hold;until="+time.Now().Add(30*time.Minute).UTC().Format(time.RFC3339)).Obj())
		ahead := calling("")
		ahead.plugin.now = func() time.Time { return time.Now().Add(time.Hour) }
		Expect(ahead.run(ctx, "why", "punctual")).To(Equal(0))
		Expect(ahead.out.String()).NotTo(ContainSubstring("its time is over"))
	})

	It("prints several nodes as one List", func(ctx context.Context) {
		node(ctx, "one")
		node(ctx, "two")
		_, out, _ := nodegate(ctx, "why", "one", "two", "-o", "json")
		list := struct {
			metav1.TypeMeta
			Items []report.NodeExplanation
		}{}
		Expect(json.Unmarshal([]byte(out), &list)).To(Succeed(), "one document")
		Expect(list.TypeMeta).To(Equal(metav1.TypeMeta{APIVersion: "v1", Kind: "List"}))
		Expect(list.Items).To(HaveLen(2))
		_, out, _ = nodegate(ctx, "why", "one", "two")
		Expect(out).To(ContainSubstring("Node one is not held"))
		Expect(out).To(ContainSubstring("\n\nNode two is not held"))
	})

	It("reports the evidence that the user has no permission to read, and goes on", func(ctx context.Context) {
		node(ctx, "secret")
		create(ctx, network("secret", "secret").
			Evidence(v1alpha1.Requirement{Name: "init", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
				Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}}).
			Evidence(v1alpha1.Requirement{Name: "ebs",
				CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}}).Obj())
		viewer(ctx)

		Eventually(func(g Gomega) { // the API server takes a moment to see the permissions
			code, out, err := nodegate(ctx, "why", "secret", "--as", "viewer")
			g.Expect(err).To(BeEmpty())
			g.Expect(code).To(Equal(0))
			g.Expect(out).To(ContainSubstring("? requirement init cannot be read: pods is forbidden"))
			g.Expect(out).To(ContainSubstring(`? requirement ebs cannot be read: csinodes.storage.k8s.io "secret" is ` +
				"forbidden"))
			g.Expect(out).To(ContainSubstring("✗ condition example.com/CNI has not been reported"))
		}).Should(Succeed())
	})

	It("reads no more than the ClusterRole plugin-viewer allows", func(ctx context.Context) {
		node(ctx, "looked-at")
		rule := network("looked-at", "looked-at").
			Evidence(v1alpha1.Requirement{Name: "init", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
				Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}}).
			Evidence(v1alpha1.Requirement{Name: "ebs",
				CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}})
		rules := file("rule.yaml", asYAML(rule.Obj()))
		create(ctx, rule.Obj())
		text, err := os.ReadFile("../../config/rbac/plugin_viewer_role.yaml")
		Expect(err).NotTo(HaveOccurred())
		role := &rbacv1.ClusterRole{}
		Expect(yaml.UnmarshalStrict(text, role)).To(Succeed())
		role.Name = "looker"
		allow(ctx, role)
		through, refused := throughProxy()
		for _, args := range [][]string{{"why", "looked-at"}, {"timeline", "looked-at"}, {"get", "nodes"}, {"status"},
			{"suggest"}, {"simulate", "-f", rules}, {"lint", "--live", "-f", rules}, {"version"}} {
			Eventually(func(g Gomega) { // the API server takes a moment to see the permissions
				_, _, err := nodegate(ctx, append(args, "--as", role.Name, "--server", through)...)
				g.Expect(refused()).To(BeEmpty(), "many commands go on without a word")
				g.Expect(err).NotTo(ContainSubstring("error:"))
			}).Should(Succeed(), "%s", args)
		}
	})

	DescribeTable("says what to do about", func(ctx context.Context, says string, args ...string) {
		code, out, err := nodegate(ctx, args...)
		Expect(code).To(Equal(1))
		Expect(out).To(BeEmpty())
		Expect(err).To(HavePrefix("error: "))
		Expect(err).To(ContainSubstring(says))
	},
		Entry("an unknown node", `nodes "nope" not found`, "why", "nope"),
		Entry("an unknown rule", `nodereadinessrules.readiness.node.x-k8s.io "nope" not found`, "pause", "nope", "-y"),
		Entry("a timeline of two nodes", "exactly one node name is required", "timeline", "x", "y"),
		Entry("missing permissions", "ask your cluster administrator for the ClusterRole nodegate-plugin-viewer", "why", "x",
			"--as", "guest"),
		Entry("an unknown context", `context "nope" does not exist`, "why", "x", "--context", "nope"),
		Entry("an unreachable server", "the server cannot be reached", "why", "x", "--server", "https://127.0.0.1:1"),
	)
})

// viewer lets the user "viewer" list rules, and read nodes.
func viewer(ctx context.Context) {
	allow(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{v1alpha1.Served().Name}, Resources: []string{"nodereadinessrules"},
			Verbs: []string{"list"}},
	}})
}

// throughProxy returns the address of a proxy to the API server, and a function that returns what the API server has
// forbidden since it was last called.
func throughProxy() (address string, refused func() []string) {
	GinkgoHelper()
	target, err := url.Parse(server.Config().Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(server.Config())
	Expect(err).NotTo(HaveOccurred())
	var one sync.Mutex
	var found []string
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			one.Lock()
			defer one.Unlock()
			if r.StatusCode == http.StatusForbidden {
				found = append(found, r.Request.Method+" "+r.Request.URL.Path)
			}
			return nil
		}})
	DeferCleanup(proxy.Close)
	return proxy.URL, func() []string {
		one.Lock()
		defer one.Unlock()
		out := found
		found = nil
		return out
	}
}

// allow creates a role, and gives it to the user of the same name.
func allow(ctx context.Context, role *rbacv1.ClusterRole) {
	create(ctx, role)
	create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: role.Name, APIGroup: rbacv1.GroupName}}})
}

var _ = Describe("timeline", func() {
	It("shows when each thing happened that a node waited for, as text and as an object", func(ctx context.Context) {
		rule := ruleFor(ctx, "started", "started")
		n := node(ctx, "started")
		after := func(seconds int) time.Time { return n.CreationTimestamp.Add(time.Duration(seconds) * time.Second) }
		n.Annotations = map[string]string{v1alpha1.RecordAnnotationPrefix + string(rule.UID): fmt.Sprintf(
			`{"released":%q}`, after(30).UTC().Format(time.RFC3339))}
		Expect(server.Client.Update(ctx, n)).To(Succeed())
		n = build.WrapNode(n).Condition(cni, corev1.ConditionTrue, after(20)).Obj()
		Expect(server.Client.Status().Update(ctx, n)).To(Succeed())
		for i, pod := range []*build.PodWrapper{build.MakeDaemonSet("default", "agent").Pod("started", after(10)),
			build.MakePod("default", "late").Node("started"), build.MakePod("default", "first").Node("started")} {
			created := create(ctx, pod.Obj())
			created.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: after(60 - 10*i)}}
			Expect(server.Client.Status().Update(ctx, created)).To(Succeed())
		}

		code, out, err := nodegate(ctx, "timeline", "node/started")
		Expect(err).To(BeEmpty())
		Expect(code).To(Equal(0))
		Expect(out).To(MatchRegexp(`(?s)^Node started, created .*\nrule started\n  condition example.com/CNI +█{20} +20s\n` +
			`  all evidence +█{20} +20s\n  released +█{30} +30s\n\n  first pod +█{40} +40s\n$`))

		_, out, _ = nodegate(ctx, "timeline", "started", "-o",
			"jsonpath={.kind} {.rules[0].milestones[0].event} {.rules[0].milestones[0].seconds}")
		Expect(out).To(Equal("Timeline condition/example.com/CNI 20"))
	})
})

var _ = Describe("get nodes", func() {
	It("groups nodes by the rule and the reason that hold them", func(ctx context.Context) {
		held := func(name, rule string) {
			taint := "readiness.k8s.io/" + rule
			r := create(ctx, network(rule, rule).Obj())
			create(ctx, build.MakeNode(name).Label("test", rule).Label("get", "nodes").
				Taint(taint, "pending", corev1.TaintEffectNoSchedule).
				Annotation(v1alpha1.RecordAnnotationPrefix+string(r.UID), fmt.Sprintf(
					`{"taint":"%s=pending:NoSchedule","since":%q}`, taint, time.Now().UTC().Format(time.RFC3339))).Obj())
		}
		held("blue-1", "blue")
		held("green-1", "green")
		create(ctx, build.MakeNode("free").Label("get", "nodes").Obj())

		code, out, err := nodegate(ctx, "get", "nodes", "-l", "get=nodes")
		Expect(code).To(Equal(0), err)
		Expect(out).To(MatchRegexp(`(?s)^Rule blue: Held, EvidenceMissing \(1 node\)\n` +
			`  NODE +AGE +HELD FOR +MESSAGE\n  blue-1 .*condition example.com/CNI has not been reported.*` +
			`Rule green: Held, EvidenceMissing.*No rule selects it \(1 node\)\n.*free`))
		for args, want := range map[string]string{
			"-l get=nodes -o name": "node/blue-1\nnode/free\nnode/green-1\n", "--held -o name": "node/blue-1\nnode/green-1\n",
			"--rule green -o name": "node/green-1\n", "free -o name": "node/free\n", "-l get=nothing": "",
			"--held -l get=nodes -o jsonpath={.kind},{.items[*].heldBy[0]}": "List,blue green",
		} {
			_, out, _ := nodegate(ctx, append([]string{"get", "nodes"}, strings.Fields(args)...)...)
			Expect(out).To(Equal(want), args)
		}
		_, out, _ = nodegate(ctx, "get", "node/free", "-o", "name")
		Expect(out).To(Equal("node/free\n"))
		_, _, err = nodegate(ctx, "get", "nodes", "-l", "get=nothing")
		Expect(err).To(Equal("No nodes found.\n"))
		_, out, _ = nodegate(ctx, "why", "-l", "get=nodes", "-o", "name")
		Expect(out).To(Equal("node/blue-1\nnode/free\nnode/green-1\n"))
		for _, command := range []string{"why", "timeline"} {
			_, out, _ = nodegate(ctx, command, "free", "-o", "name")
			Expect(out).To(Equal("node/free\n"), command)
		}
		_, out, _ = nodegate(ctx, "why", "-l", "get=nodes", "-o", "jsonpath={.items[*].node}")
		Expect(out).To(Equal("blue-1 free green-1"))
		_, out, _ = nodegate(ctx, "get", "nodes", "--held", "-o", "wide")
		Expect(out).To(MatchRegexp(`green-1 .* green +readiness.k8s.io/green=pending:NoSchedule`))
		code, _, err = nodegate(ctx, "get", "nodes", "--rule", "nope")
		Expect(code).To(Equal(1))
		Expect(err).To(Equal("error: nodereadinessrules.readiness.node.x-k8s.io \"nope\" not found\n"))
	})
})

var _ = Describe("release and hold", func() {
	override := func(ctx context.Context, name string) string {
		return read(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}).Annotations[v1alpha1.OverrideAnnotation]
	}

	It("write the override, and remove it again", func(ctx context.Context) {
		node(ctx, "overridden")
		code, out, err := nodegate(ctx, "release", "overridden", "--yes", "--timeout=0")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("node/overridden override set\n"))
		Expect(err).To(ContainSubstring("Releases node overridden, which is not held now"))
		Expect(override(ctx, "overridden")).To(Equal("Release"))

		before := time.Now()
		_, out, _ = nodegate(ctx, "hold", "node/overridden", "--duration=1d2h", "-y", "--timeout=0", "-o", "yaml")
		printed := &corev1.Node{}
		Expect(yaml.Unmarshal([]byte(out), printed)).To(Succeed())
		Expect(printed.Kind).To(Equal("Node"))
		value := override(ctx, "overridden")
		Expect(printed.Annotations[v1alpha1.OverrideAnnotation]).To(Equal(value))
		until, parseErr := time.Parse(time.RFC3339, strings.TrimPrefix(value, "Hold;until="))
		Expect(parseErr).NotTo(HaveOccurred())
		Expect(until).To(BeTemporally("~", before.Add(26*time.Hour), time.Minute))

		for _, command := range []string{"release", "hold"} {
			code, out, err = nodegate(ctx, command, "overridden", "--undo", "-y", "--timeout=0")
			Expect(code).To(Equal(0), err)
			Expect(out).To(Equal("node/overridden override removed\n"))
			Expect(override(ctx, "overridden")).To(BeEmpty())
		}
	})

	It("ask, and do nothing without a yes", func(ctx context.Context) {
		node(ctx, "asked")
		code, _, err := nodegate(ctx, "hold", "asked")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("stdin is not a terminal; pass --yes to confirm"))
		Expect(err).To(ContainSubstring("no enforced rule with a taint or health selects node asked: hold has no effect"))
		for _, no := range []string{"n\n", "\n", "yes, but\n"} {
			c := calling(no)
			Expect(c.run(ctx, "hold", "asked", "--timeout=0")).To(Equal(1))
			Expect(c.err.String()).To(ContainSubstring("Continue? [y/N] error: nothing was changed"))
			Expect(override(ctx, "asked")).To(BeEmpty())
		}
		c := calling("y\n")
		Expect(c.run(ctx, "hold", "asked", "--timeout=0")).To(Equal(0))
		Expect(override(ctx, "asked")).To(Equal("Hold"))
	})

	It("say whose pods hold evicts", func(ctx context.Context) {
		node(ctx, "evicting")
		node(ctx, "keeping")
		ruleFor(ctx, "keeping", "keeping")
		create(ctx, network("evicting", "evicting").Taint("readiness.k8s.io/evicting", "", corev1.TaintEffectNoExecute).Obj())
		_, _, err := nodegate(ctx, "hold", "evicting", "keeping")
		Expect(err).To(ContainSubstring("warning: a NoExecute taint evicts the pods of node evicting that do not"))
		_, _, err = nodegate(ctx, "hold", "keeping")
		Expect(err).NotTo(ContainSubstring("evict"))
	})

	It("only try it in a dry run", func(ctx context.Context) {
		node(ctx, "tried")
		for how, says := range map[string]string{"client": "(dry run)", "server": "(server dry run)"} {
			code, out, err := nodegate(ctx, "release", "tried", "--dry-run="+how)
			Expect(code).To(Equal(0), err)
			Expect(out).To(Equal("node/tried override set " + says + "\n"))
		}
		Expect(override(ctx, "tried")).To(BeEmpty())
	})

	It("change the other nodes if one is deleted meanwhile", func(ctx context.Context) {
		var nodes []*corev1.Node
		for i := range 3 {
			nodes = append(nodes, create(ctx, build.MakeNode(fmt.Sprintf("leaving-%d", i)).Label("test", "leaving").Obj()))
		}
		c := calling("y\n")
		c.plugin.asks = func() bool { return server.Client.Delete(ctx, nodes[0]) == nil }
		Expect(c.run(ctx, "release", "-l", "test=leaving", "--timeout=0")).To(Equal(1))
		Expect(c.err.String()).To(HaveSuffix("error: nodes \"leaving-0\" not found\n"))
		Expect(override(ctx, "leaving-1")).To(Equal("Release"))
		Expect(override(ctx, "leaving-2")).To(Equal("Release"))
	})

	It("take nodes by their labels", func(ctx context.Context) {
		for i := range 7 {
			create(ctx, build.MakeNode(fmt.Sprintf("labelled-%d", i)).Label("test", "labelled").Obj())
		}
		code, out, err := nodegate(ctx, "release", "-l", "test=labelled", "-y", "--timeout=0")
		Expect(code).To(Equal(0), err)
		Expect(strings.Count(out, " override set\n")).To(Equal(7))
		Expect(err).To(ContainSubstring("7 nodes (labelled-0, labelled-1, labelled-2, labelled-3, labelled-4 and 2 more), " +
			"of which 0 are held now"))
		_, out, _ = nodegate(ctx, "release", "-l", "test=labelled", "-y", "--timeout=0", "-o",
			"jsonpath={.kind} {.items[6].metadata.name}")
		Expect(out).To(Equal("List labelled-6"))
		code, _, err = nodegate(ctx, "release", "-l", "test=none", "-y")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("no node has the labels test=none"))
	})

	It("say when the operator does not act", func(ctx context.Context) {
		node(ctx, "waiting")
		ruleFor(ctx, "waiting", "waiting")
		code, out, err := nodegate(ctx, "hold", "waiting", "-y", "--timeout=1s")
		Expect(out).To(Equal("node/waiting override set\n"))
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("the operator has not acted within 1s: is it running?"))

		lease := leads(ctx, -90*time.Second) // its node's clock is behind
		_, _, err = nodegate(ctx, "hold", "waiting", "-y", "--timeout=1s")
		Expect(err).To(And(Not(ContainSubstring("no operator leads")), ContainSubstring("has not acted within 1s")))
		dies(ctx, lease, time.Hour)
		code, _, err = nodegate(ctx, "hold", "waiting", "-y", "--timeout=1h")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("warning: no operator leads: nothing happens before one does\n"))
		Expect(err).To(HaveSuffix("the annotation is written, but no operator leads: nothing happens before one does\n"))
	})

	It("say that a node is released when its taint is gone", func(ctx context.Context) {
		ruleFor(ctx, "awaited", "awaited")
		n := create(ctx, build.MakeNode("awaited").Label("test", "awaited").
			Taint("readiness.k8s.io/awaited", "pending", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+string(read(ctx, network("awaited", "").Obj()).UID),
				`{"taint":"readiness.k8s.io/awaited=pending:NoSchedule"}`).Obj())
		c, ended := calling(""), make(chan int)
		go func() { ended <- c.run(ctx, "release", "awaited", "-y", "--timeout=1m") }()
		Eventually(c.out.String).Should(Equal("node/awaited override set\n"))
		Consistently(c.out.String, "600ms").Should(Equal("node/awaited override set\n"))
		n = read(ctx, n)
		n.Spec.Taints, n.Annotations = nil, map[string]string{v1alpha1.OverrideAnnotation: "Release"}
		Expect(server.Client.Update(ctx, n)).To(Succeed())
		Eventually(ended).Should(Receive(Equal(0)))
		Expect(c.out.String()).To(Equal("node/awaited override set\nnode/awaited released\n"))
	})

	It("wait for the verdict of a rule with health, also if it has no taint", func(ctx context.Context) {
		rule := create(ctx, network("traffic", "traffic").Untainted().Health("rules").Obj())
		record := v1alpha1.RecordAnnotationPrefix + string(rule.UID)
		n := create(ctx, build.MakeNode("traffic").Label("test", "traffic").Annotation(record, `{"health":"NotReady"}`).Obj())
		for _, command := range []struct{ name, says, done, health string }{
			{"release", "Releases node traffic, which is held now", "released", "Ready"},
			{"hold", "Holds node traffic, which is not held now", "held", "NotReady"},
		} {
			c, ended := calling(""), make(chan int)
			go func() { ended <- c.run(ctx, command.name, "traffic", "-y", "--timeout=1m") }()
			Eventually(c.out.String).Should(Equal("node/traffic override set\n"))
			Consistently(c.out.String, "600ms").Should(Equal("node/traffic override set\n"))
			n = read(ctx, n)
			n.Annotations[record] = fmt.Sprintf(`{"health":%q}`, command.health)
			Expect(server.Client.Update(ctx, n)).To(Succeed())
			Eventually(ended).Should(Receive(Equal(0)))
			Expect(c.out.String()).To(Equal("node/traffic override set\nnode/traffic " + command.done + "\n"))
			Expect(c.err.String()).To(And(ContainSubstring(command.says), Not(ContainSubstring("has no effect"))))
		}
	})

	It("do not touch another node of the same name", func(ctx context.Context) {
		n := node(ctx, "namesake")
		Expect(server.Client.Delete(ctx, n.DeepCopy())).To(Succeed())
		node(ctx, "namesake")
		c, err := input.New(ctx, server.Config(), "")
		Expect(err).NotTo(HaveOccurred())
		o := newChanging(&cobra.Command{}, "released")
		Expect(o.validate()).To(Succeed())
		annotations := map[string]any{v1alpha1.OverrideAnnotation: "Release"}
		Expect(calling("").plugin.apply(ctx, c, o, n, map[string]any{"annotations": annotations}, nil)).
			To(MatchError(ContainSubstring("was deleted and created again")))
		Expect(override(ctx, "namesake")).To(BeEmpty())
	})
})

var _ = Describe("maintenance", func() {
	It("sets the annotation that the agent reads, and removes it", func(ctx context.Context) {
		n := node(ctx, "served")
		reason := func() string { return checks.Maintenance(read(ctx, n), time.Now()) }
		code, out, err := nodegate(ctx, "maintenance", "served", "on", "--reason", "disk swap", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("node/served maintenance changed\n"))
		Expect(err).To(ContainSubstring("Takes node served out of the load balancers"))
		Expect(err).To(ContainSubstring("warning: no node agent runs on node served: nothing answers /health there"))
		Expect(reason()).To(Equal("in maintenance: disk swap"))
		_, out, _ = nodegate(ctx, "why", "served")
		Expect(out).To(ContainSubstring("is in maintenance (disk swap)"))

		code, _, err = nodegate(ctx, "maintenance", "-l", "test=served", "off", "-y")
		Expect(code).To(Equal(0), err)
		Expect(reason()).To(BeEmpty())
	})

	It("ends after a duration", func(ctx context.Context) {
		n, before := node(ctx, "shortly"), time.Now()
		_, _, err := nodegate(ctx, "maintenance", "shortly", "on", "--duration=1.5d", "-y")
		Expect(err).To(ContainSubstring("/health answers 503 there for 1d12h."))
		value := read(ctx, n).Annotations[v1alpha1.MaintenanceAnnotation]
		until, parseErr := time.Parse(time.RFC3339, strings.TrimPrefix(value, "kubectl nodegate maintenance;until="))
		Expect(parseErr).NotTo(HaveOccurred())
		Expect(until).To(BeTemporally("~", before.Add(36*time.Hour), time.Minute))
	})

	It("does not warn where an agent runs", func(ctx context.Context) {
		node(ctx, "with-agent")
		pod := build.MakePod("default", "agent").Node("with-agent").Obj()
		pod.Labels, pod.Spec.TerminationGracePeriodSeconds = input.AgentLabels, new(int64(0))
		create(ctx, pod)
		says := func() string {
			code, _, err := nodegate(ctx, "maintenance", "with-agent", "on", "--dry-run=server")
			Expect(code).To(Equal(0), err)
			return err
		}
		Expect(says()).To(ContainSubstring("no node agent runs")) // it has not started
		pod.Status.Phase = corev1.PodRunning
		Expect(server.Client.Status().Update(ctx, pod)).To(Succeed())
		Expect(says()).NotTo(ContainSubstring("no node agent runs"))
	})
})

var _ = Describe("pause and resume", func() {
	It("suspend rules and put back in force just those", func(ctx context.Context) {
		ours := ruleFor(ctx, "ours", "p")
		theirs := create(ctx, network("theirs", "p").Suspend(true).Obj())
		create(ctx, network("first", "p").After("ours").Obj())
		create(ctx, network("second", "p").After("first").Obj())
		_, _, names := nodegate(ctx, "pause", "ours", "--dry-run=server")
		Expect(names).To(ContainSubstring("Also frozen, because they require a paused rule: first, second."))
		for _, name := range []string{"first", "second"} {
			Expect(server.Client.Delete(ctx, network(name, "p").Obj())).To(Succeed())
		}

		code, out, err := nodegate(ctx, "pause", "--all", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/ours paused\n"))
		Expect(err).To(ContainSubstring("warning: rule theirs is already suspended and is not changed"))
		Expect(err).To(ContainSubstring("Pauses rule ours, about 0 nodes: no other node is tainted. Not"))
		Expect(read(ctx, ours).Spec.Suspend).To(BeTrue())
		Expect(report.PausedAt(ours).Time).To(BeTemporally("~", time.Now(), time.Minute))

		_, out, _ = nodegate(ctx, "status")
		Expect(out).To(MatchRegexp(`ours +Unreported`))
		_, out, _ = nodegate(ctx, "status", "nrr/ours", "-o", "name")
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/ours\n"))
		_, out, _ = nodegate(ctx, "status", strings.TrimSpace(out), "-o",
			"jsonpath={.kind} {.items[*].rule} {.items[*].state}")
		Expect(out).To(Equal("RuleStatusList ours Unreported"))

		code, out, err = nodegate(ctx, "resume", "--all", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/ours resumed\n"))
		Expect(err).To(ContainSubstring("rule theirs was not suspended by pause and is not changed"))
		Expect(read(ctx, ours).Spec.Suspend).To(BeFalse())
		Expect(ours.Annotations).NotTo(HaveKey(v1alpha1.PausedAnnotation))
		Expect(read(ctx, theirs).Spec.Suspend).To(BeTrue())

		code, out, err = nodegate(ctx, "resume", "theirs", "--force", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/theirs resumed\n"))
		Expect(read(ctx, theirs).Spec.Suspend).To(BeFalse())

		code, out, err = nodegate(ctx, "resume", "--all", "-y")
		Expect(code).To(Equal(0))
		Expect(out).To(BeEmpty())
		Expect(err).To(ContainSubstring("Nothing to do"))
	})

	It("leave a rule suspended that was resumed and suspended by others after pause", func(ctx context.Context) {
		rule := ruleFor(ctx, "reverted", "p")
		code, _, err := nodegate(ctx, "pause", "reverted", "-y")
		Expect(code).To(Equal(0), err)
		for _, suspend := range []string{"false", "true"} {
			Expect(server.Client.Patch(ctx, rule, client.RawPatch(types.MergePatchType,
				[]byte(`{"spec":{"suspend":`+suspend+`}}`)), client.FieldOwner("kubectl-patch"))).To(Succeed())
		}
		_, _, err = nodegate(ctx, "resume", "--all", "-y")
		Expect(err).To(ContainSubstring("rule reverted was not suspended by pause and is not changed"))
		Expect(read(ctx, rule).Spec.Suspend).To(BeTrue())
	})

	It("change rules whose status was written meanwhile, and go on after a failure", func(ctx context.Context) {
		vanished, busy := ruleFor(ctx, "a-vanished", "p"), ruleFor(ctx, "busy", "p")
		c := calling("y\n")
		c.plugin.asks = func() bool {
			Expect(server.Client.Delete(ctx, vanished)).To(Succeed())
			busy.Status.ObservedGeneration = busy.Generation
			Expect(server.Client.Status().Update(ctx, busy)).To(Succeed())
			return true
		}
		Expect(c.run(ctx, "pause", "--all")).To(Equal(1))
		Expect(c.err.String()).To(ContainSubstring(`"a-vanished" not found`))
		Expect(c.out.String()).To(ContainSubstring("/busy paused\n"))
		Expect(read(ctx, busy).Spec.Suspend).To(BeTrue())
	})

	It("say who may undo it", func(ctx context.Context) {
		rule := network("gitops", "p").Obj()
		rule.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "rules"}
		create(ctx, rule)
		_, _, err := nodegate(ctx, "pause", "gitops", "--dry-run=server")
		Expect(err).To(ContainSubstring("rule gitops is managed by Flux, which may undo this"))
		Expect(read(ctx, rule).Spec.Suspend).To(BeFalse())
	})
})

var _ = Describe("status", func() {
	It("shows the operator's counts, and goes on until it is interrupted", func(ctx context.Context) {
		rule := ruleFor(ctx, "watched", "w")
		ctx, interrupt := context.WithCancel(ctx)
		defer interrupt()
		c := calling("")
		ended := make(chan int)
		go func() {
			defer GinkgoRecover()
			ended <- c.run(ctx, "status", "watched", "-w")
		}()
		Eventually(c.out.String).Should(MatchRegexp(`watched +Unreported +-`))

		rule.Status = v1alpha1.NodeReadinessRuleStatus{ObservedGeneration: rule.Generation,
			Nodes: &v1alpha1.NodeCounts{Matched: 5, Ready: 3, Held: 2},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "InForce",
				ObservedGeneration: rule.Generation, LastTransitionTime: metav1.Now()}}}
		Expect(server.Client.Status().Update(ctx, rule)).To(Succeed())
		Eventually(c.out.String).Should(MatchRegexp(`watched +InForce +5 +3 +2 `))
		interrupt()
		Eventually(ended).Should(Receive(Equal(0)))
		Expect(c.err.String()).To(BeEmpty())
	})

	It("ends with the rule that it is about", func(ctx context.Context) {
		rule := ruleFor(ctx, "vanishing", "w")
		c := calling("")
		ended := make(chan int, 1)
		go func() {
			defer GinkgoRecover()
			ended <- c.run(ctx, "status", "vanishing", "-w")
		}()
		Eventually(c.out.String).Should(ContainSubstring("vanishing"))
		Expect(server.Client.Delete(ctx, rule)).To(Succeed())
		Eventually(ended).Should(Receive(Equal(1)))
		Expect(c.err.String()).To(ContainSubstring(`"vanishing" not found`))
	})

	It("warns of other parties that may replace the CRD", func(ctx context.Context) {
		manage := func(ctx context.Context, owner client.FieldOwner, labels string) {
			served := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name()}}
			Expect(server.Client.Patch(ctx, served, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":`+labels+`}}`)), owner)).To(Succeed())
		}
		_, out, _ := nodegate(ctx, "status")
		Expect(out).NotTo(ContainSubstring("Another tool"))
		manage(ctx, "gke-addon-manager", `{"addonmanager.kubernetes.io/mode":"Reconcile"}`)
		DeferCleanup(manage, client.FieldOwner("gke-addon-manager"), `{"addonmanager.kubernetes.io/mode":null}`)
		code, out, _ := nodegate(ctx, "status")
		Expect(code).To(Equal(0), "it is only a warning")
		Expect(out).To(ContainSubstring("Another tool may manage the CRD, and replace it with its own: " +
			"label addonmanager.kubernetes.io/mode=Reconcile, field manager gke-addon-manager."))
	})
})

var _ = Describe("a CRD of another project", Serial, func() {
	It("is in the first line of status, why, get nodes, hold and release", func(ctx context.Context) {
		n := node(ctx, "foreign")
		rule := ruleFor(ctx, "foreign", "foreign")
		served := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name()}}
		replace := func(ctx context.Context, edit func(spec map[string]apiextensionsv1.JSONSchemaProps)) {
			read(ctx, served)
			spec := served.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
			edit(spec)
			Expect(server.Client.Update(ctx, served)).To(Succeed())
		}
		var probes apiextensionsv1.JSONSchemaProps
		replace(ctx, func(spec map[string]apiextensionsv1.JSONSchemaProps) {
			probes = spec["probes"]
			delete(spec, "probes")
		})
		DeferCleanup(replace, func(spec map[string]apiextensionsv1.JSONSchemaProps) { spec["probes"] = probes })
		frozen := "Frozen: the operator changes nothing for any rule: the CRD " + crd.Name()
		for _, args := range []string{"status", "why foreign", "get nodes foreign"} {
			_, out, err := nodegate(ctx, strings.Fields(args)...)
			Expect(out).To(HavePrefix(frozen), args+err)
		}
		_, out, _ := nodegate(ctx, "why", n.Name)
		Expect(out).To(ContainSubstring("the rule is frozen"))
		for _, command := range []string{"hold", "release"} {
			_, _, err := nodegate(ctx, command, rule.Name, "--dry-run=server")
			Expect(err).To(HavePrefix("warning: the operator is frozen: the CRD "))
		}
	})
})

var _ = Describe("completion", func() {
	It("knows nodes and rules", func(ctx context.Context) {
		node(ctx, "completed")
		ruleFor(ctx, "completing", "x")
		complete := func(args ...string) string {
			c := calling("")
			Expect(run(ctx, c.plugin, append([]string{"__complete", "--kubeconfig", kubeconfig}, args...))).To(Equal(0))
			return c.out.String()
		}
		Expect(complete("why", "comp")).To(HavePrefix("completed\n"))
		Expect(complete("why", "node", "comp")).To(HavePrefix("completed\n"))
		Expect(complete("why", "completed", "comp")).NotTo(ContainSubstring("completed"))
		Expect(complete("status", "-n", "kube-s")).To(HavePrefix("kube-system\n"))
		for _, flag := range []string{"--context", "--cluster", "--user"} {
			Expect(complete("status", flag, "")).To(MatchRegexp(`^\S+\n:4`), flag)
		}
		Expect(complete("status", "comp")).To(HavePrefix("completing\n"))
		Expect(complete("status", "-o", "")).To(ContainSubstring("yaml\n"))
		Expect(complete("get", "")).To(HavePrefix("nodes\n:"))
		Expect(complete("get", "nodes", "comp")).To(HavePrefix("completed\n"))
		Expect(complete("maintenance", "completed", "o")).To(HavePrefix("on\noff\n"))
		Expect(complete("pause", "--dry-run=")).To(HavePrefix("none\nserver\nclient\n"))
	})
})

// asYAML are objects as a file.
func asYAML(objects ...client.Object) string {
	GinkgoHelper()
	var parts []string
	for _, o := range objects {
		kind, err := apiutil.GVKForObject(o, input.Scheme())
		Expect(err).NotTo(HaveOccurred())
		o.GetObjectKind().SetGroupVersionKind(kind)
		raw, err := yaml.Marshal(o)
		Expect(err).NotTo(HaveOccurred())
		parts = append(parts, string(raw))
	}
	return strings.Join(parts, "---\n")
}
