// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// rule returns a rule with a probe for each of these conditions.
func rule(name string, conditions ...string) Rule {
	r := Rule{Name: name, UID: types.UID("uid-" + name),
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}}}
	for _, c := range conditions {
		r.Probes = append(r.Probes, v1alpha1.Probe{ConditionType: c, TCPSocket: &v1alpha1.TCPSocketAction{Port: 9099}})
	}
	return r
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	if _, err := New(rule(strings.Repeat("x", MaxSize))).Encode(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestConditions(t *testing.T) {
	f := New(rule("a", "example.com/A"), rule("b", "example.com/A", "example.com/0"))
	if got, err := f.Conditions(); err != nil || got != "example.com/0\nexample.com/A" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := New().Conditions(); err != nil || got != "" {
		t.Errorf("without rules: %q, %v", got, err)
	}
	if _, err := New(rule("a", strings.Repeat("y", MaxConditions+1))).Conditions(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestDecode(t *testing.T) {
	good := `{"apiVersion":"` + APIVersion + `","kind":"` + Kind + `","rules":[]}`
	if f, err := Decode([]byte(good)); err != nil || f.Unknown() != nil {
		t.Errorf("got %+v, %v", f, err)
	}
	f, err := Decode([]byte(strings.Replace(good, `"rules":[]`, `"rules":[{"name":"a","later":true,`+
		`"probes":[{"conditionType":"example.com/A","later":1}]}],"later":1`, 1)))
	if err != nil || len(f.Rules) != 1 || len(f.Rules[0].Probes) != 1 {
		t.Fatalf("with fields of a later version: %+v, %v", f, err)
	}
	if diff := cmp.Diff([]string{"rules[0].later", "rules[0].probes[0].later", "later"}, f.Unknown()); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
	for name, bad := range map[string]string{"nothing": "", "no JSON": "{",
		"another kind": `{"apiVersion":"v1","kind":"ConfigMap"}`, "another version": strings.Replace(good, "v1alpha1", "v2",
			1)} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSelect(t *testing.T) {
	match := rule("workers", "example.com/A")
	other, empty, bad := match, match, match
	other.NodeSelector = v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "other"}}
	empty.NodeSelector = v1alpha1.NodeSelector{}
	bad.NodeSelector = v1alpha1.NodeSelector{MatchExpressions: []v1alpha1.NodeSelectorRequirement{{Key: "x",
		Operator: "Later"}}}
	f := &File{Rules: []Rule{other, empty, bad, match}}
	if diff := cmp.Diff([]Rule{match}, f.Select(build.MakeNode("n").Label("pool", "workers").Obj())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := f.Select(build.MakeNode("n").Obj()); got != nil {
		t.Errorf("without labels: %v", got)
	}
}

// TestSelectARuleThatStillHoldsTheNode: it was suspended before the node's labels changed.
func TestSelectARuleThatStillHoldsTheNode(t *testing.T) {
	match := rule("workers", "example.com/A")
	match.Health = &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "rules"}}}
	without := match
	without.Probes = nil
	for health, want := range map[string][]Rule{`"NotReady"`: {without}, `"Ready"`: nil} {
		node := build.MakeNode("n").Annotation(v1alpha1.RecordAnnotationPrefix+"uid-workers",
			`{"rule":"workers","health":`+health+`}`).Obj()
		if diff := cmp.Diff(want, New(match).Select(node)); diff != "" {
			t.Errorf("with the verdict %s: -want +got:\n%s", health, diff)
		}
	}
}

// TestSelectReadsEachRecordOnce: an agent selects its rules at each change of its node.
func TestSelectReadsEachRecordOnce(t *testing.T) {
	const n = 30
	f, node := New(), build.MakeNode("n")
	for i := range n {
		r := rule(fmt.Sprintf("r%d", i))
		r.Health = &v1alpha1.Health{}
		f.Rules = append(f.Rules, r)
		node.Annotation(fmt.Sprintf("%sother-%d", v1alpha1.RecordAnnotationPrefix, i), `{"rule":"other","health":"Ready"}`)
	}
	obj := node.Obj()
	if got := testing.AllocsPerRun(10, func() { f.Select(obj) }); got > n*n {
		t.Errorf("%g allocations for %d rules and records", got, n)
	}
}

func FuzzDecode(f *testing.F) {
	in := rule("a", "example.com/A")
	in.Health = &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "disk_pressure"}}}
	raw, err := New(in).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if file, err := Decode(raw); err == nil {
			file.Select(build.MakeNode("n").Label("pool", "workers").Obj())
		}
	})
}
