// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/expression"
)

// Evidence is what requirements are judged by, of one node and for all rules together. It is not safe for concurrent
// use.
type Evidence struct {
	// Rules are how the rules that were judged before stand on the node, by name.
	Rules map[string]Satisfaction
	// Pods are the pods on the node, or made for it, that have a requirement's labels, by requirement.
	Pods map[*ruleset.Pods][]*corev1.Pod
	// DaemonPods are the pods of DaemonSets on the node, or made for it, by namespace.
	DaemonPods map[string][]DaemonPod
	// Absent says since when the node has had no pod of a DaemonSet, as far as this process has been asked; nil: since
	// when is not known.
	Absent func(ds types.UID, now time.Time) time.Time
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
	// Refuted is whether it does not hold because of evidence that was reported. It is set only if a rule publishes a
	// condition.
	Refuted bool
}

// judgeRequirement judges one requirement.
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
		f.count, f.known = facts.devices(r.Devices.Driver)
		out.judgement = requirement(f.known && f.count >= int64(r.Devices.Minimum), !f.known)
	case r.Expression != nil:
		var ok bool
		ok, f.err = facts.evaluate(r.Expression)
		out.judgement = requirement(ok && f.err == nil, false)
	case r.RuleSatisfied != "":
		f.other, f.known = facts.rule(r.RuleSatisfied)
		out.judgement = requirement(f.other.Holds, !f.known || !f.other.Matches)
	default:
		out.judgement = requirement(false, true)
	}
	boot := facts.bootState(now)
	undated := r.CSIDriver != nil || r.Resource != nil || r.Devices != nil || r.Expression != nil
	if boot == booting && undated && out.Satisfied {
		out.judgement = requirement(false, false)
		out.Cause = CauseBeforeBoot
		facts.Boot.await(boot, &out.judgement, now)
	}
	return out
}

// requirement is the verdict on evidence that has no time.
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

// devices returns how many devices of a driver the node has, and whether the driver has published any.
func (f *Facts) devices(driver string) (count int64, published bool) {
	if f.Evidence == nil {
		return 0, false
	}
	count, published = f.Evidence.Devices[driver]
	return count, published
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
