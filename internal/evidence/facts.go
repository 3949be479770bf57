// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// MaxClockSkew is the most by which the clock of a node may be ahead of the API server's.
const MaxClockSkew = 5 * time.Minute

// Facts are what is known about a node.
type Facts struct {
	Node *corev1.Node
	// Boot is set if the node has rebooted and has not been released since.
	Boot Boot
	// Arrivals is what the process remembers of heartbeats far in the future. nil means that they count by their times.
	Arrivals *Arrivals
	// Gathered is the evidence for requirements. nil means that there is none.
	Gathered *Gathered
	// Own is the taint of the rule. readiness.Evaluate sets it.
	Own *corev1.Taint
	// Manager returns the name of the rule that manages a taint, or "". Such a taint is temporary.
	Manager func(*corev1.Taint) string
	// Service tells since when the node is in service under the rule.
	Service Service
	// Live lists the pods of a namespace on the node from the API server. It is called after the boot of a rebooted node
	// is confirmed, because a cache may still have the state from before. known is false if the pods cannot be listed. If
	// Live is nil, the gathered pods are used.
	Live func(namespace string, selector labels.Selector) (pods []*corev1.Pod, known bool)
	// Results is a buffer for the results, so that evaluating conditions allocates nothing.
	Results []Result
}

// Judge evaluates conditions, then requirements, in the order that they have in the rule.
func (f *Facts) Judge(conditions []v1alpha1.ConditionRequirement, requirements []Requirement, now time.Time) []Result {
	if len(requirements) > 0 && f.Gathered == nil {
		f.Gathered = &Gathered{}
	}
	results := f.Results[:0]
	for i := range conditions {
		c := &conditions[i]
		results = append(results, Result{Type: c.Type, Required: c.RequiredStatus, condition: c,
			Judgement: f.judgeCondition(c, now)})
	}
	for i := range requirements {
		out := Result{Name: requirements[i].Name, Required: v1alpha1.ConditionTrue, Judgement: requirement(false, true)}
		if k := requirements[i].Kind; k != nil {
			out.Judgement, out.found = k.judge(f, now)
		}
		results = append(results, out)
	}
	return results
}
