// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

// admitted is the record of a claim that admission makes.
func admitted(since int) string {
	return fmt.Sprintf(`{"rule":"cni","taint":%q,"since":%q}`, Pending, Stamp(since))
}

// TestAdmission: what the request leaves on the node. The admission policy decides in the same way.
func TestAdmission(t *testing.T) {
	unselected := func() *build.NodeWrapper { return Fresh().Unlabel("pool") }
	lost := Old().Label("pool", "workers")
	for name, c := range map[string]struct {
		rule        *build.RuleWrapper // by default the rule "cni"
		old         *build.NodeWrapper // nil: the request creates the node
		node        *build.NodeWrapper
		taints      []string
		annotations map[string]string
	}{
		"created": {node: Fresh(), taints: []string{Pending}, annotations: Recorded(admitted(11))},
		"created with the taint": {node: Fresh().Taint(Key, "kubelet", NoSchedule),
			taints: []string{Key + "=kubelet:NoSchedule"}, annotations: Recorded(admitted(11))},
		"created for another pool": {node: unselected()},
		"created as one that is done": {node: Fresh().Annotation(MarkerKey, IsMarked),
			annotations: Annotated{MarkerKey: IsMarked}},
		"created as one that is done, in the older form": {node: Fresh().Annotation(OldMarker, IsMarked),
			annotations: Annotated{OldMarker: IsMarked}},
		"created with a record of its creator": {node: Fresh().Annotation(RecordKey, Released(0)).Annotation("mine", "x"),
			taints: []string{Pending}, annotations: Annotated{RecordKey: admitted(11), "mine": "x"}},
		"created with a record of a rule that is not known": {node: Fresh().Annotation(goneKey, goneAdmitted),
			taints: []string{Pending}, annotations: Recorded(admitted(11))},
		"created as one that is done, with a claim": {node: Fresh().Annotation(MarkerKey, IsMarked).
			Annotation(RecordKey, admitted(11)).Taint(Key, "pending", NoSchedule), taints: []string{Pending},
			annotations: Annotated{MarkerKey: IsMarked}},
		"claimed before another webhook labelled it": {node: unselected().Annotation(RecordKey, admitted(11)).
			Taint(Key, "pending", NoSchedule), taints: []string{Pending}, annotations: Recorded(admitted(11))},
		"claimed before, by the record alone": {node: unselected().Annotation(RecordKey, admitted(11))},
		"released, by its creator": {node: unselected().Annotation(RecordKey, Released(0)).
			Taint(Key, "pending", NoSchedule), taints: []string{Pending}},
		"of another taint, by its creator": {node: unselected().Annotation(RecordKey, goneAdmitted).
			Taint(Key, "pending", NoSchedule), taints: []string{Pending}},
		"created, and the taint evicts": {rule: Rule().Taint(Key, "pending", NoExecute), node: Fresh(),
			taints: []string{Key + "=pending:NoExecute"}, annotations: Recorded(fmt.Sprintf(
				`{"rule":"cni","taint":"%s=pending:NoExecute","since":%q}`, Key, Stamp(11)))},

		"relabelled": {old: unselected(), node: Fresh(), taints: []string{Pending},
			annotations: Recorded(admitted(10))},
		"changed":                             {old: Fresh(), node: Fresh().Label("a", "b")},
		"relabelled, and being deleted":       {old: unselected().Terminating(At(5)), node: Fresh().Terminating(At(5))},
		"relabelled, and older than the rule": {old: Old().Unlabel("pool"), node: lost},
		"relabelled, and known to the rule": {old: unselected().Annotation(RecordKey, Released(0)),
			node: Fresh().Annotation(RecordKey, Released(0)), annotations: Recorded(Released(0))},
		"relabelled, and tainted": {old: unselected().Taint(Key, "", NoSchedule), node: Fresh().Taint(Key, "", NoSchedule),
			taints: []string{Key + "=:NoSchedule"}},
		"relabelled, and the taint evicts": {rule: Rule().Taint(Key, "pending", NoExecute), old: unselected(),
			node: Fresh()},
		"relabelled, by kubelet's first report": {old: unselected(),
			node: Fresh().Condition(string(corev1.NodeReady), "False", At(5)), taints: []string{Pending},
			annotations: Recorded(admitted(10))},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.rule
			if r == nil {
				r = Rule()
			}
			admitting, _ := NewWorld(t, r).Set(At(0)).ForAdmission(nil)
			var old *corev1.Node
			if c.old != nil {
				old = c.old.Obj()
			}
			out := taints.Admit(ruleset.CompileAdmission(admitting), old, c.node.Obj(), At(10))
			after, err := TryApply(t, c.node.Obj(), out.Patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.taints, Formatted(after)); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if len(after.Annotations) == 0 {
				after.Annotations = nil
			}
			if diff := cmp.Diff(c.annotations, after.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAdmissionAddsNoMoreThanTheAPIServerBears: all or nothing.
func TestAdmissionAddsNoMoreThanTheAPIServerBears(t *testing.T) {
	for name, c := range map[string]struct{ rules, annotations, claims int }{
		"200 rules":                {200, 0, 200},
		"201 rules":                {201, 0, 0},
		"499 annotations":          {1, 499, 1},
		"500 annotations":          {1, 500, 0},
		"two rules, and too many":  {2, 499, 0},
		"two rules, and 498 exist": {2, 498, 2},
	} {
		var rules []*build.RuleWrapper
		for i := range c.rules {
			rules = append(rules, RuleOf(fmt.Sprintf("r%d", i), CNI, fmt.Sprintf("example.com/r%d", i)))
		}
		admitting, _ := NewWorld(t, rules...).Set(At(0)).ForAdmission(nil)
		node := Fresh()
		for i := range c.annotations {
			node.Annotation(fmt.Sprintf("example.com/a%d", i), "")
		}
		if got := taints.Admit(ruleset.CompileAdmission(admitting), nil, node.Obj(), At(0)).Claims; got != c.claims {
			t.Errorf("%s: %d taints are added, want %d", name, got, c.claims)
		}
	}
}

// TestAdmittedByPolicy: the admission policy has no clock, and its claims have no time.
func TestAdmittedByPolicy(t *testing.T) {
	r := ruleset.Compile(Rule().Obj(), nil, At(0))
	for record, want := range map[string]bool{
		fmt.Sprintf(`{"taint":%q}`, Pending): true,
		admitted(1):                          false,
		`{"rule":"cni"}`:                     false,
		"{{{":                                false,
	} {
		if got := taints.AdmittedByPolicy(r, Fresh().Annotation(RecordKey, record).Obj()); got != want {
			t.Errorf("%s: %t", record, got)
		}
	}
	if taints.AdmittedByPolicy(r, Fresh().Obj()) {
		t.Error("a node without a record")
	}
}
