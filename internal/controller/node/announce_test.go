// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

func TestOneWriteMakesOneEventForEachReason(t *testing.T) {
	recorder := events.NewFakeRecorder(100)
	r := &Reconciler{Recorder: recorder}
	node := build.MakeNode("n").Obj()
	p := &pass{node: node, now: time.Now()}
	outcome := taints.Outcome{}
	for i := range 20 {
		rule := ruleset.Compile(build.MakeRule(fmt.Sprintf("r%d", i)).UID(fmt.Sprintf("u%d", i)).Selector("a", "b").Obj(),
			nil, p.now)
		d := state.Decision{Rule: rule, Was: nodeview.State{Matches: true, HasRecord: true}, Reason: state.ReasonMinHold}
		p.decisions = append(p.decisions, d)
		operation := taints.Added
		if i == 19 {
			operation, d.Reason, d.Claim = taints.Removed, state.ReasonEvidenceMissing, true
		}
		outcome.Changes = append(outcome.Changes, taints.Change{Operation: operation, Rule: rule, Decision: &d,
			Taint: corev1.Taint{Key: fmt.Sprintf("t%d", i), Effect: corev1.TaintEffectNoSchedule}})
	}
	r.announce(t.Context(), p, node, outcome)
	all := suite.Events(recorder)
	if len(all) != 2 || !strings.Contains(all[0], reasonTaintAdded) || !strings.Contains(all[1], reasonTaintRemoved) {
		t.Fatalf("%d events: %v", len(all), all)
	}
	for i := range 19 {
		if want := fmt.Sprintf("taint t%d:NoSchedule for rule r%d", i, i); !strings.Contains(all[0], want) {
			t.Errorf("%q does not say %q", all[0], want)
		}
	}
	if strings.Count(all[0], "minHoldSeconds") != 1 || !strings.Contains(all[1], "the rule has another taint now") {
		t.Errorf("%q", all)
	}
}
