// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// readyRuntime is a container runtime that is ready.
type readyRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (readyRuntime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}}, nil
}

// TestTheRuntimesSocket runs the agent as the chart does. The socket of the container runtime belongs to root, as
// containerd makes it.
func TestTheRuntimesSocket(t *testing.T) {
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
	cluster.Must(t, os.Chmod(socket, 0o660))
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, readyRuntime{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	raw, err := os.ReadFile(binary(t))
	cluster.Must(t, err)
	path := filepath.Join(dir, "agent")
	cluster.Must(t, os.WriteFile(path, raw, 0o755))

	for _, c := range []struct {
		name   string
		user   syscall.Credential
		code   int
		reason string
	}{
		{"by default it may not use it", syscall.Credential{Uid: 65532, Gid: 65532}, 500, "agent.runtimeSocket"},
		{"agent.runtimeSocket: true", syscall.Credential{Uid: 65532, Gid: 65532, Groups: []uint32{0}}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(path, "--listen-address=127.0.0.1", "--listen-port=0", "--metrics-bind-address=0",
				"--drain-time=0", "--host-root", filepath.Join(dir, "host"))
			cmd.Env = env()
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &c.user}
			p := launchCommand(t, cmd)
			p.Listens(t, p.exited)
			a := p.Health(t, "?check=container_runtime")
			if a.Code != c.code || !strings.Contains(a.Checks[0].Reason, c.reason) {
				t.Errorf("status %d: %s", a.Code, a.Raw)
			}
		})
	}
}
