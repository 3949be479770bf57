// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
)

func TestPortsAreOutsideTheRangeOfOutgoingConnectionsAndGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 2 {
		taken, err := TakePorts(20)
		Must(t, err)
		if len(taken) != 20 {
			t.Errorf("%d ports", len(taken))
		}
		for _, port := range taken {
			if port < firstPort || port >= 32768 || seen[port] {
				t.Errorf("port %d of %v", port, taken)
			}
			seen[port] = true
		}
	}
}

func TestAPortInUseIsNotTaken(t *testing.T) {
	taken, err := TakePorts(1)
	Must(t, err)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(taken[0])))
	Must(t, err)
	defer l.Close() //nolint:errcheck // done with it
	portsMu.Lock()
	defer portsMu.Unlock()
	if mark := reserved[taken[0]]; mark != nil {
		_ = mark.Close()
	}
	delete(reserved, taken[0])
	if reservePort(taken[0]) {
		t.Errorf("port %d is taken, and a process listens on it", taken[0])
	}
}

func TestAnotherProcessDoesNotGetIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has names of sockets that are no files")
	}
	taken, err := TakePorts(1)
	Must(t, err)
	try := func() string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", reservePortEnv, taken[0]))
		out, err := cmd.Output()
		Must(t, err)
		return string(out)
	}
	if got := try(); got != "false" {
		t.Errorf("another process reserves port %d: %s", taken[0], got)
	}
	portsMu.Lock()
	_ = reserved[taken[0]].Close() // as the kernel does when a process ends
	portsMu.Unlock()
	if got := try(); got != "true" {
		t.Errorf("it does not get it when it is free again: %s", got)
	}
}
