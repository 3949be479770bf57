// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestFreezesWhatRequiresADeadlockedRule: the operator freezes such rules, so the plugin must not say what they do.
func TestFreezesWhatRequiresADeadlockedRule(t *testing.T) {
	requires := func(name string) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: name, RuleSatisfied: &v1alpha1.RuleSatisfiedRequirement{Name: name}}
	}
	rule := func(name string) *build.RuleWrapper {
		return build.MakeRule(name).UID(name).Selector("a", "b").Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	}
	var rules []*ruleset.Rule
	for _, r := range []*build.RuleWrapper{
		rule("agents").MaxUnavailable("1").DaemonSets("kube-system"),
		rule("network").Evidence(requires("agents")),
		rule("last").Evidence(requires("network")),
		rule("free").Condition("example.com/Ready"),
	} {
		rules = append(rules, ruleset.Compile(r.Obj(), nil, time.Now()))
	}
	set := ruleset.NewSet(rules...)
	agent := build.MakeDaemonSet("kube-system", "agent").Tolerate("example.com/agents")
	pod := agent.Pod("n", time.Now()).Obj()
	for _, r := range Of([]runtime.Object{agent.Obj(), pod}, set).Resolve(set).All() {
		if want := r.Name != "free"; (r.Mode == ruleset.Frozen) != want {
			t.Errorf("rule %s is %s", r.Name, r.Mode)
		} else if want && !strings.Contains(r.Problems[0].Message, "DaemonSet kube-system/agent does not tolerate") {
			t.Errorf("rule %s: %s", r.Name, r.Problems[0])
		}
	}
}
