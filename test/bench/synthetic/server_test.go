// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/build"
)

func TestNodesArePatchedAndWatched(t *testing.T) {
	s := New(&apiextensionsv1.CustomResourceDefinition{})
	s.Put("nodes", build.MakeNode("n1").UID("u1").Obj())
	s.Put("nodes", build.MakeNode("n2").Obj())
	url, stop, err := s.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	nodes := clients.CoreV1().Nodes()
	for limit, want := range []int{2, 1} {
		list, err := nodes.List(t.Context(), metav1.ListOptions{Limit: int64(limit)})
		if err != nil || len(list.Items) != want || list.Items[0].Name != "n1" {
			t.Fatal(limit, list, err)
		}
	}
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := nodes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(text string) error {
		_, err := nodes.Patch(t.Context(), "n1", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	for _, refused := range []string{
		`[{"op":"test","path":"/metadata/uid","value":"u2"},{"op":"remove","path":"/spec/taints"}]`,
		`[{"op":"test","path":"/spec/taints","value":[{"key":"a","effect":"NoSchedule"}]}]`,
		`[{"op":"test","path":"/metadata/annotations/a","value":"1"}]`,
	} {
		if err := patch(refused); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", refused, err)
		}
	}
	if err := patch(`[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"test","path":"/spec/taints","value":null},
		{"op":"add","path":"/spec/taints","value":[{"key":"a","effect":"NoSchedule"}]},
		{"op":"test","path":"/metadata/annotations","value":null},
		{"op":"add","path":"/metadata/annotations","value":{}},
		{"op":"test","path":"/metadata/annotations/x~1y","value":null},
		{"op":"add","path":"/metadata/annotations/x~1y","value":"1"}]`); err != nil {
		t.Fatal(err)
	}
	e := <-w.ResultChan()
	node, ok := e.Object.(*corev1.Node)
	if !ok || e.Type != watch.Modified || node.Annotations["x/y"] != "1" || len(node.Spec.Taints) != 1 {
		t.Errorf("seen: %+v", e)
	}
	if got, want := s.Counts(), (Counts{NodePatches: 1, Refused: 3}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	s.Relist()
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on")
	}
	_, err = nodes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: node.ResourceVersion})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from an old version: %v", err)
	}
}
