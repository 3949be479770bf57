// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
)

// retryFiles is the delay between two tries to read files that do not exist yet.
const retryFiles = time.Second

// FromFiles serves tls.crt and tls.key of a directory as soon as they exist, and reads them again when they change. The
// program that keeps the files must also write the certificate authority into the webhook configurations.
func FromFiles(mgr manager.Manager, dir string) (*Certificate, error) {
	c := waiting("the webhooks' certificate in %s has not been read yet", dir)
	follow := admission.EveryReplica(func(ctx context.Context) error {
		for ctx.Err() == nil {
			if watcher := c.findFiles(ctx, dir); watcher != nil {
				watcher.RegisterCallback(func(cert tls.Certificate) { c.set(&cert) })
				c.succeed()
				if err := watcher.Start(ctx); err != nil {
					c.fail(fmt.Errorf("watching the webhooks' certificate in %s: %w", dir, err))
				}
			}
		}
		return nil
	})
	if err := mgr.Add(follow); err != nil {
		return nil, fmt.Errorf("watching the webhooks' certificate in %s: %w", dir, err)
	}
	return c, nil
}

// findFiles waits for readable files. It returns nil if the context ends first.
func (c *Certificate) findFiles(ctx context.Context, dir string) (watcher *certwatcher.CertWatcher) {
	logger, logged := log.FromContext(ctx).WithName("certs"), ""
	_ = wait.PollUntilContextCancel(ctx, retryFiles, true, func(context.Context) (bool, error) {
		found, err := certwatcher.New(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
		if err == nil {
			logger.Info("Serving webhooks with a certificate from files", "dir", dir)
			watcher = found
			return true, nil
		}
		if err = fmt.Errorf("the webhooks' certificate in %s: %w", dir, err); logged != err.Error() {
			logged = err.Error()
			logger.Error(err, "Webhooks cannot be served yet")
		}
		c.fail(err)
		return false, nil
	})
	return watcher
}
