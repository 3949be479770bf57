// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// poolLabels are labels that nodes of a pool have at their creation.
var poolLabels = []string{
	"karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-accelerator",
	"cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", corev1.LabelInstanceTypeStable,
	corev1.LabelArchStable,
}

// podLabels are prefixes of labels that Node Feature Discovery sets, or a controller because of them. Its pod must run
// on a node first.
var podLabels = []string{"feature.node.kubernetes.io/", "nvidia.com/"}

func podLabel(key string) bool {
	return slices.ContainsFunc(podLabels, func(p string) bool { return strings.HasPrefix(key, p) })
}

// labelers returns the DaemonSets that set labels with these prefixes.
func (s *suggester) labelers() []*lint.Workload {
	return s.all(func(w *lint.Workload) bool {
		const name = "node-feature-discovery"
		return strings.Contains(w.Name, name) || slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool {
			return strings.Contains(c.Image, name)
		})
	})
}

// setByPods returns a label that a pod needs its node to have and that another pod sets, or "".
func setByPods(pod *corev1.PodSpec) string {
	for key := range pod.NodeSelector {
		if podLabel(key) {
			return key
		}
	}
	found := ""
	for _, term := range terms(pod) {
		i := slices.IndexFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return podLabel(e.Key) && e.Operator != corev1.NodeSelectorOpDoesNotExist && e.Operator != corev1.NodeSelectorOpNotIn
		})
		if i < 0 {
			return "" // this term is enough
		}
		found = term.MatchExpressions[i].Key
	}
	return found
}

func terms(pod *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if a := pod.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// selector returns a selector for the nodes of a group by labels that nodes have at their creation, and whether it
// selects exactly these nodes.
func (s *suggester) selector(group []*component) (v1alpha1.NodeSelector, bool) {
	own, convertible := workers(), true
	for _, c := range group {
		for _, w := range c.providers {
			convertible = convertible && constrain(&own, w.Pod)
		}
	}
	// Devices are in some nodes only, even where all workers have them today: a label of their pool is better.
	hardware := group[0].kind == devices
	if convertible && s.selects(own, group[0].nodes) && (!hardware || !equality.Semantic.DeepEqual(own, workers())) {
		return own, true
	}
	everywhere := s.selects(workers(), group[0].nodes)
	if everywhere && !hardware {
		return workers(), true
	}
	for _, key := range poolLabels {
		if everywhere && key == corev1.LabelArchStable {
			continue // it tells no nodes apart
		}
		values := sets.New[string]()
		for _, n := range s.workers {
			if value := n.Labels[key]; slices.Contains(group[0].nodes, n.Name) {
				values.Insert(value)
			}
		}
		pool := workers()
		in := v1alpha1.NodeSelectorRequirement{Key: key, Operator: "In"}
		for _, value := range sets.List(values) {
			in.Values = append(in.Values, v1alpha1.LabelValue(value))
		}
		pool.MatchExpressions = append(pool.MatchExpressions, in)
		if !values.Has("") && s.selects(pool, group[0].nodes) {
			return pool, true
		}
	}
	return workers(), everywhere
}

// workers selects the Linux nodes without the control plane.
func workers() v1alpha1.NodeSelector {
	return v1alpha1.NodeSelector{
		MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelOSStable: "linux"},
		MatchExpressions: []v1alpha1.NodeSelectorRequirement{{Key: ruleset.ControlPlaneLabels[0],
			Operator: "DoesNotExist"}},
	}
}

// constrain adds to a selector what a pod requires of its node. It returns false if that is not possible, or if a pod
// sets the labels.
func constrain(selector *v1alpha1.NodeSelector, pod *corev1.PodSpec) bool {
	for key, value := range pod.NodeSelector {
		if have, ok := selector.MatchLabels[key]; podLabel(key) || ok && string(have) != value {
			return false
		}
		selector.MatchLabels[key] = v1alpha1.LabelValue(value)
	}
	alternatives := terms(pod)
	if len(alternatives) == 0 {
		return true
	}
	if len(alternatives) > 1 || len(alternatives[0].MatchFields) > 0 {
		return false
	}
	for _, e := range alternatives[0].MatchExpressions {
		r := v1alpha1.NodeSelectorRequirement{Key: e.Key, Operator: v1alpha1.NodeSelectorOperator(e.Operator)}
		for _, value := range e.Values {
			r.Values = append(r.Values, v1alpha1.LabelValue(value))
		}
		if podLabel(e.Key) || e.Operator == corev1.NodeSelectorOpGt || e.Operator == corev1.NodeSelectorOpLt {
			return false
		}
		known := func(o v1alpha1.NodeSelectorRequirement) bool {
			return o.Key == r.Key && o.Operator == r.Operator && slices.Equal(o.Values, r.Values)
		}
		linux := e.Key == corev1.LabelOSStable && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, "linux")
		if !linux && !slices.ContainsFunc(selector.MatchExpressions, known) {
			selector.MatchExpressions = append(selector.MatchExpressions, r)
		}
	}
	return true
}

// selects reports whether a selector selects exactly the named nodes.
func (s *suggester) selects(selector v1alpha1.NodeSelector, names []string) bool {
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Spec.NodeSelector = selector
	compiled := ruleset.Compile(rule, nil, s.Now)
	var out []string
	for _, n := range s.Nodes {
		if compiled.Matches(n.Labels) {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return slices.Equal(out, names)
}
