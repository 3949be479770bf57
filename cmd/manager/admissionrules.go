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
		if !ruleset.ReportedNotInForce(&list.Items[i]) {
			compiled = append(compiled, ruleset.Compile(&list.Items[i], nil, time.Now()))
		}
	}
	rules, _ := ruleset.NewSet(compiled...).ForAdmission()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := &admissionv1alpha1.AdmissionRules{}
		err := c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, object)
		missing := apierrors.IsNotFound(err)
		switch {
		case err != nil && !missing:
			return err
		case !missing && equality.Semantic.DeepEqual(object.Rules, rules):
			return nil
		}
		object.Name, object.Writer, object.Rules = admissionv1alpha1.Name, "", rules
		object.MarkerPrefix = v1alpha1.Served().MarkerPrefix
		if missing {
			return c.Create(ctx, object)
		}
		return c.Update(ctx, object)
	})
	if err != nil {
		return fmt.Errorf("writing the rules for admission: %w", err)
	}
	_, err = fmt.Fprintf(out, "admissionrules.nodegate.io/%s has %d rules\n", admissionv1alpha1.Name, len(rules))
	return err
}
