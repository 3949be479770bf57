// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/expression"
)

// Evidence is what requirements are judged by, of one node and for all rules together. It is not safe for concurrent use.
type Evidence struct {
	// Rules are how the rules that were judged before stand on the node, by name.
	Rules map[string]Satisfaction
	// Pods are the pods on the node, or made for it, that have a requirement's labels, by requirement.
	Pods map[*ruleset.Pods][]*corev1.Pod
	// CSINode is the node's; nil, if there is none.
	CSINode *storagev1.CSINode
	// Devices is how many devices each DRA driver has published for the node.
	Devices map[string]int64

	value expression.Value // of the node, made when the first expression asks for it
}

// Satisfaction is how a rule stands on a node, for rules that require it.
type Satisfaction struct {
	// Matches is whether the rule is about the node.
	Matches bool
	// Holds is whether the node is released by it, or never was held.
	Holds bool
}

// judgeRequirement looks at one requirement.
func judgeRequirement(r *ruleset.Requirement, facts *Facts, now time.Time) judgement {
	switch {
	case r.Pods != nil:
		return judgePods(r.Pods, facts, now)
	case r.CSIDriver != nil:
		driver := facts.csiDriver(r.CSIDriver.Name)
		return requirement(driver != nil && volumes(driver) >= minimumVolumes(r.CSIDriver), driver == nil)
	case r.Resource != nil:
		have, ok := facts.quantity(r.Resource)
		return requirement(ok && have.Cmp(r.Resource.Minimum) >= 0, !ok)
	case r.Expression != nil:
		ok, err := facts.evaluate(r.Expression)
		return requirement(ok && err == nil, false)
	case r.RuleSatisfied != "":
		other, known := facts.rule(r.RuleSatisfied)
		return requirement(other.Holds, !known || !other.Matches)
	}
	return requirement(false, true)
}

// requirement is the judgement of evidence that bears no time.
func requirement(satisfied, missing bool) judgement {
	j := judgement{Satisfied: satisfied, Status: v1alpha1.ConditionFalse, Cause: CauseReported}
	if satisfied {
		j.Status = v1alpha1.ConditionTrue
	}
	if missing && !satisfied {
		j.Cause = CauseMissing
	}
	return j
}

// quantity is how much of a resource the node has; false, where it is not known there.
func (f *Facts) quantity(r *v1alpha1.ResourceRequirement) (resource.Quantity, bool) {
	if r.Source == v1alpha1.ResourceSourceResourceSlice {
		if f.Evidence == nil {
			return resource.Quantity{}, false
		}
		n, ok := f.Evidence.Devices[r.Name]
		return *resource.NewQuantity(n, resource.DecimalSI), ok
	}
	have, ok := f.Node.Status.Allocatable[corev1.ResourceName(r.Name)]
	return have, ok
}

func (f *Facts) csiDriver(name string) *storagev1.CSINodeDriver {
	if f.Evidence == nil || f.Evidence.CSINode == nil {
		return nil
	}
	drivers := f.Evidence.CSINode.Spec.Drivers
	for i := range drivers {
		if drivers[i].Name == name {
			return &drivers[i]
		}
	}
	return nil
}

// volumes is how many volumes a driver can attach; a driver that does not say is not limited.
func volumes(d *storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return math.MaxInt32
	}
	return *d.Allocatable.Count
}

func minimumVolumes(r *v1alpha1.CSIDriverRequirement) int32 {
	if r.MinimumAllocatable == nil {
		return 0
	}
	return *r.MinimumAllocatable
}

func (f *Facts) pods(p *ruleset.Pods) []*corev1.Pod {
	if f.Evidence == nil {
		return nil
	}
	return f.Evidence.Pods[p]
}

func (f *Facts) evaluate(p *expression.Program) (bool, error) {
	if f.Evidence == nil {
		return p.Eval(expression.ValueOf(f.Node))
	}
	if f.Evidence.value == nil {
		f.Evidence.value = expression.ValueOf(f.Node)
	}
	return p.Eval(f.Evidence.value)
}

func (f *Facts) rule(name string) (Satisfaction, bool) {
	if f.Evidence == nil {
		return Satisfaction{}, false
	}
	s, ok := f.Evidence.Rules[name]
	return s, ok
}

// describe is a requirement, in words.
func describe(rule *ruleset.Rule, r *ruleset.Requirement, facts *Facts, satisfied bool, now time.Time) string {
	switch {
	case r.Pods != nil:
		return describePods(rule, r.Pods, facts, now)
	case r.CSIDriver != nil:
		return describeDriver(r.CSIDriver, facts.csiDriver(r.CSIDriver.Name), satisfied)
	case r.Resource != nil:
		return describeResource(r.Resource, facts, satisfied)
	case r.Expression != nil:
		if satisfied {
			return fmt.Sprintf("expression %s is true", r.Name)
		}
		if _, err := facts.evaluate(r.Expression); err != nil {
			return fmt.Sprintf("expression %s %v", r.Name, err)
		}
		return fmt.Sprintf("expression %s is false", r.Name)
	case r.RuleSatisfied != "":
		other, known := facts.rule(r.RuleSatisfied)
		switch {
		case !known:
			return fmt.Sprintf("rule %s does not exist", r.RuleSatisfied)
		case !other.Matches:
			return fmt.Sprintf("rule %s does not select this node", r.RuleSatisfied)
		case !satisfied:
			return fmt.Sprintf("rule %s does not hold on this node", r.RuleSatisfied)
		}
		return fmt.Sprintf("rule %s holds on this node", r.RuleSatisfied)
	}
	return fmt.Sprintf("requirement %s is of a kind that this version does not know", r.Name)
}

func describeDriver(r *v1alpha1.CSIDriverRequirement, driver *storagev1.CSINodeDriver, satisfied bool) string {
	switch {
	case driver == nil:
		return fmt.Sprintf("csi driver %s is not registered", r.Name)
	case !satisfied:
		return fmt.Sprintf("csi driver %s can attach %d volumes, must be at least %d", r.Name, volumes(driver), minimumVolumes(r))
	}
	return fmt.Sprintf("csi driver %s is registered", r.Name)
}

func describeResource(r *v1alpha1.ResourceRequirement, facts *Facts, satisfied bool) string {
	what, is := "resource "+r.Name, "allocatable"
	if r.Source == v1alpha1.ResourceSourceResourceSlice {
		what, is = "devices of driver "+r.Name, "published"
	}
	must := ""
	if !satisfied {
		must = ", must be at least " + r.Minimum.String()
	}
	have, ok := facts.quantity(r)
	if !ok {
		return fmt.Sprintf("%s: none is %s%s", what, is, must)
	}
	return fmt.Sprintf("%s: %s %s%s", what, have.String(), is, must)
}
