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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
)

// retryFiles is the delay between two tries to read files that do not exist yet.
const retryFiles = time.Second

// WebhooksFromFiles is FromFiles for webhooks, while the manager runs. The program that keeps the files must also write
// the certificate authority into the webhook configurations.
func WebhooksFromFiles(mgr manager.Manager, clock clock.PassiveClock, dir string) (*Certificate, error) {
	c := waiting(clock, "the certificate of webhooks in %s has not been read yet", dir)
	if err := mgr.Add(admission.EveryReplica(func(ctx context.Context) error {
		c.follow(ctx, "webhooks", dir)
		return nil
	})); err != nil {
		return nil, fmt.Errorf("watching the certificate of webhooks in %s: %w", dir, err)
	}
	return c, nil
}

// FromFiles serves tls.crt and tls.key of a directory as soon as they exist, and reads them again when they change,
// until the context ends. It does not wait for a manager's caches. of names what they are for.
func FromFiles(ctx context.Context, of, dir string) *Certificate {
	c := &Certificate{problem: fmt.Errorf("the certificate of %s in %s has not been read yet", of, dir)}
	go c.follow(ctx, of, dir)
	return c
}

// follow serves the files of a directory until the context ends.
func (c *Certificate) follow(ctx context.Context, of, dir string) {
	for ctx.Err() == nil {
		if watcher := c.findFiles(ctx, of, dir); watcher != nil {
			watcher.RegisterCallback(func(cert tls.Certificate) { c.set(&cert) })
			c.succeed()
			if err := watcher.Start(ctx); err != nil {
				c.fail(fmt.Errorf("watching the certificate of %s in %s: %w", of, dir, err))
			}
		}
	}
}

// findFiles waits for readable files. It returns nil if the context ends first.
func (c *Certificate) findFiles(ctx context.Context, of, dir string) (watcher *certwatcher.CertWatcher) {
	logger, logged := log.FromContext(ctx).WithName("certs").WithValues("of", of, "dir", dir), ""
	_ = wait.PollUntilContextCancel(ctx, retryFiles, true, func(context.Context) (bool, error) {
		found, err := certwatcher.New(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
		if err == nil {
			logger.Info("Serving with a certificate from files")
			watcher = found
			return true, nil
		}
		if err = fmt.Errorf("the certificate of %s in %s: %w", of, dir, err); logged != err.Error() {
			logged = err.Error()
			logger.Error(err, "Cannot serve yet: waiting for tls.crt and tls.key")
		}
		c.fail(err)
		return false, nil
	})
	return watcher
}
