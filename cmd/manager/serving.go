// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/certs"
)

// maxConnections is the number of open connections of a port.
const maxConnections = 64

// newServer returns a server for metrics or probes. Every client that reaches the port can connect, before it is
// authenticated: the servers of controller-runtime accept any number of connections, with headers of 1 MiB each. A
// connection has one request: clients that send many, and do not read the answers, would lock out kubelet's probes.
func newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // of clients
	}
	server.SetKeepAlivesEnabled(false)
	admission.LimitConnections(server, maxConnections)
	return server
}

// probed is a manager whose probes this package serves.
type probed struct {
	manager.Manager
	live, ready healthz.Handler
}

// AddHealthzCheck implements manager.Manager.
func (p *probed) AddHealthzCheck(name string, check healthz.Checker) error {
	return add(&p.live, name, check)
}

// AddReadyzCheck implements manager.Manager.
func (p *probed) AddReadyzCheck(name string, check healthz.Checker) error {
	return add(&p.ready, name, check)
}

func add(h *healthz.Handler, name string, check healthz.Checker) error {
	if h.Checks == nil {
		h.Checks = map[string]healthz.Checker{}
	}
	h.Checks[name] = check
	return nil
}

// serve adds the servers of metrics and probes to the manager. It returns the manager to add checks to.
func serve(ctx context.Context, mgr manager.Manager, o *servingOptions) (manager.Manager, error) {
	p := &probed{Manager: mgr}
	mux := http.NewServeMux()
	for path, handler := range map[string]http.Handler{"/healthz": &p.live, "/readyz": &p.ready} {
		handler = http.StripPrefix(path, handler)
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	if err := listen(ctx, mgr, "probes", o.probeAddress, mux, nil); err != nil {
		return nil, err
	}
	if off(o.metricsAddress) {
		return p, nil
	}
	handler := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	var certificate *tls.Config
	if o.metricsSecure {
		filter, err := filters.WithAuthenticationAndAuthorization(mgr.GetConfig(), mgr.GetHTTPClient())
		if err == nil {
			handler, err = filter(ctrl.Log.WithName("metrics"), handler)
		}
		if err == nil {
			certificate, err = o.certificate(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("serving metrics: %w", err)
		}
	}
	mux = http.NewServeMux()
	mux.Handle("/metrics", handler)
	return p, listen(ctx, mgr, "metrics", o.metricsAddress, mux, certificate)
}

func off(address string) bool { return address == "" || address == "0" }

func listen(ctx context.Context, mgr manager.Manager, name, address string, handler http.Handler, t *tls.Config) error {
	if off(address) {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for %s: %w", name, err)
	}
	if t != nil {
		listener = tls.NewListener(listener, t)
	}
	return mgr.Add(&manager.Server{Name: name, Server: newServer(handler), Listener: listener,
		ShutdownTimeout: new(5 * time.Second)})
}

// certificate returns the certificate of metrics. It waits for files and follows them, or makes a self-signed one.
func (o *servingOptions) certificate(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if o.metricsCertDir != "" {
		config.GetCertificate = certs.FromFiles(ctx, "metrics", o.metricsCertDir).Get
		return config, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
