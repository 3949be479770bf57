// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// Object is an object of a file.
type Object struct {
	Source  string                     // the file
	Content *unstructured.Unstructured // the object as it is in the file
	Typed   runtime.Object             // nil if the type is unknown or the content does not fit it
	Misfit  error                      // why the content does not fit the type
}

// kind returns the object's kind, with its version.
func (o *Object) kind() string { return o.Content.GetKind() + " (" + o.Content.GetAPIVersion() + ")" }

// Read reads all objects of files. Lists are split into their items. flag is the flag that named the files. With an
// error, it returns the objects of the files that could be read.
func Read(flag string, options resource.FilenameOptions) ([]Object, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().FilenameParam(false, &options).Flatten().
		Do().Infos()
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	out, scheme := make([]Object, 0, len(infos)), Scheme()
	for _, info := range infos {
		content, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		o := Object{Source: info.Source, Content: content}
		kind := content.GroupVersionKind()
		if isRule(kind) {
			kind = v1alpha1.GroupVersion().WithKind(kind.Kind) // the types are the same in each group
		}
		if typed, err := scheme.New(kind); err == nil {
			if o.Misfit = runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, typed); o.Misfit == nil {
				o.Typed = typed
			}
		}
		out = append(out, o)
	}
	return out, err
}

// Rule is a rule of a file.
type Rule struct {
	Object
	Rule *v1alpha1.NodeReadinessRule // nil if the content is not a rule
}

// isRule reports whether a kind is that of rules, in any API group.
func isRule(kind schema.GroupVersionKind) bool {
	return kind.Kind == "NodeReadinessRule" && kind.Version == v1alpha1.Version &&
		slices.Contains(v1alpha1.GroupNames(), kind.Group)
}

// WrongGroup returns the fault that an object is a rule of another API group than the one that is served, or nil. The
// API server may accept such a rule, but it is another controller's.
func (o *Object) WrongGroup() *Fault {
	if o.Content.GroupVersionKind().Group == v1alpha1.Served().Name {
		return nil
	}
	return &Fault{"apiVersion", fmt.Sprintf("must be %s: Nodegate does not serve the group of %s here",
		v1alpha1.GroupVersion(), o.Content.GetAPIVersion())}
}

// Rules returns the rules among objects, and the other objects. It fails if there is no rule.
func Rules(flag string, objects []Object) (rules []Rule, others []Object, err error) {
	sources := map[string]string{}
	for _, o := range objects {
		if !isRule(o.Content.GroupVersionKind()) {
			others = append(others, o)
			continue
		}
		rule, ok := o.Typed.(*v1alpha1.NodeReadinessRule)
		if ok {
			if before := sources[rule.Name]; before != "" {
				return nil, nil, fmt.Errorf("%s: duplicate rule %q in %s and %s", flag, rule.Name, before, o.Source)
			}
			sources[rule.Name] = o.Source
			if rule.UID == "" { // rules are identified by their UID
				rule.UID = types.UID("file-" + rule.Name)
			}
		}
		rules = append(rules, Rule{Object: o, Rule: rule})
	}
	switch {
	case len(rules) > 0:
		return rules, others, nil
	case len(others) > 0:
		return nil, nil, fmt.Errorf("%s: no NodeReadinessRule (%s) found, only %s", flag, v1alpha1.GroupVersion(),
			Kinds(others))
	}
	return nil, nil, fmt.Errorf("%s: no NodeReadinessRule (%s) found", flag, v1alpha1.GroupVersion())
}

// Kinds lists the kinds of objects, each once.
func Kinds(objects []Object) string {
	var kinds []string
	for i := range objects {
		kinds = append(kinds, objects[i].kind())
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}

// Fleet has the objects of a file of nodes.
type Fleet struct {
	Nodes    []*corev1.Node
	Pods     []*corev1.Pod
	Evidence []runtime.Object // pods, DaemonSets, CSINodes and ResourceSlices
	Rules    []v1alpha1.NodeReadinessRule
}

// FleetOf sorts the objects of a file of nodes.
func FleetOf(flag string, objects []Object) (*Fleet, error) {
	f := &Fleet{}
	for _, o := range objects {
		if o.Misfit != nil {
			return nil, fmt.Errorf("%s: %s: %s %q is invalid: %w", flag, o.Source, o.Content.GetKind(), o.Content.GetName(),
				o.Misfit)
		}
		switch t := o.Typed.(type) {
		case *corev1.Node:
			f.Nodes = append(f.Nodes, t)
		case *corev1.Pod:
			f.Pods, f.Evidence = append(f.Pods, t), append(f.Evidence, t)
		case *storagev1.CSINode, *resourcev1.ResourceSlice, *appsv1.DaemonSet:
			f.Evidence = append(f.Evidence, t)
		case *v1alpha1.NodeReadinessRule:
			f.Rules = append(f.Rules, *t)
		default:
			return nil, fmt.Errorf("%s: %s: unsupported kind %s: a file of nodes may also have pods, daemonsets, csinodes, "+
				"resourceslices and rules, as \"kubectl get -o yaml\" writes them", flag, o.Source, o.kind())
		}
	}
	if len(f.Nodes) == 0 {
		return nil, fmt.Errorf("%s: no nodes found: \"kubectl get nodes -o yaml\" writes such a file", flag)
	}
	return f, nil
}

// IsWorkload reports whether an object is one of those that Workloads returns.
func IsWorkload(o Object) bool { return len(workloadsOf([]runtime.Object{o.Typed})) > 0 }

// Workloads returns the workloads among the objects of files.
func Workloads(objects []Object) []lint.Workload {
	var typed []runtime.Object
	for _, o := range objects {
		typed = append(typed, o.Typed)
	}
	out := workloadsOf(typed)
	for i := range out {
		if out[i].Namespace == "" {
			out[i].Namespace = metav1.NamespaceDefault
			if d := out[i].DaemonSet; d != nil {
				d.Namespace = metav1.NamespaceDefault
			}
		}
	}
	return out
}

// workloadsOf returns the objects that create pods, and the pods that no such object created.
func workloadsOf(objects []runtime.Object) []lint.Workload {
	var out []lint.Workload
	add := func(kind string, m *metav1.ObjectMeta, labels map[string]string, pod *corev1.PodSpec) {
		out = append(out, lint.Workload{Kind: kind, Namespace: m.Namespace, Name: m.Name, Labels: labels, Pod: pod})
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			out = append(out, lint.DaemonSet(o))
		case *appsv1.Deployment:
			add("Deployment", &o.ObjectMeta, o.Spec.Template.Labels, &o.Spec.Template.Spec)
		case *appsv1.StatefulSet:
			add("StatefulSet", &o.ObjectMeta, o.Spec.Template.Labels, &o.Spec.Template.Spec)
		case *corev1.Pod:
			owner := metav1.GetControllerOf(o)
			if owner == nil || !slices.Contains([]string{"DaemonSet", "ReplicaSet", "StatefulSet"}, owner.Kind) {
				add("Pod", &o.ObjectMeta, o.Labels, &o.Spec)
			}
		}
	}
	return out
}
