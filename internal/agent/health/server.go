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

// What one request, and all together, may cost.
const (
	maxConnections    = 256
	maxHeaderBytes    = 16 << 10
	firstLineTimeout  = time.Second
	readHeaderTimeout = 2 * time.Second
	readTimeout       = 5 * time.Second
	writeTimeout      = 70 * time.Second // a check may take 60
	idleTimeout       = 30 * time.Second
	shutdownTimeout   = 5 * time.Second
)

// NewServer returns an HTTP server with bounds for what any client may send.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what scanners do is no warning
	}
}

// Serve serves until ctx ends, and then finishes what is under way. LimitClients bounds what one client takes.
func Serve(ctx context.Context, l net.Listener, server *http.Server) error {
	places := newPlaces(l, maxConnections)
	server.ConnState = places.note
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(places) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
