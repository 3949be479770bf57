// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// pods warns about the workloads of the pods that the rule requires.
func (l *linter) pods() {
	for i := range l.rule.Requirements {
		p, ok := l.rule.Requirements[i].Kind.(*evidence.Pods)
		if !ok {
			continue
		}
		field := fmt.Sprintf("spec.requirements[%d].pods", i)
		if p.OwnerDaemonSet != "" && ptr.Deref(p.MinReady, 1) > 1 {
			l.warn(NeverSatisfied, field+".minReady", "a DaemonSet has one pod on a node: no node is ever ready; remove "+
				"minReady")
		}
		if l.facts.Workloads == nil {
			continue
		}
		made := l.madeBy(p)
		if len(made) == 0 {
			owner := ""
			if p.OwnerDaemonSet != "" {
				owner = " of DaemonSet " + p.OwnerDaemonSet
			}
			l.warn(NoEvidence, field, "no workload in namespace %s creates pods %s%s: until one does, no node is ready",
				p.Namespace, p.Labels, owner)
		}
		for _, w := range made {
			l.workload(field, p, w)
		}
	}
}

func (l *linter) workload(field string, p *evidence.Pods, w *Workload) {
	if t := l.rule.Taint; evidence.Repels(t) && !tolerates(w.Pod, t) {
		l.warn(Deadlock, field, "%s does not tolerate this rule's own taint %s, so it never starts on a held node: add a "+
			"toleration for %s", w, t.ToString(), t.Key)
	}
	if p.MinReadySeconds != nil || p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {
		return
	}
	for i := range w.Pod.Containers {
		if w.Pod.Containers[i].ReadinessProbe == nil {
			l.warn(NoReadinessProbe, field,
				"container %s of %s has no readiness probe, so it is ready as soon as it starts: its pods count as ready 10 "+
					"seconds later; add a readiness probe, or set minReadySeconds",
				w.Pod.Containers[i].Name, w)
			return
		}
	}
}

// daemonSets warns about the DaemonSets that the rule requires.
func (l *linter) daemonSets() {
	for i := range l.rule.Requirements {
		if q, ok := l.rule.Requirements[i].Kind.(*evidence.DaemonSets); ok {
			for _, namespace := range l.facts.unwatched(q) {
				l.warn(NoEvidence, fmt.Sprintf("spec.requirements[%d].daemonSets.namespaces", i), "the operator may not watch "+
					"DaemonSets of namespace %s, so the rule is frozen and has no effect: add the namespace to the chart value "+
					"%s, or see config/daemonset-evidence", namespace, evidence.DaemonSetSetting)
			}
		}
	}
	if l.facts.Workloads == nil || len(l.rule.DaemonSets()) == 0 {
		return
	}
	known := ruleset.Known{Cluster: evidence.Cluster{DaemonSets: l.facts.daemonSets}}
	rule := ruleset.NewSet(l.rest()...).With(l.rule).Resolve(known, ruleset.NewSet()).Named(l.rule.Name)
	for _, p := range rule.Problems {
		if p.Reason == ruleset.ReasonDeadlock {
			l.warn(Deadlock, p.Field, "%s", p.Message)
		}
	}
	for i := range l.rule.Requirements {
		if q, ok := l.rule.Requirements[i].Kind.(*evidence.DaemonSets); ok {
			l.untolerated(fmt.Sprintf("spec.requirements[%d].daemonSets", i), q.In(known.Cluster))
		}
	}
}

// untolerated warns about the DaemonSets of a requirement that do not tolerate the rule's own taint.
func (l *linter) untolerated(field string, q *evidence.DaemonSets) {
	var names []string
	for _, d := range q.Found {
		if !d.Tolerates(l.rule.Taint) {
			names = append(names, d.String())
		}
	}
	counted := len(q.Found)
	switch {
	case len(names) == 0:
	case q.Untolerated == v1alpha1.UntoleratedHold:
		l.warn(Deadlock, field, "the rule waits for DaemonSets that do not tolerate its own taint %s, and never have a pod "+
			"on the nodes that wait for them: %s: add a toleration to them, or exclude them", l.rule.Taint.ToString(),
			some(names))
	default:
		counted -= len(names)
		l.warn(LeftOut, field, "the rule leaves out DaemonSets that do not tolerate its own taint %s: %s: add a toleration "+
			"to them, or exclude them", l.rule.Taint.ToString(), some(names))
	}
	if counted < q.Least() && len(l.facts.unwatched(q)) == 0 { // or else the rule waits for none
		l.warn(NoEvidence, field, "the rule waits for %d of the DaemonSets in the cluster, and requires at least %d on each "+
			"node: until there are more, no node is ready; the operator sees them only in the namespaces of %s", counted,
			q.Least(), evidence.DaemonSetSetting)
	}
}

// daemonSets returns the DaemonSets of a namespace.
func (f *Facts) daemonSets(namespace string) (out []*evidence.DaemonSet) {
	for i := range f.Workloads {
		if d := f.Workloads[i].DaemonSet; d != nil && d.Namespace == namespace {
			out = append(out, d)
		}
	}
	return out
}

// unwatched returns the namespaces of a requirement whose DaemonSets the operator may not watch.
func (f *Facts) unwatched(q *evidence.DaemonSets) (out []string) {
	for _, namespace := range q.Namespaces {
		if slices.Contains(f.Unwatched, string(namespace)) {
			out = append(out, string(namespace))
		}
	}
	return out
}

// madeBy returns the workloads that create the pods of a requirement.
func (l *linter) madeBy(p *evidence.Pods) []*Workload {
	var out []*Workload
	for i := range l.facts.Workloads {
		w := &l.facts.Workloads[i]
		if w.Namespace != p.Namespace || !p.Labels.Matches(labels.Set(w.Labels)) {
			continue
		}
		if p.OwnerDaemonSet != "" && (w.Kind != "DaemonSet" || w.Name != p.OwnerDaemonSet) {
			continue
		}
		out = append(out, w)
	}
	return out
}

func (l *linter) operator() {
	t := l.rule.Taint
	if !evidence.Repels(t) {
		return
	}
	for i := range l.facts.Operator {
		if w := &l.facts.Operator[i]; !tolerates(w.Pod, t) {
			l.warn(Deadlock, "spec.taint", "the operator, %s, does not tolerate %s: if all nodes have this taint, the "+
				"operator cannot start and does not remove it; add a toleration with operator: Exists",
				w, t.ToString())
		}
	}
}

// tolerates reports whether a pod tolerates a taint without a time limit.
func tolerates(pod *corev1.PodSpec, t *corev1.Taint) bool {
	o := evidence.Toleration(pod.Tolerations, t)
	return o != nil && (t.Effect != corev1.TaintEffectNoExecute || o.TolerationSeconds == nil)
}

// controlPlane warns about a rule that selects control-plane nodes, unless its selector names their label.
func (l *linter) controlPlane() {
	if l.rule.Taint == nil {
		return
	}
	requirements, selectable := l.rule.Selector.Requirements()
	if !selectable {
		return
	}
	for _, r := range requirements {
		if needs(r) && slices.Contains(ruleset.ControlPlaneLabels, r.Key()) {
			return // on purpose
		}
	}
	const todo = "exclude them with {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}"
	if l.facts.Nodes != nil {
		var names []string
		for _, n := range l.facts.selected(l.rule) {
			if ruleset.ControlPlane(n.Labels) {
				names = append(names, n.Name)
			}
		}
		if len(names) > 0 {
			l.warn(ControlPlane, "spec.nodeSelector", "selects %s of the control plane (%s): if you do not want this, %s",
				text.Nodes(len(names)), some(names), todo)
		}
		return
	}
	for _, arch := range []string{"amd64", "arm64"} {
		typical := labels.Set{corev1.LabelOSStable: "linux", corev1.LabelArchStable: arch,
			corev1.LabelHostname: "control-plane", ruleset.ControlPlaneLabels[0]: ""}
		if l.rule.Selector.Matches(typical) {
			l.warn(ControlPlane, "spec.nodeSelector", "selects nodes of the control plane, too: if you do not want "+
				"this, %s", todo)
			return
		}
	}
}

// some names a few of them.
func some(names []string) string {
	slices.Sort(names)
	return text.Few(names, 3, len(names))
}
