// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestAChangeOfAGuardIsToldOnce: other changes of the record do not repeat it.
func TestAChangeOfAGuardIsToldOnce(t *testing.T) {
	r, n := ruleset.Compile(rule().Obj(), nil, at(0)), lost().Obj()
	var none nodeview.Record
	active := nodeview.Record{GuardedSince: metav1.NewTime(at(0))}
	ended := nodeview.Record{GuardedSince: metav1.NewTime(at(0)), GuardEnded: metav1.NewTime(at(60))}
	for name, c := range map[string]struct {
		was   nodeview.Record
		state HoldState
		want  string
	}{
		"it is calm":                {none, HoldNone, ""},
		"it begins":                 {none, HoldActive, Guarded},
		"it is active":              {active, HoldActive, ""},
		"its time has passed":       {active, HoldEnded, GuardEnded},
		"it has ended":              {ended, HoldEnded, ""},
		"the rule no longer guards": {active, HoldEnding, GuardEnded},
		"it is ending":              {ended, HoldEnding, ""},
		"it is active again":        {ended, HoldActive, Guarded},
		"ready again":               {active, HoldNone, Unguarded},
		"ready after the end":       {ended, HoldNone, Unguarded},
	} {
		h, after := Hold{State: c.state, Since: at(0)}, c.was
		h.Remember(nodeview.Input{Rule: r, Node: n, State: nodeview.State{Record: c.was}, Now: at(61)}, &after)
		if h.Change != c.want {
			t.Errorf("%s: %q is told, want %q", name, h.Change, c.want)
		}
	}
}

// TestTried: the node controller announces an eviction once the pod is due, and does not repeat it.
func TestTried(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *build.PodWrapper
		want bool
	}{
		"not announced":                  {pod(), false},
		"announced when it was due":      {announced(30), true},
		"announced later":                {announced(40), true},
		"announced in the second before": {announced(29), true},
		"announced in an outage before":  {announced(28), false},
		"another client has announced it": {
			pod().Condition(corev1.DisruptionTarget, "PreemptionByScheduler", at(30)), false},
	} {
		if got := Tried(c.pod.Obj(), at(30)); got != c.want {
			t.Errorf("%s: tried is %t, want %t", name, got, c.want)
		}
	}
}

// TestKeptReady: a pod that is ready although its node is not.
func TestKeptReady(t *testing.T) {
	ready := pod().Condition(corev1.PodReady, "", at(0))
	unready := pod().Condition(corev1.PodReady, "", at(0))
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		pod  *build.PodWrapper
		want bool
	}{
		"kept":                          {lost(), ready, true},
		"of a node that kubelet denies": {lost().Condition("Ready", "False", at(0)), ready, true},
		"of a node without a condition": {lost().Without("Ready"), ready, true},
		"of a ready node":               {back(0), ready, false},
		"marked":                        {lost(), unready, false},
		"never ready":                   {lost(), pod(), false},
	} {
		if got := KeptReady(c.node.Obj(), c.pod.Obj()); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestEndpointsUntil: the time for which a rule may keep the pods of a node ready, as the kubectl plugin shows it.
func TestEndpointsUntil(t *testing.T) {
	completed := func() *build.NodeWrapper {
		return lost().Annotation("readiness.k8s.io/bootstrap-completed-u-link", "{}")
	}
	for name, c := range map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		at   int
		want bool
	}{
		"a lost node":                            {endpoints(), lost(), 39, true},
		"the time has passed":                    {endpoints(), lost(), 40, false},
		"a ready node":                           {endpoints(), back(0), 5, false},
		"a rule that keeps no endpoints":         {rule().Endpoints(50, 0), lost(), 5, false},
		"a rule in dry-run":                      {endpoints().DryRun(true), lost(), 5, false},
		"a node that has completed the rule":     {endpoints().BootstrapOnly(), completed(), 5, false},
		"that has done so, of a continuous rule": {endpoints(), completed(), 5, true},
	} {
		until, keeps := EndpointsUntil(ruleset.Compile(c.rule.Obj(), nil, at(-1)), c.node.Obj(), at(c.at))
		if keeps != c.want || keeps && !until.Equal(at(40)) {
			t.Errorf("%s: %t until %s, want %t", name, keeps, until, c.want)
		}
	}
}
