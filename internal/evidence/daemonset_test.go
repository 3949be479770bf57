// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

// TestLeavesOutOnlyDaemonSetsThatTheRulesTaintKeepsOff: a rule may also have no taint.
func TestLeavesOutOnlyDaemonSetsThatTheRulesTaintKeepsOff(t *testing.T) {
	taint := func(effect corev1.TaintEffect) *corev1.Taint {
		return &corev1.Taint{Key: "example.com/t", Effect: effect}
	}
	for name, c := range map[string]struct {
		own     *corev1.Taint
		ignored int
	}{
		"no taint":         {nil, 0},
		"PreferNoSchedule": {taint(corev1.TaintEffectPreferNoSchedule), 0},
		"NoSchedule":       {taint(corev1.TaintEffectNoSchedule), 1},
		"NoExecute":        {taint(corev1.TaintEffectNoExecute), 1},
	} {
		q := &evidence.DaemonSets{Found: []*evidence.DaemonSet{
			evidence.CompileDaemonSet(build.MakeDaemonSet("kube-system", "agent").Obj())}}
		p := q.On(build.MakeNode("n").Obj(), c.own, func(*corev1.Taint) string { return "" })
		if len(p.Ignored) != c.ignored || len(p.Belong) != 1-c.ignored {
			t.Errorf("%s: %d belong on the node, %d are left out", name, len(p.Belong), len(p.Ignored))
		}
	}
}

func TestADaemonSetThatIsRecreatedOrDeletedIsAnotherOne(t *testing.T) {
	agent := build.MakeDaemonSet("kube-system", "agent").Obj()
	recreated, deleted := agent.DeepCopy(), agent.DeepCopy()
	recreated.UID = "another"
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
	if d := evidence.CompileDaemonSet(agent); !d.Alike(evidence.CompileDaemonSet(agent)) ||
		d.Alike(evidence.CompileDaemonSet(recreated)) || d.Alike(evidence.CompileDaemonSet(deleted)) {
		t.Error("a change is not seen, or one is seen that is none")
	}
}

// TestTheOrderOfDaemonSetsDoesNotMatter: a cache returns them in any order, and that does not make another rule.
func TestTheOrderOfDaemonSetsDoesNotMatter(t *testing.T) {
	in := func(names ...string) *evidence.DaemonSets {
		q := &evidence.DaemonSets{Labels: labels.Everything()}
		q.Namespaces = []v1alpha1.NamespaceName{"kube-system"}
		return q.In(evidence.Cluster{DaemonSets: func(namespace string) (out []*evidence.DaemonSet) {
			for _, name := range names {
				out = append(out, evidence.CompileDaemonSet(build.MakeDaemonSet(namespace, name).Obj()))
			}
			return out
		}})
	}
	if !in("a", "b").Alike(in("b", "a")) {
		t.Error("the order makes another rule")
	}
}

// TestATaintOfAnotherRuleKeepsAnyDaemonSetAwayThatMayRunThere: only required labels of nodes count.
func TestATaintOfAnotherRuleKeepsAnyDaemonSetAwayThatMayRunThere(t *testing.T) {
	pool := labels.SelectorFromSet(labels.Set{"pool": "a"})
	required := func(pools ...string) *corev1.Affinity {
		var terms []corev1.NodeSelectorTerm
		for _, p := range pools {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{p}}}})
		}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	for name, c := range map[string]struct {
		affinity *corev1.Affinity
		want     bool
	}{
		"none":                {nil, true},
		"of pods":             {&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}, true},
		"that is no must":     {&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, true},
		"to other nodes":      {required("b", "c"), false},
		"to these and others": {required("b", "a"), true},
	} {
		q := &evidence.DaemonSets{Found: []*evidence.DaemonSet{evidence.CompileDaemonSet(
			build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/own").Template(func(p *corev1.PodSpec) {
				p.Affinity = c.affinity
			}).Obj())}}
		own, by := &corev1.Taint{Key: "example.com/own", Effect: corev1.TaintEffectNoSchedule},
			&corev1.Taint{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule}
		if got := q.KeptAway(own, by, pool, pool) != nil; got != c.want {
			t.Errorf("affinity %s: kept away is %t", name, got)
		}
	}
}
