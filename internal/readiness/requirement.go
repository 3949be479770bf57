// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/expression"
)

// Evidence is the evidence on a node for the requirements of all rules. It is not safe for concurrent use.
type Evidence struct {
	// Rules are the states of the rules that were evaluated before on this node, by name.
	Rules map[string]Satisfaction
	// Pods are the pods that a requirement selects and that are on the node, or created for it.
	Pods map[*ruleset.Pods][]*corev1.Pod
	// DaemonPods are the pods of DaemonSets on the node, or created for it, by namespace.
	DaemonPods map[string][]DaemonPod
	// Absent returns since when the node has had no pod of a DaemonSet, as far as this process has observed. nil means
	// that this is unknown.
	Absent func(ds types.UID, now time.Time) time.Time
	// CSINode is the CSINode of the node, or nil if there is none.
	CSINode *storagev1.CSINode
	// Devices is the number of devices that each DRA driver has published for the node.
	Devices map[string]int64

	value expression.Value // of the node, for expressions; set at the first use
}

// Satisfaction is the state of a rule on a node, for rules that require it.
type Satisfaction struct {
	// Matches reports whether the rule selects the node.
	Matches bool
	// Holds reports whether the node is ready under the rule.
	Holds bool
	// Refuted reports whether reported evidence shows that the rule does not hold. It is set only if a rule publishes a
	// condition.
	Refuted bool
}

func judgeRequirement(rule *ruleset.Rule, r *ruleset.Requirement, facts *Facts, now time.Time) Result {
	f := &found{}
	out := Result{Name: r.Name, Required: v1alpha1.ConditionTrue, requirement: r, found: f}
	switch {
	case r.Pods != nil:
		out.judgement, f.pods = judgePods(rule, r.Pods, facts, now)
	case r.DaemonSets != nil:
		out.judgement, f.daemonSets = judgeDaemonSets(rule, r.DaemonSets, facts, now)
	case r.CSIDriver != nil:
		f.driver = facts.csiDriver(r.CSIDriver.Name)
		enough := f.driver != nil && volumes(f.driver) >= minimumVolumes(r.CSIDriver)
		out.judgement = requirement(enough, f.driver == nil)
	case r.Resource != nil:
		f.amount, f.known = facts.Node.Status.Allocatable[corev1.ResourceName(r.Resource.Name)]
		out.judgement = requirement(f.known && f.amount.Cmp(r.Resource.Minimum) >= 0, !f.known)
	case r.Devices != nil:
		f.count, f.known = facts.Evidence.Devices[r.Devices.Driver]
		out.judgement = requirement(f.known && f.count >= int64(r.Devices.Minimum), !f.known)
	case r.Expression != nil:
		var ok bool
		ok, f.err = facts.evaluate(r.Expression)
		out.judgement = requirement(ok && f.err == nil, false)
	case r.RuleSatisfied != "":
		f.other, f.known = facts.Evidence.Rules[r.RuleSatisfied]
		out.judgement = requirement(f.other.Holds, !f.known || !f.other.Matches)
	default:
		out.judgement = requirement(false, true)
	}
	boot := facts.bootState(now)
	undated := r.CSIDriver != nil || r.Resource != nil || r.Devices != nil || r.Expression != nil
	if boot == booting && undated && out.Satisfied {
		out.judgement = requirement(false, false)
		out.Cause = condition.CauseBeforeBoot
		facts.Boot.await(boot, &out.judgement, now)
	}
	return out
}

// requirement returns the judgement of a requirement whose evidence has no time.
func requirement(satisfied, missing bool) judgement {
	j := judgement{Satisfied: satisfied, Status: v1alpha1.ConditionFalse, Cause: condition.CauseReported}
	if satisfied {
		j.Status = v1alpha1.ConditionTrue
	}
	if missing && !satisfied {
		j.Cause = condition.CauseMissing
	}
	return j
}

func (f *Facts) csiDriver(name string) *storagev1.CSINodeDriver {
	if f.Evidence.CSINode == nil {
		return nil
	}
	drivers := f.Evidence.CSINode.Spec.Drivers
	if i := slices.IndexFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name }); i >= 0 {
		return &drivers[i]
	}
	return nil
}

// volumes returns the number of volumes that a driver can attach. A driver that does not report one has no limit.
func volumes(d *storagev1.CSINodeDriver) int32 {
	return ptr.Deref(ptr.Deref(d.Allocatable, storagev1.VolumeNodeResources{}).Count, math.MaxInt32)
}

func minimumVolumes(r *v1alpha1.CSIDriverRequirement) int32 {
	return ptr.Deref(r.MinimumAllocatable, 0)
}

func (f *Facts) evaluate(p *expression.Program) (bool, error) {
	if f.Evidence.value == nil {
		f.Evidence.value = expression.ValueOf(f.Node)
	}
	return p.Eval(f.Evidence.value)
}
