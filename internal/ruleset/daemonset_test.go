// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

// cluster is a cluster with some DaemonSets.
func cluster(of ...*build.DaemonSetWrapper) evidence.Cluster {
	return evidence.Cluster{TransientTaintPrefixes: evidence.DefaultTransientTaintPrefixes,
		DaemonSets: func(namespace string) (out []*evidence.DaemonSet) {
			for _, d := range of {
				if d.Namespace == namespace {
					out = append(out, evidence.CompileDaemonSet(d.Obj()))
				}
			}
			return out
		}}
}

// requires makes a rule of the DaemonSets of kube-system, with a taint example.com/<name>.
func requires(name string, edit ...func(*v1alpha1.NodeReadinessRule)) *Rule {
	r := build.MakeRule(name).UID("uid-"+name).Selector("pool", "a").DaemonSets("kube-system").MaxUnavailable("1").
		Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule).Obj()
	for _, e := range edit {
		e(r)
	}
	return Compile(r, nil, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

// TestTheDaemonSetControllerAddsTolerations: the taints that they are for do not keep pods off.
func TestTheDaemonSetControllerAddsTolerations(t *testing.T) {
	for hostNetwork, want := range map[bool]string{false: corev1.TaintNodeNetworkUnavailable, true: ""} {
		d := evidence.CompileDaemonSet(build.MakeDaemonSet("kube-system", "agent").
			Template(func(pod *corev1.PodSpec) { pod.HostNetwork = hostNetwork }).Obj())
		got := d.RepelledBy(build.MakeNode("n").Taint(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule).
			Taint(corev1.TaintNodeNetworkUnavailable, "", corev1.TaintEffectNoSchedule).Obj().Spec.Taints,
			func(*corev1.Taint) bool { return true })
		if got == nil && want != "" || got != nil && got.Key != want {
			t.Errorf("hostNetwork %t: %v keeps its pods off, want %q", hostNetwork, got, want)
		}
	}
}

func TestTheDaemonSetsThatBelongOnANode(t *testing.T) {
	agent := func() *build.DaemonSetWrapper {
		return build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/r")
	}
	node := build.MakeNode("n").Label("pool", "a").Label("disk", "ssd").
		Taint("example.com/r", "", corev1.TaintEffectNoSchedule)
	tainted := func(key string) *corev1.Node {
		return build.WrapNode(node.Obj()).Taint(key, "", corev1.TaintEffectNoSchedule).Obj()
	}
	hold := func(q *v1alpha1.DaemonSetsRequirement) { q.Untolerated = v1alpha1.UntoleratedHold }
	required := func(terms ...corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
		return func(pod *corev1.PodSpec) {
			pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	term := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op,
			Values: values}}}
	}
	const belongs, ignored = "belongs", "ignored"
	for name, tc := range map[string]struct {
		set  *build.DaemonSetWrapper
		node *corev1.Node
		edit func(*v1alpha1.DaemonSetsRequirement)
		want string
	}{
		"of another namespace": {set: build.MakeDaemonSet("default", "agent").Tolerate("")},
		"by another label":     {set: agent().Select("disk", "hdd")},
		"by the node's name": {set: agent().Template(func(p *corev1.PodSpec) { p.NodeName = "n" }),
			want: belongs},
		"by another node's name": {set: agent().Template(func(p *corev1.PodSpec) { p.NodeName = "m" })},
		"by the second term": {set: agent().Template(required(term("disk", "In", "hdd"), term("pool", "Exists"))),
			want: belongs},
		"by no term":                    {set: agent().Template(required(term("disk", "NotIn", "ssd")))},
		"by no term at all":             {set: agent().Template(required())},
		"by a term that cannot be read": {set: agent().Template(required(term("disk", "Gt", "ssd")))},
		"with a taint that lasts":       {set: agent(), node: tainted("example.com/gpu")},
		"with one that it tolerates": {set: agent().Tolerate("example.com/gpu"), node: tainted("example.com/gpu"),
			want: belongs},
		"on the control plane": {set: agent(), node: tainted("node-role.kubernetes.io/control-plane")},
		"on a brand-new node":  {set: agent(), node: tainted("node.kubernetes.io/not-ready"), want: belongs},
		"before the cloud knows the node": {set: agent(), node: tainted("node.cloudprovider.kubernetes.io/uninitialized"),
			want: belongs},
		"before Cilium runs":            {set: agent(), node: tainted("node.cilium.io/agent-not-ready"), want: belongs},
		"before Karpenter registers it": {set: agent(), node: tainted("karpenter.sh/unregistered"), want: belongs},
		"with another rule's taint":     {set: agent(), node: tainted("example.com/other"), want: belongs},
		"without a toleration":          {set: build.MakeDaemonSet("kube-system", "agent"), want: ignored},
		"without one, and Hold":         {set: build.MakeDaemonSet("kube-system", "agent"), edit: hold, want: belongs},
		"that is being deleted":         {set: deleted(agent())},
		"excluded": {set: agent(),
			edit: func(q *v1alpha1.DaemonSetsRequirement) { q.Exclude = exclude("kube-system", "agent") }},
		"another one excluded": {set: agent(),
			edit: func(q *v1alpha1.DaemonSetsRequirement) { q.Exclude = exclude("default", "agent") }, want: belongs},
		"by its own labels": {set: agent().Label("tier", "node"), edit: selecting("tier", "node"),
			want: belongs},
		"not by the labels of its pods": {set: agent(), edit: selecting("app", "agent")},
		"a taint that only prefers": {set: agent(), want: belongs,
			node: build.WrapNode(node.Obj()).Taint("x", "", corev1.TaintEffectPreferNoSchedule).Obj()},
		"out of the network, by default": {set: agent(), node: tainted(corev1.TaintNodeNetworkUnavailable), want: belongs},
	} {
		t.Run(name, func(t *testing.T) {
			rule := requires("r", func(r *v1alpha1.NodeReadinessRule) {
				if tc.edit != nil {
					tc.edit(r.Spec.Requirements[0].DaemonSets)
				}
			})
			other := requires("other", func(r *v1alpha1.NodeReadinessRule) { r.Spec.DryRun = true })
			set := NewSet(rule, other).withDaemonSets(cluster(tc.set), NewSet())
			on := node.Obj()
			if tc.node != nil {
				on = tc.node
			}
			p := set.Rule("uid-r").DaemonSets()[0].On(on, rule.Taint, set.ManagerName)
			got := ""
			switch {
			case len(p.Belong) == 1 && len(p.Ignored) == 0:
				got = belongs
			case len(p.Belong) == 0 && len(p.Ignored) == 1:
				got = ignored
			case len(p.Belong)+len(p.Ignored) != 0:
				t.Fatal(p)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func deleted(d *build.DaemonSetWrapper) *build.DaemonSetWrapper {
	d.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return d
}

func exclude(namespace, name string) []v1alpha1.DaemonSetReference {
	return []v1alpha1.DaemonSetReference{{Namespace: namespace, Name: name}}
}

func selecting(key string, value v1alpha1.LabelValue) func(*v1alpha1.DaemonSetsRequirement) {
	return func(q *v1alpha1.DaemonSetsRequirement) {
		q.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{key: value}}
	}
}

func TestARuleIsTheSameUntilItsDaemonSetsChange(t *testing.T) {
	rule, agent := requires("r"), build.MakeDaemonSet("kube-system", "agent").Tolerate("")
	first := NewSet(rule).withDaemonSets(cluster(agent), NewSet())
	again := &build.DaemonSetWrapper{DaemonSet: *agent.Obj()}
	again.ResourceVersion, again.Status = "2", appsv1.DaemonSetStatus{NumberReady: 1}
	if NewSet(rule).withDaemonSets(cluster(again), first).All()[0] != first.All()[0] {
		t.Error("a status makes it another rule")
	}
	for name, next := range map[string]evidence.Cluster{
		"another one": cluster(agent, build.MakeDaemonSet("kube-system", "more")),
		"none":        cluster(),
		"an edit":     cluster((&build.DaemonSetWrapper{DaemonSet: *agent.Obj()}).Select("a", "b")),
		"a label":     cluster((&build.DaemonSetWrapper{DaemonSet: *agent.Obj()}).Label("a", "b")),
	} {
		if NewSet(rule).withDaemonSets(next, first).All()[0] == first.All()[0] {
			t.Errorf("%s is not seen", name)
		}
	}
	plain := chain("a", "b: a")
	if plain.withDaemonSets(cluster(agent), first) != plain {
		t.Error("rules without DaemonSets are touched")
	}
}

func TestRulesThatWaitForEachOthersDaemonSetsAreFrozen(t *testing.T) {
	after := func(names ...string) func(*v1alpha1.NodeReadinessRule) {
		return func(r *v1alpha1.NodeReadinessRule) { *r = *build.WrapRule(r).After(names...).Obj() }
	}
	noAgents := func(r *v1alpha1.NodeReadinessRule) { r.Spec.Requirements = r.Spec.Requirements[1:] }
	agent := func(tolerates ...string) *build.DaemonSetWrapper {
		d := build.MakeDaemonSet("kube-system", "agent")
		for _, name := range tolerates {
			d.Tolerate("example.com/" + name)
		}
		return d
	}
	for name, tc := range map[string]struct {
		rules []*Rule
		sets  []*build.DaemonSetWrapper
		want  map[string]string // by rule: words of the problem
	}{
		"two": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents)},
			sets: []*build.DaemonSetWrapper{agent("a")},
			want: map[string]string{"a": "DaemonSet kube-system/agent does not tolerate taint example.com/b:NoSchedule " +
				"of rule b, and that rule waits for this one (b waits for a)"}},
		"two, and the agent tolerates both": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents)},
			sets: []*build.DaemonSetWrapper{agent("a", "b")}},
		"through a third": {rules: []*Rule{requires("a"),
			requires("b", after("c"), noAgents), requires("c", after("a"), noAgents)},
			sets: []*build.DaemonSetWrapper{agent("a", "c")}, want: map[string]string{"a": "(b waits for c waits for a)"}},
		"through a condition that the rule publishes": {rules: []*Rule{
			requires("a", func(r *v1alpha1.NodeReadinessRule) {
				r.Spec.Publish = &v1alpha1.Publish{ConditionType: "example.com/A"}
			}),
			requires("b", noAgents, func(r *v1alpha1.NodeReadinessRule) {
				r.Spec.Conditions = []v1alpha1.ConditionRequirement{{Type: "example.com/A", RequiredStatus: "True"}}
			})},
			sets: []*build.DaemonSetWrapper{agent("a")}, want: map[string]string{"a": "(b waits for a)"}},
		"both by DaemonSets": {rules: []*Rule{requires("a"), requires("b")},
			sets: []*build.DaemonSetWrapper{agent("a"), build.MakeDaemonSet("kube-system", "other").Tolerate("example.com/b")},
			want: map[string]string{"a": "kube-system/agent does not tolerate taint example.com/b",
				"b": "kube-system/other does not tolerate taint example.com/a"}},
		"one that is ignored anyway": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents)},
			sets: []*build.DaemonSetWrapper{agent()}},
		"on other nodes": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents,
			func(r *v1alpha1.NodeReadinessRule) { r.Spec.NodeSelector.MatchLabels["pool"] = "b" })},
			sets: []*build.DaemonSetWrapper{agent("a")}},
		"a DaemonSet of other nodes": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents)},
			sets: []*build.DaemonSetWrapper{agent("a").Select("pool", "b")}},
		"anyOf": {rules: []*Rule{requires("a", func(r *v1alpha1.NodeReadinessRule) { r.Spec.ConditionPolicy = "anyOf" }),
			requires("b", after("a"), noAgents)}, sets: []*build.DaemonSetWrapper{agent("a")}},
		"one that is being deleted": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents,
			func(r *v1alpha1.NodeReadinessRule) { r.DeletionTimestamp = new(metav1.Now()) })},
			sets: []*build.DaemonSetWrapper{agent("a")}},
		"the one with the DaemonSet is being deleted": {rules: []*Rule{requires("a", func(r *v1alpha1.NodeReadinessRule) {
			r.DeletionTimestamp = new(metav1.Now())
		}), requires("b", after("a"), noAgents)}, sets: []*build.DaemonSetWrapper{agent("a")}},
		"a taint that only prefers": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents,
			func(r *v1alpha1.NodeReadinessRule) { r.Spec.Taint.Effect = "PreferNoSchedule" })},
			sets: []*build.DaemonSetWrapper{agent("a")}},
		"no taint": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents,
			func(r *v1alpha1.NodeReadinessRule) { *r = *build.WrapRule(r).Untainted().Health("node_ready").Obj() })},
			sets: []*build.DaemonSetWrapper{agent("a")}},
		"in dry-run": {rules: []*Rule{requires("a"), requires("b", after("a"), noAgents,
			func(r *v1alpha1.NodeReadinessRule) { r.Spec.DryRun = true })}, sets: []*build.DaemonSetWrapper{agent("a")}},
		"in dry-run, and suspended with a rule that it requires": {rules: []*Rule{requires("a"), requires("b", after("a"),
			noAgents, func(r *v1alpha1.NodeReadinessRule) { r.Spec.DryRun = true }).Freeze(Problem{Reason: ReasonSuspended})},
			sets: []*build.DaemonSetWrapper{agent("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			set := NewSet(tc.rules...).withDaemonSets(cluster(tc.sets...), NewSet())
			got := map[string]string{}
			for _, r := range set.All() {
				if r.Mode == Frozen {
					got[r.Name] = r.Problems[0].Message
					if r.Problems[0].Reason != ReasonDeadlock || r.Problems[0].Field != "spec.requirements[0].daemonSets" {
						t.Error(r.Problems[0])
					}
				}
			}
			for name, words := range tc.want {
				if !strings.Contains(got[name], words) {
					t.Errorf("rule %s: %q does not say %q", name, got[name], words)
				}
			}
			if len(got) != len(tc.want) {
				t.Error(cmp.Diff(tc.want, got))
			}
			again := NewSet(tc.rules...).withDaemonSets(cluster(tc.sets...), set)
			for i := range set.All() {
				if again.All()[i] != set.All()[i] {
					t.Errorf("rule %s is another one, though nothing has changed", set.All()[i].Name)
				}
			}
		})
	}
}

func TestTheFieldOfADeadlock(t *testing.T) {
	rule := build.MakeRule("a").UID("uid-a").Selector("pool", "a").After("first").DaemonSets("default").
		DaemonSets("kube-system").MaxUnavailable("1").Taint("example.com/a", "", corev1.TaintEffectNoSchedule)
	rule.Spec.Requirements[1].Name = "others"
	waits := requires("b", func(r *v1alpha1.NodeReadinessRule) {
		r.Spec.Requirements = nil
		*r = *build.WrapRule(r).After("a").Obj()
	})
	set := NewSet(Compile(rule.Obj(), nil, start), waits).withDaemonSets(cluster(
		build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/a"), build.MakeDaemonSet("default",
			"other").Tolerate("")), NewSet())
	if p := set.Named("a").Problems; len(p) != 1 || p[0].Field != "spec.requirements[2].daemonSets" {
		t.Errorf("problems: %v", p)
	}
	for namespace, want := range map[string]bool{"kube-system": true, "default": true, "other": false} {
		if set.Named("a").Namespaces().Has(namespace) != want {
			t.Errorf("the rule reads namespace %s: %t", namespace, !want)
		}
	}
	pods := valid().Evidence(v1alpha1.Requirement{Name: "pods", Pods: &v1alpha1.PodsRequirement{Namespace: "storage",
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "csi"}}}})
	if got := Compile(pods.Obj(), nil, start).Namespaces(); !got.Has("storage") {
		t.Errorf("the rule with pods reads the namespaces %v", got)
	}
}
