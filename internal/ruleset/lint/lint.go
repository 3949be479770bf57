// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Code names a kind of warning.
type Code string

// The kinds of warnings. Those of replacements are beside their checks.
var (
	// SharedTaint: another rule may claim the same taint on the same nodes.
	SharedTaint = kind("SharedTaint")
	// ConditionTaken: another rule may publish the same condition on the same nodes, or a probe of the rule does.
	ConditionTaken = kind("ConditionTaken")
	// RemoteAddress: a probe or a health check asks another machine, which node agents do only with --allow-remote.
	RemoteAddress = kind("RemoteAddress")
	// SmallDomains: a percentage of each failure domain is most of the nodes of small domains.
	SmallDomains = kind("SmallDomains")
	// FewDomains: most nodes lack the label of a failure domain, or there are no more domains than maxDomains.
	FewDomains = kind("FewDomains")
	// NoMaxUnavailable: a NoExecute taint may evict the pods of any number of nodes at once.
	NoMaxUnavailable = kind("NoMaxUnavailable")
	// PublishedUnlimited: any number of nodes may be marked False for remediators at once.
	PublishedUnlimited = kind("PublishedUnlimited")
	// KubeletCannotLabel: the selector needs a label that a kubelet cannot set on its own node.
	KubeletCannotLabel = kind("KubeletCannotLabel")
	// UnknownToAutoscalers: no autoscaler treats the taint as temporary.
	UnknownToAutoscalers = kind("UnknownToAutoscalers")
	// StartupTaint: one kind of autoscaler must be configured to treat the taint as temporary.
	StartupTaint = kind("StartupTaint")
	// AutoscalerLimit: the rule may taint so many nodes that cluster-autoscaler stops scaling the cluster.
	AutoscalerLimit = kind("AutoscalerLimit")
	// ShortMaxAge: a condition of kubelet or of a probe becomes stale between two reports.
	ShortMaxAge = kind("ShortMaxAge")
	// ShortTimeout: the timeout ends before a node can be ready.
	ShortTimeout = kind("ShortTimeout")
	// NeverRepeated: a condition is reported only once, so it stays stale, or from before the boot.
	NeverRepeated = kind("NeverRepeated")
	// Deadlock: a pod that the rule waits for, or the operator, does not tolerate the rule's taint, or that of a rule
	// which waits for this one.
	Deadlock = kind("Deadlock")
	// LeftOut: DaemonSets do not tolerate the rule's taint, so that the rule does not wait for them.
	LeftOut = kind("LeftOut")
	// SelectsNothing: the rule selects none of the nodes.
	SelectsNothing = kind("SelectsNothing")
	// NoEvidence: no workload in the cluster creates the pods that the rule requires, or nothing reports a condition.
	NoEvidence = kind("NoEvidence")
	// NoReadinessProbe: pods that the rule requires count as ready as soon as they have started.
	NoReadinessProbe = kind("NoReadinessProbe")
	// ControlPlane: the rule selects nodes of the control plane.
	ControlPlane = kind("ControlPlane")
	// UnknownRule: the rule requires a rule that does not exist, or checks its verdict.
	UnknownRule = kind("UnknownRule")
	// NotServed: nothing in the cluster serves a field of the rule.
	NotServed = kind("NotServed")
	// TakesEffect: a write puts the rule in force, or ends that. Only the operator's webhook knows.
	TakesEffect = kind("TakesEffect")
	// NeverSatisfied: the rule requires a rule that cannot select any of its nodes, or two pods of a DaemonSet.
	NeverSatisfied = kind("NeverSatisfied")
)

// UnknownCode is about a rule that accepts a warning that does not exist. No rule can accept this one.
const UnknownCode Code = "UnknownCode"

// Warning is something that the author of a rule should know.
type Warning struct {
	// Code names the kind of warning.
	Code Code
	// Field is the path of the field that it is about, such as spec.taint.key.
	Field string
	// Message says what will happen and what to do.
	Message string
}

// String returns the field and the message.
func (w Warning) String() string { return w.Field + ": " + w.Message }

// Facts are the facts about the cluster. A field that is nil is unknown, and causes no warning.
type Facts struct {
	// Nodes are all nodes.
	Nodes []*corev1.Node
	// Workloads are the workloads in the namespaces that rules name, and the pods that have none.
	Workloads []Workload
	// Drivers are the CSI drivers that nodes have registered, by the node.
	Drivers map[string][]string
	// Operator are the workloads of the operator.
	Operator []Workload
	// Unwatched are namespaces whose DaemonSets the operator may not watch.
	Unwatched []string
	// KeyPrefixes are the prefixes of the keys that the operator allows in rules. Without any, all keys are allowed.
	KeyPrefixes []string
	// Served is what runs in the cluster beside the operator.
	Served Served
}

// Workload is a DaemonSet, a Deployment or a similar object, or a pod without one.
type Workload struct {
	Kind, Namespace, Name string
	// Labels are the labels of its pods.
	Labels map[string]string
	// Pod is the spec of its pods.
	Pod *corev1.PodSpec
	// DaemonSet is the compiled DaemonSet, or nil if the workload is another one.
	DaemonSet *evidence.DaemonSet
}

// DaemonSet returns a DaemonSet as a workload.
func DaemonSet(d *appsv1.DaemonSet) Workload {
	return Workload{Kind: "DaemonSet", Namespace: d.Namespace, Name: d.Name, Labels: d.Spec.Template.Labels,
		Pod: &d.Spec.Template.Spec, DaemonSet: evidence.CompileDaemonSet(d)}
}

func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// Warnings returns the warnings about a rule. others are all rules, or nil if they are unknown. The rule replaces the
// one of the same name among them.
func Warnings(rule *ruleset.Rule, others *ruleset.Set, facts Facts) []Warning {
	l := &linter{rule: rule, others: others, facts: facts}
	l.nodes()
	l.reporters()
	l.registered()
	l.sharedTaint()
	l.probes()
	l.remote()
	l.health()
	l.limit()
	l.publish()
	l.replace()
	l.labels()
	l.autoscalers()
	l.conditions()
	l.timeout()
	l.pods()
	l.daemonSets()
	l.found = append(l.found, KeptAway(rule, facts.Workloads)...)
	l.operator()
	l.controlPlane()
	l.required()
	return append(l.found, Unserved(rule, facts.Served)...)
}

// Problems returns why a rule is invalid, on its own or because of other rules, or why the operator freezes it.
func Problems(rule *ruleset.Rule, others *ruleset.Set, facts Facts) []ruleset.Problem {
	if others == nil {
		others = ruleset.NewSet()
	}
	out := append(slices.Clip(rule.Problems), others.With(rule).Invalid(rule)...)
	for _, p := range []*ruleset.Problem{others.Foreign().Problem(rule), rule.Forbidden(facts.KeyPrefixes)} {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out
}

type linter struct {
	rule   *ruleset.Rule
	others *ruleset.Set
	facts  Facts
	found  []Warning
}

func (l *linter) warn(code Code, field, format string, args ...any) {
	l.found = append(l.found, Warning{Code: code, Field: field, Message: fmt.Sprintf(format, args...)})
}

// rest returns the rules with other names.
func (l *linter) rest() []*ruleset.Rule {
	if l.others == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.others.All()), func(r *ruleset.Rule) bool {
		return r.Name == l.rule.Name || r.Mode == ruleset.Deleting
	})
}

// overlapping returns the rules with other names that may select the same nodes.
func (l *linter) overlapping() []*ruleset.Rule {
	return slices.DeleteFunc(l.rest(), func(r *ruleset.Rule) bool {
		return evidence.Disjoint(l.rule.Selector, r.Selector)
	})
}

// selected returns the nodes that all of these rules select.
func (f *Facts) selected(by ...*ruleset.Rule) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(f.Nodes), func(n *corev1.Node) bool {
		return slices.ContainsFunc(by, func(r *ruleset.Rule) bool { return !r.Matches(n.Labels) })
	})
}

// probes reports whether a rule has a probe that publishes a condition.
func probes(r *ruleset.Rule, condition string) bool {
	return slices.ContainsFunc(r.Spec.Probes, func(p v1alpha1.Probe) bool { return p.ConditionType == condition })
}

// publishes reports whether a rule publishes a condition, as its verdict or by a probe.
func publishes(r *ruleset.Rule, condition string) bool {
	return probes(r, condition) || r.Spec.Publishes() == condition
}

func (l *linter) sharedTaint() {
	t := l.rule.Taint
	if t == nil {
		return
	}
	for _, o := range l.overlapping() {
		if o.Taint != nil && o.Taint.MatchTaint(t) {
			l.warn(SharedTaint, "spec.taint", "rule %s has the same taint %s:%s: on %s it stays until both rules are "+
				"satisfied, and the rule that added it first sets its value", o.Name, t.Key, t.Effect, l.whereBoth(o))
		}
	}
}

// whereBoth names nodes that another rule selects, too.
func (l *linter) whereBoth(o *ruleset.Rule) string {
	const where = "nodes that both select"
	if l.facts.Nodes == nil {
		return where
	}
	return fmt.Sprintf("%s (%d at present)", where, len(l.facts.selected(l.rule, o)))
}

// probes warns about conditions that another rule publishes, too. A rule that is not stored yet is the younger one.
func (l *linter) probes() {
	for i := range l.rule.Spec.Probes {
		condition := l.rule.Spec.Probes[i].ConditionType
		for _, o := range l.overlapping() {
			if !probes(o, condition) {
				continue
			}
			older := o.Name
			if !l.rule.CreatedAt.IsZero() && ruleset.Older(l.rule, o) < 0 {
				older = l.rule.Name
			}
			l.warn(ConditionTaken, fmt.Sprintf("spec.probes[%d].conditionType", i),
				"rule %s publishes the condition %s, too: on %s only the probe of rule %s runs, because it is the older "+
					"rule", o.Name, condition, l.whereBoth(o), older)
		}
	}
}

// publish warns about other rules and probes that publish the rule's condition, and about a missing limit.
func (l *linter) publish() {
	t := l.rule.Spec.Publishes()
	if t == "" {
		return
	}
	for _, o := range l.overlapping() {
		if publishes(o, t) {
			l.warn(ConditionTaken, "spec.publish.conditionType", "rule %s publishes the condition %s, too: on %s only one of "+
				"the two publishes it, a probe before a rule and an older rule before a younger one", o.Name, t, l.whereBoth(o))
		}
	}
	if probes(l.rule, t) {
		l.warn(ConditionTaken, "spec.publish.conditionType", "a probe of this rule publishes the condition %s, so the rule "+
			"itself never does: choose another type", t)
	}
	if !l.rule.Limit.Total() {
		u := l.unlimited("10%")
		l.warn(PublishedUnlimited, u.field, "publish without %s: if one reporter breaks, the condition turns False on %s, "+
			"and a remediator may delete them all; %s", u.without, u.nodes, u.cure)
	}
}

// labels warns about labels that the selector needs and that a kubelet cannot set.
func (l *linter) labels() {
	requirements, _ := l.rule.Selector.Requirements()
	for _, r := range requirements {
		if !needs(r) || kubeletMaySet(r.Key()) {
			continue
		}
		l.warn(KubeletCannotLabel, "spec.nodeSelector",
			"a kubelet cannot set the label %s on its own node: a new node matches only after another user has set it, and "+
				"pods may start before that; select a label that the kubelet can set with --node-labels", r.Key())
	}
}

// minimumKubeletAge is twice the maximum time between two reports of kubelet's conditions, in seconds.
const minimumKubeletAge = 900

func (l *linter) conditions() {
	for i, c := range l.rule.Spec.Conditions {
		if corev1.NodeConditionType(c.Type) == corev1.NodeNetworkUnavailable && l.rule.Spec.RearmsOnReboot() {
			l.warn(NeverRepeated, "spec.rearmOn", "condition %s is set once, and many network plugins do not set it again "+
				"after a reboot: the node then stays tainted; require a condition or pods of the network plugin instead, or "+
				"remove rearmOn", c.Type)
		}
		if c.MaxAgeSeconds == nil {
			continue
		}
		field := fmt.Sprintf("spec.conditions[%d].maxAgeSeconds", i)
		switch corev1.NodeConditionType(c.Type) {
		case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
			if *c.MaxAgeSeconds < minimumKubeletAge {
				l.warn(ShortMaxAge, field,
					"kubelet reports condition %s every 5 minutes, up to 450 seconds apart: it becomes stale on healthy nodes; set "+
						"at least %d, or remove maxAgeSeconds: Kubernetes sets the condition to Unknown when a kubelet stops reporting",
					c.Type, minimumKubeletAge)
			}
		case corev1.NodeNetworkUnavailable:
			l.warn(NeverRepeated, field, "condition %s is set once and not repeated, so it becomes stale and stays stale: "+
				"remove maxAgeSeconds", c.Type)
		default:
			if apart := l.repeated(c.Type); *c.MaxAgeSeconds <= apart {
				l.warn(ShortMaxAge, field, "node agents repeat condition %s every 5 minutes, up to %d seconds apart: it becomes "+
					"stale on healthy nodes; set more than that", c.Type, apart)
			}
		}
	}
}

// repeated returns the maximum time between two reports of a condition of a probe, in seconds, or 0 if no probe
// publishes it. Agents report an unchanged condition after the probe's first run that begins 5 minutes later. Runs are
// up to a tenth of the period further apart.
func (l *linter) repeated(condition string) (apart int32) {
	for _, r := range append(l.overlapping(), l.rule) {
		for i := range r.Spec.Probes {
			if p := &r.Spec.Probes[i]; p.ConditionType == condition {
				period := ptr.Deref(p.PeriodSeconds, 30)
				apart = max(apart, 300+period+(period+9)/10+ptr.Deref(p.TimeoutSeconds, 10))
			}
		}
	}
	return apart
}

// timeout warns about a timeout that ends on each new node, also if its evidence holds from the beginning.
func (l *linter) timeout() {
	t, s := l.rule.Spec.Timeout, l.rule.Spec.Stabilization
	if t == nil || s == nil || t.Seconds == nil || t.Action != v1alpha1.TimeoutActionRelease && !t.Replaces() {
		return
	}
	name, seconds := "minHoldSeconds", s.MinHoldSeconds
	if s.ReadySeconds > seconds {
		name, seconds = "readySeconds", s.ReadySeconds
	}
	if *t.Seconds <= seconds {
		l.warn(ShortTimeout, "spec.timeout.seconds", "the timeout ends before %s, %d seconds: a new node times out even if "+
			"its evidence holds, and with bootstrap-only it never completes; set more than that", name, seconds)
	}
}

// required warns about required rules that do not exist, or that select none of the nodes.
func (l *linter) required() {
	if l.others == nil {
		return
	}
	for i := range l.rule.Requirements {
		name := l.rule.Requirements[i].Rule()
		if name == "" || name == l.rule.Name { // the latter is a cycle
			continue
		}
		field := fmt.Sprintf("spec.requirements[%d].ruleSatisfied.name", i)
		o := l.others.Named(name)
		switch {
		case o == nil:
			l.warn(UnknownRule, field, "rule %s does not exist: until it does, no node is ready", name)
		case evidence.Disjoint(l.rule.Selector, o.Selector):
			l.warn(NeverSatisfied, field, "rule %s selects none of the nodes that this rule can select: no node is ever ready",
				name)
		}
	}
}
