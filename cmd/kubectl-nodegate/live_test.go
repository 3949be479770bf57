// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheStatusOfASuccessor: everything stays, and the generations are those of the successor. What belongs to an
// earlier generation belongs to none of the successor's.
func TestTheStatusOfASuccessor(t *testing.T) {
	type object = map[string]any
	status := func(observed, condition, latest, earlier any) object {
		of := func(fields object, name string, generation any) object {
			if generation != nil {
				fields[name] = generation
			}
			return fields
		}
		const at = "2026-11-26T12:00:00Z"
		return of(object{
			"inForce":      object{"since": at, "selectorHash": "a"},
			"appliedNodes": []any{"a"},
			"conditions": []any{
				of(object{"type": "Ready", "status": "True"}, "observedGeneration", observed),
				of(object{"type": "NodesReady", "status": "False"}, "observedGeneration", condition),
			},
			"replacements": object{"lastReadyTime": at, "last": []any{
				of(object{"nodeName": "a", "time": at}, "generation", latest),
				of(object{"nodeName": "b", "time": at}, "generation", earlier)}},
		}, "observedGeneration", observed)
	}
	rule, successor := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	rule.SetGeneration(7)
	successor.SetGeneration(2)
	rule.Object["status"] = status(int64(7), int64(6), int64(7), int64(6))
	want := status(int64(2), nil, int64(2), int64(0))
	if diff := cmp.Diff(want, statusFor(&predecessor{rule, successor})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(rule.Object, "status")
	if got := statusFor(&predecessor{rule, successor}); got != nil {
		t.Errorf("got %v for a rule without a status", got)
	}
}
