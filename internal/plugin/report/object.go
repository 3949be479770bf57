// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reports are objects, so that kubectl's printers take them.
var (
	_ runtime.Object = &NodeExplanation{}
	_ runtime.Object = &Simulation{}
	_ runtime.Object = &RuleStatusList{}
	_ runtime.Object = &LintReport{}
)

// Type is the TypeMeta of a kind of report.
func Type(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind} }

// DeepCopyObject implements runtime.Object.
func (in *NodeExplanation) DeepCopyObject() runtime.Object { return deepCopy(in) }

// DeepCopyObject implements runtime.Object.
func (in *Simulation) DeepCopyObject() runtime.Object { return deepCopy(in) }

// DeepCopyObject implements runtime.Object.
func (in *RuleStatusList) DeepCopyObject() runtime.Object { return deepCopy(in) }

// DeepCopyObject implements runtime.Object.
func (in *LintReport) DeepCopyObject() runtime.Object { return deepCopy(in) }

// deepCopy copies by way of JSON: reports are small, and copied hardly ever.
func deepCopy[T any](in *T) *T {
	out := new(T)
	raw, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil { // plain values: cannot happen
		*out = *in
	}
	return out
}

// Time is a time in a report; nil for none.
func Time(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
