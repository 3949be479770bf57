// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// named are the checks that a pattern of the API's schema lets through by their names.
func named(t *testing.T, path ...string) []string {
	t.Helper()
	definition, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, p := range path {
		var next apiextensionsv1.JSONSchemaProps
		if p == "[]" {
			next = *schema.Items.Schema
		} else {
			next = schema.Properties[p]
		}
		schema = &next
	}
	var expressions string
	for _, value := range schema.Enum {
		expressions += string(value.Raw)
	}
	for _, validation := range schema.XValidations {
		expressions += validation.Rule
	}
	names := regexp.MustCompile(`[a-z]+(_[a-z0-9]+)+|\b(kubelet|network|rules|schedulable)\b`).
		FindAllString(expressions, -1)
	if len(names) < 6 {
		t.Fatalf("only %q are found in %q", names, expressions)
	}
	return names
}

// TestTheAPITheOperatorAndTheAgentKnowTheSameChecks: their names stand in the schema, in the operator's validation and
// in the agent, which share no code.
func TestTheAPITheOperatorAndTheAgentKnowTheSameChecks(t *testing.T) {
	env := checks.Environment{}
	var known []string
	for _, c := range checks.Builtin(env, nil) {
		known = append(known, c.Name)
	}
	inSchema := named(t, "spec", "health", "checks", "[]", "name")
	slices.Sort(known)
	slices.Sort(inSchema)
	if !slices.Equal(known, inSchema) {
		t.Errorf("the agent knows %q, the schema %q", known, inSchema)
	}
	for _, name := range inSchema {
		if problems := ruleset.Compile(prober("a").Health(name).Obj(), nil, time.Time{}).Problems; len(problems) > 0 {
			t.Errorf("the operator: %v", problems)
		}
		if _, err := checks.FromSpec(&v1alpha1.HealthCheck{Name: name}, env, nil); err != nil {
			t.Errorf("the agent: %v", err)
		}
	}
	for _, name := range named(t, "spec", "probes", "[]", "check") {
		r := prober("a")
		r.Spec.Probes = []v1alpha1.Probe{{ConditionType: "example.com/A", Check: name}}
		if problems := ruleset.Compile(r.Obj(), nil, time.Time{}).Problems; len(problems) > 0 {
			t.Errorf("the operator: %v", problems)
		}
		runs := func(c checks.Check) bool { return c.Name == name && c.Run != nil }
		if !slices.ContainsFunc(checks.Builtin(env, nil), runs) {
			t.Errorf("the agent cannot probe %s", name)
		}
	}
}

type known checks.Node

func (k known) Current() (checks.Node, bool)     { return checks.Node(k), true }
func (k known) Wait(context.Context) checks.Node { return checks.Node(k) }
func (known) Addresses() []corev1.NodeAddress    { return nil }

// TestTheAgentReadsWhatTheOperatorWrites: the verdict in a node's record.
func TestTheAgentReadsWhatTheOperatorWrites(t *testing.T) {
	for verdict, passes := range map[v1alpha1.HealthVerdict]bool{v1alpha1.HealthReady: true,
		v1alpha1.HealthNotReady: false} {
		record := nodeview.Record{Rule: "r", Taint: "example.com/a=:NoSchedule", Health: verdict}
		node := build.MakeNode("n").Annotation(v1alpha1.RecordAnnotationPrefix+"u1", record.Encode()).Obj()
		check := checks.Rule(known{Object: node}, config.Rule{Name: "r", UID: "u1", Elsewhere: true})
		if got, _ := check.Instant(); got.Passed != passes || got.FailOpen != "" {
			t.Errorf("%s: got %+v", verdict, got)
		}
	}
}
