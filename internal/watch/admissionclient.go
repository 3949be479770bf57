// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
)

// Run watches the object until the context ends. If its CRD is missing, it tries again.
func (a *Admission) Run(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := admissionv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &admissionv1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return fmt.Errorf("creating a client of AdmissionRules: %w", err)
	}
	lw := cache.NewFilteredListWatchFromClient(client, "admissionrules", "", func(o *metav1.ListOptions) {
		o.FieldSelector = "metadata.name=" + admissionv1alpha1.Name
	})
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: a.tellServed(Patient(lw)), ObjectType: &admissionv1alpha1.AdmissionRules{}, Handler: a.Handler()})
	informer.RunWithContext(ctx)
	return nil
}

// tellServed tells by each answer of the API server whether it serves the CRD.
func (a *Admission) tellServed(lw *cache.ListWatch) *cache.ListWatch {
	tell := func(err error) {
		if a.Served != nil && (err == nil || apierrors.IsNotFound(err)) {
			a.Served(err == nil)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContextFunc(ctx, options)
			tell(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := lw.WatchFuncWithContext(ctx, options)
			tell(err)
			return stream, err
		},
	}
}
