// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// OverrideAction is what the override annotation of a node asks for, for all rules.
type OverrideAction string

// The overrides.
const (
	OverrideNone    OverrideAction = ""
	OverrideRelease OverrideAction = "Release"
	OverrideHold    OverrideAction = "Hold"
)

// Override is the parsed override annotation of a node.
type Override struct {
	Action OverrideAction
	// Until is when the override ends. Zero means when the annotation is removed.
	Until time.Time
}

// ParseOverride reads the value of the override annotation: "Release" or "Hold", and optionally
// ";until=<RFC 3339>".
func ParseOverride(value string) (Override, error) {
	action, rest, more := strings.Cut(strings.TrimSpace(value), ";")
	o := Override{Action: OverrideAction(strings.TrimSpace(action))}
	if o.Action != OverrideRelease && o.Action != OverrideHold {
		return Override{}, fmt.Errorf("%s: must be Release or Hold, not %q", v1alpha1.OverrideAnnotation, action)
	}
	if !more {
		return o, nil
	}
	when, ok := strings.CutPrefix(strings.TrimSpace(rest), "until=")
	if !ok {
		return Override{}, fmt.Errorf("%s: %q: must be until=<RFC 3339 time>, such as until=2026-01-02T15:04:05Z",
			v1alpha1.OverrideAnnotation, rest)
	}
	t, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return Override{}, fmt.Errorf("%s: until: %q is not an RFC 3339 time, such as 2026-01-02T15:04:05Z",
			v1alpha1.OverrideAnnotation, when)
	}
	o.Until = t
	return o, nil
}

// OverrideOf returns the override in force on a node, or on a pod for its eviction. It returns the zero value if there
// is none, or if it has ended. If the annotation is invalid, it returns the zero value and an error.
func OverrideOf(obj metav1.Object, now time.Time) (Override, error) {
	value, ok := obj.GetAnnotations()[v1alpha1.OverrideAnnotation]
	if !ok {
		return Override{}, nil
	}
	o, err := ParseOverride(value)
	if err != nil {
		return Override{}, err
	}
	if o.ended(now) {
		return Override{}, nil
	}
	return o, nil
}

// OverrideEnded reports whether a node has a valid override whose time is over.
func OverrideEnded(node metav1.Object, now time.Time) bool {
	value, ok := node.GetAnnotations()[v1alpha1.OverrideAnnotation]
	if !ok { // no allocation for an error
		return false
	}
	o, err := ParseOverride(value)
	return err == nil && o.ended(now)
}

func (o Override) ended(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }
