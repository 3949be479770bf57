// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// HAProxy is a running HAProxy.
type HAProxy struct{ dir string }

// socket is HAProxy's runtime API.
const socket = "admin.sock"

// ours is what is added to each configuration.
const ours = `global
    maxconn 200
    stats socket unix@` + socket + ` mode 600 level admin
`

// unprivileged makes an HAProxy that root has started drop its privileges as soon as it listens.
const unprivileged = `    uid 65534
    gid 65534
`

// Start starts an HAProxy with this configuration, as a process of the cluster, until the test ends. Names of files and
// sockets in the configuration are those in a directory of its own, see Path.
func Start(t testing.TB, c *cluster.Cluster, config string) *HAProxy {
	t.Helper()
	dir, err := os.MkdirTemp(c.Dir(), "haproxy-")
	cluster.Must(t, err)
	h := &HAProxy{dir: dir}
	own := ours
	if os.Geteuid() == 0 {
		own += unprivileged
	}
	for name, text := range map[string]string{"ours.cfg": own, "haproxy.cfg": config} {
		cluster.Must(t, os.WriteFile(h.Path(name), []byte(text), 0o600))
	}
	process, err := c.Run(t.Context(), cluster.Process{
		Name: filepath.Base(dir), Path: needs.Command(t, "haproxy", "haproxy"),
		Args: []string{"-db", "-C", dir, "-f", h.Path("ours.cfg"), "-f", h.Path("haproxy.cfg")},
		Ready: func(ctx context.Context) error {
			_, err := h.Command(ctx, "show info")
			return err
		},
	})
	cluster.Must(t, err)
	t.Cleanup(func() {
		_ = process.Kill()
		if t.Failed() {
			t.Logf("HAProxy:\n%s", process.LogTail(200))
		}
		_ = os.RemoveAll(h.dir)
	})
	return h
}

// Path is where a file of the configuration is.
func (h *HAProxy) Path(name string) string { return filepath.Join(h.dir, name) }

// Command has HAProxy's runtime API answer a command.
func (h *HAProxy) Command(ctx context.Context, command string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", h.Path(socket))
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // only read
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return "", err
	}
	out, err := io.ReadAll(conn)
	return string(out), err
}
