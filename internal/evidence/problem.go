// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Reasons for which a part of a spec is invalid.
const (
	// ReasonInvalid: a field of the spec breaks the API's rules; a CRD of another version let it through.
	ReasonInvalid = "Invalid"
	// ReasonUnsupported: the spec asks for something that this version cannot do.
	ReasonUnsupported = "Unsupported"
)

// Problem is a reason why a rule is invalid.
type Problem struct {
	// Field is the path of the field, such as spec.taint.key.
	Field string
	// Reason is one of the Reason constants.
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

// String returns the field and the message.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Problems collects what is wrong with a spec.
type Problems []Problem

// grammar is the regular expression at the end of a message of apimachinery. The words before it say the same.
var grammar = regexp.MustCompile(`,? regex used for validation is '[^']*'`)

// Invalid adds a problem of a field.
func (p *Problems) Invalid(field, format string, args ...any) {
	message := grammar.ReplaceAllString(fmt.Sprintf(format, args...), "")
	*p = append(*p, Problem{Field: field, Reason: ReasonInvalid, Message: message})
}

// Unsupported adds something that this version does not support.
func (p *Problems) Unsupported(field, message string) {
	*p = append(*p, Problem{Field: field, Reason: ReasonUnsupported, Message: message})
}

// Unknown adds a value that this version does not know.
func (p *Problems) Unknown(field, value string) {
	p.Unsupported(field, fmt.Sprintf("unsupported value %q", value))
}

// OneOf validates a field that is empty or has one of some values.
func OneOf[S ~string](p *Problems, field string, value S, supported ...S) {
	if value != "" && !slices.Contains(supported, value) {
		p.Unknown(field, string(value))
	}
}

// Selector compiles a selector that must select something.
func (p *Problems) Selector(field string, of interface {
	AsSelector() (labels.Selector, error)
}) labels.Selector {
	selector, err := of.AsSelector()
	switch {
	case err != nil:
		p.Invalid(field, "%v", err)
	case selector.Empty():
		p.Invalid(field, "must select something: give matchLabels or matchExpressions")
	}
	return selector
}
