// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4" // the one that the API server applies patches with
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	cni  = "example.com/CNI"
	disk = "example.com/Disk"

	key        = "readiness.k8s.io/cni"
	noSchedule = corev1.TaintEffectNoSchedule
	noExecute  = corev1.TaintEffectNoExecute

	completedAt = "startup.k8s.io/completedAt"
)

var start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// stamp is at, as records have it.
func stamp(seconds int) string { return at(seconds).Format(time.RFC3339) }

// rule is an enforced rule of the workers on the condition and taint of the CNI, created a day before the start, and
// in force since then.
func rule() *build.RuleWrapper { return ruleOf("cni", cni, key) }

// ruleOf is such a rule of any name.
func ruleOf(name, condition, taintKey string) *build.RuleWrapper {
	return inForce(build.MakeRule(name).UID("u-"+name).Generation(1).Created(at(-86400)).Selector("pool", "workers").
		Condition(condition).Taint(taintKey, "pending", noSchedule), -86400)
}

// inForce makes the status of a rule say since when it is in force.
func inForce(r *build.RuleWrapper, since int) *build.RuleWrapper {
	hash := ruleset.Compile(r.Obj(), nil, start).SelectorHash
	r.Status.Conditions = nil
	return r.StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(at(since), hash)
}

// fresh is a node of the workers that has joined at the start, without any condition, taint or annotation.
func fresh() *build.NodeWrapper {
	return build.MakeNode("n1").UID("uid-n1").Label("pool", "workers").Created(at(0))
}

// old is such a node that was there before the rules.
func old() *build.NodeWrapper { return fresh().Created(at(-2 * 86400)) }

// world is what a test's passes have in common.
type world struct {
	t        *testing.T
	objects  []*build.RuleWrapper
	compiled map[types.UID]*ruleset.Rule
	observed map[types.UID]readiness.Observed
	gone     []string // references to rules that are known to be gone
	refuse   []string // names of rules whose budget is used up
}

func newWorld(t *testing.T, rules ...*build.RuleWrapper) *world {
	return &world{t: t, objects: rules, compiled: map[types.UID]*ruleset.Rule{},
		observed: map[types.UID]readiness.Observed{}}
}

// restart forgets what a process remembers.
func (w *world) restart() {
	w.compiled, w.observed = map[types.UID]*ruleset.Rule{}, map[types.UID]readiness.Observed{}
}

func (w *world) set(now time.Time) *ruleset.Set {
	set := ruleset.NewSet()
	for _, obj := range w.objects {
		r := ruleset.Compile(obj.Obj(), w.compiled[obj.NodeReadinessRule.UID], now)
		w.compiled[r.UID] = r
		set = set.With(r)
	}
	return set
}

// decide decides as the node controller does.
func (w *world) decide(node *corev1.Node, now time.Time) (Swept, []gate.Decision) {
	w.t.Helper()
	set := w.set(now)
	swept := Sweep(node, set, func(ref string) bool { return slices.Contains(w.gone, ref) })
	override, _ := gate.OverrideOf(node, now)
	out := gate.DecideNode(&gate.NodeInput{
		Node: node, Swept: swept.Node, Rules: set, Evidence: &readiness.Evidence{}, Override: override, Now: now,
		Observed: func(r *ruleset.Rule) readiness.Observed { return w.observed[r.UID] },
		Reserve:  func(r *ruleset.Rule, _ time.Time) bool { return !slices.Contains(w.refuse, r.Name) },
	})
	for i, d := range out.Decisions {
		if d.Was.Matches {
			w.observed[d.Rule.UID] = out.Verdicts[i].Observed
		}
	}
	return swept, out.Decisions
}

// pass is one pass over a node, and what the API server has made of it. A second pass must plan nothing.
func (w *world) pass(node *corev1.Node, now time.Time) (*corev1.Node, Outcome, []gate.Decision) {
	w.t.Helper()
	before := node.DeepCopy()
	swept, decisions := w.decide(node, now)
	out := Plan(node, swept, decisions, now)
	if diff := cmp.Diff(before, node); diff != "" {
		w.t.Errorf("the node as read was changed (-before +after):\n%s", diff)
	}
	if out.Patch == nil && len(out.Changes) > 0 {
		w.t.Errorf("changes without a patch: %v", changesOf(out))
	}
	after := apply(w.t, node, out.Patch)

	swept, again := w.decide(after, now)
	if second := Plan(after, swept, again, now); second.Patch != nil {
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
	after, err := tryApply(t, node, patch)
	if err != nil {
		t.Fatalf("the patch is refused: %v\n%s", err, patch)
	}
	return after
}

func tryApply(t *testing.T, node *corev1.Node, patch []byte) (*corev1.Node, error) {
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

// formatted are a node's taints in words.
func formatted(node *corev1.Node) []string {
	var out []string
	for _, t := range node.Spec.Taints {
		out = append(out, gate.FormatTaint(t))
	}
	return out
}

// states are what the rules say about the node, each as "rule State Reason".
func states(decisions []gate.Decision) []string {
	var out []string
	for _, d := range decisions {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Rule.Name, d.State, d.Reason)))
	}
	return out
}

// changesOf is what a patch does, each as "operation rule taint".
func changesOf(o Outcome) []string {
	var out []string
	for _, c := range o.Changes {
		name, taint := "-", ""
		if c.Rule != nil {
			name = c.Rule.Name
		}
		if c.Taint.Key != "" {
			taint = gate.FormatTaint(c.Taint)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Operation, name, taint)))
	}
	return out
}

// step is one pass in a story: what has happened before it, and what it must come to.
type step struct {
	tells string
	at    int // seconds after the start
	node  func(n *build.NodeWrapper)
	rules []*build.RuleWrapper // instead of those before
	gone,
	refuse []string // from now on; an empty list ends it
	restart bool // the process starts over before the step

	taints      []string          // all of them
	states      []string          // of all rules
	changes     []string          // of the patch; none: there must be no patch, but for records
	annotations map[string]string // all of them, where given
	recheck     int               // seconds after the start, 0: none, or do not care: -1
	quiet       bool              // there must be no patch
}

// What a step may say besides its time, its name, and the states of all rules. A step that says nothing about the patch
// must not write one.
type (
	change  string   // of the patch
	changes []string // of the patch
	tainted []string // all taints of the node; default: the one of the rule "cni", if that holds the node
	gone    []string // references to rules that are known to be gone from now on
	refuse  []string // names of rules whose limit is used up from now on
	again   int      // when to look again, in seconds after the start; -1: any time, or none
	word    int
)

const (
	restarted word = iota // the process starts over before the step
	written               // there is a patch, which changes records only
	quiet                 // there is no patch, although annotations are given
)

const (
	added    change = "added cni " + pending
	removed  change = "removed cni " + pending
	adopted  change = "adopted cni " + pending
	timedOut change = "timedOut cni " + pending
	rearmed  change = "rearmed cni " + pending
)

var (
	untainted = tainted(nil)
	clean     = map[string]string{} // no annotation is left
)

// recorded is the annotations of a node that has this record only.
func recorded(record string) map[string]string { return map[string]string{recordKey: record} }

func rules(r ...*build.RuleWrapper) []*build.RuleWrapper { return r }

// then is a step: when, what happened, what all rules say afterwards ("State Reason" of the rule "cni", or with the
// rule's name before it), and the rest in any order.
func then(at int, tells, states string, more ...any) step {
	s := step{at: at, tells: tells, quiet: true}
	if states != "" {
		s.states = strings.Split(states, ", ")
	}
	for i, state := range s.states {
		if unicode.IsUpper(rune(state[0])) {
			s.states[i] = "cni " + state
		}
		if strings.HasPrefix(s.states[i], "cni Held") {
			s.taints = []string{pending}
		}
	}
	for _, m := range more {
		switch m := m.(type) {
		case func(*build.NodeWrapper):
			s.node = m
		case []*build.RuleWrapper:
			s.rules = m
		case change:
			s.changes, s.quiet = append(s.changes, string(m)), false
		case changes:
			s.changes, s.quiet = m, false
		case tainted:
			s.taints = m
		case map[string]string:
			s.annotations, s.quiet = m, false
		case gone:
			s.gone = m
		case refuse:
			s.refuse = m
		case again:
			s.recheck = int(m)
		case word:
			s.restart = s.restart || m == restarted
			s.quiet = m == quiet || m != written && s.quiet
		default:
			panic(fmt.Sprintf("%s: a step cannot say %#v", tells, m))
		}
	}
	return s
}

// story plays steps, one after the other, with one node.
type story struct {
	rules []*build.RuleWrapper
	node  *build.NodeWrapper
	steps []step
}

func on(node *build.NodeWrapper, rules []*build.RuleWrapper, steps ...step) story {
	return story{rules: rules, node: node, steps: steps}
}

func play(t *testing.T, stories map[string]story) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, s.rules...)
			node := s.node.Obj()
			for i, step := range s.steps {
				node = w.step(fmt.Sprintf("step %d, %s", i+1, step.tells), step, node)
			}
		})
	}
}

func (w *world) step(name string, s step, node *corev1.Node) *corev1.Node {
	w.t.Helper()
	if s.restart {
		w.restart()
	}
	if s.node != nil {
		n := build.WrapNode(node)
		s.node(n)
		node = n.Obj()
	}
	if s.rules != nil {
		w.objects = s.rules
	}
	if s.gone != nil {
		w.gone = s.gone
	}
	if s.refuse != nil {
		w.refuse = s.refuse
	}
	after, out, decisions := w.pass(node, at(s.at))
	check := func(what string, want, got any) {
		w.t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("%s: %s (-want +got):\n%s", name, what, diff)
		}
	}
	check("taints", s.taints, formatted(after))
	check("states", s.states, states(decisions))
	check("changes", s.changes, changesOf(out))
	if s.annotations != nil {
		have := after.Annotations
		if have == nil {
			have = map[string]string{}
		}
		check("annotations", s.annotations, have)
	}
	if s.quiet && out.Patch != nil {
		w.t.Errorf("%s: there is something to write: %s", name, out.Patch)
	}
	if s.recheck >= 0 {
		want, got := time.Time{}, time.Time{}
		if s.recheck > 0 {
			want = at(s.recheck)
		}
		for _, d := range decisions {
			if !d.RecheckAt.IsZero() && (got.IsZero() || d.RecheckAt.Before(got)) {
				got = d.RecheckAt
			}
		}
		check("looks again", want, got)
	}
	return after
}
