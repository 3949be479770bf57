// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of one connection.
const (
	maxHeaderBytes    = 16 << 10
	firstLineTimeout  = time.Second
	readHeaderTimeout = 2 * time.Second
	readTimeout       = 5 * time.Second
	writeTimeout      = 70 * time.Second // a check may take 60
	idleTimeout       = 30 * time.Second
	shutdownTimeout   = 5 * time.Second
)

// newServer returns an HTTP server that limits what a client can send.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // port scans are no reason to warn
	}
}

// Serve serves h until ctx ends, and then waits for the requests in progress. It limits what a client can send.
func Serve(ctx context.Context, l *Listener, h http.Handler, log *slog.Logger) error {
	server := newServer(l.answering(h), log)
	l.firstLine = firstLineTimeout
	server.ConnState = l.connState
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			_ = server.Close()
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
