// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

func TestTheGuardOfAFrozenRuleGoesOnByItsRecord(t *testing.T) {
	compiled := ruleset.Compile(rule("guarding", "A").EvictionGuard(600).Obj(), nil,
		now).Freeze(ruleset.Problem{Message: "x"})
	for name, c := range map[string]struct {
		since time.Duration
		want  HoldState
	}{
		"it guards":                     {since: 5 * time.Second, want: HoldStands},
		"it guards no longer than that": {since: 50 * time.Second, want: HoldEnded},
		"it does not begin to guard":    {},
	} {
		n := node().Created(now.Add(-time.Hour)).Obj()
		in := Input{Rule: compiled, Node: n, Now: now.Add(11 * time.Minute)}
		if c.since > 0 {
			record := Record{GuardedSince: metav1.NewTime(now.Add(time.Minute - c.since))}
			if c.want == HoldEnded {
				record.GuardEnded = metav1.NewTime(now)
			}
			n.Annotations = map[string]string{compiled.RecordKey(): record.Encode()}
		}
		in.State = StateOf(compiled, n, in.Now)
		if got := Decide(in).Hold.State; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
