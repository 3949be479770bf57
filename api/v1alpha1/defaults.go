// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// AnyOf reports whether one piece of evidence suffices.
func (s *NodeReadinessRuleSpec) AnyOf() bool { return s.ConditionPolicy == ConditionPolicyAnyOf }

// BootstrapOnly reports whether the rule leaves a node alone once it was ready.
func (s *NodeReadinessRuleSpec) BootstrapOnly() bool {
	return s.EnforcementMode == EnforcementModeBootstrapOnly
}

// RearmsOnReboot reports whether a reboot starts a node over.
func (s *NodeReadinessRuleSpec) RearmsOnReboot() bool {
	return slices.Contains(s.RearmOn, RearmOnReboot)
}

// ExistingNodesOrDefault is existingNodes, by default All.
func (s *NodeReadinessRuleSpec) ExistingNodesOrDefault() ExistingNodesPolicy {
	return cmp.Or(s.ExistingNodes, ExistingNodesAll)
}

// ReadyWindow is for how long evidence must hold before a taint goes.
func (s *NodeReadinessRuleSpec) ReadyWindow() time.Duration {
	return time.Duration(ptr.Deref(s.Stabilization, Stabilization{}).ReadySeconds) * time.Second
}

// UnreadyWindow is for how long evidence must be missing before a released node is tainted again.
func (s *NodeReadinessRuleSpec) UnreadyWindow() time.Duration {
	return time.Duration(ptr.Deref(s.Stabilization, Stabilization{}).UnreadySeconds) * time.Second
}

// MinHold is for how long from its creation a node is held in any case.
func (s *NodeReadinessRuleSpec) MinHold() time.Duration {
	return time.Duration(ptr.Deref(s.Stabilization, Stabilization{}).MinHoldSeconds) * time.Second
}

// After is for how long a node may be held; 0 means for ever.
func (t *Timeout) After() time.Duration { return seconds(ptr.Deref(t, Timeout{}).Seconds, 0) }

// AppearAfter is for how long a node may be held while evidence has not appeared; 0 means for ever.
func (t *Timeout) AppearAfter() time.Duration {
	return seconds(ptr.Deref(t, Timeout{}).AppearSeconds, 0)
}

// Releases reports whether the timeout opens the gate.
func (t *Timeout) Releases() bool { return t != nil && t.Action == TimeoutActionRelease }

// Replaces reports whether the timeout hands nodes over for replacement.
func (t *Timeout) Replaces() bool {
	return t != nil && t.Action == TimeoutActionReplace && t.Replace != nil
}

// MethodOrDefault is how nodes are handed over.
func (r *Replace) MethodOrDefault() ReplaceMethod { return cmp.Or(r.Method, ReplaceMethodAnnotation) }

// PerHour is how many nodes may be handed over within an hour.
func (r *Replace) PerHour() int { return int(ptr.Deref(r.MaxPerHour, 1)) }

// ValueOrDefault is the value of the annotation.
func (a *ReplaceAnnotation) ValueOrDefault() string { return cmp.Or(a.Value, "true") }

func seconds(n *int32, byDefault time.Duration) time.Duration {
	if n == nil {
		return byDefault
	}
	return time.Duration(*n) * time.Second
}

// MaxAge is the age from which on the condition counts as Unknown; 0 means never.
func (c *ConditionRequirement) MaxAge() time.Duration { return seconds(c.MaxAgeSeconds, 0) }

// Publishes returns the type of the node condition that the rule publishes; empty if it publishes none.
func (s *NodeReadinessRuleSpec) Publishes() string {
	return ptr.Deref(s.Publish, Publish{}).ConditionType
}

// MaxHold is for how long the guard keeps pods at most.
func (g *EvictionGuard) MaxHold() time.Duration { return seconds(g.MaxHoldSeconds, 30*time.Minute) }

// EndpointsHold is for how long the guard keeps pods ready at most; 0 if it does not.
func (g *EvictionGuard) EndpointsHold() time.Duration {
	if g == nil || g.Endpoints == nil {
		return 0
	}
	return min(seconds(g.Endpoints.MaxHoldSeconds, 10*time.Minute), g.MaxHold())
}

// Percent is the share of silent nodes from which on there is an outage.
func (e *GuardEndpoints) Percent() int { return int(ptr.Deref(e.OutagePercent, 50)) }

// Core is the taint as it stands in a node's spec, without a time.
func (t *Taint) Core() corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
}

// AsSelector compiles the selector. It returns an error for one that breaks the grammar of labels, or is empty.
func (s *NodeSelector) AsSelector() (labels.Selector, error) {
	ls := metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for k, v := range s.MatchLabels {
		ls.MatchLabels[k] = string(v)
	}
	for _, e := range s.MatchExpressions {
		r := metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator)}
		for _, v := range e.Values {
			r.Values = append(r.Values, string(v))
		}
		ls.MatchExpressions = append(ls.MatchExpressions, r)
	}
	return metav1.LabelSelectorAsSelector(&ls)
}

// AsSelector compiles the selector. It returns an error for one that breaks the grammar of labels.
func (s *PodSelector) AsSelector() (labels.Selector, error) {
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return labels.Everything(), nil
	}
	return (*NodeSelector)(s).AsSelector()
}
