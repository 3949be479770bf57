// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

func allGone(string) (time.Time, bool) { return Start, true }

// TestTheConditionOfADeletedRule: the record names it until it is removed, or another rule publishes it.
func TestTheConditionOfADeletedRule(t *testing.T) {
	const condition = "example.com/P"
	names := func(conditionType string) string { return fmt.Sprintf(`{"rule":"gone","published":%q}`, conditionType) }
	published := func(conditionType, reason string) *build.NodeWrapper {
		return Fresh().Condition(conditionType, "True", At(0)).Reason(conditionType, reason, "").
			Annotation(goneKey, names(conditionType))
	}
	ready := v1alpha1.PublishedReasonPrefix + "Ready"
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		want []string
	}{
		"it is on the node": {published(condition, ready), []string{condition}},
		"and the rule had tainted the node": {published(condition, ready).Annotation(goneKey,
			`{"rule":"gone","taint":"example.com/gone=x:NoSchedule","since":"`+Stamp(1)+`","published":"`+condition+`"}`),
			[]string{condition}},
		"it is removed":              {published(condition, ready).Without(condition), nil},
		"it is another controller's": {published(condition, "Theirs"), nil},
		"another rule names it":      {published(condition, ready).Annotation(RecordKey, names(condition)), nil},
		"another rule names another": {published(condition, ready).Annotation(RecordKey, names("example.com/Q")),
			[]string{condition}},
		"another client notes as much": {published(condition, ready).Annotation("example.com/note", names(condition)),
			[]string{condition}},
		"the record is forged":      {published(string(corev1.NodeReady), ready), nil},
		"the record cannot be read": {published(condition, ready).Annotation(goneKey, "{{{"), nil},
		"the record names none":     {published(condition, ready).Annotation(goneKey, `{"rule":"gone"}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := ruleset.NewSet(ruleset.Compile(Rule().Obj(), nil, Start))
			s := taints.Sweep(c.node.Obj(), set, allGone, nil, At(1))
			if diff := cmp.Diff(c.want, s.Published); diff != "" {
				t.Errorf("conditions to remove (-want +got):\n%s", diff)
			}
			want := map[bool]string{true: names(condition)}[c.want != nil]
			if got := s.Node.Annotations[goneKey]; got != want {
				t.Errorf("the record is %s, want %s", got, want)
			}
		})
	}
}

// TestMarkersAreLookedAtAgain when the first of them has stayed for ten minutes.
func TestMarkersAreLookedAtAgain(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(Rule().Obj(), nil, Start))
	node := Fresh().Annotation(goneMarker, "{}").Annotation("readiness.k8s.io/bootstrap-completed-else", "{}").
		Annotation("readiness.k8s.io/bootstrap-completed-older", "{}").Obj()
	since := map[string]int{"u-gone": 20, "else": 60, "older": 10}
	s := taints.Sweep(node, set, func(ref string) (time.Time, bool) { return At(since[ref]), true }, nil, At(70))
	if !s.RecheckAt.Equal(At(610)) {
		t.Errorf("looked at again at %s", s.RecheckAt)
	}
	s = taints.Sweep(node, set, func(ref string) (time.Time, bool) { return At(80 - since[ref]), true }, nil, At(90))
	if !s.RecheckAt.Equal(At(620)) {
		t.Errorf("looked at again at %s", s.RecheckAt)
	}
}

// TestARecordIsBelieved where no rules of the past are known, as in the kubectl plugin.
func TestARecordIsBelieved(t *testing.T) {
	set := ruleset.NewSet(ruleset.Compile(Rule().Obj(), nil, Start))
	node := Fresh().Annotation(goneKey, goneAdmitted).Annotation(RecordKey, goneAdmitted).Obj()
	s := taints.Sweep(node, set, allGone, nil, At(1))
	if len(s.Claims) != 1 || len(s.Doubtful) > 0 || s.Node.Annotations[RecordKey] == "" {
		t.Errorf("claims %v, doubtful %v, annotations %v", s.Claims, s.Doubtful, s.Node.Annotations)
	}
}

// TestDoubtfulTaintsThatStay are those that are on the node, and that no rule claims.
func TestDoubtfulTaintsThatStay(t *testing.T) {
	const key = "example.com/gone"
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		rule *build.RuleWrapper
		want int
	}{
		"on the node":     {Fresh().Taint(key, "x", NoSchedule), Rule(), 1},
		"not on the node": {Fresh(), Rule(), 0},
		"a rule has it":   {Fresh().Taint(key, "x", NoSchedule), RuleOf("else", CNI, key), 0},
	} {
		w := NewWorld(t, c.rule)
		w.Gone = []string{"u-gone"}
		node := c.node.Annotation(goneKey, goneAdmitted).Obj()
		swept, decisions := w.Decide(node, At(1))
		if c.want == 0 && swept.Doubtful == nil {
			// The rule has the taint now, and may have had it when the node was admitted.
			swept.Doubtful = []corev1.Taint{{Key: key, Value: "x", Effect: NoSchedule}}
		}
		if got := len(taints.Plan(node, swept, decisions, At(1)).Left); got != c.want {
			t.Errorf("%s: %d taints are left, want %d", name, got, c.want)
		}
	}
}
