// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// seedAdmissionRules writes the rules for admission before an upgrade: those that are in force by their status. The new
// policy reads them from its first moment, before an operator of this version leads. A leader that runs already
// corrects them at once, if they are wrong.
func seedAdmissionRules(ctx context.Context, c client.Client, out io.Writer) error {
	list := &v1alpha1.NodeReadinessRuleList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("listing rules: %w", err)
	}
	var compiled []*ruleset.Rule
	for i := range list.Items {
		rule := ruleset.Compile(&list.Items[i], nil, time.Now())
		if rule.Mode == ruleset.Enforced && ruleset.ReportedNotInForce(&list.Items[i]) {
			rule = rule.Freeze(ruleset.Problem{Reason: evidence.ReasonInvalid})
		}
		compiled = append(compiled, rule)
	}
	set, count := ruleset.NewSet(compiled...), 0
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored := &admissionv1alpha1.AdmissionRules{}
		err := c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, stored)
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return err
		}
		object, _ := set.ForAdmission(stored)
		count = len(ruleset.List(object))
		switch {
		case missing:
			return c.Create(ctx, object)
		case !equality.Semantic.DeepEqual(stored, object):
			return c.Update(ctx, object)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the rules for admission: %w", err)
	}
	_, err = fmt.Fprintf(out, "admissionrules.nodegate.io/%s has %d rules\n", admissionv1alpha1.Name, count)
	return err
}
