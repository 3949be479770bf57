// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const (
	// askEvery is how often a replica asks an API server that did not answer.
	askEvery = time.Second
	// askTimeout is how long it waits for each answer.
	askTimeout = 5 * time.Second
)

// waitForAPIServer waits until the API server answers, or returns why it never will. Without it, a replica that starts
// while the API server is away would end at once, and kubelet's back-off would outlast the outage. While it waits, it
// serves the probes on their address: kubelet must not restart the container, and no client may take it for ready.
func waitForAPIServer(ctx context.Context, cfg *rest.Config, probeAddress string) error {
	short := rest.CopyConfig(cfg)
	short.Timeout = askTimeout
	asked, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	_, err = asked.ServerVersion()
	if !away(err) {
		return ask(err)
	}
	stop, problem := serveProbes(ctx, probeAddress)
	if problem != nil {
		return problem
	}
	defer stop()
	_ = wait.PollUntilContextCancel(ctx, askEvery, true, func(context.Context) (bool, error) {
		_, err = asked.ServerVersion()
		return !away(err), nil
	})
	return ask(err)
}

func ask(err error) error {
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	return nil
}

// away reports whether an error says that the API server cannot answer now, refuses the token, which kubelet replaces
// when it is too old, or has a certificate that has expired. A certificate of an authority that is not trusted is an
// error of the configuration: after its end, the operator reads that again.
func away(err error) bool {
	var status apierrors.APIStatus
	var certificate *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return true
	case err == nil, errors.As(err, &certificate):
		return false
	case errors.As(err, &status):
		code := status.Status().Code
		return code == http.StatusUnauthorized || code == http.StatusTooManyRequests ||
			code >= http.StatusInternalServerError
	}
	return true
}

// serveProbes serves /healthz, and a /readyz that fails, until stop is called. Address 0 serves nothing.
func serveProbes(ctx context.Context, address string) (stop func(), err error) {
	if off(address) {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", healthz.CheckHandler{Checker: healthz.Ping})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: func(*http.Request) error {
		return errors.New("the API server is unavailable")
	}})
	server := newServer(mux)
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
