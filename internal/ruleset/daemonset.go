// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	// deleted. Set.WithDaemonSets sets it.
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

// On returns the DaemonSets that belong on a node. own is the rule's taint. Taints of the rules in all do not count,
// because they are temporary.
func (q *DaemonSets) On(node *corev1.Node, own *corev1.Taint, all *Set) Placement {
	out := Placement{Belong: make([]*DaemonSet, 0, len(q.Found))}
	lasting := func(t *corev1.Taint) bool { return q.lasting(t) && all.Manager(t) == nil }
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

// DaemonSets returns the requirements of DaemonSets of a rule.
func (r *Rule) DaemonSets() []*DaemonSets {
	var out []*DaemonSets
	for i := range r.Requirements {
		if q := r.Requirements[i].DaemonSets; q != nil {
			out = append(out, q)
		}
	}
	return out
}

// Cluster is the part of a cluster's state that is compiled into rules.
type Cluster struct {
	// DaemonSets returns all DaemonSets of a namespace.
	DaemonSets func(namespace string) []*DaemonSet
	// TransientTaintPrefixes are the prefixes of temporary taints.
	TransientTaintPrefixes []string
}

// WithDaemonSets returns the set with the DaemonSets of a cluster in its requirements. It freezes rules that wait for
// each other because of them. before is the former result. A rule for which nothing has changed is the same as in
// before.
func (s *Set) WithDaemonSets(in Cluster, before *Set) *Set {
	if !s.daemonSets {
		return s
	}
	rules := slices.Clone(s.rules)
	for i, r := range rules {
		if r.Mode != Deleting && r.Mode != Frozen && len(r.DaemonSets()) > 0 {
			rules[i] = r.withDaemonSets(in, before.Rule(r.UID))
		}
	}
	return NewSet(rules...).breakDeadlocks(before)
}

func (r *Rule) withDaemonSets(in Cluster, before *Rule) *Rule {
	bare := cmp.Or(r.bare, r)
	out := *bare
	out.bare = bare
	out.Requirements = slices.Clone(bare.Requirements)
	for i := range out.Requirements {
		if q := out.Requirements[i].DaemonSets; q != nil {
			out.Requirements[i].DaemonSets = q.in(in)
		}
	}
	if before != nil && before.thawed != nil {
		before = before.thawed
	}
	if before != nil && before.bare == bare && slices.EqualFunc(before.DaemonSets(), out.DaemonSets(), alike) {
		return before
	}
	return &out
}

func (q *DaemonSets) in(cluster Cluster) *DaemonSets {
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

func alike(a, b *DaemonSets) bool { return slices.EqualFunc(a.Found, b.Found, (*DaemonSet).Alike) }
