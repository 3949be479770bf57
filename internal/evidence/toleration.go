// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"github.com/go-logr/logr" //nolint:depguard // the API's matcher takes a logger; this one discards
	corev1 "k8s.io/api/core/v1"
)

// Toleration returns the first toleration that matches a taint, or nil if none does. It matches as the scheduler and
// the node controller do, including the operators Gt and Lt: the API server accepts those only where they are in force.
func Toleration(tolerations []corev1.Toleration, taint *corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logr.Discard(), taint, true) {
			return &tolerations[i]
		}
	}
	return nil
}
