// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/api/v1alpha1"
	webhooks "github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// patience is the longest time that the author of a rule waits for warnings. The API server waits a second longer.
const patience = 2 * time.Second

// Webhook is the validating webhook for rules.
type Webhook struct {
	// Rules returns the current snapshot of all rules.
	Rules func() *ruleset.Set
	// Facts reads the facts about the cluster for rules.
	Facts func(context.Context, ...*ruleset.Rule) (lint.Facts, error)
	// KeyPrefixes are the prefixes of the keys that the operator allows in rules. Without any, all keys are allowed.
	KeyPrefixes []string
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Path implements admission.Handler.
func (*Webhook) Path() string { return "/validate-rules" }

// AtOnce implements admission.Expensive: a review reads pods and DaemonSets from the API server.
func (*Webhook) AtOnce() int64 { return 4 }

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return admission.Allowed("")
	}
	obj, err := webhooks.Decode[v1alpha1.NodeReadinessRule](req.Object.Raw)
	if err != nil {
		return webhooks.Unreadable("rule", err)
	}
	old := &v1alpha1.NodeReadinessRule{}
	if req.Operation == admissionv1.Update {
		if old, err = webhooks.Decode[v1alpha1.NodeReadinessRule](req.OldObject.Raw); err != nil {
			return webhooks.Unreadable("rule", err)
		}
	}
	if !obj.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(old.Spec, obj.Spec) {
		return admission.Allowed("")
	}
	if message := oversized(&obj.Spec); message != "" {
		return webhooks.Unreadable("rule", errors.New(message))
	}
	rule := ruleset.Compile(obj, nil, w.Clock.Now())
	set := w.Rules()
	if faults := refuse(rule, set, old); len(faults) > 0 {
		status := apierrors.NewInvalid(v1alpha1.GroupVersion().WithKind("NodeReadinessRule").GroupKind(), obj.Name,
			faults).Status()
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	facts, err := w.Facts(ctx, rule)
	if err != nil { // what is not known brings no warning
		log.FromContext(ctx).V(2).Info("Checking a rule without all facts", "rule", obj.Name, "error", err.Error())
	}
	warnings := lint.Warnings(rule, set, facts)
	resolved := set.With(rule).Resolve(ruleset.Known{KeyPrefixes: w.KeyPrefixes, Foreign: set.Foreign()}, set)
	if e := effect(ctx, old, obj, resolved.Named(obj.Name), set.Foreign(), facts, w.Clock.Now()); e != nil {
		warnings = append([]lint.Warning{*e}, warnings...)
	}
	response := admission.Allowed("")
	for _, warning := range lint.Without(warnings, obj.Annotations) {
		response.Warnings = append(response.Warnings, warning.String())
	}
	return response
}

// oversized returns which list of a spec is longer than the CRD's schema allows, or "". Such a spec comes from a client
// that forges reviews, and is not compiled: that could take minutes.
func oversized(spec *v1alpha1.NodeReadinessRuleSpec) string {
	health := 0
	if spec.Health != nil {
		health = len(spec.Health.Checks)
	}
	for _, list := range []struct {
		name       string
		items, max int
	}{
		{"nodeSelector.matchLabels", len(spec.NodeSelector.MatchLabels), 64},
		{"nodeSelector.matchExpressions", len(spec.NodeSelector.MatchExpressions), 64},
		{"conditions", len(spec.Conditions), 32}, {"requirements", len(spec.Requirements), 30},
		{"probes", len(spec.Probes), 16}, {"health.checks", health, 32}, {"rearmOn", len(spec.RearmOn), 4},
		{"limits", len(spec.Limits), 8},
	} {
		if list.items > list.max {
			return fmt.Sprintf("spec.%s has %d entries, and at most %d are allowed", list.name, list.items, list.max)
		}
	}
	return ""
}

// refuse returns the faults for which the request is refused: only faults that the old version does not have.
func refuse(rule *ruleset.Rule, set *ruleset.Set, old *v1alpha1.NodeReadinessRule) field.ErrorList {
	var faults field.ErrorList
	requirements := field.NewPath("spec", "requirements")
	for i := range rule.Spec.Requirements {
		cel := rule.Spec.Requirements[i].CEL
		if cel == nil || slices.ContainsFunc(old.Spec.Requirements, func(r v1alpha1.Requirement) bool {
			return r.CEL != nil && r.CEL.Expression == cel.Expression
		}) {
			continue
		}
		path := requirements.Index(i).Child("cel", "expression")
		for _, p := range rule.Problems {
			if p.Field == path.String() {
				faults = append(faults, field.Invalid(path, cel.Expression, p.Message))
			}
		}
	}
	problems := set.With(rule).Invalid(rule)
	if len(problems) > 0 && oversized(&old.Spec) == "" {
		before := ruleset.Compile(old, nil, rule.CreatedAt)
		had := set.With(before).Invalid(before)
		problems = slices.DeleteFunc(problems, func(p ruleset.Problem) bool {
			return slices.ContainsFunc(had, func(h ruleset.Problem) bool { // the field has an index, which an edit changes
				return h.Reason == p.Reason && h.Message == p.Message
			})
		})
	}
	for _, p := range problems {
		faults = append(faults, &field.Error{Type: field.ErrorTypeInvalid, Field: p.Field, BadValue: rule.Name,
			Detail: p.Message})
	}
	return faults
}
