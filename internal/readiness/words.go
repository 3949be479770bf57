// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// Message describes the evidence. Statuses, events, answers of webhooks and the plugin all use it. It is bounded,
// because it may quote what is on a node or a pod.
func (r *Result) Message() string { return text.Clip(r.words(), v1alpha1.MaxStatusMessage) }

func (r *Result) words() string {
	if r.condition != nil {
		return condition.Message(r.condition, r.judgement)
	}
	switch q := r.requirement; {
	case r.Cause == condition.CauseBeforeBoot:
		return fmt.Sprintf("requirement %s may be from before the node booted", r.Name)
	case q.Pods != nil:
		return r.found.pods.message(q.Pods)
	case q.DaemonSets != nil:
		return r.found.daemonSets.message(q.DaemonSets)
	case q.CSIDriver != nil:
		return r.driverMessage(q.CSIDriver)
	case q.Resource != nil:
		return r.resourceMessage(q.Resource)
	case q.Devices != nil:
		return r.devicesMessage(q.Devices)
	case q.Expression != nil:
		return r.expressionMessage()
	case q.RuleSatisfied != "":
		return r.ruleMessage(q.RuleSatisfied)
	}
	return fmt.Sprintf("requirement %s is invalid, or of a kind that this version does not support", r.Name)
}

func (r *Result) driverMessage(q *v1alpha1.CSIDriverRequirement) string {
	switch {
	case r.found.driver == nil:
		return fmt.Sprintf("CSI driver %s is not registered", q.Name)
	case !r.Satisfied:
		return fmt.Sprintf("CSI driver %s can attach %d volumes, must be at least %d",
			q.Name, volumes(r.found.driver), minimumVolumes(q))
	}
	return fmt.Sprintf("CSI driver %s is registered", q.Name)
}

func (r *Result) resourceMessage(q *v1alpha1.ResourceRequirement) string {
	return r.amountMessage("resource "+q.Name, "allocatable", r.found.amount.String(), q.Minimum.String())
}

func (r *Result) devicesMessage(q *v1alpha1.DevicesRequirement) string {
	return r.amountMessage("devices of driver "+q.Driver, "published", strconv.FormatInt(r.found.count, 10),
		strconv.Itoa(int(q.Minimum)))
}

func (r *Result) amountMessage(what, is, have, minimum string) string {
	must := ""
	if !r.Satisfied {
		must = ", must be at least " + minimum
	}
	if !r.found.known {
		return fmt.Sprintf("%s: none is %s%s", what, is, must)
	}
	return fmt.Sprintf("%s: %s %s%s", what, have, is, must)
}

func (r *Result) expressionMessage() string {
	switch {
	case r.found.err != nil:
		return fmt.Sprintf("expression %s %v", r.Name, r.found.err)
	case r.Satisfied:
		return fmt.Sprintf("expression %s is true", r.Name)
	}
	return fmt.Sprintf("expression %s is false", r.Name)
}

func (r *Result) ruleMessage(name string) string {
	switch {
	case !r.found.known:
		return fmt.Sprintf("rule %s does not exist", name)
	case !r.found.other.Matches:
		return fmt.Sprintf("rule %s does not select this node", name)
	case !r.Satisfied:
		return fmt.Sprintf("rule %s is not satisfied on this node", name)
	}
	return fmt.Sprintf("rule %s is satisfied on this node", name)
}

func (f *podsFound) message(p *ruleset.Pods) string {
	want := minReady(p)
	text := fmt.Sprintf("%d of %d pods %s of namespace %s are ready on this node", f.ready, want, p.Labels, p.Namespace)
	if f.ready < want && len(f.waiting) > 0 {
		why := make([]string, len(f.waiting))
		for i, w := range f.waiting {
			why[i] = fmt.Sprintf("pod %s %s", w.pod.Name, w.words(p))
		}
		slices.Sort(why) // a cache has no order
		text += ": " + ruleset.Few(why, maxWaiting, len(why))
	}
	if f.deadlocked != nil {
		text += fmt.Sprintf("; pod %s can never run here: it does not tolerate this rule's own taint %s",
			f.deadlocked.Name, f.taint.ToString())
	}
	return text
}

// words returns why a pod does not count.
func (w *waitingPod) words(p *ruleset.Pods) string {
	switch w.why {
	case podForeign:
		return "is not of DaemonSet " + p.OwnerDaemonSet
	case podUnscheduled:
		return w.why.words() + unscheduled(w.pod)
	case podUnannotated:
		return fmt.Sprintf("does not have annotation %s=%s", p.ReadyAnnotation.Key, p.ReadyAnnotation.Value)
	case podUnready:
		if c := unreadyContainer(w.pod); c != "" {
			return fmt.Sprintf("has a container that is not ready: %s", c)
		}
	}
	return w.why.words()
}

func unscheduled(pod *corev1.Pod) string {
	if c := condition.OfPod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		return ": " + c.Message
	}
	return ""
}

func (r *Result) warning() string {
	switch {
	case r.found == nil:
		return ""
	case r.found.daemonSets != nil:
		return r.found.daemonSets.warning(r.Name)
	case r.found.pods.probeless == nil:
		return ""
	}
	pod := r.found.pods.probeless
	return fmt.Sprintf(
		"requirement %s: container %s of its pods has no readiness probe, so it counts as ready %s after its start, even "+
			"if it does not work",
		r.Name, probeless(pod), readySeconds(r.requirement.Pods, pod))
}
