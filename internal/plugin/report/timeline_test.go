// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
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
	held := RuleExplanation{Rule: "network", State: v1alpha1.NodeStateHeld, Policy: v1alpha1.ConditionPolicyAllOf,
		Evidence: []Evidence{{Condition: "example.com/CNI", Satisfied: new(false), Since: at(0)}}}
	full, half, quarter := strings.Repeat("█", 40), strings.Repeat("█", 20), strings.Repeat("█", 10)
	for name, c := range map[string]struct {
		of   Timeline
		want []string
	}{
		"a node that is ready": {Timeline{FirstPod: &pod, Node: &NodeExplanation{Node: "n", CreatedAt: *at(0), At: *at(600),
			Rules: []RuleExplanation{network, gpus}}}, []string{
			"Node n, created 2026-01-02T03:04:05Z", "", "rule network", "condition example.com/CNI " + quarter + " 20s",
			"requirement warm-up " + half + " 40s", "all evidence " + half + " 40s",
			"released " + strings.Repeat("█", 30) + " 1m0s", "", "rule gpus", "condition example.com/GPU unknown",
			"requirement gpus unknown", "all evidence unknown", "released " + strings.Repeat("█", 35) + " 1m10s", "",
			"first pod " + full + " 1m20s", ""}},
		"a node that is held": {Timeline{Node: &NodeExplanation{Node: "n", CreatedAt: *at(0), At: *at(600), Held: true,
			Rules: []RuleExplanation{held}}}, []string{
			"Node n, created 2026-01-02T03:04:05Z", "", "rule network",
			"condition example.com/CNI " + strings.Repeat("░", 40) + " not yet",
			"all evidence " + strings.Repeat("░", 40) + " not yet", "released " + strings.Repeat("░", 40) + " not yet", "",
			"first pod " + strings.Repeat("░", 40) + " not yet", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := c.of.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.SplitSeq(b.String(), "\n") {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
