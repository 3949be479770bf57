// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
)

// retryFiles is how long to wait for files that are not there yet.
const retryFiles = time.Second

// FromFiles serves tls.crt and tls.key of a directory, as soon as they are there, and again when they change. The
// certificate authority in the webhook configurations is the business of whoever keeps the files.
func FromFiles(mgr manager.Manager, dir string) (*Certificate, error) {
	c := waiting("the webhooks' certificate is to be in %s, and has not been looked for yet", dir)
	follow := admission.EveryReplica(func(ctx context.Context) error {
		watcher := c.findFiles(ctx, dir)
		if watcher == nil {
			return nil
		}
		watcher.RegisterCallback(func(cert tls.Certificate) { c.set(&cert) })
		c.trust()
		return watcher.Start(ctx)
	})
	if err := addAll(mgr, follow, c.complain(patience)); err != nil {
		return nil, fmt.Errorf("following the webhooks' certificate in %s: %w", dir, err)
	}
	return c, nil
}

// findFiles waits for readable files; nil when the context ends before.
func (c *Certificate) findFiles(ctx context.Context, dir string) *certwatcher.CertWatcher {
	tick := time.NewTicker(retryFiles)
	defer tick.Stop()
	for {
		watcher, err := certwatcher.New(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
		if err == nil {
			log.FromContext(ctx).WithName("certs").Info("Serving webhooks with a certificate from files", "dir", dir)
			return watcher
		}
		c.fail(fmt.Errorf("the webhooks' certificate in %s: %w", dir, err))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
