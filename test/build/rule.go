// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// RuleWrapper wraps a NodeReadinessRule.
type RuleWrapper struct{ v1alpha1.NodeReadinessRule }

// MakeRule starts a rule. It is continuous; a selector, evidence and an effect have to be given. It has no UID and no
// times: an API server gives them.
func MakeRule(name string) *RuleWrapper {
	r := &RuleWrapper{}
	r.Name = name
	r.Spec.EnforcementMode = v1alpha1.EnforcementModeContinuous
	return r
}

// WrapRule goes on from a rule that is there. The rule is copied.
func WrapRule(rule *v1alpha1.NodeReadinessRule) *RuleWrapper { return &RuleWrapper{*rule.DeepCopy()} }

// Obj is the rule.
func (r *RuleWrapper) Obj() *v1alpha1.NodeReadinessRule { return r.DeepCopy() }

// UID sets the UID.
func (r *RuleWrapper) UID(uid string) *RuleWrapper {
	r.NodeReadinessRule.UID = types.UID(uid)
	return r
}

// Generation sets the generation.
func (r *RuleWrapper) Generation(n int64) *RuleWrapper {
	r.NodeReadinessRule.Generation = n
	return r
}

// Created sets the time of creation.
func (r *RuleWrapper) Created(t time.Time) *RuleWrapper {
	r.CreationTimestamp = metav1.NewTime(t)
	return r
}

// Deleted makes the rule one that is being deleted, and waits for its finalizer.
func (r *RuleWrapper) Deleted(t time.Time) *RuleWrapper {
	r.DeletionTimestamp = &metav1.Time{Time: t}
	r.Finalizers = append(r.Finalizers, v1alpha1.Served().Finalizer)
	return r
}

// Selector adds a label that nodes must have.
func (r *RuleWrapper) Selector(key, value string) *RuleWrapper {
	if r.Spec.NodeSelector.MatchLabels == nil {
		r.Spec.NodeSelector.MatchLabels = map[string]v1alpha1.LabelValue{}
	}
	r.Spec.NodeSelector.MatchLabels[key] = v1alpha1.LabelValue(value)
	return r
}

// SelectorExpression adds a requirement on nodes' labels.
func (r *RuleWrapper) SelectorExpression(key, operator string, values ...string) *RuleWrapper {
	e := v1alpha1.NodeSelectorRequirement{Key: key, Operator: v1alpha1.NodeSelectorOperator(operator)}
	for _, v := range values {
		e.Values = append(e.Values, v1alpha1.LabelValue(v))
	}
	r.Spec.NodeSelector.MatchExpressions = append(r.Spec.NodeSelector.MatchExpressions, e)
	return r
}

// Condition requires a condition to be True.
func (r *RuleWrapper) Condition(conditionType string) *RuleWrapper {
	return r.Require(v1alpha1.ConditionRequirement{Type: conditionType, RequiredStatus: v1alpha1.ConditionTrue})
}

// FreshCondition requires a condition to be True and to have been reported within so many seconds.
func (r *RuleWrapper) FreshCondition(conditionType string, maxAgeSeconds int32) *RuleWrapper {
	return r.Require(v1alpha1.ConditionRequirement{Type: conditionType, RequiredStatus: v1alpha1.ConditionTrue,
		MaxAgeSeconds: new(maxAgeSeconds)})
}

// Require requires a condition in any form.
func (r *RuleWrapper) Require(c v1alpha1.ConditionRequirement) *RuleWrapper {
	r.Spec.Conditions = append(r.Spec.Conditions, c)
	return r
}

// Evidence requires evidence of any kind.
func (r *RuleWrapper) Evidence(q v1alpha1.Requirement) *RuleWrapper {
	r.Spec.Requirements = append(r.Spec.Requirements, q)
	return r
}

// After requires other rules, each by a requirement called after-<name of the rule>.
func (r *RuleWrapper) After(names ...string) *RuleWrapper {
	for _, name := range names {
		r.Evidence(v1alpha1.Requirement{Name: "after-" + name,
			RuleSatisfied: &v1alpha1.RuleSatisfiedRequirement{Name: name}})
	}
	return r
}

// Without requires that a node has no taint with this key and the effect NoSchedule.
func (r *RuleWrapper) Without(key string) *RuleWrapper {
	return r.Evidence(v1alpha1.Requirement{Name: "without",
		NoTaint: &v1alpha1.NoTaintRequirement{Key: key, Effect: v1alpha1.TaintEffect(corev1.TaintEffectNoSchedule)}})
}

// DaemonSets requires the DaemonSets of a namespace, by a requirement called agents that edits may change.
func (r *RuleWrapper) DaemonSets(namespace string, edits ...func(*v1alpha1.DaemonSetsRequirement)) *RuleWrapper {
	q := &v1alpha1.DaemonSetsRequirement{Namespaces: []v1alpha1.NamespaceName{v1alpha1.NamespaceName(namespace)}}
	for _, edit := range edits {
		edit(q)
	}
	return r.Evidence(v1alpha1.Requirement{Name: "agents", DaemonSets: q})
}

// AnyOf makes one condition suffice.
func (r *RuleWrapper) AnyOf() *RuleWrapper {
	r.Spec.ConditionPolicy = v1alpha1.ConditionPolicyAnyOf
	return r
}

// Taint sets the taint.
func (r *RuleWrapper) Taint(key, value string, effect corev1.TaintEffect) *RuleWrapper {
	r.Spec.Taint = &v1alpha1.Taint{Key: key, Value: value, Effect: v1alpha1.TaintEffect(effect)}
	return r
}

// BootstrapOnly enforces until the rule has held once.
func (r *RuleWrapper) BootstrapOnly() *RuleWrapper {
	r.Spec.EnforcementMode = v1alpha1.EnforcementModeBootstrapOnly
	return r
}

// RearmOnReboot starts a node over when it reboots.
func (r *RuleWrapper) RearmOnReboot() *RuleWrapper {
	r.Spec.RearmOn = []v1alpha1.RearmEvent{v1alpha1.RearmOnReboot}
	return r
}

// ExistingNodes says which of the nodes that were there before get the taint.
func (r *RuleWrapper) ExistingNodes(p v1alpha1.ExistingNodesPolicy) *RuleWrapper {
	r.Spec.ExistingNodes = p
	return r
}

// ReadySeconds is for how long evidence must hold.
func (r *RuleWrapper) ReadySeconds(n int32) *RuleWrapper {
	r.stabilization().ReadySeconds = n
	return r
}

// UnreadySeconds is for how long evidence must be missing.
func (r *RuleWrapper) UnreadySeconds(n int32) *RuleWrapper {
	r.stabilization().UnreadySeconds = n
	return r
}

// MinHoldSeconds is for how long a node is held in any case.
func (r *RuleWrapper) MinHoldSeconds(n int32) *RuleWrapper {
	r.stabilization().MinHoldSeconds = n
	return r
}

func (r *RuleWrapper) stabilization() *v1alpha1.Stabilization {
	if r.Spec.Stabilization == nil {
		r.Spec.Stabilization = &v1alpha1.Stabilization{}
	}
	return r.Spec.Stabilization
}

// MaxUnavailable limits claims on nodes in service: a number, or a percentage.
func (r *RuleWrapper) MaxUnavailable(v string) *RuleWrapper {
	r.Spec.MaxUnavailable = new(intstr.Parse(v))
	return r
}

// LimitPer limits claims on nodes in service of each failure domain.
func (r *RuleWrapper) LimitPer(label, v string) *RuleWrapper {
	r.Spec.Limits = append(r.Spec.Limits, v1alpha1.Limit{Max: new(intstr.Parse(v)), Per: label})
	return r
}

// MaxDomains limits in how many failure domains the rule holds nodes in service at a time.
func (r *RuleWrapper) MaxDomains(label string, n int32) *RuleWrapper {
	r.Spec.Limits = append(r.Spec.Limits, v1alpha1.Limit{MaxDomains: &n, Per: label})
	return r
}

// Rate limits claims on nodes in service within some seconds.
func (r *RuleWrapper) Rate(most, withinSeconds int32) *RuleWrapper {
	r.Spec.Limits = append(r.Spec.Limits, v1alpha1.Limit{Max: new(intstr.FromInt32(most)), WithinSeconds: &withinSeconds})
	return r
}

// Timeout limits how long a node is held; a limit of 0 is none.
func (r *RuleWrapper) Timeout(seconds, appearSeconds int32, action v1alpha1.TimeoutAction) *RuleWrapper {
	r.Spec.Timeout = &v1alpha1.Timeout{Action: action}
	if seconds > 0 {
		r.Spec.Timeout.Seconds = &seconds
	}
	if appearSeconds > 0 {
		r.Spec.Timeout.AppearSeconds = &appearSeconds
	}
	return r
}

// Replace hands nodes over for replacement after a timeout: by an annotation, or without a key by the NodeClaim.
func (r *RuleWrapper) Replace(seconds, maxPerHour int32, key string) *RuleWrapper {
	r.Timeout(seconds, 0, v1alpha1.TimeoutActionReplace)
	r.Spec.Timeout.Replace = &v1alpha1.Replace{Method: v1alpha1.ReplaceMethodNodeClaim, MaxPerHour: &maxPerHour}
	if key != "" {
		r.Spec.Timeout.Replace.Method = v1alpha1.ReplaceMethodAnnotation
		r.Spec.Timeout.Replace.Annotation = &v1alpha1.ReplaceAnnotation{Key: key}
	}
	return r
}

// CompletionAnnotation is the annotation that says when a node was released.
func (r *RuleWrapper) CompletionAnnotation(key string) *RuleWrapper {
	r.Spec.CompletionAnnotation = key
	return r
}

// Untainted takes the taint away: the rule needs another effect.
func (r *RuleWrapper) Untainted() *RuleWrapper {
	r.Spec.Taint, r.Spec.EnforcementMode = nil, ""
	return r
}

// Health has the node agents run these checks for the rule.
func (r *RuleWrapper) Health(checks ...string) *RuleWrapper {
	r.Spec.Health = &v1alpha1.Health{}
	for _, name := range checks {
		r.Spec.Health.Checks = append(r.Spec.Health.Checks, v1alpha1.HealthCheck{Name: name})
	}
	return r
}

// Publish makes the rule publish a node condition.
func (r *RuleWrapper) Publish(conditionType string) *RuleWrapper {
	r.Spec.Publish = &v1alpha1.Publish{ConditionType: conditionType}
	return r
}

// Probe has the node agents publish a condition: whether they can connect to a port of their node.
func (r *RuleWrapper) Probe(conditionType string, port int32) *RuleWrapper {
	r.Spec.Probes = append(r.Spec.Probes, v1alpha1.Probe{ConditionType: conditionType,
		TCPSocket: &v1alpha1.TCPSocketAction{Port: port}})
	return r
}

// DryRun makes the rule only report.
func (r *RuleWrapper) DryRun(on bool) *RuleWrapper {
	r.Spec.DryRun = on
	return r
}

// Suspend makes the rule add nothing.
func (r *RuleWrapper) Suspend(on bool) *RuleWrapper {
	r.Spec.Suspend = on
	return r
}

// StatusCondition sets a condition of the rule's status.
func (r *RuleWrapper) StatusCondition(conditionType string, status metav1.ConditionStatus) *RuleWrapper {
	r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: conditionType, Status: status,
		Reason: "Test"})
	return r
}

// StatusInForce sets since when the rule is in force by its status, for the present generation.
func (r *RuleWrapper) StatusInForce(since time.Time, selectorHash string) *RuleWrapper {
	r.Status.ObservedGeneration = r.NodeReadinessRule.Generation
	r.Status.InForce = &v1alpha1.InForce{StartTime: metav1.NewTime(since), SelectorHash: selectorHash}
	return r
}

// StatusDryRun sets since when the rule is in dry-run by its status.
func (r *RuleWrapper) StatusDryRun(since time.Time) *RuleWrapper {
	r.Status.DryRunResults = &v1alpha1.DryRunResults{StartTime: new(metav1.NewTime(since))}
	return r
}

// StatusNode adds a node's verdict to the status, as the incumbent controller writes it.
func (r *RuleWrapper) StatusNode(name string, taint v1alpha1.TaintStatus) *RuleWrapper {
	r.Status.NodeEvaluations = append(r.Status.NodeEvaluations, v1alpha1.NodeEvaluation{NodeName: name,
		TaintStatus: taint})
	return r
}

// EvictionGuard guards pods from eviction for so many seconds at most.
func (r *RuleWrapper) EvictionGuard(maxHoldSeconds int32) *RuleWrapper {
	r.Spec.EvictionGuard = &v1alpha1.EvictionGuard{MaxHoldSeconds: &maxHoldSeconds}
	return r
}

// Endpoints makes the guard keep endpoints for so many seconds when so many percent of the nodes are lost.
func (r *RuleWrapper) Endpoints(percent, maxHoldSeconds int32) *RuleWrapper {
	r.Spec.EvictionGuard.Endpoints = &v1alpha1.GuardEndpoints{OutagePercent: &percent, MaxHoldSeconds: &maxHoldSeconds}
	return r
}

// Named gives the rule another name.
func (r *RuleWrapper) Named(name string) *RuleWrapper {
	r.Name = name
	return r
}
