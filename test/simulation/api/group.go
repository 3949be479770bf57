// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Leave moves the rules to another API group: those of the former one are not served any more. A watch of the other
// group never shows them.
func (s *Server) Leave() { s.objects[Rules], s.log[Rules] = map[string]*Object{}, nil }

// next returns the UID of the rule that continues the rule of another UID. It is the same but for four digits that
// count how often the rule was continued. Only the model knows that.
func next(of types.UID) types.UID {
	const from, to = 9, 13
	times := 0
	if _, err := fmt.Sscanf(string(of[from:to]), "%04d", &times); err != nil {
		panic(err)
	}
	return types.UID(fmt.Sprintf("%s%04d%s", of[:from], times+1, of[to:]))
}
