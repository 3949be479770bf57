// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// FollowCRD watches the CRD, and freezes the rules while the served one lacks fields of ours. The function that it
// returns reports whether the served CRD has been compared once.
func FollowCRD(
	ctx context.Context, informers cache.Cache, live client.Reader, rules *Rules, after After,
) (func() bool, error) {
	ours, err := crd.Load()
	if err != nil {
		return nil, err
	}
	informer, err := informers.GetInformer(ctx, &apiextensionsv1.CustomResourceDefinition{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching the CRD: %w", err)
	}
	look := func(obj any) {
		served, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok || served.Name != crd.Name {
			return
		}
		problem := CompareCRD(ours, served)
		switch {
		case problem == nil && rules.Frozen() != nil:
			rules.thaw(ctx, live, after, rules.Frozen(), settled)
		case problem != nil:
			rules.Freeze(problem)
			log.FromContext(ctx).Info("Frozen: "+problem.Message, "crd", served.Name)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching the CRD: %w", err)
	}
	return registration.HasSynced, nil
}

// CompareCRD returns a problem that names the fields of ours that the served CRD lacks, or nil if it has them all. More
// fields do no harm.
func CompareCRD(ours, served *apiextensionsv1.CustomResourceDefinition) *ruleset.Problem {
	want, have := schema(ours), schema(served)
	missing := lacks("", want, have)
	if len(missing) == 0 {
		return nil
	}
	return &ruleset.Problem{
		Reason: ruleset.ReasonForeignCRD,
		Message: fmt.Sprintf("the CRD %s of the cluster is not the one of this version: it lacks %s; apply the CRD of "+
			"this version", crd.Name, ruleset.Few(missing, 5, len(missing))),
	}
}

func schema(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if v.Name == v1alpha1.GroupVersion.Version && v.Served && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// lacks lists the properties that one schema has and the other does not, the outermost ones only.
func lacks(path string, want, have *apiextensionsv1.JSONSchemaProps) []string {
	if want == nil {
		return nil
	}
	if have == nil {
		return []string{strings.TrimPrefix(path, ".")}
	}
	if have.XPreserveUnknownFields != nil && *have.XPreserveUnknownFields {
		return nil
	}
	var out []string
	for name := range want.Properties {
		w := want.Properties[name]
		h, ok := have.Properties[name]
		if !ok {
			out = append(out, strings.TrimPrefix(path+"."+name, "."))
			continue
		}
		out = append(out, lacks(path+"."+name, &w, &h)...)
	}
	if want.Items != nil && want.Items.Schema != nil {
		var items *apiextensionsv1.JSONSchemaProps
		if have.Items != nil {
			items = have.Items.Schema
		}
		out = append(out, lacks(path+"[]", want.Items.Schema, items)...)
	}
	slices.Sort(out)
	return out
}
