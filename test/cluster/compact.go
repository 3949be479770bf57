// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Compact makes etcd forget the history of all objects, so that its database does not fill up, and each contestant of
// a bench starts with as little history. It speaks to etcd's own HTTP API
// (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/).
func (c *Cluster) Compact(ctx context.Context) error {
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("asking for the present revision: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	socket := filepath.Join(c.Dir(), etcdSocket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	body := fmt.Appendf(nil, `{"revision": %q, "physical": true}`, list.ResourceVersion)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/kv/compaction", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("compacting etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return fmt.Errorf("compacting etcd: %s: %s", resp.Status, text)
	}
	return nil
}
