// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports finds ports for servers that are started a moment later, and perhaps several times. A port that was only found
// to be free could be taken until then: by an outgoing connection, or by another test that has found it, too.
package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// Ports are taken from below the range from which Linux (32768 and up) and macOS (49152 and up) give outgoing connections
// theirs. Else, while a server is down, a connection could be given its port, and it could not come back; a client that dials
// the port again and again could even meet itself.
const first, last = 20000, 32000

var (
	mu       sync.Mutex
	next     = os.Getpid() * 97 // so that processes do not all begin with the same
	reserved = map[int]net.Listener{}
)

// Take returns different TCP ports on which nobody listens, at none of this machine's IPv4 addresses. No call gets one of them
// again: neither in this process nor, on Linux and for as long as this one lives, in another.
func Take(n int) ([]int, error) {
	mu.Lock()
	defer mu.Unlock()
	var taken []int
	for range last - first {
		if len(taken) == n {
			return taken, nil
		}
		next++
		if port := first + next%(last-first); reserve(port) {
			taken = append(taken, port)
		}
	}
	return nil, errors.New("no free ports")
}

// Address is 127.0.0.1 with a port as Take returns it.
func Address() (string, error) {
	taken, err := Take(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(taken[0])), nil
}

// reserve is called with the lock held.
func reserve(port int) bool {
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
