// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patches draws nodes and patches of them.
type patches struct{ *rand.Rand }

func (p patches) one(of ...string) string { return of[p.IntN(len(of))] }

func (p patches) node() *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", ResourceVersion: "7",
		Labels: map[string]string{"a": "b"}, CreationTimestamp: at},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot"}}}
	if p.IntN(4) > 0 {
		n.Annotations = map[string]string{"a": p.one("1", "2", "<&>")}
	}
	if p.IntN(2) > 0 && n.Annotations != nil {
		n.Annotations["x/y~z"] = "1"
	}
	for _, key := range []string{"k", "l"}[:p.IntN(3)] {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: "NoExecute", TimeAdded: &at})
	}
	for _, t := range []corev1.NodeConditionType{"A", "B", "C"}[:p.IntN(4)] {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: t, Status: "True", Reason: "Before",
			LastTransitionTime: at})
	}
	return n
}

// operation draws an operation that often succeeds.
func (p patches) operation(n *corev1.Node) string {
	raw, _ := json.Marshal(n.Spec.Taints)
	annotations, _ := json.Marshal(n.Annotations)
	switch p.IntN(6) {
	case 0:
		return `{"op":"test","path":"/metadata/uid","value":"` + p.one("u", "u", "u", "v") + `"}`
	case 1:
		return `{"op":"` + p.one("test", "test", "add", "replace") + `","path":"/spec/taints","value":` +
			p.one(string(raw), string(raw), `[{"key":"m","effect":"NoSchedule"}]`, "null", "[]") + `}`
	case 2:
		return p.one(`{"op":"remove","path":"/spec/taints"}`, `{"op":"remove","path":"/metadata/annotations"}`,
			`{"op":"test","path":"/spec/taints/0","value":null}`, `{"op":"add","path":"/metadata/labels/c","value":"d"}`)
	case 3:
		return `{"op":"` + p.one("test", "test", "add", "replace") + `","path":"/metadata/annotations","value":` +
			p.one(string(annotations), `{"a":"1"}`, `{}`, "null") + `}`
	}
	return `{"op":"` + p.one("test", "test", "add", "add", "replace", "remove", "copy") +
		`","path":"/metadata/annotations/` + p.one("a", "x~1y~0z", "none", "x/y") +
		`","value":` + p.one(`"1"`, `"1"`, `"2"`, `"<&>"`, `"\u003c\u0026\u003e"`, "null", "3") + `}`
}

// conditions draws a strategic merge patch.
func (p patches) conditions() string {
	var all []string
	for range p.IntN(4) {
		all = append(all, `{"type":"`+p.one("A", "B", "C", "D")+`",`+p.one(`"status":"False","reason":"After"`,
			`"$patch":"delete"`, `"status":"Unknown","reason":null,"lastTransitionTime":"2026-01-02T03:04:06Z"`)+`}`)
	}
	return `{"metadata":{"uid":"` + p.one("u", "v") + `"` + p.one("", `,"resourceVersion":"6"`, `,"labels":{"e":"f"}`) +
		`},"status":{"conditions":[` + strings.Join(all, ",") + `]}}`
}

// TestPatches applies patches to fields of a node, and to its JSON as a whole.
func TestPatches(t *testing.T) {
	p, done := patches{rand.New(rand.NewPCG(1, 2))}, map[string]int{}
	compare := func(of *Object, patch string, raw []byte, err error, got metav1.Object, kind string) {
		if got == nil {
			return
		}
		if done[kind]++; err != nil {
			t.Fatalf("%s of %s succeeds, and for the whole: %v", patch, of.JSON(), err)
		}
		want := &corev1.Node{}
		if err := json.Unmarshal(raw, want); err != nil {
			t.Fatal(err)
		}
		if string(encode(got)) != string(encode(want)) {
			t.Fatalf("%s of %s:\n got %s\nwant %s", patch, of.JSON(), encode(got), encode(want))
		}
	}
	for range 1000 {
		node := p.node()
		of := &Object{Kind: Nodes, Meta: node}
		var all []string
		for range 1 + p.IntN(4) {
			all = append(all, p.operation(node))
		}
		text := "[" + strings.Join(all, ",") + "]"
		patch, err := jsonpatch.DecodePatch([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := patch.Apply(of.JSON())
		compare(of, text, raw, err, patchNode(of, []byte(text)), "JSON patches")
		text = p.conditions()
		raw, err = strategicpatch.StrategicMergePatch(of.JSON(), []byte(text), node)
		compare(of, text, raw, err, patchConditions(of, []byte(text)), "strategic merge patches")
	}
	if done["JSON patches"] < 50 || done["strategic merge patches"] < 50 {
		t.Errorf("too few succeed: %v", done)
	}
}
