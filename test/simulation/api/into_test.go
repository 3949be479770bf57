// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// aNode has fields of every kind that the model's structs have.
type aNode struct {
	Metadata struct {
		Name, UID         string
		Generation        int64
		OwnerReferences   []struct{ Kind, Name string }
		Labels            map[string]string
		CreationTimestamp time.Time
		DeletionTimestamp *time.Time
	}
	Spec struct {
		Unschedulable bool
		ProviderID    string
		Taints        []struct {
			Key, Effect string
			TimeAdded   *time.Time
		}
		PodCIDRs []string
	}
	Status struct {
		Conditions []struct {
			Type, Status      string
			LastHeartbeatTime time.Time
		}
		Allocatable map[string]string
		NodeInfo    struct{ BootID string }
	}
}

// aRule has those of untyped objects.
type aRule struct {
	Metadata struct {
		UID               string
		Generation        int64
		Labels            map[string]string
		CreationTimestamp time.Time
		DeletionTimestamp *time.Time
	}
	Spec struct {
		MaxUnavailable json.RawMessage
		CSIDriver      *struct{ MinAllocatable *int }
		Conditions     []struct{ Type string }
		DryRun         bool
		Missing        *struct{}
		Guard          *struct{ Nested struct{ Seconds int } }
		All            any
	}
}

// TestInto compares what Into reads with what JSON says.
func TestInto(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600)))
	nodes := []*corev1.Node{{}, {
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", Generation: 3, Labels: map[string]string{"a": "b"},
			CreationTimestamp: at, DeletionTimestamp: &at,
			OwnerReferences: []metav1.OwnerReference{{Kind: "NodeClaim", Name: "c"}}},
		Spec: corev1.NodeSpec{Unschedulable: true, ProviderID: "p", PodCIDRs: []string{"10.0.0.0/24"},
			Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", TimeAdded: &at}}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("0.5")},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", LastHeartbeatTime: at}, {}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot"}},
	}, {
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}, Conditions: []corev1.NodeCondition{}},
	}}
	for _, node := range nodes {
		compare[aNode](t, node)
	}
	for _, text := range []string{`{}`, `{"metadata":{"uid":"u","generation":2,"labels":{"a":"b"},
		"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:05+01:00"},
		"spec":{"maxUnavailable":"10%","csiDriver":{"minAllocatable":0},"conditions":[{"type":"a"},{}],"dryRun":true,
		"missing":null,"unknown":{"a":1},"guard":{"nested":{"seconds":7}},"all":{"a":[1,"b",null]}}}`,
		`{"metadata":{"labels":{},"creationTimestamp":null},"spec":{"maxUnavailable":3,"conditions":[]}}`,
		`{"spec":{"maxUnavailable":null,"conditions":[null],"all":null}}`} {
		rule := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &rule.Object); err != nil {
			t.Fatal(err)
		}
		compare[aRule](t, rule)
		if rule.SetGeneration(5); text != `{}` {
			compare[aRule](t, rule)
		}
	}
}

func compare[T any](t *testing.T, meta metav1.Object) {
	t.Helper()
	o, want, got := &Object{Meta: meta}, new(T), new(T)
	if err := json.Unmarshal(o.JSON(), want); err != nil {
		t.Fatal(err)
	}
	o.Into(got)
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("of %s (-want +got):\n%s", o.JSON(), diff)
	}
}

// TestEqual compares objects as their JSON is compared.
func TestEqual(t *testing.T) {
	tree := func(text string) metav1.Object {
		out := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &out.Object); err != nil {
			t.Fatal(err)
		}
		return out
	}
	generation := tree(`{"metadata":{}}`)
	generation.SetGeneration(1)
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	later := metav1.NewTime(at.Add(time.Millisecond))
	node := func(edit func(*corev1.Node)) metav1.Object {
		out := &corev1.Node{}
		edit(out)
		return out
	}
	objects := []metav1.Object{
		tree(`{"metadata":{"generation":1}}`), generation, tree(`{"metadata":{"generation":2}}`), tree(`{"metadata":{}}`),
		tree(`{"metadata":{"generation":"1"}}`), tree(`{"metadata":null}`), tree(`{"spec":[1,{"a":true}]}`),
		tree(`{"spec":[1,{"a":false}]}`), tree(`{"spec":[1]}`), tree(`{"spec":[]}`),
	}
	nodes := []metav1.Object{
		node(func(*corev1.Node) {}),
		node(func(n *corev1.Node) { n.Labels = map[string]string{} }),
		node(func(n *corev1.Node) { n.Labels = map[string]string{"a": "", "b": ""} }),
		node(func(n *corev1.Node) { n.Labels = map[string]string{"b": "", "a": ""} }),
		node(func(n *corev1.Node) { n.DeletionTimestamp = &at }),
		node(func(n *corev1.Node) { n.DeletionTimestamp = &later }),
		node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{} }),
		node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }),
		node(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "a" }),
		node(func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{"a": resource.MustParse("1")} }),
	}
	for _, all := range [][]metav1.Object{objects, nodes} {
		for _, a := range all {
			for _, b := range all {
				want := !bytes.Equal(encode(a), encode(b))
				if got := (&Object{Meta: a}).changes(&Object{Meta: b}); got != want {
					t.Errorf("%s is another object than %s: %t", encode(a), encode(b), got)
				}
			}
		}
	}
}
