// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// fakeRuntime answers Status; hang makes it never do.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	conditions []*runtimeapi.RuntimeCondition
	hang       bool
}

func (f *fakeRuntime) Status(ctx context.Context, _ *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: f.conditions}}, nil
}

// serveRuntime serves it on a socket, below a directory that plays the host's root.
func serveRuntime(t *testing.T, f *fakeRuntime) (hostRoot string) {
	t.Helper()
	hostRoot, err := os.MkdirTemp("", "cri") // a test's own directory may be too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(hostRoot) })
	socket := filepath.Join(hostRoot, criSockets[1])
	must(t, os.MkdirAll(filepath.Dir(socket), 0o700))
	l, err := net.Listen("unix", socket)
	must(t, err)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return hostRoot
}

// TestContainerRuntimeBesideAnother: Docker's containerd has a socket, too, on which nothing serves CRI.
func TestContainerRuntimeBesideAnother(t *testing.T) {
	good := []*runtimeapi.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}}
	root := serveRuntime(t, &fakeRuntime{conditions: good})
	socket := filepath.Join(root, criSockets[0])
	must(t, os.MkdirAll(filepath.Dir(socket), 0o700))
	l, err := net.Listen("unix", socket)
	must(t, err)
	other := grpc.NewServer()
	go func() { _ = other.Serve(l) }()
	t.Cleanup(other.Stop)
	if diff := cmp.Diff(Pass(), ContainerRuntime(root, nil).Run(t.Context())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := Fail("no runtime answers CRI at the default sockets, such as /run/containerd/containerd.sock")
	must(t, os.Remove(filepath.Join(root, criSockets[1])))
	if diff := cmp.Diff(want, ContainerRuntime(root, nil).Run(t.Context())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestContainerRuntime(t *testing.T) {
	condition := func(name string, status bool) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: name, Status: status, Reason: "Why", Message: "not initialized"}
	}
	for _, c := range []struct {
		name    string
		runtime fakeRuntime
		want    Result
	}{
		{"both conditions are true; others do not count", fakeRuntime{conditions: []*runtimeapi.RuntimeCondition{
			condition("RuntimeReady", true), condition("NetworkReady", true), condition("Deprecations", false)}}, Pass()},
		{"no network", fakeRuntime{conditions: []*runtimeapi.RuntimeCondition{
			condition("RuntimeReady", true), condition("NetworkReady", false)}},
			Fail("NetworkReady is false: Why not initialized")},
		{"nothing is reported", fakeRuntime{}, Fail("the runtime does not report RuntimeReady")},
		{"it hangs", fakeRuntime{hang: true}, Fail("the runtime does not answer")},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := serveRuntime(t, &c.runtime)
			limit := time.Minute
			if c.runtime.hang {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if diff := cmp.Diff(c.want, ContainerRuntime(root, nil).Run(ctx)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("no socket", func(t *testing.T) {
		r := ContainerRuntime(t.TempDir(), &v1alpha1.ContainerRuntimeCheck{Socket: "/run/my.sock"}).Run(t.Context())
		if diff := cmp.Diff(Fail("no socket at /run/my.sock"), r); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		r = ContainerRuntime(t.TempDir(), nil).Run(t.Context())
		if r.Passed || !strings.HasPrefix(r.Reason, "no socket at the default sockets, such as ") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("no server listens on the socket", func(t *testing.T) {
		root, err := os.MkdirTemp("", "cri")
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		socket := filepath.Join(root, "my.sock")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
		must(t, err)
		l.SetUnlinkOnClose(false)
		_ = l.Close()
		r := ContainerRuntime(root, &v1alpha1.ContainerRuntimeCheck{Socket: "/my.sock"}).Run(t.Context())
		if r.Passed || !strings.Contains(r.Reason, "connection refused") {
			t.Errorf("got %+v", r)
		}
	})
}
