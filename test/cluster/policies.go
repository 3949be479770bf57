// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AwaitPolicies waits until the API server enforces the validating policies and bindings that were created before. It
// reads each of the two in the order of their creation, and puts all in force at once: so it creates one more of each,
// and waits for that.
func AwaitPolicies(ctx context.Context, c client.Client) (err error) {
	name := fmt.Sprintf("test-in-force-%d", time.Now().UnixNano())
	meta := metav1.ObjectMeta{Name: name}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			ResourceNames: []string{name},
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
			},
		}},
	}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "false", Message: name}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
	binding.Spec.PolicyName = name
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	for _, o := range []client.Object{policy, binding} {
		if err := c.Create(ctx, o); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Delete(context.WithoutCancel(ctx), o)) }()
	}
	return Poll(ctx, Limit, func() error {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: meta}, client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("the API server does not enforce the policies yet")
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			return nil
		}
		return err
	})
}
