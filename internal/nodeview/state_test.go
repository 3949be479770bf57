// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

const (
	diskRecord   = "nodegate.io/rule-u-disk"
	formerRecord = "nodegate.io/rule-u-former"
	claim        = `{"rule":"disk","taint":"readiness.k8s.io/cni=:NoSchedule"}`
)

func compiled(r *build.RuleWrapper) *ruleset.Rule { return ruleset.Compile(r.Obj(), nil, At(10)) }

// successor continues the rule with the UID u-former.
func successor() *build.RuleWrapper {
	r := Rule()
	r.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: "u-former"}
	return r
}

func TestWhoHoldsANode(t *testing.T) {
	inForce := func() *build.RuleWrapper { return InForce(Rule(), -100) }
	tainted := func() *build.NodeWrapper { return Fresh().Taint(Key, "pending", NoSchedule) }
	for name, c := range map[string]struct {
		rule   *ruleset.Rule
		node   *build.NodeWrapper
		shared bool
		holds  bool
	}{
		"another rule": {node: tainted().Annotation(diskRecord, claim), shared: true},
		"another rule, and this": {holds: true,
			node: tainted().Annotation(diskRecord, claim).Annotation(RecordKey, Claimed(1))},
		"another rule, and its taint is gone": {node: Fresh().Annotation(diskRecord, claim)},
		"another rule, by another taint": {
			node: tainted().Annotation(diskRecord, `{"rule":"disk","taint":"readiness.k8s.io/disk=:NoSchedule"}`)},
		"no rule: an annotation that looks like a record": {node: tainted().Annotation("example.com/rule-u-disk", claim)},
		"the incumbent":                        {rule: compiled(Incumbents()), node: tainted(), holds: true},
		"the incumbent, and its taint is gone": {rule: compiled(Incumbents()), node: Fresh()},
		"another client, after this rule's release": {rule: compiled(Incumbents()),
			node: tainted().Annotation(RecordKey, Released(1))},
		"no rule: a record with a time and no claim": {
			node: Fresh().Annotation(RecordKey, fmt.Sprintf(`{"rule":"cni","since":%q}`, Stamp(1)))},
		"a rule without a taint, since before it was last in force": {holds: true, node: Old().Annotation(RecordKey,
			fmt.Sprintf(`{"rule":"cni","since":%q}`, Stamp(-1000))),
			rule: compiled(InForce(Rule().Untainted().Publish("example.com/Verdict"), -100))},
		"no rule: its taint is gone since before it was last in force": {rule: compiled(inForce()),
			node: Old().Annotation(RecordKey, Claimed(-1000))},
		"a frozen rule, whose taint is gone": {holds: true, node: Old().Annotation(RecordKey, Claimed(-1000)),
			rule: compiled(inForce()).Freeze(ruleset.Problem{Reason: ruleset.ReasonPending})},
	} {
		if c.rule == nil {
			c.rule = compiled(Rule())
		}
		s := nodeview.StateOf(c.rule, c.node.Obj(), At(10))
		if s.Shared != c.shared || s.Claimed != c.holds {
			t.Errorf("%s: shared %t, held by this rule %t", name, s.Shared, s.Claimed)
		}
	}
}

func TestTheLimitCountsNoNodeThatIsNeitherHeldNorInService(t *testing.T) {
	n := Fresh().Annotation(RecordKey, `{"rule":"cni","limited":true}`).Obj()
	if nodeview.StateOf(compiled(Rule()), n, At(10)).Counted {
		t.Error("a node without a claim is counted, because an earlier claim used the limit")
	}
}

func TestRebooted(t *testing.T) {
	rearming := compiled(Rule().RearmOnReboot())
	booted := func() *build.NodeWrapper {
		return Fresh().BootID("b2").Condition("Ready", "True", At(5)).Annotation(RecordKey, `{"rule":"cni","bootID":"b1"}`)
	}
	held := `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","bootID":"b1"}`
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		want evidence.Boot
	}{
		"since kubelet reports":    {booted(), evidence.Boot{Bound: At(5), SeenAt: At(10)}},
		"kubelet has not reported": {booted().Without("Ready"), evidence.Boot{Bound: At(10), SeenAt: At(10)}},
		"kubelet reports no time": {booted().Heartbeat("Ready", time.Time{}),
			evidence.Boot{Bound: At(10), SeenAt: At(10)}},
		"terminating": {booted().Terminating(At(1)), evidence.Boot{}},
		"terminating, and it is held": {booted().Terminating(At(1)).Annotation(RecordKey, held),
			evidence.Boot{Bound: At(5), SeenAt: At(10)}},
	} {
		s := nodeview.StateOf(rearming, c.node.Obj(), At(10))
		if diff := cmp.Diff(c.want, s.Boot); diff != "" || s.Rebooted != !c.want.SeenAt.IsZero() {
			t.Errorf("%s: rebooted is %t, boot (-want +got):\n%s", name, s.Rebooted, diff)
		}
	}
}

// TestInServiceSince: DaemonSets that are created later do not hold a node that is in service.
func TestInServiceSince(t *testing.T) {
	for name, c := range map[string]struct {
		node *build.NodeWrapper
		want evidence.Service
	}{
		"its release": {Fresh().Annotation(RecordKey, Released(1)),
			evidence.Service{Released: At(1), Undisrupted: true}},
		"its release, and it is held": {Fresh().Annotation(RecordKey, Reclaimed(5, 1)),
			evidence.Service{Released: At(1)}},
		"before the rule":                {Old(), evidence.Service{Released: At(-86400)}},
		"never":                          {Fresh(), evidence.Service{}},
		"an unknown time, by its marker": {Fresh().Annotation(MarkerKey, IsMarked), evidence.Service{}},
	} {
		n, r := c.node.Obj(), compiled(Rule())
		s := nodeview.StateOf(r, n, At(10))
		if diff := cmp.Diff(c.want, s.Service(r, n)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMarkersOfTheRuleThatThisOneContinuesCount: the node has completed it under that rule.
func TestMarkersOfTheRuleThatThisOneContinuesCount(t *testing.T) {
	n := Fresh().Annotation("readiness.k8s.io/bootstrap-completed-u-former", IsMarked).Obj()
	if !nodeview.Completed(compiled(successor()), n) {
		t.Error("the node has not completed the rule")
	}
	if nodeview.Completed(compiled(successor()), Fresh().Obj()) {
		t.Error("a node without a marker has completed the rule")
	}
}

// TestTheRecordOfARuleThatContinuesAnother: admission knows only the new rule, and claims for it.
func TestTheRecordOfARuleThatContinuesAnother(t *testing.T) {
	admitted, written := `{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`, Released(1)
	for name, c := range map[string]struct {
		own, former string
		want        string // the key
	}{
		"its own":                              {own: written, want: RecordKey},
		"the other rule's":                     {former: written, want: formerRecord},
		"both, its own by admission":           {own: admitted, former: written, want: formerRecord},
		"both, its own by the operator":        {own: Released(2), former: written, want: RecordKey},
		"both by admission":                    {own: admitted, former: admitted, want: RecordKey},
		"its own by admission, beside garbage": {own: admitted, former: `{{{`, want: RecordKey},
		"the other rule's, beside garbage":     {own: `{{{`, former: written, want: formerRecord},
	} {
		n := Fresh()
		if c.own != "" {
			n.Annotation(RecordKey, c.own)
		}
		if c.former != "" {
			n.Annotation(formerRecord, c.former)
		}
		if key, value, ok := nodeview.RecordOn(compiled(successor()), n.Obj()); key != c.want || !ok ||
			value != n.Annotations[c.want] {
			t.Errorf("%s: %s %s", name, key, value)
		}
	}
}

// TestLeftover: completion markers outlive a rule, if the user does not ask for their removal.
func TestLeftover(t *testing.T) {
	removing := Rule()
	removing.Annotations = map[string]string{v1alpha1.RemoveMarkersAnnotation: "true"}
	for name, c := range map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want bool
	}{
		"a record":              {Rule(), Fresh().Annotation(RecordKey, Claimed(1)), true},
		"a marker":              {Rule(), Fresh().Annotation(MarkerKey, IsMarked), false},
		"a marker that must go": {removing, Fresh().Annotation(MarkerKey, IsMarked), true},
		"none that must go":     {removing, Fresh(), false},
		"the incumbent's taint": {Incumbents(), Fresh().Taint(Key, "pending", NoSchedule), true},
		"the incumbent's taint, which another rule claims": {Incumbents(),
			Fresh().Taint(Key, "pending", NoSchedule).Annotation(diskRecord, claim), false},
		"no taint of the incumbent": {Incumbents(), Fresh(), false},
	} {
		if got := nodeview.Leftover(compiled(c.rule), c.node.Obj()); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestExpired: replacement is for nodes that never became ready, and whose timeout has ended.
func TestExpired(t *testing.T) {
	timedOut := metav1.NewTime(At(1))
	for name, c := range map[string]struct {
		record         nodeview.Record
		fresh, expired bool
	}{
		"new":                        {nodeview.Record{}, true, false},
		"timed out":                  {nodeview.Record{TimedOut: timedOut}, true, true},
		"in service when first seen": {nodeview.Record{TimedOut: timedOut, Existing: true}, false, false},
		"its start was counted":      {nodeview.Record{TimedOut: timedOut, Counted: true}, false, false},
		"rebooted":                   {nodeview.Record{TimedOut: timedOut, RearmedAt: timedOut}, false, false},
		"rebooted before its start had ended": {
			nodeview.Record{TimedOut: timedOut, RearmedAt: timedOut, Starting: true}, true, true},
	} {
		s := &nodeview.State{}
		if fresh, expired := s.Fresh(&c.record), s.Expired(&c.record); fresh != c.fresh || expired != c.expired {
			t.Errorf("%s: never released %t, expired %t", name, fresh, expired)
		}
	}
}
