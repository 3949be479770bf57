// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
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
	lags := wait.Backoff{Duration: 200 * time.Millisecond, Steps: int(establishLimit / (200 * time.Millisecond))}
	again := func(err error) bool { // a leader may create or change the object at the same time
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errEarlierCRD)
	}
	err := retry.OnError(lags, again, func() error {
		stored := &admissionv1alpha1.AdmissionRules{}
		err := c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, stored)
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return err
		}
		object, _ := set.ForAdmission(stored)
		count = len(ruleset.List(object))
		if !missing && equality.Semantic.DeepEqual(stored, object) {
			return nil
		}
		return seed(ctx, c, object, missing)
	})
	if err != nil {
		return fmt.Errorf("writing the rules for admission: %w", err)
	}
	_, err = fmt.Fprintf(out, "admissionrules.nodegate.io/%s has %d rules\n", admissionv1alpha1.Name, count)
	return err
}

// errEarlierCRD: an API server drops new fields for a moment after the CRD was replaced, which was established before.
var errEarlierCRD = errors.New("the API server still serves the earlier CRD")

// seed writes the object, and returns an error if the API server has dropped a part of it. What a leader has written
// since then stays.
func seed(ctx context.Context, c client.Client, object *admissionv1alpha1.AdmissionRules, missing bool) error {
	written, stored := object.DeepCopy(), &admissionv1alpha1.AdmissionRules{}
	var err error
	if missing {
		err = c.Create(ctx, written)
	} else {
		err = c.Update(ctx, written)
	}
	if err == nil {
		err = c.Get(ctx, client.ObjectKeyFromObject(written), stored)
	}
	if err != nil || stored.ResourceVersion != written.ResourceVersion {
		return err
	}
	stored.TypeMeta, stored.ObjectMeta = object.TypeMeta, object.ObjectMeta
	if !equality.Semantic.DeepEqual(stored, object) {
		return errEarlierCRD
	}
	return nil
}
