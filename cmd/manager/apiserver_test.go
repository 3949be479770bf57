// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAReplicaWaitsForWhatPasses(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"an answer":                        {nil, false},
		"no connection":                    {errors.New("connection refused"), true},
		"a refused token":                  {apierrors.NewUnauthorized("expired"), true},
		"a permission":                     {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		"a certificate of another cluster": {&tls.CertificateVerificationError{Err: errors.New("unknown")}, false},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		if got := away(err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
