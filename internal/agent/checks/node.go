// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// Node is a snapshot of what the agent knows about its node.
type Node struct {
	// Object is the node as last read; nil if it does not exist or was never read.
	Object *corev1.Node
	// Unavailable says why the API server cannot be asked; empty while it can. Object is then the last known one.
	Unavailable string
	// TrustLast makes checks use the last known Object while the API server is unavailable, instead of passing.
	TrustLast bool
}

// NodeSource provides the agent's own node.
type NodeSource interface {
	// Current returns the node if it is known without waiting. It does not block.
	Current() (Node, bool)
	// Wait returns the node as soon as the API server has answered or ctx has ended.
	Wait(ctx context.Context) Node
	// Addresses returns the addresses in the status of the last known node, fresh or not, and also after it was deleted.
	// It does not block.
	Addresses() []corev1.NodeAddress
}

// nodeCheck returns a check of the Node object. It passes while the API server is unavailable. Without a source,
// because the agent does not know the node's name, it is misconfigured.
func nodeCheck(name string, source NodeSource, judge func(*corev1.Node) Result) Check {
	if source == nil {
		return Always(name, Misconfigured("NODE_NAME is not set"))
	}
	decide := func(n Node) Result {
		if n.Unavailable != "" {
			if n.Object == nil || !n.TrustLast {
				return FailedOpen(n.Unavailable)
			}
			r := judge(n.Object)
			if r.Passed {
				r.FailOpen = oneLine("last known state: " + n.Unavailable)
			}
			return r
		}
		if n.Object == nil {
			return Fail("the node does not exist")
		}
		return judge(n.Object)
	}
	return Check{
		Name: name,
		// A little longer than the source's limit, so that the source can say what happened.
		Timeout: DefaultTimeout + DefaultTimeout/2,
		Run:     func(ctx context.Context) Result { return decide(source.Wait(ctx)) },
		OnTimeout: func(reason string) Result { // a busy machine does not make the node unready
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			n := source.Wait(ended)
			if n.Unavailable == "" {
				n.Unavailable = reason
			}
			return decide(n)
		},
		Instant: func() (Result, bool) {
			n, ok := source.Current()
			if !ok {
				return Result{}, false
			}
			return decide(n), true
		},
	}
}

// NodeReady passes when the node's condition Ready is True. A failure has the reason of the condition.
func NodeReady(source NodeSource) Check {
	return nodeCheck(NameNodeReady, source, func(node *corev1.Node) Result {
		c := condition.Find(node, string(corev1.NodeReady))
		switch {
		case c == nil:
			return Fail("the node has no Ready condition")
		case c.Status == corev1.ConditionTrue:
			return Pass()
		}
		return Fail(cmp.Or(c.Reason, fmt.Sprintf("Ready is %s", c.Status)))
	})
}

// Schedulable passes unless the node is cordoned.
func Schedulable(source NodeSource) Check {
	return nodeCheck(NameSchedulable, source, func(node *corev1.Node) Result {
		if node.Spec.Unschedulable {
			return Fail("the node is cordoned")
		}
		return Pass()
	})
}

// CustomConditions passes when the node's conditions meet the rules, and the conditions of params are True. params may
// be nil.
func CustomConditions(source NodeSource, rules []config.Rule, params *v1alpha1.CustomConditionsCheck) Check {
	all := rules
	if params != nil {
		named := config.Rule{}
		for _, t := range params.Types {
			named.Conditions = append(named.Conditions, v1alpha1.ConditionRequirement{Type: t,
				RequiredStatus: v1alpha1.ConditionTrue})
		}
		all = append(slices.Clone(rules), named)
	}
	return nodeCheck(NameCustomConditions, source, func(node *corev1.Node) Result {
		results := make([]Result, len(all))
		for i := range all {
			results[i] = conditionsOf(&all[i], node, time.Now())
		}
		return combine(results)
	})
}

// Unconfigured returns the checks of rules for an agent that does not know its rules yet: they fail open.
func Unconfigured(source NodeSource) []Check {
	judge := func(*corev1.Node) Result { return FailedOpen("the agent has no configuration yet") }
	return []Check{nodeCheck(NameCustomConditions, source, judge), nodeCheck(NameRules, source, judge)}
}

// Rule passes if the operator's verdict in the rule's record is ready. Without a verdict, the node's current conditions
// decide. If they cannot decide, because the rule requires other evidence, the check fails open.
func Rule(source NodeSource, rule config.Rule) Check {
	return nodeCheck(NameRulePrefix+rule.Name, source,
		func(node *corev1.Node) Result { return verdict(&rule, node, time.Now()) })
}

// Rules passes if Rule passes for all the rules.
func Rules(source NodeSource, rules []config.Rule) Check {
	return nodeCheck(NameRules, source, func(node *corev1.Node) Result {
		results := make([]Result, len(rules))
		for i := range rules {
			switch r := verdict(&rules[i], node, time.Now()); {
			case !r.Passed:
				results[i] = Fail(rules[i].Name + ": " + r.Reason)
			case r.FailOpen != "":
				results[i] = FailedOpen(rules[i].Name + ": " + r.FailOpen)
			default:
				results[i] = r
			}
		}
		return combine(results)
	})
}

// Maintenance returns why a node is in maintenance; empty if it is not. node may be nil.
func Maintenance(node *corev1.Node, now time.Time) string {
	if node == nil {
		return ""
	}
	reason, _ := v1alpha1.Maintenance(node.Annotations, now)
	if reason == "" {
		return ""
	}
	return "in maintenance: " + reason
}
