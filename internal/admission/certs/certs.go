// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// serving is the certificate of this replica.
var serving atomic.Pointer[Certificate]

var problems = promauto.With(metrics.Registry).NewGaugeFunc(prometheus.GaugeOpts{
	Name: "node_readiness_webhook_certificate_problem",
	Help: "1 while this replica has no valid certificate for its webhooks or cannot renew it, otherwise 0.",
}, func() float64 {
	if c := serving.Load(); c != nil && c.troubled() {
		return 1
	}
	return 0
})

// Certificate holds the webhook server's certificate once there is one. It is safe for concurrent use.
type Certificate struct {
	clock clock.PassiveClock // the API server's, which validates the certificate of webhooks

	mu      sync.RWMutex
	current *tls.Certificate
	problem error // why there is none, or why it cannot be kept
	trusted bool  // the API server has been told whom to trust
}

// waiting returns a Certificate without a certificate, and the reason.
func waiting(clock clock.PassiveClock, format string, args ...any) *Certificate {
	c := &Certificate{clock: clock, problem: fmt.Errorf(format, args...)}
	serving.Store(c)
	return c
}

// Get implements tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current == nil {
		return nil, c.problem
	}
	return c.current, nil
}

// Ready is a readiness check. It fails while webhooks cannot be served. While the certificate is valid, a problem with
// its renewal only shows in the metric, because a replica that is not ready would get no requests.
func (c *Certificate) Ready(*http.Request) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.current == nil:
		return c.problem
	case c.expired():
		return errors.Join(errors.New("the webhooks' certificate has expired"), c.problem)
	case !c.trusted:
		return errors.Join(errors.New("the certificate authority of the webhooks is not in their configurations yet"),
			c.problem)
	}
	return nil
}

// troubled reports whether there is no valid certificate, or it cannot be kept. A certificate from files expires if
// nothing renews it.
func (c *Certificate) troubled() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.problem != nil || c.expired()
}

// expired reports whether the certificate has expired. The caller holds the lock.
func (c *Certificate) expired() bool {
	return c.current != nil && c.current.Leaf != nil && c.clock.Now().After(c.current.Leaf.NotAfter)
}

// set replaces the certificate for all new connections.
func (c *Certificate) set(cert *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = cert
}

func (c *Certificate) fail(problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = problem
}

// succeed records that the certificate is valid, and that the API server trusts it.
func (c *Certificate) succeed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem, c.trusted = nil, true
}
