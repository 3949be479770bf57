// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func TestAShortLimitIsNamedAsInTheRule(t *testing.T) {
	most := intstr.FromInt32(0)
	l := New(Of(&v1alpha1.NodeReadinessRuleSpec{MaxUnavailable: &most}), true, nil)
	if got := l.Why(Claims, ""); got != "maxUnavailable allows no node (0)" {
		t.Error(got)
	}
}

func TestARecordKeepsItsDomains(t *testing.T) {
	r := Of(&v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{limitOf("5", ""), limitOf("1", rack),
		limitOf("2", rack), limitOf("1", zone)}})
	labels := racks("b/y")[0]
	for recorded, want := range map[string]string{
		"":                                     rack + "=b," + zone + "=y",
		rack + "=a":                            rack + "=a," + zone + "=y",
		rack + "=," + zone + "=x":              rack + "=," + zone + "=x",
		"other=c," + zone + "=x":               rack + "=b," + zone + "=x",
		"no domains":                           rack + "=b," + zone + "=y",
		rack + "=a," + rack + "=b,," + zone:    rack + "=a," + zone + "=y",
		rack + "=a=b," + zone + "=x,other=y,,": rack + "=a=b," + zone + "=x",
	} {
		if got := r.Domains(recorded, labels); got != want {
			t.Errorf("%s: got %s, want %s", recorded, got, want)
		}
	}
	if got := Of(&v1alpha1.NodeReadinessRuleSpec{}).Domains(rack+"=a", labels); got != "" {
		t.Errorf("without limits: %s", got)
	}
	if total := Of(&v1alpha1.NodeReadinessRuleSpec{Limits: r.entries[:1]}); total.ByDomain() || !r.ByDomain() {
		t.Errorf("by domain: %t, %t", total.ByDomain(), r.ByDomain())
	}
}

func TestProblems(t *testing.T) {
	number, percent, tooMany, second := intstr.FromInt32(1), intstr.FromString("30%"), intstr.FromString("101%"), int32(1)
	limits := func(entries ...v1alpha1.Limit) v1alpha1.NodeReadinessRuleSpec {
		return v1alpha1.NodeReadinessRuleSpec{Limits: entries}
	}
	rate := []string{"spec.limits[0].withinSeconds"}
	for name, c := range map[string]struct {
		spec v1alpha1.NodeReadinessRuleSpec
		want []string
	}{
		"valid": {spec: v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{limitOf("30%", ""), domainsOf(1, zone)}}},
		"both": {v1alpha1.NodeReadinessRuleSpec{MaxUnavailable: &percent, Limits: []v1alpha1.Limit{limitOf("1", "")}},
			[]string{"spec.limits"}},
		"neither": {v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{{Per: rack}}}, []string{"spec.limits[0]"}},
		"max and maxDomains": {v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{{Max: &number, MaxDomains: new(int32),
			Per: rack}}}, []string{"spec.limits[0]"}},
		"maxDomains alone": {v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{domainsOf(1, "")}},
			[]string{"spec.limits[0].maxDomains"}},
		"a bad key and number": {v1alpha1.NodeReadinessRuleSpec{Limits: []v1alpha1.Limit{limitOf("101%", "a b")}},
			[]string{"spec.limits[0].max", "spec.limits[0].per"}},
		"too large": {v1alpha1.NodeReadinessRuleSpec{MaxUnavailable: &tooMany},
			[]string{"spec.maxUnavailable"}},
		"maxDomains that is negative": {limits(domainsOf(-1, rack)), []string{"spec.limits[0].maxDomains"}},
		"maxDomains within a time": {limits(v1alpha1.Limit{MaxDomains: new(int32), Per: rack, WithinSeconds: new(int32)}),
			[]string{"spec.limits[0].maxDomains"}},
		"the least and the largest rate": {limits(rateOf(1, 1), rateOf(v1alpha1.MaxRate, 1)), nil},
		"a rate of a domain":             {limits(v1alpha1.Limit{Max: &number, Per: rack, WithinSeconds: &second}), rate},
		"a rate that is a percentage":    {limits(v1alpha1.Limit{Max: &percent, WithinSeconds: &second}), rate},
		"a rate of no node":              {limits(rateOf(0, 1)), rate},
		"a rate that is too large":       {limits(rateOf(v1alpha1.MaxRate+1, 1)), rate},
		"a rate in no time":              {limits(rateOf(1, 0)), rate},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for field := range Problems(&c.spec) {
				got = append(got, field)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
