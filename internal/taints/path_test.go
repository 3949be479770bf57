// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import "testing"

func TestAnnotationKeysAreEscaped(t *testing.T) {
	if got := annotationPath("a/b~c"); got != "/metadata/annotations/a~1b~0c" {
		t.Errorf("the path is %s", got)
	}
}
