// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// criSockets are the default sockets of containerd, CRI-O, cri-dockerd and k3s.
var criSockets = []string{
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
	"/run/k3s/containerd/containerd.sock",
}

// ContainerRuntime passes when the runtime reports over CRI that RuntimeReady and NetworkReady are true. hostRoot is
// where the node's root directory is mounted; empty: /. params may be nil.
func ContainerRuntime(hostRoot string, params *v1alpha1.ContainerRuntimeCheck) Check {
	sockets := criSockets
	if params != nil && params.Socket != "" {
		sockets = []string{params.Socket}
	}
	return Check{Name: NameContainerRuntime, Run: func(ctx context.Context) Result {
		found, denied := existing(hostRoot, sockets)
		for _, socket := range found {
			conditions, err := criStatus(ctx, socket)
			switch {
			case status.Code(err) == codes.Unimplemented: // such as the containerd of Docker, beside cri-dockerd
			case errors.Is(err, fs.ErrPermission):
				denied = true
			case err != nil:
				return Fail(GRPCReason(err, "the runtime does not answer"))
			default:
				return judgeRuntime(conditions)
			}
		}
		where := sockets[0]
		if len(sockets) > 1 {
			where = "the default sockets, such as " + where
		}
		switch {
		case denied:
			return Misconfigured("the agent may not use the container runtime's socket: set agent.runtimeSocket of the chart")
		case len(found) == 0:
			return Fail("no socket at " + where)
		}
		return Fail("no runtime answers CRI at " + where)
	}}
}

// GRPCReason returns a short reason why a call failed. It is late if the time limit has passed.
func GRPCReason(err error, late string) string {
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled {
		return late
	}
	return s.Message()
}

// existing returns the sockets that exist. denied reports whether the agent may not look at one of them.
func existing(hostRoot string, sockets []string) (found []string, denied bool) {
	for _, s := range sockets {
		path, err := HostPath(hostRoot, s)
		var info os.FileInfo
		if err == nil {
			info, err = os.Stat(path)
		}
		if err == nil && info.Mode()&os.ModeSocket != 0 {
			found = append(found, path)
		}
		denied = denied || errors.Is(err, fs.ErrPermission)
	}
	return found, denied
}

func criStatus(ctx context.Context, socket string) ([]*runtimeapi.RuntimeCondition, error) {
	var denied atomic.Bool // gRPC's error does not contain this
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		denied.Store(errors.Is(err, fs.ErrPermission))
		return conn, err
	}
	conn, err := grpc.NewClient("passthrough:///localhost", grpc.WithContextDialer(dial), grpc.WithNoProxy(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	resp, err := runtimeapi.NewRuntimeServiceClient(conn).Status(ctx, &runtimeapi.StatusRequest{})
	if denied.Load() {
		return nil, fs.ErrPermission
	}
	if err != nil {
		return nil, err
	}
	return resp.GetStatus().GetConditions(), nil
}

// judgeRuntime requires both conditions, like the kubelet. It ignores others, such as containerd's deprecation
// warnings.
func judgeRuntime(conditions []*runtimeapi.RuntimeCondition) Result {
	for _, required := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		found := false
		for _, c := range conditions {
			if c.GetType() != required {
				continue
			}
			found = true
			if !c.GetStatus() {
				return Fail(fmt.Sprintf("%s is false: %s %s", required, c.GetReason(), c.GetMessage()))
			}
		}
		if !found {
			return Fail(fmt.Sprintf("the runtime does not report %s", required))
		}
	}
	return Pass()
}
