// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// codes are the kinds of warnings that a rule can accept.
var codes = sets.Set[Code]{}

// kind adds a kind of warning.
func kind(name string) Code {
	codes.Insert(Code(name))
	return Code(name)
}

// ParseCodes returns the codes of a list that is separated by commas, and those of them that do not exist.
func ParseCodes(list string) (accepted sets.Set[Code], unknown []string) {
	accepted = sets.New[Code]()
	for _, code := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !codes.Has(Code(code)) {
			unknown = append(unknown, code)
			continue
		}
		accepted.Insert(Code(code))
	}
	return accepted, unknown
}

// Without returns the warnings that the annotation of a rule does not accept, and one for codes that do not exist.
func Without(warnings []Warning, annotations map[string]string) []Warning {
	accepted, unknown := ParseCodes(annotations[v1alpha1.AcceptAnnotation])
	warnings = slices.DeleteFunc(warnings, func(w Warning) bool { return accepted.Has(w.Code) })
	if len(unknown) > 0 {
		warnings = append(warnings, Warning{Code: UnknownCode, Field: "metadata.annotations",
			Message: fmt.Sprintf("%s has codes of warnings that do not exist: %s", v1alpha1.AcceptAnnotation, some(unknown))})
	}
	return warnings
}
