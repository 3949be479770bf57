// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Told is what the events on a node tell about who put a rule's taint there: the newest one decides. Events are forgotten
// after an hour, so that most often it is nothing.
func Told(events []corev1.Event) func(*ruleset.Rule, corev1.Taint) string {
	return func(rule *ruleset.Rule, taint corev1.Taint) string {
		var newest time.Time
		by := ""
		for i := range events {
			e := &events[i]
			if !names(e, rule.Name) || !strings.Contains(e.Message, taint.ToString()) {
				continue
			}
			at := e.EventTime.Time
			if e.Series != nil {
				at = e.Series.LastObservedTime.Time
			}
			if at.Before(newest) {
				continue
			}
			switch e.Reason {
			case "TaintAdded":
				newest, by = at, report.ByRule
			case "TaintAdopted":
				newest, by = at, report.ByOther
			case "TaintRemoved":
				newest, by = at, ""
			}
		}
		return by
	}
}

// Room is for how many more nodes in service a rule's breaker leaves room, by what all nodes say.
func Room(rule *ruleset.Rule, nodes []*corev1.Node, now time.Time) int {
	released, claimed := 0, 0
	for _, n := range nodes {
		if s := gate.StateOf(rule, n, now); s.Counted {
			released++
			if s.Claimed {
				claimed++
			}
		}
	}
	return rule.MaxUnavailable(released) - claimed
}

// names reports whether an event is about a rule: it relates to the first rule of a write, and its note names them all.
func names(e *corev1.Event, rule string) bool {
	return e.Related != nil && e.Related.Name == rule ||
		strings.Contains(e.Message, "for rule "+rule+":") || strings.Contains(e.Message, "for rule "+rule+";")
}
