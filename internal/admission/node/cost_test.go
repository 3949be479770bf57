// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apicel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// An expression that costs more than the API server allows ends with an error, and an error admits the request. So none
// may cost more, on no node that the API server and the policy for annotations accept.
func TestNoNodeIsTooExpensiveForThePolicies(t *testing.T) {
	long := strings.Repeat("long", 12)
	domain := strings.Repeat(long+".", 5) + "io"
	plain := func(i int) string { return strconv.FormatInt(int64(i), 36) }
	qualified := func(i int) string { return fmt.Sprintf("%s/%d", domain, i) }
	annotated := func(number int, key func(int) string) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) {
			for i := range number {
				n.Annotation(key(i), strings.Repeat("y", max(0, 250<<10/number-len(key(i)))))
			}
		}
	}
	claimed := func(records, taints int) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) {
			for i := range taints {
				n.Taint(fmt.Sprintf("%s/%s%d", domain, long, i), "v", corev1.TaintEffectNoSchedule)
			}
			for i := range records {
				n.Annotation(fmt.Sprintf("%s%d", v1alpha1.RecordAnnotationPrefix, i), fmt.Sprintf(
					`{"rule":"%s","taint":"%s/%s%d=v:NoSchedule"}`, strings.Repeat("r", 390), domain, long, i))
			}
		}
	}
	described := func(n *build.NodeWrapper) {
		for i := range 10_000 {
			n.Label(qualified(i)[len(domain)-60:], "v").Condition(plain(i), corev1.ConditionTrue, time.Now())
		}
	}
	guard, err := cluster.ReadConfig(cluster.RecordGuard)
	if err != nil {
		t.Fatal(err)
	}
	admits, err := cluster.ReadConfig(cluster.NodeAdmissionPolicy)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*admissionv1alpha1.AdmissionRules{
		"rules of one group": crowded(), "rules of many groups": crowd(2*admissionv1alpha1.MaxRules, apart),
		"rules that are not ready": crowd(200, apart)}
	for i := range all["rules that are not ready"].Groups {
		group := &all["rules that are not ready"].Groups[i]
		group.Records, group.Taints = nil, nil
	}
	for name, edit := range map[string]func(*build.NodeWrapper){
		"one annotation":          annotated(1, plain),
		"1000 annotations":        annotated(1000, plain),
		"1000 with long keys":     annotated(1000, qualified),
		"200 claims":              claimed(200, 250),
		"300 claims":              claimed(300, 300),
		"200 claims, 4000 taints": claimed(200, 4000),
		"labels and conditions":   described,
	} {
		n := build.MakeNode("n").Created(time.Now())
		edit(n)
		n.Label(poolKey, "p")
		for _, o := range slices.Concat(guard, admits) {
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if !strings.HasSuffix(o.GetKind(), "Policy") {
				continue
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, policy); err != nil {
				t.Fatal(err)
			}
			if *policy.Spec.FailurePolicy == admissionregistrationv1.Fail {
				continue // an error refuses the request
			}
			crowds := map[string]*admissionv1alpha1.AdmissionRules{"": nil}
			if policy.Spec.ParamKind != nil {
				crowds = all
			}
			for _, old := range []*corev1.Node{nil, build.MakeNode("n").Obj(), n.Obj()} {
				after := build.WrapNode(n.Obj()).Annotation("another", "").Obj()
				for of, rules := range crowds {
					evaluate(t, policy.Name+", "+name+", "+of, policy, rules, old, after)
				}
			}
		}
	}
}

// What follows the conditions of a policy costs much more. So they end it for a heartbeat, for a new node that no rule
// matches, and where the API server runs it again on the node that it has changed.
func TestThePoliciesEndEarly(t *testing.T) {
	read := func(file string, i int) *admissionregistrationv1.ValidatingAdmissionPolicy {
		objects, err := cluster.ReadConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, policy); err != nil {
			t.Fatal(err)
		}
		return policy
	}
	admits, annotations := read(cluster.NodeAdmissionPolicy, 0), read(cluster.RecordGuard, 2)
	other, matches := build.MakeNode("n").Annotation("a", "b").Obj(), build.MakeNode("n").Label(poolKey, "p").Obj()
	tainted := build.WrapNode(matches.DeepCopy()).Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
	for _, r := range ruleset.CompileAdmission(crowded()) { // all have the same taint
		tainted.Annotation(r.RecordKey(), fmt.Sprintf(`{"rule":%q,"taint":%q}`, r.Name, held))
	}
	forged := tainted.Obj().DeepCopy()
	forged.Annotations[v1alpha1.RecordAnnotationPrefix+"none"] = "{}"
	for name, c := range map[string]struct {
		policy    *admissionregistrationv1.ValidatingAdmissionPolicy
		old, node *corev1.Node
		want      bool
	}{
		"a new node":                       {policy: admits, node: matches, want: true},
		"a new node that no rule matches":  {policy: admits, node: other},
		"a new node with a record":         {policy: admits, node: forged, want: true},
		"the second time":                  {policy: admits, node: tainted.Obj()},
		"a heartbeat":                      {policy: annotations, old: other, node: other},
		"a write that changes annotations": {policy: annotations, old: matches, node: other, want: true},
	} {
		if got := evaluate(t, name, c.policy, crowded(), c.old, c.node); got != c.want {
			t.Errorf("%s: it goes on: %t, want %t", name, got, c.want)
		}
	}
}

// evaluate evaluates a policy as the API server does, for a kubelet that creates or updates a node. It returns whether
// the policy's conditions are true.
func evaluate(t *testing.T, name string, policy *admissionregistrationv1.ValidatingAdmissionPolicy,
	rules *admissionv1alpha1.AdmissionRules, old, node *corev1.Node) bool {
	t.Helper()
	compiler, err := admissioncel.NewCompositedCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true, HasParams: policy.Spec.ParamKind != nil}
	for _, v := range policy.Spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options,
			environment.StoredExpressions)
	}
	var conditions, validations []admissioncel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		c := matchconditions.MatchCondition(policy.Spec.MatchConditions[i])
		conditions = append(conditions, &c)
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression})
	}
	bindings := admissioncel.OptionalVariableBindings{}
	if options.HasParams { // the admission policy
		bindings.VersionedParams = rules
		for _, v := range []string{"records", "taints", "kept"} {
			validations = append(validations, &validating.ValidationCondition{Expression: "size(variables." + v + ") >= 0"})
		}
	}
	in := &admission.VersionedAttributes{VersionedObject: admission.NewLazyObject(node)}
	operation := admissionv1.Create
	if old != nil {
		in.VersionedOldObject, operation = admission.NewLazyObject(old), admissionv1.Update
	}
	request := &admissionv1.AdmissionRequest{Operation: operation, UserInfo: authenticationv1.UserInfo{Username: "u",
		Groups: []string{"system:nodes"}}}
	check := func(part []admissioncel.ExpressionAccessor, budget int64) (all bool) {
		all = true
		results, _, err := compiler.CompileCondition(part, options, environment.StoredExpressions).ForInput(
			t.Context(), in, request, bindings, nil, budget)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range results {
			if r.Error != nil {
				t.Errorf("%s: %.400v", name, r.Error)
			}
			all = all && r.EvalResult != nil && r.EvalResult.Value() == true
		}
		return all
	}
	matched := check(conditions, apicel.RuntimeCELCostBudgetMatchConditions)
	check(validations, apicel.RuntimeCELCostBudget)
	return matched
}

// crowded are as many rules as fit into an AdmissionRules. All select the same nodes, and have the same taint.
func crowded() *admissionv1alpha1.AdmissionRules {
	return crowd(2*admissionv1alpha1.MaxRules, func(int, *build.RuleWrapper) {})
}

// apart gives a rule a selector and a taint of its own.
func apart(i int, r *build.RuleWrapper) {
	r.SelectorExpression(fmt.Sprintf("example.com/%d", i), "DoesNotExist")
	r.Spec.Taint.Key += strconv.Itoa(i)
}

func crowd(n int, edit func(int, *build.RuleWrapper)) *admissionv1alpha1.AdmissionRules {
	var rules []*ruleset.Rule
	for i := range n {
		r := network(fmt.Sprintf("rule-%d", i)).UID(fmt.Sprintf("uid-%d", i)).Created(time.Now())
		r.Spec.NodeSelector = v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{poolKey: "p"}}
		edit(i, r)
		rules = append(rules, ruleset.Compile(r.Obj(), nil, time.Now()))
	}
	out, _ := ruleset.NewSet(rules...).ForAdmission(nil)
	return out
}
