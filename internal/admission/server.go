// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxConnections is the number of open connections. A connection takes some 50 KiB of memory. API servers keep
	// connections open, and send one review at a time on each.
	maxConnections = 512
	// readTimeout limits how long a client may take to send a request, and writeTimeout how long it takes until the
	// answer is read.
	readTimeout, writeTimeout = 5 * time.Second, 10 * time.Second
	idleTimeout               = 90 * time.Second // as API servers do
	maxHeaderBytes            = 16 << 10
	// shutdownTimeout is how long the server finishes its reviews.
	shutdownTimeout = 10 * time.Second
)

// Server serves handlers over TLS, on every replica. Unlike the webhook server of controller-runtime, it limits
// connections, reviews and their memory. It speaks HTTP/1.1 only: the streams of HTTP/2 would multiply these limits.
type Server struct {
	// Address is the address to listen on.
	Address string
	// Certificate returns the current certificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Handlers answer the reviews.
	Handlers []Handler

	serving atomic.Bool
}

// handler returns the HTTP handler of all handlers.
func (s *Server) handler() (http.Handler, error) {
	mux, room := http.NewServeMux(), newRoom()
	for _, h := range s.Handlers {
		failed.WithLabelValues(h.Path()) // with the value 0, so that an alert on its first increase fires
		// Without a request, the logger is for faults of clients that are not the API server.
		logger := func(l logr.Logger, r *admission.Request) logr.Logger {
			if r == nil {
				return logr.Discard()
			}
			return admission.DefaultLogConstructor(l, r)
		}
		hook := &admission.Webhook{Handler: careful{h}, LogConstructor: logger}
		next, err := admission.StandaloneWebhook(hook, admission.StandaloneOptions{MetricsPath: h.Path()})
		if err != nil {
			return nil, fmt.Errorf("serving %s: %w", h.Path(), err)
		}
		mux.Handle(h.Path(), room.bound(h, next))
	}
	return mux, nil
}

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	handler, err := s.handler()
	if err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("webhooks")
	server := &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		// Port scans, and clients that do not trust the certificate.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(logger.V(4)), slog.LevelInfo),
	}
	LimitConnections(server, maxConnections)
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	listener := tls.NewListener(plain, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate, NextProtos: []string{"http/1.1"},
	})
	logger.Info("Serving webhooks", "address", s.Address)
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		final, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- server.Shutdown(final)
	}()
	s.serving.Store(true)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	if err := <-stopped; err != nil {
		logger.V(2).Info("Connections of clients are still open", "error", err.Error())
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Ready is a readiness check.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the webhook server has not been started yet")
	}
	return nil
}
