// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/informers"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Mutating is a MutatingAdmissionPolicy for nodes or pods, with its binding. The libraries of the API server run it.
type Mutating struct {
	hook       mutating.PolicyHook
	first      []matchconditions.Matcher // one for each condition that no parameter changes: most requests end there
	params     Kind
	dispatcher generic.Dispatcher[mutating.PolicyHook]
}

// ReadMutating compiles a policy, as the API server does (k8s.io/apiserver, policy/mutating/compilation.go).
func ReadMutating(p *mutating.Policy, binding *mutating.PolicyBinding) (*Mutating, error) {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, fmt.Errorf("making a CEL compiler: %w", err)
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	for i := range p.Spec.Variables {
		v := mutating.Variable(p.Spec.Variables[i])
		out := compiler.CompileAndStoreVariable(&v, options, environment.StoredExpressions)
		if out.Error != nil {
			return nil, fmt.Errorf("compiling the variable %s: %w", v.Name, out.Error)
		}
	}
	var problems []error
	matcher := func(conditions ...plugincel.ExpressionAccessor) matchconditions.Matcher {
		compiled := compiler.CompileCondition(conditions, options, environment.StoredExpressions)
		problems = append(problems, compiled.CompilationErrors()...)
		return matchconditions.NewMatcher(compiled, p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	out := &Mutating{hook: mutating.PolicyHook{Policy: p, Bindings: []*mutating.PolicyBinding{binding},
		ParamScope: meta.RESTScopeRoot}}
	var conditions []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		c := (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i])
		if conditions = append(conditions, c); !strings.Contains(c.Expression, "params") {
			out.first = append(out.first, matcher(c))
		}
	}
	out.hook.Evaluator = mutating.PolicyEvaluator{CompositedCompiler: compiler, Matcher: matcher(conditions...)}
	options.HasPatchTypes = true
	for i := range p.Spec.Mutations {
		of := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{
			Expression: p.Spec.Mutations[i].JSONPatch.Expression}, options, environment.StoredExpressions)
		problems = append(problems, of.CompilationErrors()...)
		out.hook.Evaluator.Mutators = append(out.hook.Evaluator.Mutators, patch.NewJSONPatcher(of))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("compiling the policy %s: %w", p.Name, problems[0])
	}
	if of := p.Spec.ParamKind; of != nil {
		plural, same := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind))
		at := slices.IndexFunc(kinds, func(k Kind) bool { // AdmissionRules are a plural already
			return k.Resource() == plural.GroupResource() || k.Resource() == same.GroupResource()
		})
		if at < 0 {
			return nil, fmt.Errorf("the policy %s has parameters of the kind %s, which is not served", p.Name, of.Kind)
		}
		out.params = kinds[at]
	}
	out.dispatcher = mutating.NewDispatcher(nil, matching.NewMatcher(namespaces{}, nil), untyped{})
	return out, nil
}

// Admit lets the policy change a node or a pod that is created, or updated where before is not nil. The policy sees its
// parameters as they were at a version.
func (m *Mutating) Admit(s *Server, version int64, by authenticationv1.UserInfo, sub string, before,
	obj runtime.Object) error {
	kind, resource := corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes")
	if _, pod := obj.(*corev1.Pod); pod {
		kind, resource = corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	}
	operation, opts := admission.Create, runtime.Object(&metav1.CreateOptions{})
	if before != nil {
		operation, opts = admission.Update, &metav1.UpdateOptions{}
	}
	of := obj.(metav1.Object)
	a := admission.NewAttributesRecord(obj, before, kind, of.GetNamespace(), of.GetName(), resource, sub, operation, opts,
		false, &user.DefaultInfo{Name: by.Username, Groups: by.Groups})
	versioned, err := admission.NewVersionedAttributes(a, kind, typed)
	if err != nil {
		return fmt.Errorf("preparing an object for a policy: %w", err)
	}
	ctx := context.Background()
	first := m.first
	if before == nil { // a new object passes them all: the dispatcher asks them again
		first = nil
	}
	for _, condition := range first {
		result := condition.Match(m.hook.Evaluator.CompositedCompiler.CreateContext(ctx), versioned, nil, nil)
		if result.Error == nil && !result.Matches {
			return nil
		}
	}
	hook := m.hook
	if m.params != "" {
		hook.ParamInformer = &parameters{server: s, kind: m.params, version: version}
	}
	for {
		if err := m.dispatcher.Dispatch(ctx, a, typed, []mutating.PolicyHook{hook}); err != nil {
			return fmt.Errorf("running a policy: %w", err)
		}
		again := a.GetReinvocationContext()
		if again.IsReinvoke() || !again.ShouldReinvoke() {
			return nil
		}
		again.SetIsReinvoke()
	}
}

// parameters are the objects of a kind as they were at a version.
type parameters struct {
	cache.SharedIndexInformer
	cache.GenericNamespaceLister
	server  *Server
	kind    Kind
	version int64
}

var (
	_ informers.GenericInformer = &parameters{}
	_ cache.GenericLister       = &parameters{}
)

// Informer implements informers.GenericInformer.
func (p *parameters) Informer() cache.SharedIndexInformer { return p }

// Lister implements informers.GenericInformer.
func (p *parameters) Lister() cache.GenericLister { return p }

// HasSynced implements cache.SharedIndexInformer.
func (p *parameters) HasSynced() bool { return true }

// ByNamespace implements cache.GenericLister.
func (p *parameters) ByNamespace(string) cache.GenericNamespaceLister { return p }

// List implements cache.GenericLister.
func (p *parameters) List(selector labels.Selector) ([]runtime.Object, error) {
	var out []runtime.Object
	for _, o := range p.server.ListAt(p.kind, p.version) {
		if selector.Matches(labels.Set(o.Meta.GetLabels())) {
			out = append(out, o.Meta.(runtime.Object))
		}
	}
	return out, nil
}

// Get implements cache.GenericLister.
func (p *parameters) Get(name string) (runtime.Object, error) {
	for _, o := range p.server.ListAt(p.kind, p.version) {
		if o.Key() == name {
			return o.Meta.(runtime.Object), nil
		}
	}
	return nil, apierrors.NewNotFound(p.kind.Resource(), name)
}

// namespaces has every namespace.
type namespaces struct{ listers.NamespaceLister }

// Get implements listers.NamespaceLister.
func (namespaces) Get(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
}

// typed are the functions for objects that admission needs. Nodes and pods have one version only.
var typed = &admission.RuntimeObjectInterfaces{ObjectCreater: clientgoscheme.Scheme, ObjectTyper: clientgoscheme.Scheme,
	ObjectDefaulter: clientgoscheme.Scheme, ObjectConvertor: same{},
	EquivalentResourceMapper: runtime.NewEquivalentResourceRegistry()}

// same converts nodes into nodes, and pods into pods.
type same struct{ runtime.ObjectConvertor }

// Convert implements runtime.ObjectConvertor.
func (same) Convert(in, out, _ any) error {
	switch to := out.(type) {
	case *corev1.Node:
		in.(*corev1.Node).DeepCopyInto(to)
		to.TypeMeta = metav1.TypeMeta{}
	case *corev1.Pod:
		in.(*corev1.Pod).DeepCopyInto(to)
		to.TypeMeta = metav1.TypeMeta{}
	}
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (same) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// untyped has no schemas: JSON patches need none.
type untyped struct{}

// GetTypeConverter implements patch.TypeConverterManager.
func (untyped) GetTypeConverter(schema.GroupVersionKind) managedfields.TypeConverter {
	return managedfields.NewDeducedTypeConverter()
}

// Run implements patch.TypeConverterManager.
func (untyped) Run(context.Context) {}
