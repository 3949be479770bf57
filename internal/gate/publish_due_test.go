// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/test/build"
)

// TestTheFirstMessageThatIsDueCounts, also beside a condition that does not change.
func TestTheFirstMessageThatIsDueCounts(t *testing.T) {
	for _, due := range [][2]time.Duration{{time.Second, 30 * time.Second}, {30 * time.Second, time.Second}} {
		n := node().Condition("A", isFalse, now.Add(-time.Hour))
		var rules []*build.RuleWrapper
		for i, name := range []string{"r", "s", "t"} {
			conditionType := "example.com/" + name
			rules = append(rules, rule(name, "A").Publish(conditionType))
			n.Condition(conditionType, isFalse, now.Add(-time.Hour)).Reason(conditionType, "NodegateRuleNotReady",
				"rule t: condition A is False, must be True")
			if i < len(due) {
				n.Reason(conditionType, "NodegateRuleNotReady", "rule "+name+": other").
					Heartbeat(conditionType, now.Add(due[i]-61*time.Second))
			}
		}
		if got := DecideNode(input(n.Obj(), rules...)).RecheckAt; !got.Equal(now.Add(time.Second)) {
			t.Errorf("due in %v: looked at again at %s", due, got)
		}
	}
}

// TestTheConditionOfADeletedRule is removed, unless another rule or controller publishes it.
func TestTheConditionOfADeletedRule(t *testing.T) {
	bare := func() *build.NodeWrapper { return node().Condition("A", isTrue, now.Add(-time.Hour)) }
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		rule *build.RuleWrapper
		want []string
	}{
		"it is there": {marked(bare(), isTrue, "NodegateRuleReady", ""), rule("s", "A"),
			[]string{"removed " + verdictType}},
		"it is gone":                {bare(), rule("s", "A"), nil},
		"another controller has it": {marked(bare(), isTrue, "Theirs", ""), rule("s", "A"), nil},
		"another rule publishes it": {marked(bare(), isTrue, "NodegateRuleReady", ""), publishing("s"),
			[]string{"True Ready"}},
		"another rule publishes more": {marked(bare(), isTrue, "NodegateRuleReady", ""),
			rule("s", "A").Publish("example.com/Other"), []string{"True Ready", "removed " + verdictType}},
	} {
		in := input(c.node.Obj(), c.rule)
		in.Orphans = []string{verdictType}
		if diff := cmp.Diff(c.want, changes(DecideNode(in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
