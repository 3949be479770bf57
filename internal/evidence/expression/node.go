// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

const (
	maxEntries = 1000  // the length of maps and lists for the estimate of costs
	maxString  = 10000 // the number of characters for the estimate
)

var (
	text = apiservercel.NewSimpleTypeWithMinSize("string", apiservercel.StringType.CelType(),
		apiservercel.StringType.DefaultValue(), 2)
	texts      = apiservercel.NewListType(text, maxEntries)
	textByText = apiservercel.NewMapType(text, text, maxEntries)

	taintType = object("nodegate.Taint", fields{"key": text, "value": text, "effect": text})

	conditionType = object("nodegate.Condition", fields{"type": text, "status": text, "reason": text, "message": text})

	addressType = object("nodegate.Address", fields{"type": text, "address": text})

	nodeInfoType = object("nodegate.NodeInfo", fields{
		"machineID": text, "systemUUID": text, "bootID": text, "kernelVersion": text, "osImage": text,
		"containerRuntimeVersion": text, "kubeletVersion": text, "operatingSystem": text, "architecture": text,
	})

	nodeType = object("nodegate.Node", fields{
		"metadata": object("nodegate.Metadata", fields{
			"name": text, "uid": text, "labels": textByText, "annotations": textByText,
			"creationTimestamp": apiservercel.TimestampType,
		}),
		"spec": object("nodegate.Spec", fields{
			"providerID": text, "unschedulable": apiservercel.BoolType, "podCIDRs": texts,
			"taints": apiservercel.NewListType(taintType, maxEntries),
		}),
		"status": object("nodegate.Status", fields{
			"capacity": textByText, "allocatable": textByText,
			"conditions": apiservercel.NewListType(conditionType, maxEntries),
			"addresses":  apiservercel.NewListType(addressType, maxEntries),
			"nodeInfo":   nodeInfoType, "declaredFeatures": texts,
		}),
	})
)

type fields map[string]*apiservercel.DeclType

func object(name string, of fields) *apiservercel.DeclType {
	declared := make(map[string]*apiservercel.DeclField, len(of))
	for field, t := range of {
		declared[field] = apiservercel.NewDeclField(field, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, declared)
}

func init() { text.MaxElements = maxString }

// Value is the value of the variable node.
type Value map[string]any

// ValueOf returns the value of a node. Quantities are strings, as in JSON: quantity(node.status.allocatable['cpu']).
func ValueOf(node *corev1.Node) Value {
	return Value{
		"metadata": map[string]any{
			"name": node.Name, "uid": string(node.UID), "labels": nonNil(node.Labels), "annotations": nonNil(node.Annotations),
			"creationTimestamp": node.CreationTimestamp.Time,
		},
		"spec": map[string]any{
			"providerID": node.Spec.ProviderID, "unschedulable": node.Spec.Unschedulable,
			"podCIDRs": append([]string{}, node.Spec.PodCIDRs...),
			"taints": list(node.Spec.Taints, func(t corev1.Taint) map[string]any {
				return map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)}
			}),
		},
		"status": map[string]any{
			"capacity": quantities(node.Status.Capacity), "allocatable": quantities(node.Status.Allocatable),
			"conditions": list(unpublished(node.Status.Conditions), func(c corev1.NodeCondition) map[string]any {
				return map[string]any{"type": string(c.Type), "status": string(c.Status), "reason": c.Reason, "message": c.Message}
			}),
			"addresses": list(node.Status.Addresses, func(a corev1.NodeAddress) map[string]any {
				return map[string]any{"type": string(a.Type), "address": a.Address}
			}),
			"nodeInfo":         nodeInfo(&node.Status.NodeInfo),
			"declaredFeatures": append([]string{}, node.Status.DeclaredFeatures...),
		},
	}
}

// unpublished returns the conditions that no rule publishes. A rule that reads its own condition would depend on
// itself.
func unpublished(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	ours := func(c corev1.NodeCondition) bool { return strings.HasPrefix(c.Reason, v1alpha1.PublishedReasonPrefix) }
	if !slices.ContainsFunc(conditions, ours) {
		return conditions
	}
	return slices.DeleteFunc(slices.Clone(conditions), ours)
}

func nodeInfo(i *corev1.NodeSystemInfo) map[string]any {
	return map[string]any{
		"machineID": i.MachineID, "systemUUID": i.SystemUUID, "bootID": i.BootID, "kernelVersion": i.KernelVersion,
		"osImage": i.OSImage, "containerRuntimeVersion": i.ContainerRuntimeVersion, "kubeletVersion": i.KubeletVersion,
		"operatingSystem": i.OperatingSystem, "architecture": i.Architecture,
	}
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func quantities(l corev1.ResourceList) map[string]string {
	out := make(map[string]string, len(l))
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return out
}

func list[T any](in []T, f func(T) map[string]any) []any {
	out := make([]any, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}
