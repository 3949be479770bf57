// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// Step is one pass in a story: what has happened before it, and what it must come to.
type Step struct {
	tells string
	at    int // seconds after the start
	node  Edit
	Rules RuleList // instead of those before
	gone,
	refuse []string // from now on; an empty list ends it
	restart bool // the process starts over before the step

	taints      Tainted   // all of them
	states      []string  // of all rules
	changes     Changes   // of the patch; none: there must be no patch, but for records
	annotations Annotated // all of them, where given
	Recheck     int       // seconds after the start, 0: none, or do not care: -1
	quiet       bool      // there must be no patch
}

// Part is what a step may say besides its time, its name, and the states of all rules. A step that says nothing about
// the patch must not write one.
type Part interface{ in(s *Step) }

type (
	// Edit is what happens to the node before the step.
	Edit func(*build.NodeWrapper)
	// RuleList are the rules from now on.
	RuleList []*build.RuleWrapper
	// Change is a change of the patch.
	Change string
	// Changes are all changes of the patch.
	Changes []string
	// Tainted are all taints of the node; by default the one of the rule "cni", if that holds the node.
	Tainted []string
	// Annotated are all annotations of the node.
	Annotated map[string]string
	// Gone are references to rules that are known to be gone from now on.
	Gone []string
	// Refuse are names of rules whose limit is used up from now on.
	Refuse []string
	// Again is when to look again, in seconds after the start; -1: any time, or none.
	Again int
	// Word is one of the words below.
	Word int
)

func (e Edit) in(s *Step)      { s.node = e }
func (r RuleList) in(s *Step)  { s.Rules = r }
func (c Change) in(s *Step)    { s.changes, s.quiet = append(s.changes, string(c)), false }
func (c Changes) in(s *Step)   { s.changes, s.quiet = c, false }
func (t Tainted) in(s *Step)   { s.taints = t }
func (a Annotated) in(s *Step) { s.annotations, s.quiet = a, false }
func (g Gone) in(s *Step)      { s.gone = g }
func (r Refuse) in(s *Step)    { s.refuse = r }
func (a Again) in(s *Step)     { s.Recheck = int(a) }

func (w Word) in(s *Step) {
	s.restart = s.restart || w == Restarted
	s.quiet = w == Quiet || w != Written && s.quiet
}

// The words of a step.
const (
	Restarted Word = iota // the process starts over before the step
	Written               // there is a patch, which changes records only
	Quiet                 // there is no patch, although annotations are given
)

// The changes of the rule "cni".
const (
	Added    Change = "added cni " + Pending
	Removed  Change = "removed cni " + Pending
	Adopted  Change = "adopted cni " + Pending
	TimedOut Change = "timedOut cni " + Pending
	Rearmed  Change = "rearmed cni " + Pending
)

// A node without taints, and one without annotations.
var (
	Untainted = Tainted(nil)
	Clean     = Annotated{} // no annotation is left
)

// Recorded is the annotations of a node that has this record only.
func Recorded(record string) Annotated { return Annotated{RecordKey: record} }

// Rules are the rules of a story or a step.
func Rules(r ...*build.RuleWrapper) RuleList { return r }

// Then is a step: when, what happened, what all rules say afterwards ("State Reason" of the rule "cni", or with the
// rule's name before it), and the rest in any order.
func Then(at int, tells, states string, more ...Part) Step {
	s := Step{at: at, tells: tells, quiet: true}
	if states != "" {
		s.states = strings.Split(states, ", ")
	}
	for i, state := range s.states {
		if unicode.IsUpper(rune(state[0])) {
			s.states[i] = "cni " + state
		}
		if strings.HasPrefix(s.states[i], "cni Held") {
			s.taints = []string{Pending}
		}
	}
	for _, m := range more {
		m.in(&s)
	}
	return s
}

// Story plays steps, one after the other, with one node.
type Story struct {
	rules RuleList
	node  *build.NodeWrapper
	steps []Step
}

// On is the story of a node under rules.
func On(node *build.NodeWrapper, rules RuleList, steps ...Step) Story {
	return Story{rules: rules, node: node, steps: steps}
}

// Play plays stories, each as a subtest.
func Play(t *testing.T, stories map[string]Story) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, s.rules...)
			node := s.node.Obj()
			for i, step := range s.steps {
				node = w.step(fmt.Sprintf("step %d, %s", i+1, step.tells), step, node)
			}
		})
	}
}

func (w *World) step(name string, s Step, node *corev1.Node) *corev1.Node {
	w.t.Helper()
	if s.restart {
		w.Restart()
	}
	if s.node != nil {
		n := build.WrapNode(node)
		s.node(n)
		node = n.Obj()
	}
	if s.Rules != nil {
		w.Objects = s.Rules
	}
	if s.gone != nil {
		w.Gone = s.gone
	}
	if s.refuse != nil {
		w.Refuse = s.refuse
	}
	after, out, decisions := w.Pass(node, At(s.at))
	check := func(what string, want, got any) {
		w.t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("%s: %s (-want +got):\n%s", name, what, diff)
		}
	}
	check("taints", s.taints, Tainted(Formatted(after)))
	check("states", s.states, states(decisions))
	check("changes", s.changes, Changes(changesOf(out)))
	if s.annotations != nil {
		have := Annotated(after.Annotations)
		if have == nil {
			have = Clean
		}
		check("annotations", s.annotations, have)
	}
	if s.quiet && out.Patch != nil {
		w.t.Errorf("%s: there is something to write: %s", name, out.Patch)
	}
	if s.Recheck >= 0 {
		want, got := time.Time{}, time.Time{}
		if s.Recheck > 0 {
			want = At(s.Recheck)
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

// states are what the rules say about the node, each as "rule State Reason".
func states(decisions []state.Decision) []string {
	var out []string
	for _, d := range decisions {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Rule.Name, d.State, d.Reason)))
	}
	return out
}
