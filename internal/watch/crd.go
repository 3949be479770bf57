// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// FollowCRD watches the CRD, and freezes the rules while the served one lacks fields of ours, which it tells. The
// function that it returns reports whether the served CRD has been compared once.
func FollowCRD(
	ctx context.Context, informers cache.Cache, live client.Reader, rules *Rules, after After,
	tell func(*apiextensionsv1.CustomResourceDefinition, *ruleset.Problem),
) (func() bool, error) {
	ours, err := crd.Load()
	if err != nil {
		return nil, err
	}
	look := func(served *apiextensionsv1.CustomResourceDefinition) {
		if served.Name != crd.Name() {
			return
		}
		problem := CompareCRD(ours, served)
		switch {
		case problem == nil && rules.Frozen() != nil:
			rules.thaw(ctx, live, after, rules.Frozen(), settled)
		case problem != nil:
			rules.freeze(problem)
			log.FromContext(ctx).Error(errors.New(problem.Message), "Frozen", "crd", served.Name)
			tell(served, problem)
		}
	}
	ignore := func(*apiextensionsv1.CustomResourceDefinition) {} // the informer of rules sees that they are gone
	return Follow(ctx, informers, &apiextensionsv1.CustomResourceDefinition{}, look, ignore)
}

// CompareCRD returns a problem that names the fields of ours that the served CRD lacks, or nil if it has them all. More
// fields do no harm.
func CompareCRD(ours, served *apiextensionsv1.CustomResourceDefinition) *ruleset.Problem {
	want, have := schemaOf(ours), schemaOf(served)
	if preserves(have.XPreserveUnknownFields) {
		return nil
	}
	missing := lacks("", want.Properties, have.Properties)
	if len(missing) == 0 {
		return nil
	}
	fix := "apply the CRD of this version"
	if mode, ok := served.Labels[ruleset.AddOnManager]; ok && !v1alpha1.Served().Own() {
		fix = fmt.Sprintf("an add-on manager restores it, which has the label %s=%s: turn the add-on off at your provider, "+
			"and apply the CRD of this version; or install Nodegate in its own API group, with --api-group=%s (apiGroup in the "+
			"chart)", ruleset.AddOnManager, mode, v1alpha1.GroupNames()[1])
	}
	return &ruleset.Problem{
		Reason: ruleset.ReasonForeignCRD,
		Message: fmt.Sprintf("the CRD %s of the cluster is not the one of this version: it lacks %s; %s", crd.Name(),
			text.Few(missing, 5, len(missing)), fix),
	}
}

// schemaOf returns the schema of this version's objects; it has no fields if the version is not served.
func schemaOf(d *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if v.Name == v1alpha1.Version && v.Served && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return *v.Schema.OpenAPIV3Schema
		}
	}
	return apiextensionsv1.JSONSchemaProps{}
}

// lacks lists the properties that one schema has and the other does not, the outermost ones only.
func lacks(path string, want, have map[string]apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	for name, w := range want {
		h, ok := have[name]
		for ok && w.Items != nil && w.Items.Schema != nil && !preserves(h.XPreserveUnknownFields) {
			name += "[]"
			w, ok = *w.Items.Schema, h.Items != nil && h.Items.Schema != nil
			if ok {
				h = *h.Items.Schema
			}
		}
		switch {
		case !ok:
			out = append(out, path+name)
		case len(w.Properties) > 0 && !preserves(h.XPreserveUnknownFields):
			out = append(out, lacks(path+name+".", w.Properties, h.Properties)...)
		}
	}
	slices.Sort(out)
	return out
}

func preserves(unknown *bool) bool { return unknown != nil && *unknown }
