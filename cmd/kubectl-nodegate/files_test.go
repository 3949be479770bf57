// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/build"
)

// local runs a command line that must not ask any server.
func local(ctx context.Context, args ...string) (code int, out, err string) {
	c := calling("")
	code = run(ctx, c.plugin, append(args, "--server", "https://127.0.0.1:1"))
	return code, c.out.String(), c.err.String()
}

var _ = Describe("simulate", func() {
	It("says what a rule would do in the cluster, and touches nothing", func(ctx context.Context) {
		n := node(ctx, "simulated")
		present := ruleFor(ctx, "present", "simulated")
		rules := file("rule.yaml", asYAML(network("simulated", "simulated").Obj()))

		code, out, err := nodegate(ctx, "simulate", "-f", rules)
		Expect(err).To(HavePrefix("warning: rule simulated: spec.conditions[0].type: no node has the condition " + cni))
		Expect(code).To(Equal(2))
		Expect(out).To(HavePrefix("Rule simulated (created) adds taint readiness.k8s.io/simulated=pending:NoSchedule to 1 " +
			"node.\n"))
		Expect(out).To(MatchRegexp(`simulated +Added +Held +EvidenceMissing`))

		_, out, _ = nodegate(ctx, "simulate", "-f", rules, "-o", "name")
		Expect(out).To(Equal("node/simulated\n"))

		code, _, _ = nodegate(ctx, "simulate", "-f", rules, "--allow-tainted=1")
		Expect(code).To(Equal(0))

		Expect(read(ctx, n.DeepCopy()).ResourceVersion).To(Equal(n.ResourceVersion))
		Expect(read(ctx, present.DeepCopy()).ResourceVersion).To(Equal(present.ResourceVersion))
		Expect(server.Client.Get(ctx, keyOf("simulated"), &v1alpha1.NodeReadinessRule{})).NotTo(Succeed())
	})

	It("does so for the nodes of a file, without a cluster, and always the same", func(ctx context.Context) {
		reported := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for i := range 1000 {
			n := build.MakeNode(fmt.Sprintf("n-%d", i)).UID(fmt.Sprint(i)).Created(reported.Add(-time.Hour)).Label("test", "off")
			list.Items = append(list.Items, *n.Condition(cni, "True", reported).Obj())
		}
		raw, marshalErr := json.Marshal(list)
		Expect(marshalErr).NotTo(HaveOccurred())
		fleet := file("nodes.json", string(raw))
		rules := file("rule.yaml", asYAML(build.MakeRule("off").Selector("test", "off").FreshCondition(cni, 60).
			Taint("readiness.k8s.io/off", "", "NoSchedule").Obj()))

		code, out, err := local(ctx, "simulate", "-f", rules, "--nodes", fleet)
		Expect(code).To(Equal(0), err)
		Expect(out).To(ContainSubstring("It selects 1000 nodes: 1000 ready, 0 held, 0 exempt."))

		code, out, err = local(ctx, "simulate", "-f", rules, "--nodes", fleet, "--at",
			reported.Add(time.Hour).Format(time.RFC3339), "--allow-tainted=50%")
		Expect(code).To(Equal(2), err)
		Expect(out).To(ContainSubstring("to 1000 nodes"))
		Expect(strings.Count(out, "\n")).To(BeNumerically("<", 40), "a thousand nodes are not listed unless asked for")

		_, out, _ = local(ctx, "simulate", "-f", rules, "--nodes", fleet, "-o", "json")
		s := &report.Simulation{}
		Expect(json.Unmarshal([]byte(out), s)).To(Succeed())
		Expect(s.Rules[0].Nodes).To(HaveLen(1000))
		Expect(s.Rules[0].Totals.Ready).To(BeEquivalentTo(1000))
	})

	It("uses the evidence in the file of nodes", func(ctx context.Context) {
		n := build.MakeNode("one").UID("one").Created(time.Now().Add(-time.Hour)).Label("test", "off").Obj()
		rule := network("off", "off").BootstrapOnly().
			DaemonSets("kube-system", func(q *v1alpha1.DaemonSetsRequirement) { q.Untolerated = v1alpha1.UntoleratedHold })
		rule.Evidence(v1alpha1.Requirement{Name: "ebs", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs"}})
		rules := file("rule.yaml", asYAML(rule.Obj()))

		whole := asYAML(n, build.MakePod("kube-system", "other").Obj(), build.MakeDaemonSet("kube-system", "init").Obj(),
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "one"},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs", NodeID: "one"}}}})
		code, out, err := local(ctx, "simulate", "-f", rules, "--nodes", file("nodes.yaml", whole))
		Expect(code).To(Equal(2), err)
		Expect(out).To(ContainSubstring("kube-system/init"))
		Expect(out).NotTo(Or(ContainSubstring("Could not be read"), ContainSubstring("ebs")))
		_, out, _ = local(ctx, "simulate", "-f", rules, "--nodes", file("bare.yaml", asYAML(n)))
		Expect(out).To(ContainSubstring("Could not be read: rule off, requirement ebs, counts as missing: the file has no " +
			"CSINodes"))
	})

	DescribeTable("says what to do about", func(ctx context.Context, says, content string, more ...string) {
		code, out, err := local(ctx, append([]string{"simulate", "-f", file("x.yaml", content)}, more...)...)
		Expect(code).To(Equal(1))
		Expect(out).To(BeEmpty())
		Expect(err).To(ContainSubstring("error: "))
		Expect(err).To(ContainSubstring(says))
	},
		Entry("a file that is not YAML", "error parsing /",
			"\t{nothing: [of the kind"),
		Entry("a file with something else", "no NodeReadinessRule (readiness.node.x-k8s.io/v1alpha1) found, only "+
			"ConfigMap (v1)", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"),
		Entry("an empty file", "no NodeReadinessRule (readiness.node.x-k8s.io/v1alpha1) found", ""),
		Entry("a rule that is there twice", `duplicate rule "x"`, twice),
		Entry("a field that is not there", "spec.nodeSelecter: unknown field", strings.Replace(valid, "nodeSelector",
			"nodeSelecter", 1)),
		Entry("a field that was renamed", "spec.stabilization.minimumHoldSeconds: unknown field: its name is minHoldSeconds",
			strings.Replace(valid, "spec: {", "spec: {stabilization: {minimumHoldSeconds: 1}, ", 1)),
		Entry("a taint of Kubernetes", "belong to Kubernetes", strings.Replace(valid, "readiness.k8s.io/x",
			"node.kubernetes.io/x", 1)),
		Entry("no nodes", "no nodes found", valid, "--nodes", "/dev/null"),
		Entry("a file that is not there", "does not exist", valid, "--nodes", "/does/not/exist"),
		Entry("a number that is none", "--allow-tainted: must be a number or a percentage", valid, "--allow-tainted=many"),
		Entry("a time that is none", "--at: must be a time such as", valid, "--at=yesterday"),
	)
})

const (
	valid = `{apiVersion: readiness.node.x-k8s.io/v1alpha1, kind: NodeReadinessRule, metadata: {name: x}, spec: {
nodeSelector: {matchLabels: {a: b}}, conditions: [{type: c, requiredStatus: "True"}],
taint: {key: readiness.k8s.io/x, effect: NoSchedule}, enforcementMode: continuous}}`
	twice = valid + "\n---\n" + valid
)

var _ = Describe("lint", func() {
	DescribeTable("judges a valid rule, whose taint has the effect", func(ctx context.Context, effect, strict string,
		want int, says ...string) {
		code, out, err := local(ctx, "lint", "-f", file("x.yaml", strings.Replace(valid, "NoSchedule", effect, 1)),
			"--strict="+strict)
		Expect(code).To(Equal(want), err)
		for _, text := range says {
			Expect(out).To(ContainSubstring(text))
		}
	},
		Entry("PreferNoSchedule: no findings", "PreferNoSchedule", "true", 0, "1 rule checked: no findings.\n"),
		Entry("NoSchedule: advice, which is no fault", "NoSchedule", "true", 0,
			"rule x: advice: spec.taint.key: Karpenter treats keys under",
			"rule x: advice: spec.maxUnavailable: cluster-autoscaler counts"),
		Entry("NoExecute: a warning", "NoExecute", "false", 0,
			"rule x: warning: spec.maxUnavailable: NoExecute without maxUnavailable"),
		Entry("NoExecute: a warning, which fails if that is asked for", "NoExecute", "true", 2),
	)

	It("finds what the API server would refuse", func(ctx context.Context) {
		broken := strings.NewReplacer("NoSchedule", "Never", "nodeSelector: {matchLabels: {a: b}}",
			"nodeSelector: {}, dryrun: true").Replace(valid)
		code, out, err := local(ctx, "lint", "-f", file("x.yaml", broken), "-o", "json")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("error: found 3 validation errors"))
		r := &report.LintReport{}
		Expect(json.Unmarshal([]byte(out), r)).To(Succeed())
		var fields []string
		for _, f := range r.Findings {
			if f.Severity == report.SeverityError {
				fields = append(fields, f.Field)
			}
		}
		Expect(fields).To(ConsistOf("spec.nodeSelector", "spec.dryrun", "spec.taint.effect"))

		selectsNothing := strings.Replace(valid, "matchLabels: {a: b}", "", 1)
		_, out, _ = local(ctx, "lint", "-f", file("x.yaml", selectsNothing))
		Expect(out).To(ContainSubstring("error: spec.nodeSelector: Invalid value: must select something"),
			"rules in CEL are checked")
	})

	It("says what to type where YAML reads another type, and judges the other files", func(ctx context.Context) {
		dir := file("typed.yaml", strings.NewReplacer(`"True"`, "True", "enforcementMode", "timeout: {seconds: 5m, "+
			"action: Keep}, enforcementMode").Replace(valid))
		dir = filepath.Dir(dir)
		Expect(os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("a: ["), 0o600)).To(Succeed())
		code, out, err := local(ctx, "lint", "-f", dir)
		Expect(code).To(Equal(1))
		Expect(strings.Count(out, "error:")).To(Equal(2), out)
		Expect(out).To(And(ContainSubstring(`spec.conditions[0].requiredStatus: must be a string, and YAML reads this`),
			ContainSubstring("spec.timeout.seconds: must be a number without a unit")))
		Expect(err).To(ContainSubstring("broken.yaml"))
	})

	It("repeats no warning that was accepted, and no advice for each rule", func(ctx context.Context) {
		noExecute := strings.Replace(valid, "NoSchedule", "NoExecute", 1)
		second := strings.NewReplacer("name: x", "name: second", "readiness.k8s.io/x", "readiness.k8s.io/second").
			Replace(noExecute)
		both := file("x.yaml", noExecute+"\n---\n"+second)
		code, out, _ := local(ctx, "lint", "-f", both, "--strict", "--accept=NoMaxUnavailable")
		Expect(code).To(Equal(0), out)
		Expect(out).To(And(ContainSubstring("rule x, second: advice: spec.taint.key"),
			Not(ContainSubstring("NoMaxUnavailable"))))
		_, out, _ = local(ctx, "lint", "-f", both, "-o", "name")
		const kind = "nodereadinessrule.readiness.node.x-k8s.io/"
		Expect(out).To(Equal(kind + "second\n" + kind + "x\n"))
		_, out, _ = local(ctx, "lint", "-f", both, "--advice=false")
		Expect(out).To(And(ContainSubstring("NoMaxUnavailable"), Not(ContainSubstring("advice"))))

		accepts := func(codes string) string {
			return strings.Replace(noExecute, "{name: x}",
				"{name: x, annotations: {nodegate.io/accept-warnings: "+codes+"}}", 1)
		}
		code, out, _ = local(ctx, "lint", "-f", file("x.yaml", accepts("NoMaxUnavailable")), "--strict")
		Expect(code).To(Equal(0), out)
		code, out, _ = local(ctx, "lint", "-f", file("x.yaml", accepts("NoMax")), "--strict")
		Expect(code).To(Equal(2))
		Expect(out).To(ContainSubstring("codes of warnings that do not exist: NoMax (UnknownCode)"))
	})

	It("finds circles and deadlocks among the files", func(ctx context.Context) {
		a, b := requiring(network("a", "l"), "b", "kube-system"), requiring(network("b", "l"), "a", "")
		code, out, _ := local(ctx, "lint", "-f", file("x.yaml", asYAML(a, b,
			build.MakeDaemonSet("kube-system", "init").Obj())))
		Expect(code).To(Equal(1))
		Expect(out).To(ContainSubstring("rule a: error: spec.requirements: rules require each other in a cycle: a " +
			"requires b requires a (Cycle)"))
		Expect(out).To(ContainSubstring("DaemonSet kube-system/init does not tolerate this rule's own taint " +
			"readiness.k8s.io/a=pending:NoSchedule"))
		Expect(out).To(ContainSubstring("spec.requirements[2].daemonSets: the rule leaves out DaemonSets that do not " +
			"tolerate its own taint readiness.k8s.io/a=pending:NoSchedule: kube-system/init"))
	})

	It("refuses a rule of another API group than the cluster's", func(ctx context.Context) {
		rule := network("ours", "ours").Obj()
		theirs := file("theirs.yaml", strings.ReplaceAll(asYAML(rule), "readiness.node.x-k8s.io/v1alpha1",
			"rules.nodegate.io/v1alpha1"))
		const want = "apiVersion: must be readiness.node.x-k8s.io/v1alpha1"
		code, out, err := nodegate(ctx, "lint", "-f", theirs, "--live")
		Expect(code).To(Equal(1), err)
		Expect(out).To(ContainSubstring(want))
		code, out, err = nodegate(ctx, "lint", "-f", theirs)
		Expect(code).To(Equal(0), out+err)
		code, _, err = nodegate(ctx, "simulate", "-f", theirs)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring(want))
	})

	It("knows which keys the operator allows, like simulate", func(ctx context.Context) {
		node(ctx, "keyed")
		rules := file("x.yaml", asYAML(network("keyed", "keyed").Obj()))
		const key = `spec.taint.key: the key "readiness.k8s.io/keyed" is not allowed: the operator's flag ` +
			"--rule-key-prefixes allows keys that begin with example.com/, example.org/"
		_, out, err := nodegate(ctx, "lint", "-f", rules, "--live")
		Expect(out+err).NotTo(ContainSubstring("is not allowed"), "no deployment tells")

		operator(ctx, "registry.example.com/nodegate:v0.9.0", "--rule-key-prefixes=example.com/,example.org/")
		code, out, _ := nodegate(ctx, "lint", "-f", rules, "--live")
		Expect(code).To(Equal(1))
		Expect(out).To(ContainSubstring(key + " (ForbiddenKey)"))
		code, _, err = nodegate(ctx, "simulate", "-f", rules)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("rule keyed is invalid: " + key))
	})

	It("knows the cluster where it is asked to", func(ctx context.Context) {
		node(ctx, "linted")
		create(ctx, network("first", "linted").Obj())
		rules := file("x.yaml", asYAML(requiring(network("second", "linted").Taint("readiness.k8s.io/first", "",
			"NoSchedule"), "nope", "default")))

		_, out, _ := local(ctx, "lint", "-f", rules)
		Expect(out).NotTo(Or(ContainSubstring("warning"), ContainSubstring("nope")),
			"what may be in the cluster is not missed")
		_, out, err := nodegate(ctx, "lint", "-f", rules, "--live")
		Expect(err).To(BeEmpty())
		Expect(out).To(ContainSubstring("rule first has the same taint readiness.k8s.io/first:NoSchedule: on nodes that " +
			"both select (1 at present)"))
		Expect(out).To(ContainSubstring("rule nope does not exist"))
		Expect(out).To(ContainSubstring("no workload in namespace default creates pods app=init"))
		Expect(out).To(ContainSubstring("the rule waits for 0 of the DaemonSets in the cluster, and requires at least 1"))

		create(ctx, build.MakeDaemonSet("default", "init").Obj())
		_, out, _ = nodegate(ctx, "lint", "-f", rules, "--live")
		Expect(out).To(ContainSubstring("DaemonSet default/init does not tolerate this rule's own taint"))
		Expect(out).To(ContainSubstring("leaves out DaemonSets that do not tolerate its own taint " +
			"readiness.k8s.io/first:NoSchedule: default/init"))
		Expect(out).NotTo(ContainSubstring("may not watch"), "which account the operator has is not known")

		manager := build.MakePod("default", "manager").Obj()
		manager.Labels = map[string]string{"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "manager"}
		create(ctx, manager)
		_, out, _ = nodegate(ctx, "lint", "-f", rules, "--live")
		Expect(out).To(ContainSubstring("the operator may not watch DaemonSets of namespace default"))

		probing := network("probing", "linted")
		probing.Spec.Probes = []v1alpha1.Probe{{ConditionType: "example.com/CNI",
			TCPSocket: &v1alpha1.TCPSocketAction{Port: 1}}}
		_, out, _ = nodegate(ctx, "lint", "-f", file("probing.yaml", asYAML(probing.Obj())), "--live")
		Expect(out).To(ContainSubstring("spec.probes: no probe runs: no node agent is running"))

		create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "linted"},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: "one"}}}})
		mistyped := network("mistyped", "linted").Evidence(v1alpha1.Requirement{Name: "ebs",
			CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.co"}})
		_, out, _ = nodegate(ctx, "lint", "-f", file("mistyped.yaml", asYAML(mistyped.Obj())), "--live")
		Expect(out).To(ContainSubstring("no selected node has the CSI driver ebs.csi.aws.co"))
		Expect(out).To(ContainSubstring("they have ebs.csi.aws.com"))
	})
})

// requiring makes a rule require another one and, if a namespace is given, the pods and the DaemonSets there.
func requiring(r *build.RuleWrapper, rule, namespace string) *v1alpha1.NodeReadinessRule {
	r.After(rule)
	if namespace != "" {
		r.Evidence(v1alpha1.Requirement{Name: "init", Pods: &v1alpha1.PodsRequirement{Namespace: namespace,
			Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "init"}}}})
		r.MaxUnavailable("1").DaemonSets(namespace)
	}
	return r.Obj()
}
