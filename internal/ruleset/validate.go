// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/limit"
)

// Reasons why a rule is invalid, beside those of package evidence.
const (
	// ReasonForeignCRD: the CustomResourceDefinition that is served is not Nodegate's.
	ReasonForeignCRD = "ForeignCRD"
	// ReasonOtherController: another controller acts on the rules.
	ReasonOtherController = "OtherController"
)

// IncumbentLease is the name of the lease by which the Node Readiness Controller elects its leader.
const IncumbentLease = "ba65f13e.readiness.node.x-k8s.io"

// AddOnManager is the label by which an add-on manager knows the objects that it restores.
const AddOnManager = "addonmanager.kubernetes.io/mode"

// OtherController returns the problem of a cluster in which a Node Readiness Controller renews its lease.
func OtherController(namespace, holder string) *Problem {
	return &Problem{Reason: ReasonOtherController, Message: fmt.Sprintf("another controller acts on the rules: %s renews "+
		"the lease %s/%s. Nodegate changes nothing until that controller is stopped: scale its Deployment to 0, or if your "+
		"provider runs it, turn it off there; or install Nodegate in its own API group, with --api-group=%s (apiGroup in "+
		"the chart)", holder, namespace, IncumbentLease, v1alpha1.GroupNames()[1])}
}

// Problem is a reason why a rule is invalid.
type Problem = evidence.Problem

// reservedTaintPrefixes are prefixes of taint keys that belong to Kubernetes itself.
var reservedTaintPrefixes = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/",
	"node-role.kubernetes.io/"}

// ControlPlaneLabels are the labels of control-plane nodes, in the current and the older form.
var ControlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// ControlPlane reports whether a node with these labels is a control-plane node.
func ControlPlane(nodeLabels map[string]string) bool {
	return slices.ContainsFunc(ControlPlaneLabels, func(key string) bool { _, ok := nodeLabels[key]; return ok })
}

// ValidateTaintKey returns why a rule may not use a taint key, or "" if it may.
func ValidateTaintKey(key string) string {
	for _, p := range reservedTaintPrefixes {
		if strings.HasPrefix(key, p) {
			return fmt.Sprintf("taints under %s belong to Kubernetes: choose another key", p)
		}
	}
	return strings.Join(validation.IsQualifiedName(key), "; ")
}

// compileSpec compiles a spec. Most changes of a rule are of its status. Then the parts of the former version are used
// again, because expressions are expensive to compile.
func (r *Rule) compileSpec(spec *v1alpha1.NodeReadinessRuleSpec, prev *Rule) {
	if prev != nil && prev.thawed == nil && prev.bare == nil && equality.Semantic.DeepEqual(prev.Spec, spec) {
		r.Spec, r.Taint, r.Selector, r.SelectorHash = prev.Spec, prev.Taint, prev.Selector, prev.SelectorHash
		r.Limit, r.Requirements, r.Problems = prev.Limit, prev.Requirements, prev.Problems
		return
	}
	r.Spec = spec.DeepCopy()
	if spec.Taint != nil {
		t := spec.Taint.Core()
		r.Taint = &t
	}
	r.SelectorHash = hashSelector(&r.Spec.NodeSelector)
	selector, err := r.Spec.NodeSelector.AsSelector()
	if err != nil || selector.Empty() {
		selector = labels.Nothing()
	}
	r.Selector = selector
	r.Limit = limit.Of(r.Spec)
	r.Requirements, r.Problems = compileRequirements(r.Spec)
}

// compileRequirements compiles the requirements of a spec. It checks the spec as the CRD's schema does, because another
// version of the schema may have accepted it, and finds what this version does not support.
func compileRequirements(spec *v1alpha1.NodeReadinessRuleSpec) ([]evidence.Requirement, []Problem) {
	v := validator{}
	v.Selector("spec.nodeSelector", &spec.NodeSelector)
	v.evidence(spec)
	v.effects(spec)
	v.modes(spec)
	v.agent(spec)
	v.publish(spec.Publish)
	v.endpoints(spec)
	requirements := v.requirements(spec)
	return requirements, v.Problems
}

type validator struct{ evidence.Problems }

func (v *validator) evidence(spec *v1alpha1.NodeReadinessRuleSpec) {
	if len(spec.Conditions) == 0 && len(spec.Requirements) == 0 {
		v.Invalid("spec.conditions", "a rule needs evidence: give at least one entry in conditions or requirements")
	}
	for i, c := range spec.Conditions {
		field := fmt.Sprintf("spec.conditions[%d]", i)
		if c.Type == "" {
			v.Invalid(field+".type", "must not be empty")
		}
		if !knownStatus(c.RequiredStatus) {
			v.Invalid(field+".requiredStatus", "must be True, False or Unknown, not %q", c.RequiredStatus)
		}
		if c.DefaultStatus != "" && !knownStatus(c.DefaultStatus) {
			v.Invalid(field+".defaultStatus", "must be True, False or Unknown, not %q", c.DefaultStatus)
		}
		if c.DefaultStatus != "" && spec.BootstrapOnly() {
			v.Invalid(field+".defaultStatus", "cannot be combined with bootstrap-only")
		}
		if c.MaxAgeSeconds != nil && *c.MaxAgeSeconds < 1 {
			v.Invalid(field+".maxAgeSeconds", "must be at least 1")
		}
	}
}

func knownStatus(s v1alpha1.ConditionStatus) bool {
	return s == v1alpha1.ConditionTrue || s == v1alpha1.ConditionFalse || s == v1alpha1.ConditionUnknown
}

func (v *validator) effects(spec *v1alpha1.NodeReadinessRuleSpec) {
	t := spec.Taint
	if t == nil {
		if spec.EvictionGuard == nil && spec.Health == nil && spec.Publish == nil &&
			spec.PodAdmission != v1alpha1.PodAdmissionDeny {
			v.Invalid("spec", "a rule needs an effect: give at least one of taint, evictionGuard, health, publish, or "+
				"podAdmission: Deny")
		}
		return
	}
	if msg := ValidateTaintKey(t.Key); msg != "" {
		v.Invalid("spec.taint.key", "%s", msg)
	}
	if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
		v.Invalid("spec.taint.value", "%s", strings.Join(msgs, "; "))
	}
	switch corev1.TaintEffect(t.Effect) {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		v.Invalid("spec.taint.effect", "must be NoSchedule, PreferNoSchedule or NoExecute, not %q", t.Effect)
	}
	if spec.EnforcementMode == "" {
		v.Invalid("spec.enforcementMode", "is required with a taint: continuous or bootstrap-only")
	}
}

func (v *validator) modes(spec *v1alpha1.NodeReadinessRuleSpec) {
	evidence.OneOf(&v.Problems, "spec.enforcementMode", spec.EnforcementMode,
		v1alpha1.EnforcementModeContinuous, v1alpha1.EnforcementModeBootstrapOnly)
	evidence.OneOf(&v.Problems, "spec.conditionPolicy", spec.ConditionPolicy, v1alpha1.ConditionPolicyAllOf,
		v1alpha1.ConditionPolicyAnyOf)
	if spec.AnyOf() && spec.BootstrapOnly() {
		v.Invalid("spec.conditionPolicy", "anyOf cannot be combined with bootstrap-only")
	}
	for i, e := range spec.RearmOn {
		if e != v1alpha1.RearmOnReboot {
			v.Unknown(fmt.Sprintf("spec.rearmOn[%d]", i), string(e))
		}
	}
	problems := limit.Problems(spec)
	for _, field := range slices.Sorted(maps.Keys(problems)) {
		v.Invalid(field, "%s", problems[field])
	}
	v.admission(spec)
	v.times(spec)
	v.completionAnnotation(spec.CompletionAnnotation)
}

func (v *validator) admission(spec *v1alpha1.NodeReadinessRuleSpec) {
	evidence.OneOf(&v.Problems, "spec.podAdmission", spec.PodAdmission, v1alpha1.PodAdmissionNone,
		v1alpha1.PodAdmissionDeny)
	if spec.PodAdmission == v1alpha1.PodAdmissionDeny {
		switch t := spec.Taint; {
		case t == nil:
			v.Invalid("spec.podAdmission", "Deny needs a taint, since pods that tolerate it may still be bound: give spec.taint")
		case corev1.TaintEffect(t.Effect) == corev1.TaintEffectPreferNoSchedule:
			v.Invalid("spec.podAdmission", "Deny cannot be combined with PreferNoSchedule, since the scheduler places pods "+
				"that are then refused, also those that the rule waits for: use NoSchedule")
		}
	}
	evidence.OneOf(&v.Problems, "spec.nodeAdmission", spec.NodeAdmission, v1alpha1.NodeAdmissionTaint,
		v1alpha1.NodeAdmissionNone)
	evidence.OneOf(&v.Problems, "spec.existingNodes", spec.ExistingNodes,
		v1alpha1.ExistingNodesAll, v1alpha1.ExistingNodesIdle, v1alpha1.ExistingNodesNone)
}

func (v *validator) times(spec *v1alpha1.NodeReadinessRuleSpec) {
	if s := spec.Stabilization; s != nil && min(s.ReadySeconds, s.UnreadySeconds, s.MinHoldSeconds) < 0 {
		v.Invalid("spec.stabilization", "must not be negative")
	}
	t := spec.Timeout
	if t == nil {
		return
	}
	evidence.OneOf(&v.Problems, "spec.timeout.action", t.Action,
		v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease, v1alpha1.TimeoutActionReplace)
	v.replace(spec)
	if t.Seconds == nil && t.AppearSeconds == nil {
		v.Invalid("spec.timeout", "needs seconds, appearSeconds or both")
	}
	if t.Seconds != nil && *t.Seconds < 1 || t.AppearSeconds != nil && *t.AppearSeconds < 1 {
		v.Invalid("spec.timeout", "must be at least 1 second")
	}
}

// completionAnnotation is checked because it goes into the patch that all rules share: the API server would refuse that
// as a whole for a bad key, and a key of Nodegate's own would forge a record.
func (v *validator) completionAnnotation(key string) {
	if key != "" {
		v.annotation("spec.completionAnnotation", key)
	}
}

// annotation validates the key of an annotation that the operator sets on nodes.
func (v *validator) annotation(field, key string) {
	for _, msg := range annotationProblems(key) {
		v.Invalid(field, "%s", msg)
	}
}

// AnnotationKey reports whether a rule may set an annotation with this key on nodes.
func AnnotationKey(key string) bool { return len(annotationProblems(key)) == 0 }

func annotationProblems(key string) (out []string) {
	if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
		out = append(out, strings.Join(msgs, "; "))
	}
	if strings.HasPrefix(key, v1alpha1.Domain) ||
		strings.HasPrefix(key, v1alpha1.BootstrapAnnotationPrefix) {
		out = append(out, "is written by Nodegate itself: choose another key")
	}
	return out
}

// replace validates how nodes are handed over for replacement.
func (v *validator) replace(spec *v1alpha1.NodeReadinessRuleSpec) {
	t := spec.Timeout
	r := t.Replace
	if (t.Action == v1alpha1.TimeoutActionReplace) != (r != nil) {
		v.Invalid("spec.timeout", "action: Replace and replace belong together: give both or neither")
	}
	if t.Action == v1alpha1.TimeoutActionReplace && spec.Taint == nil {
		v.Invalid("spec.taint", "action: Replace needs a taint, since pods may land on a node without one while it is "+
			"handed over: give spec.taint")
	}
	if r == nil {
		return
	}
	method := r.MethodOrDefault()
	evidence.OneOf(&v.Problems, "spec.timeout.replace.method", method, v1alpha1.ReplaceMethodAnnotation,
		v1alpha1.ReplaceMethodNodeClaim)
	if (method == v1alpha1.ReplaceMethodAnnotation) != (r.Annotation != nil) {
		v.Invalid("spec.timeout.replace", "method: Annotation, the default, needs annotation, and method: NodeClaim does "+
			"not take it")
	}
	if r.Annotation != nil {
		v.annotation("spec.timeout.replace.annotation.key", r.Annotation.Key)
		if key := spec.CompletionAnnotation; key != "" && key == r.Annotation.Key {
			v.Invalid("spec.completionAnnotation", "must not be the key of timeout.replace.annotation, or nodes that become "+
				"ready would be replaced: choose another key")
		}
	}
	if r.MaxPerHour != nil && (*r.MaxPerHour < 1 || *r.MaxPerHour > v1alpha1.MaxReplacementsListed) {
		v.Invalid("spec.timeout.replace.maxPerHour", "must be from 1 to %d", v1alpha1.MaxReplacementsListed)
	}
}

// endpoints validates that a rule that keeps pods ready is not satisfied on a node that is lost.
func (v *validator) endpoints(spec *v1alpha1.NodeReadinessRuleSpec) {
	g := spec.EvictionGuard
	if g == nil || g.Endpoints == nil {
		return
	}
	e := g.Endpoints
	if n := e.OutagePercent; n != nil && (*n < 1 || *n > 100) {
		v.Invalid("spec.evictionGuard.endpoints.outagePercent", "must be from 1 to 100, not %d", *n)
	}
	if n := e.MaxHoldSeconds; n != nil && (*n < 20 || time.Duration(*n)*time.Second > g.MaxHold()) {
		v.Invalid("spec.evictionGuard.endpoints.maxHoldSeconds", "must be from 20 to maxHoldSeconds, which is %d, not %d",
			int64(g.MaxHold()/time.Second), *n)
	}
	if !slices.ContainsFunc(spec.Conditions, func(c v1alpha1.ConditionRequirement) bool {
		return c.Type == string(corev1.NodeReady) && c.RequiredStatus == v1alpha1.ConditionTrue
	}) {
		v.Invalid("spec.evictionGuard.endpoints", "needs the condition Ready with the required status True: give it in "+
			"conditions")
	}
	if spec.AnyOf() {
		v.Invalid("spec.conditionPolicy", "anyOf cannot be combined with evictionGuard.endpoints: evidence such as pods, "+
			"which stay ready, would satisfy the rule on a node that is lost; use allOf")
	}
}

// count returns how many of some fields are given.
func count(given ...bool) int {
	n := 0
	for _, is := range given {
		if is {
			n++
		}
	}
	return n
}
