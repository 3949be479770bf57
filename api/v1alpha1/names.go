// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Domain begins the names of all annotations that are Nodegate's own, on nodes and on rules, in every API group.
const Domain = "nodegate.io/"

const (
	// RecordAnnotationPrefix and a rule's UID form the key of the annotation in which Nodegate records, on a
	// node, what that rule did there. Only Nodegate writes it.
	RecordAnnotationPrefix = Domain + "rule-"

	// BootstrapAnnotationPrefix is the Group.MarkerPrefix of the default group. It is the Node Readiness Controller's.
	BootstrapAnnotationPrefix = "readiness.k8s.io/bootstrap-completed-"

	// OverrideAnnotation, on a node, overrules every rule for that node: "Release" takes the taints off and
	// keeps them off, "Hold" puts them on and keeps them on; ";until=<RFC 3339>" may follow. It is written by
	// people, never by Nodegate.
	OverrideAnnotation = Domain + "override"

	// PausedAnnotation, on a rule, says that "kubectl nodegate pause" has suspended it, and when (RFC 3339). "kubectl
	// nodegate resume" ends only suspensions that have it. The operator does not look at it.
	PausedAnnotation = Domain + "paused"

	// AcceptAnnotation, on a rule, has the codes of warnings that its author has accepted, separated by commas, such as
	// "NoMaxUnavailable". "kubectl nodegate lint" and the webhook do not repeat them.
	AcceptAnnotation = Domain + "accept-warnings"

	// RemoveMarkersAnnotation, on a rule, with the value "true": if the rule is deleted, its completion markers are
	// removed with it, and not kept for a rule of the same name. "manager delete-rules" sets it before an uninstallation.
	RemoveMarkersAnnotation = Domain + "remove-markers"

	// SuccessorAnnotation, on a rule, is the UID of the rule of the other API group that it continues, after "kubectl
	// nodegate convert --live". What that rule recorded on nodes is this rule's.
	SuccessorAnnotation = Domain + "successor-of"

	// PublishedReasonPrefix begins the reasons of all node conditions that the operator publishes for rules, and marks
	// them as the operator's.
	PublishedReasonPrefix = "NodegateRule"

	// MaintenanceAnnotation, on a node, takes it out of the load balancers: /health of its agent is not ready. Its value
	// is the reason, and optionally ";until=<RFC 3339>"; "false" and the empty value are as if it were absent. People
	// write it, Nodegate never does.
	MaintenanceAnnotation = Domain + "maintenance"
)

// Maintenance returns why a person has put a node with these annotations in maintenance, and when that ends; zero means
// when the annotation is removed. The reason is empty if the node is not in maintenance. An end that is not a time is
// a part of the reason: a typing error must not put a node back into service.
func Maintenance(annotations map[string]string, now time.Time) (reason string, end time.Time) {
	value := annotations[MaintenanceAnnotation]
	if value == "false" {
		return "", time.Time{}
	}
	i := strings.LastIndex(value, ";until=")
	if i < 0 {
		return value, time.Time{}
	}
	end, err := time.Parse(time.RFC3339, strings.TrimSpace(value[i+len(";until="):]))
	switch {
	case err != nil:
		return value, time.Time{}
	case !now.Before(end):
		return "", time.Time{}
	}
	return strings.TrimSpace(value[:i] + " until " + end.UTC().Format(time.RFC3339)), end
}

// InMaintenance reports whether a person has put a node with these annotations in maintenance.
func InMaintenance(annotations map[string]string, now time.Time) bool {
	reason, _ := Maintenance(annotations, now)
	return reason != ""
}

// kubernetesConditions are types of node conditions that core Kubernetes writes, or is about to write.
var kubernetesConditions = []string{"Ready", "NetworkUnavailable", "GracefulNodeShutdownInProgress", "DrainInProgress",
	"Drained", "MaintenancePlanned", "MaintenanceInProgress"}

// KubernetesCondition reports whether a type of node conditions belongs to Kubernetes: no probe publishes it. All types
// without a domain that end in Pressure do.
func KubernetesCondition(conditionType string) bool {
	return slices.Contains(kubernetesConditions, conditionType) ||
		strings.HasSuffix(conditionType, "Pressure") && !strings.Contains(conditionType, "/")
}

// reservedDomain matches types of node conditions that no rule publishes.
var reservedDomain = regexp.MustCompile(`^([^/]*\.)?(kubernetes|k8s)\.io/`)

// ReservedCondition reports whether the domain of a condition type belongs to Kubernetes: no rule publishes it.
func ReservedCondition(conditionType string) bool { return reservedDomain.MatchString(conditionType) }

// HealthVerdict is, in a rule's record on a node (its field health), whether the rule holds that node back. The node
// agent reads it.
type HealthVerdict string

const (
	// HealthReady means that the rule lets the node have traffic.
	HealthReady HealthVerdict = "Ready"
	// HealthNotReady means that it does not.
	HealthNotReady HealthVerdict = "NotReady"
)

// Condition types in a rule's status.
const (
	// ConditionReady is True when the rule is valid and in force.
	ConditionReady = "Ready"
	// ConditionNodesReady is True when every node that the rule matches satisfies it.
	ConditionNodesReady = "NodesReady"
	// ConditionEnforcing is True while the rule may hold nodes: not in dry-run, not suspended, not invalid, not being
	// deleted.
	ConditionEnforcing = "Enforcing"
	// ConditionConflicted is True while another, older claim decides about something that this rule asks for.
	ConditionConflicted = "Conflicted"
	// ConditionBudgetExhausted is True while limits keep nodes from being held, or their published condition from being
	// False.
	ConditionBudgetExhausted = "BudgetExhausted"
	// ConditionGuarding, of a rule with an evictionGuard, is True when evictions are denied while the rule does not hold;
	// False, with the reason, where they would not be.
	ConditionGuarding = "Guarding"
	// ConditionPublishing, of a rule with publish, is True while its verdict is written as a condition of nodes; False,
	// with the reason, where it is not.
	ConditionPublishing = "Publishing"
	// ConditionReplacing, of a rule with timeout action Replace, is True while the rule hands over nodes that never become
	// ready; False, with the reason, if it has stopped.
	ConditionReplacing = "Replacing"
	// ConditionServed, of a rule that needs node agents, the webhook for pods or an engine that taints nodes at admission,
	// is True while these run; False, with the reason, while a field of the rule has no effect without them, or while a
	// DaemonSet that provides evidence of any rule does not tolerate the rule's taint.
	ConditionServed = "Served"
)
