// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package story plays stories of one node under its rules, without a server. Each step is a pass of the node
// controller, whose patch is applied as the API server does. A second pass must plan nothing.
package story

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4" // the one that the API server applies patches with
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
)

// The conditions, the taint and the annotations of the stories.
const (
	CNI  = "example.com/CNI"
	Disk = "example.com/Disk"

	Key        = "readiness.k8s.io/cni"
	NoSchedule = corev1.TaintEffectNoSchedule
	NoExecute  = corev1.TaintEffectNoExecute

	CompletedAt = "startup.k8s.io/completedAt"

	RecordKey = "nodegate.io/rule-u-cni"
	MarkerKey = "readiness.k8s.io/bootstrap-completed-u-cni"
	OldMarker = "readiness.k8s.io/bootstrap-completed-cni"
	IsMarked  = `{"rule-name":"cni"}`
	Pending   = Key + "=pending:NoSchedule"
)

// Ready reports the CNI's condition as True.
func Ready(seconds int) Edit {
	return func(n *build.NodeWrapper) { n.Condition(CNI, "True", At(seconds)) }
}

// Unready reports the CNI's condition as False.
func Unready(seconds int) Edit {
	return func(n *build.NodeWrapper) { n.Condition(CNI, "False", At(seconds)) }
}

// Claimed is the record of a node that the rule holds since then.
func Claimed(since int) string {
	return fmt.Sprintf(`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","since":"%s","own":true}`,
		Stamp(since))
}

// Foreign makes a record say that another client had added the taint.
func Foreign(record string) string {
	return strings.TrimSuffix(strings.Replace(record, `,"own":true`, "", 1), "}") + `,"adopted":true}`
}

// Released is the record of a node that was released then.
func Released(at int) string { return fmt.Sprintf(`{"rule":"cni","released":"%s"}`, Stamp(at)) }

// Found makes a record say that the node was in service before its release was recorded.
func Found(record string) string { return strings.TrimSuffix(record, "}") + `,"found":true}` }

// Counted makes a record say that its claim used the limit.
func Counted(record string) string {
	return strings.Replace(record, `,"released"`, `,"limited":true,"released"`, 1)
}

// Forced makes a record say that its claim was made for an override.
func Forced(record string) string {
	return strings.Replace(record, `,"released"`, `,"forced":true,"released"`, 1)
}

// Reclaimed is the record of a node that was released, and is held since then.
func Reclaimed(since, releasedAt int) string {
	return fmt.Sprintf(`{"rule":"cni","taint":"readiness.k8s.io/cni=pending:NoSchedule","since":"%s","released":"%s"}`,
		Stamp(since), Stamp(releasedAt))
}

// Start is when all stories begin.
var Start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// At is so many seconds after the start.
func At(seconds int) time.Time { return Start.Add(time.Duration(seconds) * time.Second) }

// Stamp is At, as records have it.
func Stamp(seconds int) string { return At(seconds).Format(time.RFC3339) }

// Rule is an enforced rule of the workers on the condition and taint of the CNI, created a day before the start, and
// in force since then.
func Rule() *build.RuleWrapper { return RuleOf("cni", CNI, Key) }

// RuleOf is such a rule of any name.
func RuleOf(name, condition, taintKey string) *build.RuleWrapper {
	return InForce(build.MakeRule(name).UID("u-"+name).Generation(1).Created(At(-86400)).Selector("pool", "workers").
		Condition(condition).Taint(taintKey, "pending", NoSchedule), -86400)
}

// InForce makes the status of a rule say since when it is in force.
func InForce(r *build.RuleWrapper, since int) *build.RuleWrapper {
	hash := ruleset.Compile(r.Obj(), nil, Start).SelectorHash
	r.Status.Conditions = nil
	return r.StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(At(since), hash)
}

// Incumbents is what the incumbent controller leaves: a status with its nodes and no condition of ours.
func Incumbents() *build.RuleWrapper {
	return build.MakeRule("cni").UID("u-cni").Generation(1).Created(At(-86400)).Selector("pool", "workers").
		Condition(CNI).Taint(Key, "pending", NoSchedule).StatusNode("n1", v1alpha1.TaintPresent)
}

// Fresh is a node of the workers that has joined at the start, without any condition, taint or annotation.
func Fresh() *build.NodeWrapper {
	return build.MakeNode("n1").UID("uid-n1").Label("pool", "workers").Created(At(0))
}

// Old is such a node that was there before the rules.
func Old() *build.NodeWrapper { return Fresh().Created(At(-2 * 86400)) }

// World is what a test's passes have in common.
type World struct {
	t        *testing.T
	Objects  []*build.RuleWrapper // the rules
	compiled map[types.UID]*ruleset.Rule
	observed map[types.UID]readiness.Observed
	known    map[string]bool // the taints that rules have had
	Gone     []string        // references to rules that are known to be gone
	Refuse   []string        // names of rules whose limit is used up
	Asked    bool            // the last pass has asked the limit
	// Frozen is a problem that freezes all rules, and is not their own; empty for none.
	Frozen string
	// Foreign are the taints of another controller.
	Foreign ruleset.Foreign
	// Evicted says that what was due when a guard ended is evicted.
	Evicted bool
	// Objective is the time within which a node should be ready for the first time; 0 for none.
	Objective time.Duration
}

// NewWorld returns a world with these rules.
func NewWorld(t *testing.T, rules ...*build.RuleWrapper) *World {
	return &World{t: t, Objects: rules, compiled: map[types.UID]*ruleset.Rule{}, known: map[string]bool{},
		observed: map[types.UID]readiness.Observed{}}
}

// Restart forgets what a process remembers.
func (w *World) Restart() {
	w.compiled, w.observed = map[types.UID]*ruleset.Rule{}, map[types.UID]readiness.Observed{}
	w.known = map[string]bool{}
}

// Set returns the rules, compiled.
func (w *World) Set(now time.Time) *ruleset.Set {
	compiled, set := ruleset.NewSet(), ruleset.NewSet()
	for _, obj := range w.Objects {
		compiled = compiled.With(ruleset.Compile(obj.Obj(), w.compiled[obj.NodeReadinessRule.UID], now))
	}
	for _, r := range compiled.Yield(w.Foreign, now).All() {
		w.compiled[r.UID] = r
		if w.Frozen != "" {
			r = r.Freeze(ruleset.Problem{Reason: w.Frozen, Message: "x"})
		}
		set = set.With(r)
	}
	if w.Foreign != nil {
		set = set.Resolve(ruleset.Known{Foreign: w.Foreign}, ruleset.NewSet())
	}
	return set
}

// Decide decides as the node controller does.
func (w *World) Decide(node *corev1.Node, now time.Time) (taints.Swept, []state.Decision) {
	w.t.Helper()
	set, swept := w.sweep(node, now)
	return swept, w.decide(node, set, swept, nil, w.reserve, now)
}

func (w *World) sweep(node *corev1.Node, now time.Time) (*ruleset.Set, taints.Swept) {
	set := w.Set(now)
	for _, r := range set.All() {
		if r.Taint != nil {
			w.known[string(r.UID)+r.Taint.Key+string(r.Taint.Effect)] = true
		}
	}
	return set, taints.Sweep(taints.Succeed(node, set), set, func(ref string) (time.Time, bool) {
		return Start, slices.Contains(w.Gone, ref)
	}, func(_ *corev1.Node, uid string, taint *corev1.Taint) bool {
		return w.known[uid+taint.Key+string(taint.Effect)]
	}, now)
}

func (w *World) decide(node *corev1.Node, set *ruleset.Set, swept taints.Swept, noRoom map[types.UID]bool,
	reserve taints.Reserve, now time.Time) []state.Decision {
	override, _ := nodeview.OverrideOf(node, now)
	out := gate.DecideNode(&gate.NodeInput{
		Node: node, Swept: swept.Node, Rules: set, Evidence: &evidence.Gathered{}, Override: override, Now: now,
		Observed: func(r *ruleset.Rule) readiness.Observed { return w.observed[r.UID] },
		Reserve:  reserve, Evicted: func(*ruleset.Rule) bool { return w.Evicted }, Objective: w.Objective, NoRoom: noRoom,
	})
	for _, d := range out.Decisions {
		if d.Was.Matches {
			w.observed[d.Rule.UID] = d.Verdict.Observed
		}
	}
	return out.Decisions
}

func (w *World) reserve(r *ruleset.Rule, _ limit.Request) string {
	w.Asked = true
	return map[bool]string{true: "the limit is reached"}[slices.Contains(w.Refuse, r.Name)]
}

// plan decides, and plans the patch.
func (w *World) plan(node *corev1.Node, now time.Time) (out taints.Outcome, decisions []state.Decision) {
	w.t.Helper()
	set, swept := w.sweep(node, now)
	decide := func(noRoom map[types.UID]bool, reserve taints.Reserve) []state.Decision {
		decisions = w.decide(node, set, swept, noRoom, reserve, now)
		return decisions
	}
	out = taints.Decide(node, swept, now, w.reserve, decide)
	return out, decisions
}

// Pass is one pass over a node, and what the API server has made of it. A second pass must plan nothing.
func (w *World) Pass(node *corev1.Node, now time.Time) (*corev1.Node, taints.Outcome, []state.Decision) {
	w.t.Helper()
	before := node.DeepCopy()
	w.Asked = false
	out, decisions := w.plan(node, now)
	asked := w.Asked
	if diff := cmp.Diff(before, node); diff != "" {
		w.t.Errorf("the node as read was changed (-before +after):\n%s", diff)
	}
	if out.Patch == nil && len(out.Changes) > 0 {
		w.t.Errorf("changes without a patch: %v", changesOf(out))
	}
	after := apply(w.t, node, out.Patch)

	second, again := w.plan(after, now)
	w.Asked = asked
	if second.Patch != nil {
		w.t.Errorf("a second pass plans %s\nafter %s\non %v", second.Patch, out.Patch, after.Annotations)
	}
	for i := range again {
		if i < len(decisions) && decisions[i].Rule.UID == again[i].Rule.UID && !again[i].Frozen &&
			decisions[i].Claim != again[i].Claim {
			w.t.Errorf("%s: a second pass decides otherwise: claim %t, then %t", again[i].Rule.Name, decisions[i].Claim,
				again[i].Claim)
		}
	}
	return after, out, decisions
}

// apply is the node as the API server stores it when it gets the patch.
func apply(t *testing.T, node *corev1.Node, patch []byte) *corev1.Node {
	t.Helper()
	after, err := TryApply(t, node, patch)
	if err != nil {
		t.Fatalf("the patch is refused: %v\n%s", err, patch)
	}
	return after
}

// TryApply is apply, and returns the error if the patch is refused.
func TryApply(t *testing.T, node *corev1.Node, patch []byte) (*corev1.Node, error) {
	t.Helper()
	if patch == nil {
		return node.DeepCopy(), nil
	}
	doc, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("not a JSON Patch: %v\n%s", err, patch)
	}
	doc, err = p.Apply(doc)
	if err != nil {
		return nil, err
	}
	after := &corev1.Node{}
	if err := json.Unmarshal(doc, after); err != nil {
		t.Fatalf("not a node any more: %v", err)
	}
	return after, nil
}

// Formatted are a node's taints in words.
func Formatted(node *corev1.Node) []string {
	var out []string
	for _, t := range node.Spec.Taints {
		out = append(out, nodeview.FormatTaint(t))
	}
	return out
}

// changesOf is what a patch does, each as "operation rule taint".
func changesOf(o taints.Outcome) []string {
	var out []string
	for _, c := range o.Changes {
		name, taint := "-", ""
		if c.Rule != nil {
			name = c.Rule.Name
		}
		if c.Taint.Key != "" {
			taint = nodeview.FormatTaint(c.Taint)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Operation, name, taint)))
	}
	return out
}
