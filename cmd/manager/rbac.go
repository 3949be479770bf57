// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// What the operator may do, and no more. "make manifests" turns these markers into config/rbac/role.yaml.
//
// Nodes are only ever patched, never updated: those in the cache are stripped, and a whole one would lose its status.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
//
// Rules are patched for their finalizer; their spec belongs to people.
// +kubebuilder:rbac:groups=readiness.node.x-k8s.io,resources=nodereadinessrules,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=readiness.node.x-k8s.io,resources=nodereadinessrules/status,verbs=update
//
// The evidence of rules with requirements: pods, CSI drivers and devices, of which just those are watched that a rule
// names.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=list;watch
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceslices,verbs=list;watch
//
// To compare the served CRD with ours. No other CRD is read.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=nodereadinessrules.readiness.node.x-k8s.io,verbs=get;list;watch
//
// Whether another controller acts on the rules: the lease of the Node Readiness Controller, in any namespace.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=ba65f13e.readiness.node.x-k8s.io,verbs=list
//
// Whether the policy that taints nodes at creation is there, so that the webhook leaves nodes to it. No other policy is
// read.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,resourceNames=nodegate-node-admission,verbs=list;watch
//
// The rules for admission, which the leader writes and every replica reads. A creation cannot be limited to a name.
// +kubebuilder:rbac:groups=nodegate.io,resources=admissionrules,resourceNames=nodegate,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=nodegate.io,resources=admissionrules,verbs=create
//
// Events on nodes and rules; patch counts one that repeats.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Who reads the metrics, and whether they may.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Leader election, in the operator's own namespace. A creation cannot be limited to a name. Its events still are of the
// older kind.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=nodegate-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=nodegate-system,resources=leases,resourceNames=operator.nodegate.io,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=events,verbs=create
//
// The node agents' configuration: one ConfigMap, by server-side apply, which is a patch, and a creation where there is
// none.
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=configmaps,resourceNames=nodegate-agent-config,verbs=get;list;watch;create;patch
//
// Which conditions agents may publish: an annotation of their ServiceAccount, for the policy that confines them.
// +kubebuilder:rbac:groups="",namespace=nodegate-system,resources=serviceaccounts,resourceNames=nodegate-agent,verbs=get;list;watch;patch
