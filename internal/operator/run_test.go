// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var counted = fleet.NewCounterByRule("nodegate_test_total", "Of the test.")

func TestTheCountersOfANewRuleStartAtZero(t *testing.T) {
	byResult := fleet.NewCounterByRule("nodegate_test_results_total", "Of the test.",
		fleet.Label{Name: "result", Values: []string{"done", "failed"}})
	open := fleet.NewCounterByRule("nodegate_test_evidence_total", "Of the test.", fleet.Label{Name: "evidence"})
	told := ruleMetrics(func(time.Duration, func()) {}, func() *ruleset.Set { return nil })
	rule := ruleset.Compile(build.MakeRule("new").UID("new").Selector("a", "b").Obj(), nil, time.Now())
	told(ruleset.NewSet(rule))
	byResult.WithLabelValues("new", "done").Inc()
	told(ruleset.NewSet(rule)) // a known rule keeps its counts
	for _, c := range []struct {
		counter *prometheus.CounterVec
		want    int
	}{{counted, 1}, {byResult, 2}, {open, 0}} {
		if got := testutil.CollectAndCount(c.counter); got != c.want {
			t.Errorf("%d series, want %d", got, c.want)
		}
	}
	if got := testutil.ToFloat64(byResult.WithLabelValues("new", "done")); got != 1 {
		t.Errorf("the counter is %v, want 1", got)
	}
	fleet.ForgetRule("new")
}

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
	told := ruleMetrics(func(_ time.Duration, f func()) { late = append(late, f) },
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
