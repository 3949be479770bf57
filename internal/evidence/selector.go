// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Disjoint reports whether certainly no labels match both selectors.
func Disjoint(a, b labels.Selector) bool {
	ra, selectable := a.Requirements()
	rb, selectableToo := b.Requirements()
	if !selectable || !selectableToo {
		return true // one selects nothing
	}
	for i := range ra {
		for j := range rb {
			if ra[i].Key() == rb[j].Key() && (excludes(&ra[i], &rb[j]) || excludes(&rb[j], &ra[i])) {
				return true
			}
		}
	}
	return false
}

// excludes reports whether certainly no value of a label meets both requirements. It tries the values that the first
// requirement lists.
func excludes(a, b *labels.Requirement) bool {
	switch a.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		return !slices.ContainsFunc(a.ValuesUnsorted(), func(v string) bool { return b.Matches(labels.Set{a.Key(): v}) })
	case selection.DoesNotExist:
		return !b.Matches(labels.Set{})
	}
	return false
}
