// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestWriteNeedsTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		process, holder string
		missing         bool
		want            error
	}{
		"its own":           {process: "a", holder: "a"},
		"of a successor":    {process: "b", holder: "b", want: errDeposed},
		"that is not there": {missing: true, want: errDeposed},
		"given back":        {process: "a", want: errDeposed},
	} {
		api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease",
			Labels: map[string]string{"process": c.process}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.holder}}
		if !c.missing {
			if err := api.Create(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		l := &Lease{ObjectKey: client.ObjectKeyFromObject(lease), Labels: map[string]string{"process": "a"}}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "object"}}
		if err := l.Write(t.Context(), api, object); !errors.Is(err, c.want) {
			t.Errorf("a lease %s: the error is %v, want %v", name, err, c.want)
		}
	}
}

// Another client edits the object, and another one deletes it, after it was read.
func TestRetry(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	name := client.ObjectKey{Namespace: "system", Name: "object"}
	others := []func(*corev1.ConfigMap) error{
		func(o *corev1.ConfigMap) error { o.Data["other"] = "x"; return api.Update(t.Context(), o) },
		func(o *corev1.ConfigMap) error { return api.Delete(t.Context(), o) },
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	if err := (*Lease)(nil).Write(t.Context(), api, object); err != nil {
		t.Fatal(err)
	}
	err := Retry(func() error {
		object := &corev1.ConfigMap{}
		if err := client.IgnoreNotFound(api.Get(t.Context(), name, object)); err != nil {
			return err
		}
		object.Namespace, object.Name, object.Data = name.Namespace, name.Name, map[string]string{"ours": "x"}
		if len(others) > 0 {
			other := others[0]
			others = others[1:]
			if err := other(object.DeepCopy()); err != nil {
				return err
			}
		}
		return (*Lease)(nil).Write(t.Context(), api, object)
	})
	if err != nil || len(others) > 0 {
		t.Fatalf("%v, and %d other writes are left", err, len(others))
	}
	if err := api.Get(t.Context(), name, object); err != nil || object.Data["ours"] != "x" {
		t.Errorf("%v, stored: %v", err, object.Data)
	}
}

func TestLasts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errDeposed, false},
		{errors.New("connection refused"), false},
		{apierrors.NewConflict(schema.GroupResource{}, "", nil), false},
		{apierrors.NewTooManyRequests("", 1), false},
		{apierrors.NewForbidden(schema.GroupResource{}, "", nil), true},
		{apierrors.NewNotFound(schema.GroupResource{}, ""), true}, // the CRD
		{&meta.NoKindMatchError{}, true},
		{apierrors.NewInternalError(errors.New("etcdserver: request is too large")), true},
	} {
		if got := Lasts(c.err); got != c.want {
			t.Errorf("%v lasts: %t, want %t", c.err, got, c.want)
		}
	}
}
