// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/api/v1alpha1"
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

// TestTheMetricsOfStartsBeginAtZero also on a replica that does not lead. They follow an edit of the evidence.
func TestTheMetricsOfStartsBeginAtZero(t *testing.T) {
	told := ruleMetrics(func(time.Duration, func()) {}, func() *ruleset.Set { return nil })
	series := func() map[string]int {
		gathered, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, family := range gathered {
			for _, m := range family.GetMetric() {
				names := []string{family.GetName()}
				mine := false
				for _, l := range m.GetLabel() {
					mine = mine || l.GetName() == "rule" && l.GetValue() == "starts"
					if l.GetName() != "rule" {
						names = append(names, l.GetValue())
					}
				}
				if mine {
					out[strings.Join(names, " ")]++
				}
			}
		}
		return out
	}
	rule := func(condition string) *ruleset.Set {
		made := build.MakeRule("starts").UID("starts").Selector("a", "b").Condition(condition)
		return ruleset.NewSet(ruleset.Compile(made.Obj(), nil, time.Now()))
	}
	steady := []string{"startup_duration_seconds", "bootstrap_hold_duration_seconds adopted",
		"reconciliation_latency_seconds remove_taint", "last_blocker_total stabilization"}
	for _, c := range []struct{ is, was string }{{"example.com/A", "example.com/B"}, {"example.com/B", "example.com/A"}} {
		told(rule(c.is))
		got := series()
		for _, name := range append(steady, "blocked_seconds_total "+c.is) {
			if got["node_readiness_"+name] != 1 {
				t.Errorf("with %s: no series %s", c.is, name)
			}
		}
		if got["node_readiness_blocked_seconds_total "+c.was] != 0 {
			t.Errorf("with %s: there is a series of %s", c.is, c.was)
		}
	}
	fleet.ForgetRule("starts")
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

// TestARuleIsInMemoryOnce although its status is written: a rule may have more than a megabyte.
func TestARuleIsInMemoryOnce(t *testing.T) {
	version := func(value string, ready int32) *v1alpha1.NodeReadinessRule {
		r := build.MakeRule("r").UID("r").Selector("pool", value).Obj().DeepCopy()
		r.Annotations = map[string]string{"a": strings.Clone("b")}
		r.Status.Nodes = &v1alpha1.NodeCounts{Ready: ready}
		r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		return r
	}
	var lean toolscache.TransformFunc
	for obj, by := range CacheOptions(&rest.Config{}).ByObject {
		if _, ok := obj.(*v1alpha1.NodeReadinessRule); ok {
			lean = by.Transform
		}
	}
	if lean == nil {
		t.Fatal("rules are cached as they come")
	}
	cached := func(r *v1alpha1.NodeReadinessRule) *v1alpha1.NodeReadinessRule {
		t.Helper()
		got, err := lean(r)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := got.(*v1alpha1.NodeReadinessRule)
		return out
	}
	shares := func(a, b *v1alpha1.NodeReadinessRule) bool {
		return reflect.ValueOf(a.Spec.NodeSelector.MatchLabels).Pointer() ==
			reflect.ValueOf(b.Spec.NodeSelector.MatchLabels).Pointer()
	}
	first, second := cached(version("x", 0)), cached(version("x", 1))
	edited := cached(version("y", 1))
	if !shares(first, second) || second.Status.Nodes.Ready != 1 || second.ManagedFields != nil {
		t.Error("a new status does not share the rest of the rule, or is lost")
	}
	if shares(second, edited) || edited.Spec.NodeSelector.MatchLabels["pool"] != "y" {
		t.Error("an edited rule shares what was edited")
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
}
