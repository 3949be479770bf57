// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestClientsOfAPortAreLimited sends headers of 100 KiB, and opens more connections than the server keeps.
func TestClientsOfAPortAreLimited(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(http.NotFoundHandler())
	server.ReadTimeout = 0 // only the limit closes a connection
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	connect := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, request) }()
		return conn
	}
	answer := make([]byte, 100)
	n, _ := connect("GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 100<<10) + "\r\n\r\n").Read(answer)
	if !strings.Contains(string(answer[:n]), "431") {
		t.Errorf("the answer to large headers is %q", answer[:n])
	}
	answers, err := io.ReadAll(connect(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 2)))
	if strings.Count(string(answers), "HTTP/1.1 404") != 1 {
		t.Errorf("a connection with two requests gets %q, %v", answers, err)
	}
	idle := connect("")
	for range maxConnections {
		connect("")
	}
	if n, err := idle.Read(answer); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection that was idle longest is open: %d bytes, %v", n, err)
	}
}

// TestTheCertificateOfMetricsMayComeLater: a client that trusts its authority must not meet another certificate. The
// certificate does not depend on a manager, which would read it only when the caches have synced.
func TestTheCertificateOfMetricsMayComeLater(t *testing.T) {
	o := &servingOptions{metricsCertDir: filepath.Join(t.TempDir(), "later")}
	config, err := o.certificate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if config.GetCertificate == nil || len(config.Certificates) > 0 {
		t.Fatal("metrics are served with a self-signed certificate")
	}
	if _, err := config.GetCertificate(nil); err == nil || !strings.Contains(err.Error(), o.metricsCertDir) {
		t.Errorf("the error does not name the directory: %v", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	cluster.Must(t, err)
	cluster.Must(t, os.Mkdir(o.metricsCertDir, 0o700))
	cluster.Must(t, os.WriteFile(filepath.Join(o.metricsCertDir, "tls.key"), key, 0o600))
	cluster.Must(t, os.WriteFile(filepath.Join(o.metricsCertDir, "tls.crt"), certificate, 0o600))
	cluster.Eventually(t, "the certificate", func() error {
		_, err := config.GetCertificate(nil)
		return err
	})
}
