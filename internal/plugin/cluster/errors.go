// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/clientcmd"
)

// Explain adds to an error of the API server what to do about it.
func Explain(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted", doing)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("%s: no cluster is configured: set KUBECONFIG, or give --kubeconfig or --server", doing)
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s: this cluster does not know NodeReadinessRules: install Nodegate there (make install, or its chart), or choose another cluster with --context", doing)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w: \"kubectl get nodes\" and \"kubectl get nrr\" list what there is", doing, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: you may not: ask whoever manages access for that right, or use another user with --context or --as: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the server does not know you: log in again, or use another user with --context: %w", doing, err)
	case utilnet.IsConnectionRefused(err), utilnet.IsTimeout(err), utilnet.IsNoRoutesError(err):
		return fmt.Errorf("%s: the server cannot be reached: is it the right one (kubectl config current-context)? %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
