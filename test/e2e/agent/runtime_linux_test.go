// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// TestTheRuntimesSocketIsRoots runs the agent as the user of its image. It may not use the socket of the container
// runtime, which belongs to root, and says what to do. test/realnode has the agents that may.
func TestTheRuntimesSocketIsRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Missing(t, "root, to run the agent as another user")
		return
	}
	dir, err := os.MkdirTemp("", "agent") // others may enter it
	cluster.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cluster.Must(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "host/run/containerd/containerd.sock")
	cluster.Must(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	l, err := net.Listen("unix", socket)
	cluster.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	cluster.Must(t, os.Chmod(socket, 0o660))
	raw, err := os.ReadFile(binary(t))
	cluster.Must(t, err)
	path := filepath.Join(dir, "agent")
	cluster.Must(t, os.WriteFile(path, raw, 0o755))

	cmd := exec.Command(path, "--listen-address=127.0.0.1", "--listen-port=0", "--metrics-bind-address=0",
		"--drain-time=0", "--host-root", filepath.Join(dir, "host"))
	cmd.Env = env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	p := launchCommand(t, cmd)
	p.Listens(t, p.exited)
	if a := p.Health(t, "?check=container_runtime"); a.Code != 500 ||
		!strings.Contains(a.Checks[0].Reason, "agent.runtimeSocket") {
		t.Errorf("status %d: %s", a.Code, a.Raw)
	}
}
