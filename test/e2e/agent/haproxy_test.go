// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/internal/testing/tools"
)

// HAProxy takes a server out after fall failed checks in a row, and back in after rise good ones.
const rise, fall = "2", "3"

const haproxyConfig = `
global
    maxconn 200
    stats socket %[1]s/admin.sock mode 600 level admin
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
    timeout check 30s
frontend front
    bind unix@%[1]s/front.sock
    default_backend nodes
backend nodes
    balance roundrobin
    %[2]s
    default-server inter 200ms rise ` + rise + ` fall ` + fall + `
%[3]s
`

// nobody is the user that HAProxy runs as where the test is root.
const nobody = 65534

// haproxy is a running HAProxy.
type haproxy struct{ dir string }

// startHAProxy starts an HAProxy without any privilege in front of the servers, which are lines of its configuration.
func startHAProxy(t *testing.T, check string, servers []string) *haproxy {
	t.Helper()
	path := tools.Command(t, "haproxy", "haproxy")
	dir, err := os.MkdirTemp("", "haproxy-") // a test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "haproxy.cfg")
	text := fmt.Sprintf(haproxyConfig, dir, check, "    "+strings.Join(servers, "\n    "))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-db", "-f", config)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	output := &logs{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := tools.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("HAProxy:\n%s", output)
		}
	})
	b := &haproxy{dir: dir}
	eventually(t, "HAProxy is up", func() error {
		_, err := b.command("show info")
		return err
	})
	return b
}

// command has HAProxy's runtime API answer a command.
func (b *haproxy) command(command string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(b.dir, "admin.sock"))
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

// statistics are the fields of HAProxy's statistics about each server, and about "BACKEND", by their names in its CSV format:
// see section 9.1 of its management guide.
type statistics map[string]map[string]string

func (b *haproxy) statistics(t *testing.T) statistics {
	t.Helper()
	text, err := b.command("show stat")
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(strings.TrimSpace(text), "# ")))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("reading the statistics: %v\n%s", err, text)
	}
	s := statistics{}
	for _, row := range rows[1:] {
		fields := map[string]string{}
		for i, name := range rows[0] {
			if i < len(row) {
				fields[name] = row[i]
			}
		}
		if fields["pxname"] == "nodes" {
			s[fields["svname"]] = fields
		}
	}
	return s
}

// want is the fields that a server's statistics must have.
type want map[string]string

// is checks the fields of a server.
func (s statistics) is(server string, fields want) error {
	for name, value := range fields {
		if got, ok := s[server][name]; !ok || got != value {
			return fmt.Errorf("%s: %s is %q, not %q, in %v", server, name, got, value, s[server])
		}
	}
	return nil
}

// becomes waits until the server's statistics have these fields, all at the same time.
func (b *haproxy) becomes(t *testing.T, server string, fields want) {
	t.Helper()
	eventually(t, "HAProxy's statistics", func() error { return b.statistics(t).is(server, fields) })
}
