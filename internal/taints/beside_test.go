// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

// TestBesideAnotherController plays random stories of a node beside a controller that manages the taint at times. No
// write changes that taint then. A node from which that controller has removed it is in service after that: the limit
// is asked before it gets the taint.
func TestBesideAnotherController(t *testing.T) {
	const stories, steps = 100, 40
	for seed := range uint64(stories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &besideStory{World: NewWorld(t), t: t, random: rand.New(rand.NewPCG(seed, 1)), node: Fresh(), generation: 1}
			s.rule = Rule().MaxUnavailable("1").UnreadySeconds(int32(s.random.IntN(2) * 30)).
				ReadySeconds(int32(s.random.IntN(2) * 30))
			if s.random.IntN(3) == 0 {
				s.rule.BootstrapOnly()
			}
			s.Objects = []*build.RuleWrapper{s.rule}
			for range steps {
				s.step()
			}
		})
	}
}

type besideStory struct {
	*World
	t          *testing.T
	random     *rand.Rand
	rule       *build.RuleWrapper
	node       *build.NodeWrapper
	at         int
	generation int64
	told       []string
	// returned says that the other controller's rule ended when the node did not have the taint.
	returned bool
}

func (s *besideStory) tainted() bool {
	return nodeview.Find(s.node.Obj(), &corev1.Taint{Key: Key, Effect: NoSchedule}) != nil
}

// step is one change, and a pass after it.
func (s *besideStory) step() {
	s.at += 1 + s.random.IntN(40)
	beside := len(s.Foreign) > 0
	switch did := s.random.IntN(7); {
	case did <= 1:
		status := []corev1.ConditionStatus{"True", "False"}[did]
		s.node.Condition(CNI, status, At(s.at))
		s.told = append(s.told, fmt.Sprintf("%d: %s", s.at, status))
	case did == 2 && beside:
		s.Foreign, s.returned = ruleset.Foreign{}, !s.tainted()
		s.told = append(s.told, fmt.Sprintf("%d: their rule ends", s.at))
	case did == 2:
		s.Foreign, s.returned = ruleset.Foreign{{Key: Key, Effect: NoSchedule}: "theirs"}, false
		s.told = append(s.told, fmt.Sprintf("%d: their rule begins", s.at))
	case did == 3 && beside && s.tainted():
		s.node.Untaint(Key)
		s.told = append(s.told, fmt.Sprintf("%d: they remove the taint", s.at))
	case did == 3 && beside:
		s.node.Taint(Key, "theirs", NoSchedule)
		s.told = append(s.told, fmt.Sprintf("%d: they add the taint", s.at))
	case did == 4:
		s.Restart()
		s.told = append(s.told, fmt.Sprintf("%d: restart", s.at))
	case did == 5:
		s.Refuse = [][]string{nil, {"cni"}}[s.random.IntN(2)]
		s.told = append(s.told, fmt.Sprintf("%d: no room for %q", s.at, s.Refuse))
	case did == 6 && beside:
		s.generation++
		s.rule.Generation(s.generation).DryRun(!s.rule.Spec.DryRun)
		s.told = append(s.told, fmt.Sprintf("%d: dry-run %t", s.at, s.rule.Spec.DryRun))
	}
	before, had := s.node.Obj().Spec.Taints, s.tainted()
	after, _, _ := s.Pass(s.node.Obj(), At(s.at))
	s.node = build.WrapNode(after)
	s.told = append(s.told, fmt.Sprintf("%d: a pass: %v %v", s.at, Formatted(after), after.Annotations))
	if len(s.Foreign) > 0 && !ruleset.SameTaints(before, after.Spec.Taints) {
		s.fail("theirs: the taint was changed")
	}
	if !had && s.tainted() {
		if s.returned && (!s.Asked || len(s.Refuse) > 0) {
			s.fail("returned: the node got the taint, and the limit was not asked")
		}
		s.returned = false
	}
	s.report()
}

// report writes the status, as the leader does.
func (s *besideStory) report() {
	r := s.Set(At(s.at)).Named("cni")
	s.rule.Status.ObservedGeneration, s.rule.Status.InForce = s.generation, nil
	if !r.Yields() && r.Mode == ruleset.Enforced {
		s.rule.StatusInForce(r.InForceSince, r.SelectorHash)
	}
}

func (s *besideStory) fail(why string) {
	s.t.Helper()
	for _, line := range s.told {
		s.t.Log(line)
	}
	s.t.Fatal(why)
}
