// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// The operator must run on what takes the place of the API server: it must answer all that is asked for at the start.
func TestTheOperatorRunsOnTheSyntheticServer(t *testing.T) {
	l, stop, err := newLab(t.Context(), &measure.Run{Nodes: 3, Rules: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p, err := l.run(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill() //nolint:errcheck // it writes nothing that matters
	if err := l.burst(t.Context(), l.Rules, 0, l.apply); err != nil {
		t.Fatal(err)
	}
	if err := l.turnAll(t.Context(), corev1.ConditionTrue, l.Nodes, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.statuses(t.Context()); err != nil {
		t.Error(err)
	}
}
