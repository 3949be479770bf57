// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	cni      = "example.com/CNIReady"
	poolKey  = "example.com/pool"
	taintKey = "readiness.example.com/network"
	held     = taintKey + "=pending:NoSchedule"
)

// request is one case: the rules that there are, by default the usual one, a node that is created, by default one that
// it selects, by a kubelet or an administrator, and perhaps an update by an administrator.
type request struct {
	rules func(pool string) []*build.RuleWrapper
	// stored changes a rule further once it is stored.
	stored func(ctx context.Context, rule *v1alpha1.NodeReadinessRule)
	// before is created before the rules are, in another second.
	before bool
	// unmatched: the first rule does not select the node when it is created.
	unmatched bool
	// brings changes the node before it is created.
	brings func(node *build.NodeWrapper, first *v1alpha1.NodeReadinessRule)
	admin  bool
	update func(node *corev1.Node, pool string)
	// kubelet: the update is by the node's kubelet.
	kubelet bool
	// cleaned lets the operator take off what it has put on before.
	cleaned bool

	// What is stored in the end, but for the taints of Kubernetes itself. gates: the usual taint and its claim.
	gates  bool
	taints []string
	claims map[string]string // by the rule's name, without its pool
}

func network(pool string) *build.RuleWrapper {
	return build.MakeRule(pool).Condition(cni).Selector(poolKey, pool).Taint(taintKey, "pending",
		corev1.TaintEffectNoSchedule)
}

func one(edits ...func(*build.RuleWrapper)) func(string) []*build.RuleWrapper {
	return func(pool string) []*build.RuleWrapper {
		r := network(pool)
		for _, edit := range edits {
			edit(r)
		}
		return []*build.RuleWrapper{r}
	}
}

// selecting is the usual rule with one expression as its selector.
func selecting(key, operator string, values ...string) func(string) []*build.RuleWrapper {
	return func(pool string) []*build.RuleWrapper {
		r := network(pool)
		r.SelectorExpression(key, operator, values...)
		return []*build.RuleWrapper{r}
	}
}

// withStorage are the usual rule and one with another taint.
func withStorage(pool string) []*build.RuleWrapper {
	second := network(pool).Taint("readiness.example.com/storage", "", corev1.TaintEffectPreferNoSchedule)
	second.Name += "-storage"
	return []*build.RuleWrapper{network(pool), second}
}

func labelled(node *corev1.Node, pool string) { node.Labels = map[string]string{poolKey: pool} }

func admissionNone(r *build.RuleWrapper) { r.Spec.NodeAdmission = v1alpha1.NodeAdmissionNone }

var gated = map[string]string{"": held}

var requests = map[string]request{
	"gates a node that registers":                {gates: true},
	"gates a node that an administrator creates": {admin: true, gates: true},
	"leaves a node alone that no rule matches":   {unmatched: true},
	"gates a node that is labelled later":        {unmatched: true, update: labelled, gates: true},
	// NodeRestriction would refuse an update of which a taint is part.
	"leaves a node alone that its kubelet labels":           {unmatched: true, update: labelled, kubelet: true},
	"leaves a node to rules that are frozen":                {rules: circle, stored: frozen(0)},
	"leaves a node to a rule whose evidence cannot be read": {stored: frozen(0)},
	"gates for a rule that was frozen before it was edited": {stored: frozen(-1), gates: true},
	"gates by a label that kubelets cannot set": {
		rules: func(pool string) []*build.RuleWrapper {
			r := network(pool)
			r.Spec.NodeSelector = v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"node-role.kubernetes.io/" +
				pool: ""}}
			return []*build.RuleWrapper{r}
		},
		unmatched: true, update: func(node *corev1.Node, pool string) {
			node.Labels = map[string]string{"node-role.kubernetes.io/" + pool: ""}
		},
		gates: true,
	},
	"In": {rules: selecting("example.com/kind", "In", "gpu", "tpu"), brings: with("example.com/kind", "tpu"), gates: true},
	"In, another value": {rules: selecting("example.com/kind", "In", "gpu", "tpu"),
		brings: with("example.com/kind", "cpu")},
	"In, no such label": {rules: selecting("example.com/kind", "In", "gpu", "tpu")},
	"NotIn": {rules: selecting("kubernetes.azure.com/mode", "NotIn", "system"),
		brings: with("kubernetes.azure.com/mode", "user"), gates: true},
	"NotIn, no such label": {rules: selecting("kubernetes.azure.com/mode", "NotIn", "system"), gates: true},
	"NotIn, the value": {rules: selecting("kubernetes.azure.com/mode", "NotIn", "system"),
		brings: with("kubernetes.azure.com/mode", "system")},
	"Exists": {rules: selecting("example.com/kind", "Exists"), brings: with("example.com/kind", ""),
		gates: true},
	"Exists, no such label": {rules: selecting("example.com/kind", "Exists")},
	"DoesNotExist":          {rules: selecting("example.com/kind", "DoesNotExist"), gates: true},
	"DoesNotExist, but it does": {rules: selecting("example.com/kind", "DoesNotExist"),
		brings: with("example.com/kind", "gpu")},
	"keeps the taints that the node brings": {brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
		n.Taint("a.example.com/x", "1", corev1.TaintEffectNoSchedule).Taint("b.example.com/y", "", "NoExecute")
	}, taints: []string{"a.example.com/x=1:NoSchedule", "b.example.com/y=:NoExecute", held}, claims: gated},
	"leaves its taint as the node brings it": {brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
		n.Taint(taintKey, "booting", corev1.TaintEffectNoSchedule)
	}, taints: []string{taintKey + "=booting:NoSchedule"}, claims: gated},
	"keeps the annotations that the node brings": {gates: true,
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) { n.Annotation("example.com/note", "x") }},
	"a taint without a value": {rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Value = "" }),
		taints: []string{taintKey + "=:NoSchedule"}, claims: map[string]string{"": taintKey + "=:NoSchedule"}},
	"a taint that evicts, at birth": {rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Effect = "NoExecute" }),
		taints: []string{taintKey + "=pending:NoExecute"}, claims: map[string]string{"": taintKey + "=pending:NoExecute"}},
	"a taint that evicts is not put on a node that may run pods": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Effect = "NoExecute" }), unmatched: true, update: labelled},
	"dry-run":   {rules: one(func(r *build.RuleWrapper) { r.DryRun(true) })},
	"suspended": {rules: one(func(r *build.RuleWrapper) { r.Suspend(true) })},
	"suspended, an update": {rules: one(func(r *build.RuleWrapper) { r.Suspend(true) }), unmatched: true,
		update: labelled},
	"nodeAdmission: None":    {rules: one(admissionNone)},
	"being deleted":          {stored: deleted},
	"a rule without a taint": {rules: one(func(r *build.RuleWrapper) { r.Spec.Taint = nil; r.Spec.Health = health() })},
	"two rules": {
		rules:  withStorage,
		taints: []string{held, "readiness.example.com/storage=:PreferNoSchedule"},
		claims: map[string]string{"": held, "-storage": "readiness.example.com/storage=:PreferNoSchedule"},
	},
	"two rules with one taint": {
		rules: func(pool string) []*build.RuleWrapper {
			second := network(pool)
			second.Name += "-storage"
			return []*build.RuleWrapper{network(pool), second}
		},
		taints: []string{held}, claims: map[string]string{"": held, "-storage": held},
	},
	"two rules with one taint, and other selectors": {
		rules: func(pool string) []*build.RuleWrapper {
			second := network(pool).SelectorExpression("example.com/kind", "DoesNotExist").Taint(taintKey, "other",
				corev1.TaintEffectNoSchedule)
			second.Name += "-storage"
			return []*build.RuleWrapper{network(pool), second}
		},
		taints: []string{held}, claims: map[string]string{"": held, "-storage": taintKey + "=other:NoSchedule"},
	},
	"a hundred rules": {
		rules: func(pool string) []*build.RuleWrapper {
			var out []*build.RuleWrapper
			for i := range 100 {
				r := network(pool).Taint(fmt.Sprintf("readiness.example.com/t%d", i), "", corev1.TaintEffectNoSchedule)
				r.Name = fmt.Sprintf("%s-%d", pool, i)
				r.Selector(poolKey, fmt.Sprintf("%s-%d", pool, i/2))
				out = append(out, r)
			}
			return out
		},
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) { n.Label(poolKey, n.Name+"-7") },
		taints: []string{"readiness.example.com/t14=:NoSchedule", "readiness.example.com/t15=:NoSchedule"},
		claims: map[string]string{"-14": "readiness.example.com/t14=:NoSchedule",
			"-15": "readiness.example.com/t15=:NoSchedule"},
	},
	"a rule whose taint would be invalid: its key": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Key = "not a key" })},
	"a rule whose taint would be invalid: its prefix": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Key = "node.kubernetes.io/out-of-service" })},
	"a rule whose taint would be invalid: its value": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Value = `"}` })},
	"a rule whose taint would be invalid: too long": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Value = strings.Repeat("x", 64) })},
	"a rule whose taint would be invalid: its effect": {
		rules: one(func(r *build.RuleWrapper) { r.Spec.Taint.Effect = "Never" })},
	// Otherwise the API server would refuse the request.
	"a node whose annotations have no room for the record": {admin: true,
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
			n.Annotation("example.com/filler", strings.Repeat("x", 192<<10-100))
		}},
	"a node whose annotations have room for the record": {admin: true, gates: true,
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
			n.Annotation("example.com/filler", strings.Repeat("x", 192<<10-1000))
		}},
	"a node that more than 200 rules match": {rules: many(201)},
	"a node with many taints":               {brings: tainted(250), taints: taintsOf(250)},
	"a node with many annotations": {brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
		for i := range 500 {
			n.Annotation(fmt.Sprintf("example.com/%d", i), "")
		}
	}},
	"a forged record": {brings: forged, gates: true},
	"a forged record beside its taint": {gates: true,
		brings: func(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
			forged(n, rule)
			n.Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
		}},
	"a node that brings what one of two rules adds": {
		rules: withStorage,
		brings: func(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
			n.Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
			claimed(n, rule)
		},
		taints: []string{held, "readiness.example.com/storage=:PreferNoSchedule"},
		claims: map[string]string{"": held, "-storage": "readiness.example.com/storage=:PreferNoSchedule"},
	},
	"a forged record of a rule that does not match": {unmatched: true, brings: forged},
	// Another policy has labelled the node after the rule had claimed it: the operator removes both.
	"a claim of a rule that no longer matches": {unmatched: true, taints: []string{held}, claims: gated,
		brings: func(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
			claimed(n, rule)
			n.Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
		}},
	"a claim of a rule that does not match, without its taint": {unmatched: true, brings: claimed},
	"a forged record of a rule that is suspended": {rules: one(func(r *build.RuleWrapper) { r.Suspend(true) }),
		brings: forged},
	"a node with a completion marker": {admin: true, brings: completed},
	"an update after completion":      {admin: true, unmatched: true, update: labelled, brings: completed},
	"an update after completion, in the older form": {admin: true, unmatched: true, update: labelled,
		brings: func(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
			n.Annotation(v1alpha1.Served().MarkerPrefix+rule.Name, "{}")
		}},
	"an update that changes nothing relevant": {cleaned: true, update: func(node *corev1.Node, _ string) {
		node.Labels["example.com/other"] = "x"
	}},
	"an update of annotations": {cleaned: true, update: func(node *corev1.Node, _ string) {
		node.Annotations = map[string]string{"example.com/note": "x"}
	}},
	"a node that was ten minutes old when kubelet last reported": {unmatched: true, brings: aged(9 * time.Minute),
		update: labelled, gates: true},
	"a node that was older when kubelet last reported": {unmatched: true, brings: aged(11 * time.Minute),
		update: labelled},
	"a node whose kubelet has not reported when": {unmatched: true, update: labelled, gates: true,
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
			n.Condition("Ready", "False", time.Now()).Heartbeat("Ready", time.Time{})
		}},
	"a node that registers is new, regardless of its kubelet": {gates: true, brings: aged(time.Hour)},
	"a node that is older than the rule":                      {before: true, unmatched: true, update: labelled},
	"a node that is older than the time that the rule is in force": {stored: inForceSoon,
		unmatched: true, update: labelled},
	"a node that is labelled with the taint on it": {unmatched: true, update: labelled,
		brings: func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
			n.Taint(taintKey, "mine", corev1.TaintEffectNoSchedule)
		}, taints: []string{taintKey + "=mine:NoSchedule"}},
	"a node that may join in any case": {admin: true, brings: with("node-restriction.kubernetes.io/skip-admission", "")},
}

// many are rules with taints of their own.
func many(n int) func(string) []*build.RuleWrapper {
	return func(pool string) []*build.RuleWrapper {
		var rules []*build.RuleWrapper
		for i := range n {
			r := network(pool)
			r.Name += fmt.Sprintf("-%d", i)
			rules = append(rules, r.Taint(fmt.Sprintf("readiness.example.com/%d", i), "", corev1.TaintEffectNoSchedule))
		}
		return rules
	}
}

// tainted is a node that brings so many taints.
func tainted(n int) func(*build.NodeWrapper, *v1alpha1.NodeReadinessRule) {
	return func(node *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
		for i := range n {
			node.Taint(fmt.Sprintf("example.com/%d", i), "", corev1.TaintEffectNoSchedule)
		}
	}
}

func taintsOf(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("example.com/%d=:NoSchedule", i))
	}
	return out
}

// aged is a node whose kubelet reports Ready so long after its creation.
func aged(by time.Duration) func(*build.NodeWrapper, *v1alpha1.NodeReadinessRule) {
	return func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) {
		n.Condition("Ready", "True", time.Now()).Heartbeat("Ready", time.Now().Add(by))
	}
}

func with(key, value string) func(*build.NodeWrapper, *v1alpha1.NodeReadinessRule) {
	return func(n *build.NodeWrapper, _ *v1alpha1.NodeReadinessRule) { n.Label(key, value) }
}

func completed(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
	n.Annotation(v1alpha1.Served().MarkerPrefix+string(rule.UID), "{}")
}

// forged is a node with a record that says that it is in service already.
func forged(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
	n.Annotation(v1alpha1.RecordAnnotationPrefix+string(rule.UID),
		`{"released":"`+time.Now().UTC().Add(2*time.Second).Format(time.RFC3339)+`"}`)
}

// claimed is a node with the record that admission writes.
func claimed(n *build.NodeWrapper, rule *v1alpha1.NodeReadinessRule) {
	n.Annotation(v1alpha1.RecordAnnotationPrefix+string(rule.UID), fmt.Sprintf(`{"rule":%q,"taint":%q}`, rule.Name, held))
}

func health() *v1alpha1.Health {
	return &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "node_ready"}}}
}

func deleted(ctx context.Context, rule *v1alpha1.NodeReadinessRule) {
	rule.Finalizers = []string{v1alpha1.Served().Finalizer}
	Expect(server.Client.Update(ctx, rule)).To(Succeed())
	Expect(server.Client.Delete(ctx, rule)).To(Succeed())
}

func inForceSoon(ctx context.Context, rule *v1alpha1.NodeReadinessRule) {
	rule.Status.ObservedGeneration = rule.Generation
	rule.Status.InForce = &v1alpha1.InForce{StartTime: metav1.NewTime(time.Now().Add(4 * time.Minute)),
		SelectorHash: ruleset.Compile(rule, nil, time.Now()).SelectorHash}
	Expect(server.Client.Status().Update(ctx, rule)).To(Succeed())
}

// circle are two rules that require each other.
func circle(pool string) []*build.RuleWrapper {
	first, second := network(pool), network(pool)
	second.Name += "-second"
	return []*build.RuleWrapper{first.After(second.Name), second.After(first.Name)}
}

// frozen says in the status of a rule that it is frozen, for a generation that is so many later.
func frozen(later int64) func(context.Context, *v1alpha1.NodeReadinessRule) {
	return func(ctx context.Context, rule *v1alpha1.NodeReadinessRule) {
		meta.SetStatusCondition(&rule.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady,
			Status: metav1.ConditionFalse,
			Reason: "Cycle", ObservedGeneration: rule.Generation + later})
		Expect(server.Client.Status().Update(ctx, rule)).To(Succeed())
	}
}

// sentinels are numbered: a rule that is stored last is also the last that any watch reports.
var sentinels int

// await waits until the engine at work knows all rules that are stored.
func await(ctx context.Context, kind Kind) {
	GinkgoHelper()
	sentinels++
	name := fmt.Sprintf("sentinel-%d", sentinels)
	rule := network(name).Taint("readiness.example.com/"+name, "", corev1.TaintEffectNoSchedule).Obj()
	Expect(server.Client.Create(ctx, rule)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, rule)).To(Succeed()) })
	Eventually(func(g Gomega) {
		node := build.MakeNode(name).Label(poolKey, name).Obj()
		g.Expect(server.Client.Create(ctx, node, client.DryRunAll)).To(Succeed())
		taints, records := stored(node)
		g.Expect(taints).To(HaveLen(1))
		g.Expect(strings.Contains(records[string(rule.UID)], "since")).To(Equal(kind == EngineWebhook))
	}).Should(Succeed())
}

// awaitEngine waits until the API server acts as well: it goes on for a moment with a policy that is deleted, as an
// update shows, which the webhook leaves alone when the policy has gated the node before.
func awaitEngine(ctx context.Context, kind Kind) {
	GinkgoHelper()
	name := "engine-" + string(kind)
	rule := network(name).Obj()
	Expect(server.Client.Create(ctx, rule)).To(Succeed())
	node := build.MakeNode(name).Obj()
	Expect(server.Client.Create(ctx, node)).To(Succeed())
	Eventually(func(g Gomega) {
		labelled := node.DeepCopy()
		labelled.Labels = map[string]string{poolKey: name}
		g.Expect(server.Client.Update(ctx, labelled, client.DryRunAll)).To(Succeed())
		_, records := stored(labelled)
		g.Expect(records).To(HaveKey(string(rule.UID)))
		g.Expect(strings.Contains(records[string(rule.UID)], "since")).To(Equal(kind == EngineWebhook))
	}).Should(Succeed())
	Expect(server.Client.Delete(ctx, node)).To(Succeed())
	Expect(server.Client.Delete(ctx, rule)).To(Succeed())
}

// stored is what a node has: taints, but for those of Kubernetes, and records, by the rule's UID.
func stored(node *corev1.Node) (taints []string, records map[string]string) {
	for _, t := range node.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			taints = append(taints, t.Key+"="+t.Value+":"+string(t.Effect))
		}
	}
	slices.Sort(taints)
	for key, value := range node.Annotations {
		if uid, ok := strings.CutPrefix(key, v1alpha1.RecordAnnotationPrefix); ok {
			if records == nil {
				records = map[string]string{}
			}
			records[uid] = value
		}
	}
	return taints, records
}

var pools int

// run carries a case out, and returns the node as it is in the end.
func (c *request) run(ctx context.Context, kind Kind) {
	if c.rules == nil {
		c.rules = one()
	}
	if c.gates {
		c.taints, c.claims = []string{held}, gated
	}
	pools++
	pool := fmt.Sprintf("pool-%d", pools)
	var rules []*v1alpha1.NodeReadinessRule
	create := func() {
		for _, r := range c.rules(pool) {
			rule := r.Obj()
			Expect(server.Client.Create(ctx, rule)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { remove(ctx, rule) })
			if c.stored != nil {
				c.stored(ctx, rule)
			}
			rules = append(rules, rule)
		}
		await(ctx, kind)
	}
	if !c.before {
		create()
	}
	wanted := build.MakeNode(pool)
	if !c.unmatched {
		wanted.Label(poolKey, pool)
	}
	if c.brings != nil {
		c.brings(wanted, rules[0])
	}
	node := wanted.Obj()
	asked := node.DeepCopy()
	as := server.Client
	if !c.admin {
		kubelet, err := server.As("system:node:"+node.Name, "system:nodes")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubelet.Create(ctx, node)).To(Succeed())
	} else {
		Expect(as.Create(ctx, node)).To(Succeed())
	}
	DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, node)).To(Succeed()) })
	alike := func(old *corev1.Node, kubelet bool) { // in the simulation, which has no webhook here
		if kind == EnginePolicy {
			taints, records := stored(simulate(ctx, old, asked, kubelet))
			gotTaints, gotRecords := stored(node)
			Expect(taints).To(Equal(gotTaints), "the taints in the simulation")
			Expect(records).To(Equal(gotRecords), "the records in the simulation")
		}
	}
	alike(nil, !c.admin)
	if c.before { // times of creation are in whole seconds
		Eventually(func() time.Duration { return time.Since(node.CreationTimestamp.Time) }).Should(BeNumerically(">",
			time.Second))
		create()
	}
	if c.cleaned {
		node.Spec.Taints, node.Annotations = nil, nil
		Expect(operator.Update(ctx, node)).To(Succeed())
	}
	if c.update != nil {
		old := node.DeepCopy()
		c.update(node, pool)
		asked = node.DeepCopy()
		if c.kubelet {
			kubelet, err := server.As("system:node:"+node.Name, "system:nodes")
			Expect(err).NotTo(HaveOccurred())
			as = kubelet
		}
		Expect(as.Update(ctx, node)).To(Succeed())
		alike(old, c.kubelet)
	}
	Expect(server.Client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	c.check(node, pool, rules, kind)
}

func (c *request) check(node *corev1.Node, pool string, rules []*v1alpha1.NodeReadinessRule, kind Kind) {
	GinkgoHelper()
	got, records := stored(node)
	want := slices.Clone(c.taints)
	slices.Sort(want)
	Expect(got).To(Equal(want))
	claims := map[string]string{}
	for _, rule := range rules {
		value, ok := records[string(rule.UID)]
		if !ok {
			continue
		}
		delete(records, string(rule.UID))
		var record struct {
			Rule, Taint, Since, Released string
			Late                         bool
		}
		Expect(json.Unmarshal([]byte(value), &record)).To(Succeed())
		Expect(record.Rule).To(Equal(rule.Name))
		Expect(record.Released).To(BeEmpty())
		if kind == EnginePolicy || c.unmatched && c.update == nil { // it has no clock, or the node has brought the claim
			Expect(record.Since).To(BeEmpty())
			Expect(record.Late).To(Equal(c.update != nil && !c.cleaned))
		} else {
			Expect(record.Since).NotTo(BeEmpty())
		}
		claims[strings.TrimPrefix(rule.Name, pool)] = record.Taint

		// And the controller knows it for its own.
		standing := nodeview.StateOf(ruleset.Compile(rule, nil, time.Now()), node, time.Now())
		Expect(standing.Claimed).To(BeTrue())
		Expect(standing.Released).To(BeFalse())
	}
	Expect(records).To(BeEmpty(), "records of other rules")
	if c.claims == nil {
		c.claims = map[string]string{}
	}
	Expect(claims).To(Equal(c.claims))
}

func remove(ctx context.Context, rule *v1alpha1.NodeReadinessRule) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(server.Client.Delete(ctx, rule))).To(Succeed())
	if len(rule.Finalizers) > 0 {
		rule.Finalizers = nil
		Expect(client.IgnoreNotFound(server.Client.Patch(ctx, rule, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	}
}

var _ = Describe("An engine", func() {
	for _, kind := range []Kind{EnginePolicy, EngineWebhook} {
		Context(string(kind), Ordered, func() {
			var counted float64
			BeforeAll(func(ctx context.Context) {
				if kind == EnginePolicy {
					server.Needs(GinkgoTB(), cluster.MutatingAdmissionPolicies)
					policy, err := server.ApplyConfig(ctx, nil, cluster.NodeAdmissionPolicy)
					Expect(err).NotTo(HaveOccurred())
					DeferCleanup(func(ctx context.Context) {
						for _, o := range policy {
							Expect(server.Client.Delete(ctx, o)).To(Succeed())
						}
					})
				}
				Eventually(engine.Acting).Should(Equal(kind))
				awaitEngine(ctx, kind)
				Expect(testutil.ToFloat64(engineInfo.WithLabelValues(string(kind)))).To(Equal(1.0))
				counted = testutil.ToFloat64(admittedTaints.WithLabelValues(string(EngineWebhook)))
			})
			AfterAll(func() {
				by := testutil.ToFloat64(admittedTaints.WithLabelValues(string(EngineWebhook))) - counted
				Expect(by > 0).To(Equal(kind == EngineWebhook), "the webhook has put %v taints on nodes", by)
			})
			for name, c := range requests {
				It(name, func(ctx context.Context) { c.run(ctx, kind) })
			}
			It("does nothing where kubelets may not do it themselves", func(ctx context.Context) {
				kubelet, err := server.As("system:node:itself", "system:nodes")
				Expect(err).NotTo(HaveOccurred())
				node := build.MakeNode("itself").Label("node-role.kubernetes.io/worker", "").Obj()
				Expect(apierrors.IsForbidden(kubelet.Create(ctx, node))).To(BeTrue())
			})
		})
	}
})
