// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan returns the conditions to write. observed are the node's conditions, and written is when this agent last wrote
// each of them. anyway says that the agent sends a patch also if plan returns nothing.
//
// A change of status or reason is written at once. Everything else waits for the heartbeat, also a change of only the
// message, which may contain a time or a percentage. The heartbeat is due a fixed time after this agent's own last
// write, by its monotonic clock, because the times in conditions may come from a wrong clock. For a condition that the
// agent has not written since it started, the observed time counts, unless it is in the future or before the node's
// boot. If the clock was set forward, the observed time counts, too, because a rule may find the condition too old. A
// write includes heartbeats that are due soon, so that conditions are written together.
func plan(
	observed []corev1.NodeCondition, want map[string]desired, written map[string]time.Time, anyway bool,
	now, boot time.Time,
) []corev1.NodeCondition {
	var write, soon []corev1.NodeCondition
	for _, name := range slices.Sorted(maps.Keys(want)) {
		d := want[name]
		c := corev1.NodeCondition{
			Type: corev1.NodeConditionType(name), Status: d.status, Reason: d.reason, Message: d.message,
			LastHeartbeatTime: metav1.NewTime(d.checkedAt), LastTransitionTime: metav1.NewTime(d.checkedAt),
		}
		before := find(observed, name)
		if before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
			c.LastTransitionTime = before.LastTransitionTime
		}
		last, own := written[name]
		later, trusted := d.checkedAt.After(last), true
		if !own {
			last = heartbeat(before) // which has no fractions of a second
			later = d.checkedAt.Truncate(time.Second).After(last)
			trusted = !last.After(now) && !last.Before(boot)
		}
		age := max(now.Sub(last), now.Sub(heartbeat(before)))
		switch {
		case before == nil || before.Status != c.Status || before.Reason != c.Reason,
			!trusted, later && age >= d.heartbeat:
			write = append(write, c)
		case later && age >= d.heartbeat/2:
			soon = append(soon, c)
		}
	}
	if anyway || len(write) > 0 {
		write = append(write, soon...)
	}
	return write
}

func heartbeat(c *corev1.NodeCondition) time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.LastHeartbeatTime.Time
}

func find(conditions []corev1.NodeCondition, name string) *corev1.NodeCondition {
	for i := range conditions {
		if string(conditions[i].Type) == name {
			return &conditions[i]
		}
	}
	return nil
}

// orphans returns the conditions that an agent has published, by their reasons, and that no probe publishes now.
func orphans(observed []corev1.NodeCondition, want func(name string) bool) []string {
	var names []string
	for _, c := range observed {
		ours := c.Reason == ReasonSucceeded || c.Reason == ReasonFailed || c.Reason == ReasonInvalid ||
			c.Reason == ReasonTimedOut && strings.HasPrefix(c.Message, timedOut)
		if ours && !want(string(c.Type)) {
			names = append(names, string(c.Type))
		}
	}
	return names
}

// encodePatch returns a strategic merge patch, which merges conditions by type and keeps all others.
func encodePatch(write []corev1.NodeCondition, remove []string) ([]byte, error) {
	conditions := make([]any, 0, len(write)+len(remove))
	for _, c := range write {
		conditions = append(conditions, c)
	}
	for _, name := range remove {
		conditions = append(conditions, map[string]string{"$patch": "delete", "type": name})
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
}
