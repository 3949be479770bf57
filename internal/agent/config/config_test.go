// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func input(name string, age time.Duration, state State, effects ...string) Input {
	spec := &v1alpha1.NodeReadinessRuleSpec{
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "workers"}},
		Conditions:   []v1alpha1.ConditionRequirement{{Type: "example.com/A", RequiredStatus: "True"}},
	}
	if slices.Contains(effects, "probes") {
		spec.Probes = []v1alpha1.Probe{{ConditionType: "example.com/A", TCPSocket: &v1alpha1.TCPSocketAction{Port: 9099}}}
	}
	if slices.Contains(effects, "health") {
		spec.Health = &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "disk_pressure"}}}
	}
	return Input{Name: name, UID: types.UID("uid-" + name), CreatedAt: t0.Add(-age), State: state, Spec: spec}
}

func entry(in Input, probes, health bool) Rule {
	r := Rule{Name: in.Name, UID: in.UID, CreationTimestamp: metav1.NewTime(in.CreatedAt),
		NodeSelector: in.Spec.NodeSelector}
	if probes {
		r.Probes = in.Spec.Probes
	}
	if health {
		r.Health, r.Conditions = in.Spec.Health, in.Spec.Conditions
	}
	return r
}

func TestCompile(t *testing.T) {
	before := input("frozen", time.Hour, Frozen, "probes", "health")
	broken := before
	broken.Spec = before.Spec.DeepCopy()
	broken.Spec.Probes[0].ConditionType = "example.com/Broken"
	for _, c := range []struct {
		name     string
		in       Input
		previous *File
		want     []Rule
	}{
		{"probes and health", input("a", 0, InForce, "probes", "health"), nil,
			[]Rule{entry(input("a", 0, InForce, "probes", "health"), true, true)}},
		{"a rule without either does not concern agents", input("a", 0, InForce), nil, []Rule{}},
		{"probes alone bring no conditions along", input("a", 0, InForce, "probes"), nil,
			[]Rule{entry(input("a", 0, InForce, "probes"), true, false)}},
		{"not in force: its probes are evidence, its health does not count", input("a", 0, DryRun, "probes", "health"),
			nil,
			[]Rule{entry(input("a", 0, DryRun, "probes", "health"), true, false)}},
		{"suspended: its checks run, and only the verdict in its record counts", input("a", 0, Suspended, "probes", "health"),
			nil, []Rule{func() Rule {
				e := entry(input("a", 0, InForce, "probes", "health"), true, true)
				e.Conditions, e.AnyOf, e.Elsewhere = nil, false, false
				return e
			}()}},
		{"not in force, with health alone", input("a", 0, DryRun, "health"), nil, []Rule{}},
		{"being deleted", input("a", 0, Deleting, "probes", "health"), nil, []Rule{}},
		{"frozen: as it was before", broken, &File{Rules: []Rule{entry(before, true, true)}},
			[]Rule{entry(before, true, true)}},
		{"frozen, and its former entry is unknown", broken, nil, []Rule{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Compile([]Input{c.in}, c.previous)
			if diff := cmp.Diff(&File{APIVersion: APIVersion, Kind: Kind, Rules: c.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCompileIsStable(t *testing.T) {
	rules := []Input{
		input("b", time.Hour, InForce, "probes"), input("a", time.Hour, InForce, "health"),
		input("old", 2*time.Hour, InForce, "probes"), input("new", 0, InForce, "probes"),
	}
	first, err := Compile(rules, nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range Compile(rules, nil).Rules {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"old", "a", "b", "new"}, names); diff != "" {
		t.Errorf("the oldest first, then by name: -want +got:\n%s", diff)
	}
	for range 50 {
		rand.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		again, err := Compile(rules, nil).Encode()
		if err != nil || string(again) != string(first) {
			t.Fatalf("another order makes another file: %v\n%s", err, again)
		}
	}
	decoded, err := Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := decoded.Encode(); err != nil || string(again) != string(first) {
		t.Errorf("read and written again it is another file: %v\n%s", err, again)
	}
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	in := input("a", 0, InForce, "health")
	in.Spec.Health.Checks[0].Disk = &v1alpha1.DiskCheck{Paths: []string{"/" + strings.Repeat("x", MaxSize)}}
	if _, err := Compile([]Input{in}, nil).Encode(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestConditions(t *testing.T) {
	b, a := input("b", 0, InForce, "probes"), input("a", time.Hour, DryRun, "probes", "health")
	b.Spec.Probes = append(b.Spec.Probes, v1alpha1.Probe{ConditionType: "example.com/0"})
	if got, err := Compile([]Input{b, a}, nil).Conditions(); err != nil || got != "example.com/0\nexample.com/A" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Compile(nil, nil).Conditions(); err != nil || got != "" {
		t.Errorf("without rules: %q, %v", got, err)
	}
	b.Spec.Probes[0].ConditionType = strings.Repeat("y", MaxConditions)
	if _, err := Compile([]Input{b}, nil).Conditions(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestDecode(t *testing.T) {
	good := `{"apiVersion":"` + APIVersion + `","kind":"` + Kind + `","rules":[]}`
	if _, err := Decode([]byte(good)); err != nil {
		t.Error(err)
	}
	if _, err := Decode([]byte(strings.Replace(good, `"rules":[]`, `"rules":[{"name":"a","later":true}],"later":1`,
		1))); err != nil {
		t.Errorf("a field of a later version: %v", err)
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
	match := entry(input("workers", 0, InForce, "probes"), true, false)
	other, empty, bad := match, match, match
	other.NodeSelector = v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "other"}}
	empty.NodeSelector = v1alpha1.NodeSelector{}
	bad.NodeSelector = v1alpha1.NodeSelector{MatchExpressions: []v1alpha1.NodeSelectorRequirement{{Key: "x",
		Operator: "Later"}}}
	f := &File{Rules: []Rule{other, empty, bad, match}}
	if diff := cmp.Diff([]Rule{match}, f.Select(map[string]string{"pool": "workers"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := f.Select(nil); got != nil {
		t.Errorf("without labels: %v", got)
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := Compile([]Input{input("a", 0, InForce, "probes", "health")}, nil).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if file, err := Decode(raw); err == nil {
			file.Select(map[string]string{"pool": "workers"})
		}
	})
}
