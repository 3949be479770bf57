// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func TestTimeline(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(second int) *metav1.Time { return Time(begin.Add(time.Duration(second) * time.Second)) }
	pod := at(80).Time
	network := RuleExplanation{Rule: "network", State: v1alpha1.NodeStateReady, Policy: v1alpha1.ConditionPolicyAllOf,
		ReleasedAt: at(60), Evidence: []Evidence{
			{Condition: "example.com/CNI", Satisfied: new(true), Since: at(20)},
			{Requirement: "warm-up", Satisfied: new(true), Since: at(40)}}}
	gpus := RuleExplanation{Rule: "gpus", State: v1alpha1.NodeStateReady, Policy: v1alpha1.ConditionPolicyAllOf,
		ReleasedAt: at(70), Evidence: []Evidence{
			{Condition: "example.com/GPU", Satisfied: new(true), Since: at(500)}, // was false again after the release
			{Requirement: "gpus", Satisfied: new(true)}}}
	held := RuleExplanation{Rule: "network", State: v1alpha1.NodeStateHeld, New: true,
		Policy:   v1alpha1.ConditionPolicyAllOf,
		Evidence: []Evidence{{Condition: "example.com/CNI", Satisfied: new(false), Since: at(0)}}}
	again := held
	again.New = false
	enough, early := network, network
	enough.Policy, enough.Evidence = v1alpha1.ConditionPolicyAnyOf, []Evidence{
		{Condition: "example.com/CNI", Satisfied: new(true), Since: at(20)},
		{Condition: "example.com/CSI", Satisfied: new(false)}}
	early.ReleasedAt, early.Evidence = nil, []Evidence{
		{Condition: "example.com/CNI", Satisfied: new(true), Since: at(-20)}, {Requirement: "pods"}}
	waits := func(mode string, state v1alpha1.NodeState) NodeExplanation {
		return NodeExplanation{Rules: []RuleExplanation{{Rule: "network", Mode: mode, State: state, New: true,
			Policy: v1alpha1.ConditionPolicyAllOf, Evidence: held.Evidence}}}
	}
	full, half, quarter := strings.Repeat("█", 40), strings.Repeat("█", 20), strings.Repeat("█", 10)
	empty := strings.Repeat("░", 40)
	for name, c := range map[string]struct {
		node NodeExplanation
		pod  *time.Time
		want []string
	}{
		"a node that is ready": {NodeExplanation{Rules: []RuleExplanation{network, gpus}}, &pod, []string{
			"rule network", "condition example.com/CNI " + quarter + " 20s",
			"requirement warm-up " + half + " 40s", "all evidence " + half + " 40s",
			"released " + strings.Repeat("█", 30) + " 1m0s", "", "rule gpus", "condition example.com/GPU unknown",
			"requirement gpus unknown", "all evidence unknown", "released " + strings.Repeat("█", 35) + " 1m10s", "",
			"first pod " + full + " 1m20s", ""}},
		"a node that is held": {NodeExplanation{Held: true, Rules: []RuleExplanation{held}}, nil, []string{
			"rule network", "condition example.com/CNI " + empty + " not yet", "all evidence " + empty + " not yet",
			"released " + empty + " not yet", "", "first pod " + empty + " not yet", ""}},
		"a node in service that is held": {NodeExplanation{Held: true, Rules: []RuleExplanation{again}}, nil, []string{
			"rule network", "condition example.com/CNI unknown", "all evidence unknown", "released unknown", "",
			"first pod " + empty + " not yet", ""}},
		"a node for which some evidence suffices": {NodeExplanation{Rules: []RuleExplanation{enough}}, nil, []string{
			"rule network", "condition example.com/CNI " + strings.Repeat("█", 13) + " 20s",
			"condition example.com/CSI unknown", "enough evidence unknown", "released " + full + " 1m0s", "",
			"first pod none on the node", ""}},
		"evidence from before the node, and some that cannot be read": {
			NodeExplanation{Rules: []RuleExplanation{early}, Unread: []string{"listing pods: forbidden"}}, nil, []string{
				"rule network", "condition example.com/CNI 0s", "requirement pods unknown", "all evidence unknown",
				"released unknown", "", "first pod unknown", "", "Could not be read: listing pods: forbidden", ""}},
		"a node that is held, and whose pods cannot be read": {
			NodeExplanation{Held: true, Rules: []RuleExplanation{held}, Unread: []string{"listing pods: forbidden"}}, nil,
			[]string{"rule network", "condition example.com/CNI " + empty + " not yet", "all evidence " + empty + " not yet",
				"released " + empty + " not yet", "", "first pod unknown", "", "Could not be read: listing pods: forbidden", ""}},
		"a rule in dry-run": {waits("DryRun", v1alpha1.NodeStateExempt), nil, []string{"rule network",
			"condition example.com/CNI " + empty + " not yet", "all evidence " + empty + " not yet",
			"released the rule is in dry-run", "", "first pod none on the node", ""}},
		"a frozen rule": {waits("Frozen", v1alpha1.NodeStateExempt), nil, []string{"rule network",
			"condition example.com/CNI " + empty + " not yet", "all evidence " + empty + " not yet",
			"released the rule is frozen", "", "first pod none on the node", ""}},
		"a suspended rule that still holds the node": {waits("Suspended", v1alpha1.NodeStateHeld), nil, []string{
			"rule network", "condition example.com/CNI " + empty + " not yet", "all evidence " + empty + " not yet",
			"released " + empty + " not yet", "", "first pod none on the node", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c.node.Node, c.node.CreatedAt, c.node.At = "n", *at(0), *at(600)
			var got []string
			for line := range strings.SplitSeq(NewTimeline(&c.node, c.pod, c.node.Unread == nil).Text(style()), "\n") {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if diff := cmp.Diff(append([]string{"Node n, created 2026-01-02T03:04:05Z", ""}, c.want...), got); diff != "" {
				t.Error(diff)
			}
		})
	}

	// The documentation shows this one.
	raw, err := os.ReadFile("../../../docs/kubectl-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := NewTimeline(&NodeExplanation{Node: "worker-3", CreatedAt: *at(0), At: *at(600),
		Rules: []RuleExplanation{network}}, &pod, true)
	if text := sample.Text(style()); !strings.Contains(string(raw), "```\n"+text+"```\n") {
		t.Errorf("docs/kubectl-plugin.md does not have this chart:\n%s", text)
	}
}
