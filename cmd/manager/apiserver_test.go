// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
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
		"an expired certificate of the API server, or a wrong clock": {&tls.CertificateVerificationError{
			Err: x509.CertificateInvalidError{Reason: x509.Expired}}, true},
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
