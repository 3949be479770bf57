// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/admission"
)

const (
	certFile = "tls.crt"
	keyFile  = "tls.key"

	// patience is how long a certificate is waited for before the log says that something is wrong.
	patience = time.Minute
)

// Certificate is the webhook server's certificate, once there is one. It is safe for concurrent use.
type Certificate struct {
	mu      sync.RWMutex
	current *tls.Certificate
	problem error // why there is none, or no newer one
	trusted bool  // the API server has been told whom to trust
}

// waiting is a certificate that is not there yet, and why.
func waiting(format string, args ...any) *Certificate {
	return &Certificate{problem: fmt.Errorf(format, args...)}
}

// Get is for tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current == nil {
		return nil, c.problem
	}
	return c.current, nil
}

// Ready is a readiness check: it says what the webhooks wait for.
func (c *Certificate) Ready(*http.Request) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.problem != nil:
		return c.problem
	case !c.trusted:
		return errors.New("the certificate authority of the webhooks is not in their configurations yet")
	}
	return nil
}

func (c *Certificate) set(cert *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.problem = cert, nil
}

func (c *Certificate) fail(problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = problem
}

func (c *Certificate) trust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trusted = true
}

// complain says in the log what the webhooks wait for when that takes too long. The operator goes on: nodes are held
// and released without webhooks, too.
func (c *Certificate) complain(after time.Duration) manager.Runnable {
	return admission.EveryReplica(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
		if err := c.Ready(nil); err != nil {
			log.FromContext(ctx).WithName("certs").Error(err, "Webhooks cannot be served yet, and this replica is not ready",
				"after", after.String())
		}
		return nil
	})
}

func addAll(mgr manager.Manager, runnables ...manager.Runnable) error {
	var errs []error
	for _, r := range runnables {
		errs = append(errs, mgr.Add(r))
	}
	return errors.Join(errs...)
}
