// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group has the names that differ between the API groups in which rules can be served. An installation serves one.
// +kubebuilder:object:generate=false
type Group struct {
	// Name is the name of the API group.
	Name string
	// ShortName is the word for rules that kubectl knows.
	ShortName string
	// Finalizer keeps a deleted rule until everything that it wrote to nodes is gone.
	Finalizer string
	// MarkerPrefix and a rule's UID (in an older form: its name) form the key of the annotation that says: this node has
	// completed this bootstrap-only rule. Its value is {"rule-name":"<name>"}.
	MarkerPrefix string
}

// groups are the API groups. The first one is the default: that of the Node Readiness Controller, whose rules are taken
// over in place. It therefore has the names of that controller. The second is Nodegate's own.
var groups = []Group{
	{Name: "readiness.node.x-k8s.io", ShortName: "nrr", Finalizer: "readiness.node.x-k8s.io/cleanup-taints",
		MarkerPrefix: BootstrapAnnotationPrefix},
	{Name: "rules.nodegate.io", ShortName: "ngr", Finalizer: Domain + "cleanup-taints",
		MarkerPrefix: Domain + "bootstrap-completed-"},
}

var served atomic.Pointer[Group]

// Served returns the API group that this process serves. The group of a process does not change: a program chooses it
// before it does anything else.
func Served() Group {
	if g := served.Load(); g != nil {
		return *g
	}
	return groups[0]
}

// Own reports whether this is Nodegate's own API group. The default one may then be another controller's.
func (g Group) Own() bool { return g.Name != groups[0].Name }

// OtherGroup returns the API group that this process does not serve.
func OtherGroup() Group {
	if Served().Own() {
		return groups[0]
	}
	return groups[1]
}

// Serve chooses the API group that this process serves.
func Serve(name string) error {
	i := slices.Index(GroupNames(), name)
	if i < 0 {
		return fmt.Errorf("must be %s, not %q", strings.Join(GroupNames(), " or "), name)
	}
	served.Store(&groups[i])
	return nil
}

// GroupOf returns the API group with this Group.MarkerPrefix. The default group has also the empty one.
func GroupOf(markerPrefix string) (name string, known bool) {
	for i := range groups {
		if groups[i].MarkerPrefix == markerPrefix || i == 0 && markerPrefix == "" {
			return groups[i].Name, true
		}
	}
	return "", false
}

// FinalizerIn returns the finalizer of rules in an API group, or "" if the group is unknown.
func FinalizerIn(group string) string {
	for i := range groups {
		if groups[i].Name == group {
			return groups[i].Finalizer
		}
	}
	return ""
}

// GroupNames returns the names of the API groups, the default first.
func GroupNames() []string { return []string{groups[0].Name, groups[1].Name} }

// Groups returns the API groups, the default first.
func Groups() []Group { return slices.Clone(groups) }

// GroupVersion returns the group and version of this API.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Served().Name, Version: Version}
}

// Version is the version of this API.
const Version = "v1alpha1"

// AddToScheme registers the types of this package in a scheme, in the group that this process serves. A scheme that had
// a type in two groups could not tell the kind of an object.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &NodeReadinessRule{}, &NodeReadinessRuleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
