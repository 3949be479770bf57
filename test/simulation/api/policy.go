// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Policy is a ValidatingAdmissionPolicy for nodes.
type Policy struct {
	conditions, variables, validations []expression
}

type expression struct {
	name    string
	program cel.Program
}

// ReadPolicy compiles a policy.
func ReadPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) (*Policy, error) {
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
			cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType)},
	})
	if err != nil {
		return nil, fmt.Errorf("making the CEL environment: %w", err)
	}
	env, out := set.StoredExpressionsEnv(), &Policy{}
	compile := func(to *[]expression, name, text string) {
		ast, issues := env.Compile(text)
		if err == nil && issues.Err() != nil {
			err = fmt.Errorf("compiling %s: %w", name, issues.Err())
		}
		if err != nil {
			return
		}
		program, problem := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
		err = problem
		*to = append(*to, expression{name, program})
	}
	for _, c := range p.Spec.MatchConditions {
		compile(&out.conditions, c.Name, c.Expression)
	}
	for _, v := range p.Spec.Variables {
		compile(&out.variables, v.Name, v.Expression)
	}
	for _, v := range p.Spec.Validations {
		compile(&out.validations, v.Message, v.Expression)
	}
	return out, err
}

// Validate returns an error if the policy refuses a write of a node. before is nil for a new one.
func (p *Policy) Validate(user authenticationv1.UserInfo, sub string, before, after map[string]any) error {
	request := map[string]any{"operation": "UPDATE",
		"userInfo": map[string]any{"username": user.Username, "groups": user.Groups}}
	if before == nil {
		request["operation"] = "CREATE"
	}
	if sub != "" {
		request["subResource"] = sub
	}
	variables := map[string]any{}
	in := map[string]any{"object": after, "oldObject": before, "request": request, "variables": variables}
	for _, c := range p.conditions {
		if out, _, err := c.program.Eval(in); err != nil || out.Value() != true {
			return nil // failurePolicy: Ignore
		}
	}
	for _, v := range p.variables {
		out, _, err := v.program.Eval(in)
		if err != nil {
			return nil
		}
		variables[v.name] = out
	}
	for _, v := range p.validations {
		if out, _, err := v.program.Eval(in); err == nil && out.Value() != true {
			return apierrors.NewForbidden(Nodes.Resource(), "", fmt.Errorf("%s", strings.TrimSpace(v.name)))
		}
	}
	return nil
}
