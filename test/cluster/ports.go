// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// Ports are taken from below the range from which Linux (32768 and up) and macOS (49152 and up) give outgoing
// connections theirs. Otherwise a connection could be given the port of a server that is down, and a client that dials
// the port again and again could connect to itself.
const firstPort, lastPort = 20000, 32000

var (
	portsMu  sync.Mutex
	nextPort = os.Getpid() * 97 // so that processes do not all begin with the same
	reserved = map[int]net.Listener{}
)

// TakePorts returns different TCP ports that are free on all IPv4 addresses of this machine, for servers that are
// started later, and perhaps several times. No call returns one of them again: neither in this process nor, on Linux
// and for as long as this process lives, in another. A port that was only found to be free could be taken until the
// server starts.
func TakePorts(n int) ([]int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	var taken []int
	for range lastPort - firstPort {
		if len(taken) == n {
			return taken, nil
		}
		nextPort++
		if port := firstPort + nextPort%(lastPort-firstPort); reservePort(port) {
			taken = append(taken, port)
		}
	}
	return nil, errors.New("no free ports")
}

// FreeAddress is 127.0.0.1 with a port that TakePorts returns.
func FreeAddress() (string, error) {
	taken, err := TakePorts(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(taken[0])), nil
}

// reservePort is called with the lock held.
func reservePort(port int) bool {
	if _, own := reserved[port]; own {
		return false
	}
	var mark net.Listener
	if runtime.GOOS == "linux" { // a name that is no file, and goes with the process
		var err error
		if mark, err = net.Listen("unix", fmt.Sprintf("@nodegate-port-%d", port)); err != nil {
			return false
		}
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(port)))
	if err != nil {
		if mark != nil {
			_ = mark.Close()
		}
		return false
	}
	_ = l.Close()
	reserved[port] = mark
	return true
}
