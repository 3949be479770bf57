// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var counted = fleet.NewCounterByRule("nodegate_test_total", "Of the test.")

func TestTheMetricsOfADeletedRuleAreRemoved(t *testing.T) {
	set := func(names ...string) *ruleset.Set {
		var rules []*ruleset.Rule
		for _, name := range names {
			rules = append(rules, ruleset.Compile(build.MakeRule(name).UID(name).Selector("a", "b").Obj(), nil, time.Now()))
		}
		return ruleset.NewSet(rules...)
	}
	var now *ruleset.Set
	var late []func()
	told := forgetMetrics(func(_ time.Duration, f func()) { late = append(late, f) },
		func() *ruleset.Set { return now })
	for _, now = range []*ruleset.Set{set("deleted", "created again", "kept"), set("kept"), set("created again", "kept")} {
		told(now)
	}
	for _, name := range []string{"deleted", "created again", "kept"} {
		counted.WithLabelValues(name).Inc()
	}
	for _, f := range late {
		f()
	}
	if counted.DeleteLabelValues("deleted") || !counted.DeleteLabelValues("created again") ||
		!counted.DeleteLabelValues("kept") {
		t.Error("the metrics of another rule are removed, or those of the deleted one are kept")
	}
}
