// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// DaemonSet is a compiled DaemonSet. It has only what rules need, and does not change.
type DaemonSet struct {
	// ObjectMeta has the name, UID, version, generation, labels, and times of creation and deletion.
	metav1.ObjectMeta
	MinReadySeconds int32

	nodeName    string
	tolerations []corev1.Toleration
	affinity    nodeaffinity.RequiredNodeAffinity
	reach       []labels.Selector // a node must match one of them; nil means unknown
}

// CompileDaemonSet compiles a DaemonSet.
func CompileDaemonSet(ds *appsv1.DaemonSet) *DaemonSet {
	pod := &ds.Spec.Template.Spec
	return &DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID, ResourceVersion: ds.ResourceVersion,
			Generation: ds.Generation, Labels: ds.Labels, CreationTimestamp: ds.CreationTimestamp,
			DeletionTimestamp: ds.DeletionTimestamp,
		},
		MinReadySeconds: ds.Spec.MinReadySeconds,
		nodeName:        pod.NodeName,
		tolerations:     append(slices.Clip(pod.Tolerations), addedTolerations(pod)...),
		affinity:        nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *pod}),
		reach:           reachOf(pod),
	}
}

// addedTolerations returns the tolerations that the DaemonSet controller adds to a pod.
func addedTolerations(pod *corev1.PodSpec) []corev1.Toleration {
	added := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	if pod.HostNetwork {
		added = append(added, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable,
			Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range added {
		added[i].Operator = corev1.TolerationOpExists
	}
	return added
}

// String returns the namespace and the name.
func (d *DaemonSet) String() string { return d.Namespace + "/" + d.Name }

// Alike reports whether two versions of a DaemonSet are the same for every rule.
func (d *DaemonSet) Alike(o *DaemonSet) bool {
	return d.UID == o.UID && d.Generation == o.Generation && maps.Equal(d.Labels, o.Labels) &&
		d.DeletionTimestamp.IsZero() == o.DeletionTimestamp.IsZero()
}

// Fits reports whether the DaemonSet controller creates a pod for a node, without regard to taints.
func (d *DaemonSet) Fits(node *corev1.Node) bool {
	if d.nodeName != "" && d.nodeName != node.Name {
		return false
	}
	fits, _ := d.affinity.Match(node) // the controller ignores parsing errors, too
	return fits
}

// RepelledBy returns the first taint that counts and keeps the DaemonSet's pods off a node, or nil.
func (d *DaemonSet) RepelledBy(taints []corev1.Taint, counts func(*corev1.Taint) bool) *corev1.Taint {
	for i := range taints {
		if t := &taints[i]; Repels(t) && counts(t) && Toleration(d.tolerations, t) == nil {
			return t
		}
	}
	return nil
}

// Tolerates reports whether a taint does not keep the DaemonSet's pods off.
func (d *DaemonSet) Tolerates(t *corev1.Taint) bool {
	return !Repels(t) || Toleration(d.tolerations, t) != nil
}

// Repels reports whether a taint keeps pods off.
func Repels(t *corev1.Taint) bool {
	return t != nil && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute)
}

// DaemonSetSetting is the chart value that lets the operator list the DaemonSets of namespaces.
const DaemonSetSetting = "daemonSetNamespaces"

// DefaultTransientTaintPrefixes are the default of Cluster.TransientTaintPrefixes: taints of autoscalers and of Cilium.
var DefaultTransientTaintPrefixes = []string{
	"karpenter.sh/", "readiness.k8s.io/", "startup-taint.cluster-autoscaler.kubernetes.io/",
	"ignore-taint.cluster-autoscaler.kubernetes.io/", "status-taint.cluster-autoscaler.kubernetes.io/",
	"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "node.cilium.io/",
}

// DaemonSets is a compiled requirement of DaemonSets.
type DaemonSets struct {
	v1alpha1.DaemonSetsRequirement
	// Labels is the compiled selector.
	Labels labels.Selector
	// Found are the DaemonSets that the requirement selects, ordered by namespace and name, except those that are being
	// deleted. In sets it.
	Found []*DaemonSet

	transient []string
}

// Placement holds the DaemonSets of a requirement that belong on a node.
type Placement struct {
	// Belong are those that the requirement counts.
	Belong []*DaemonSet
	// Ignored are those that the requirement leaves out because they do not tolerate the rule's own taint.
	Ignored []*DaemonSet
}

// On returns the DaemonSets that belong on a node. own is the rule's taint. Taints that a rule manages do not count,
// because they are temporary.
func (q *DaemonSets) On(node *corev1.Node, own *corev1.Taint, manager func(*corev1.Taint) string) Placement {
	out := Placement{Belong: make([]*DaemonSet, 0, len(q.Found))}
	lasting := func(t *corev1.Taint) bool { return q.lasting(t) && manager(t) == "" }
	for _, d := range q.Found {
		switch {
		case !d.Fits(node) || d.RepelledBy(node.Spec.Taints, lasting) != nil:
		case q.ignores(d, own):
			out.Ignored = append(out.Ignored, d)
		default:
			out.Belong = append(out.Belong, d)
		}
	}
	return out
}

// kubernetesTransient are the prefixes of taints that Kubernetes adds and removes while a node runs.
var kubernetesTransient = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"}

// lasting reports whether a taint that no rule manages is permanent.
func (q *DaemonSets) lasting(t *corev1.Taint) bool {
	for _, prefixes := range [][]string{kubernetesTransient, q.transient} {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Key, p) }) {
			return false
		}
	}
	return true
}

// ignores reports whether the requirement leaves a DaemonSet out because of the rule's own taint.
func (q *DaemonSets) ignores(d *DaemonSet, own *corev1.Taint) bool {
	return q.Untolerated != v1alpha1.UntoleratedHold && !d.Tolerates(own)
}

// selects reports whether the requirement selects a DaemonSet.
func (q *DaemonSets) selects(d *DaemonSet) bool {
	return d.DeletionTimestamp.IsZero() && q.Labels.Matches(labels.Set(d.Labels)) &&
		!slices.Contains(q.Exclude, v1alpha1.DaemonSetReference{Namespace: d.Namespace, Name: d.Name})
}

// Cluster is the part of a cluster's state that is compiled into rules.
type Cluster struct {
	// DaemonSets returns all DaemonSets of a namespace.
	DaemonSets func(namespace string) []*DaemonSet
	// TransientTaintPrefixes are the prefixes of temporary taints.
	TransientTaintPrefixes []string
}

// In returns the requirement with the DaemonSets of a cluster.
func (q *DaemonSets) In(cluster Cluster) *DaemonSets {
	out := *q
	out.transient = cluster.TransientTaintPrefixes
	for _, namespace := range q.Namespaces {
		for _, d := range cluster.DaemonSets(string(namespace)) {
			if q.selects(d) {
				out.Found = append(out.Found, d)
			}
		}
	}
	slices.SortFunc(out.Found, func(a, b *DaemonSet) int { return strings.Compare(a.String(), b.String()) })
	return &out
}

// Alike reports whether both have the same DaemonSets.
func (q *DaemonSets) Alike(o *DaemonSets) bool {
	return slices.EqualFunc(q.Found, o.Found, (*DaemonSet).Alike)
}

// KeptAway returns a DaemonSet that the requirement counts and a taint of another rule keeps away from nodes that both
// rules select, or nil. own is the taint of the rule with the requirement.
func (q *DaemonSets) KeptAway(own, by *corev1.Taint, rule, other labels.Selector) *DaemonSet {
	if Disjoint(rule, other) {
		return nil
	}
	for _, d := range q.Found {
		if !d.Tolerates(by) && !q.ignores(d, own) && d.mayReach(rule, other) {
			return d
		}
	}
	return nil
}

// mayReach reports whether pods of the DaemonSet may run on nodes that all selectors select.
func (d *DaemonSet) mayReach(selectors ...labels.Selector) bool {
	return d.reach == nil || slices.ContainsFunc(d.reach, func(reach labels.Selector) bool {
		return !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return Disjoint(reach, s) })
	})
}

// operators maps operators of node affinity to those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// reachOf returns selectors of which a node must match one, by the labels that a pod requires.
func reachOf(pod *corev1.PodSpec) []labels.Selector {
	chosen := labels.SelectorFromSet(pod.NodeSelector)
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil ||
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return []labels.Selector{chosen}
	}
	var out []labels.Selector
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		reach := chosen.DeepCopySelector()
		for _, e := range term.MatchExpressions {
			if r, err := labels.NewRequirement(e.Key, operators[e.Operator], e.Values); err == nil {
				reach = reach.Add(*r) // the operators Gt and Lt are left out
			}
		}
		out = append(out, reach)
	}
	return out
}
