// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Object is an object of a file.
type Object struct {
	// Source is the file.
	Source string
	// Content is the object as it is in the file.
	Content *unstructured.Unstructured
	// Typed is the object in its type; nil, where the type is not known here or the content does not fit it.
	Typed runtime.Object
	// Misfit is why the content does not fit the type.
	Misfit error
}

// Kind is the object's kind, with its version.
func (o *Object) Kind() string {
	return fmt.Sprintf("%s (%s)", o.Content.GetKind(), o.Content.GetAPIVersion())
}

// known are the types that are understood.
var known = map[schema.GroupVersionKind]func() runtime.Object{
	v1alpha1.GroupVersion.WithKind("NodeReadinessRule"):     func() runtime.Object { return &v1alpha1.NodeReadinessRule{} },
	corev1.SchemeGroupVersion.WithKind("Node"):              func() runtime.Object { return &corev1.Node{} },
	corev1.SchemeGroupVersion.WithKind("Pod"):               func() runtime.Object { return &corev1.Pod{} },
	storagev1.SchemeGroupVersion.WithKind("CSINode"):        func() runtime.Object { return &storagev1.CSINode{} },
	resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"): func() runtime.Object { return &resourcev1.ResourceSlice{} },
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):         func() runtime.Object { return &appsv1.DaemonSet{} },
	appsv1.SchemeGroupVersion.WithKind("Deployment"):        func() runtime.Object { return &appsv1.Deployment{} },
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):       func() runtime.Object { return &appsv1.StatefulSet{} },
}

// Read reads all objects of files, lists taken apart. flag is the flag that named them.
func Read(flag string, options resource.FilenameOptions) ([]Object, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().FilenameParam(false, &options).Flatten().Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: give files, directories or URLs with Kubernetes objects in YAML or JSON, or - for standard input", flag, err)
	}
	out := make([]Object, 0, len(infos))
	for _, info := range infos {
		content, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		o := Object{Source: info.Source, Content: content}
		if typed := known[content.GroupVersionKind()]; typed != nil {
			o.Typed = typed()
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, o.Typed); err != nil {
				o.Typed, o.Misfit = nil, err
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// Rule is a rule of a file.
type Rule struct {
	Object
	// Rule is nil where the content is not one.
	Rule *v1alpha1.NodeReadinessRule
}

// Rules are the rules among objects, and what the others are. It fails where there is none.
func Rules(flag string, objects []Object) (rules []Rule, others []string, err error) {
	for _, o := range objects {
		if o.Content.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("NodeReadinessRule") {
			if k := o.Kind(); !slices.Contains(others, k) {
				others = append(others, k)
			}
			continue
		}
		rule, _ := o.Typed.(*v1alpha1.NodeReadinessRule)
		if rule != nil {
			for _, before := range rules {
				if before.Rule != nil && before.Rule.Name == rule.Name {
					return nil, nil, fmt.Errorf("%s: rule %s is there twice, in %s and %s: give each name once", flag, rule.Name, before.Source, o.Source)
				}
			}
		}
		rules = append(rules, Rule{Object: o, Rule: rule})
	}
	if len(rules) == 0 {
		if len(others) > 0 {
			return nil, nil, fmt.Errorf("%s: there is no NodeReadinessRule (%s), only %s", flag, v1alpha1.GroupVersion, strings.Join(others, ", "))
		}
		return nil, nil, fmt.Errorf("%s: there is no NodeReadinessRule (%s), and nothing else", flag, v1alpha1.GroupVersion)
	}
	return rules, others, nil
}

// Fleet is what a file of nodes has.
type Fleet struct {
	Nodes []*corev1.Node
	// Evidence are pods, CSINodes and ResourceSlices.
	Evidence []runtime.Object
	// Rules are the rules that there are.
	Rules []v1alpha1.NodeReadinessRule
}

// Pods are the pods among the evidence.
func (f *Fleet) Pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range f.Evidence {
		if pod, ok := o.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// FleetOf sorts the objects of a file of nodes.
func FleetOf(flag string, objects []Object) (*Fleet, error) {
	f := &Fleet{}
	for _, o := range objects {
		if o.Misfit != nil {
			return nil, fmt.Errorf("%s: %s: %s %s is broken: %w", flag, o.Source, o.Content.GetKind(), o.Content.GetName(), o.Misfit)
		}
		switch t := o.Typed.(type) {
		case *corev1.Node:
			f.Nodes = append(f.Nodes, t)
		case *corev1.Pod, *storagev1.CSINode, *resourcev1.ResourceSlice:
			f.Evidence = append(f.Evidence, t)
		case *v1alpha1.NodeReadinessRule:
			f.Rules = append(f.Rules, *t)
		default:
			return nil, fmt.Errorf("%s: %s: %s is not understood: nodes are, and pods, csinodes, resourceslices and rules beside them, as \"kubectl get nodes -o yaml\" writes them",
				flag, o.Source, o.Kind())
		}
	}
	if len(f.Nodes) == 0 {
		return nil, errors.New(flag + ": there are no nodes: write some with \"kubectl get nodes -o yaml\"")
	}
	return f, nil
}
