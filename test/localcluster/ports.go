// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range from which Linux (32768 and up) and macOS (49152 and up) give outgoing
// connections theirs. Else, while the API server is down, a connection could be given its port, and it could
// not come back; a client that dials the port again and again could even meet itself.
const firstPort, lastPort = 20000, 32000

// freePorts finds n different loopback ports on which nobody listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		// Kept until all are found, so that none is found twice.
		defer func() { _ = l.Close() }()
		ports = append(ports, port)
	}
	return nil, errors.New("no free port on 127.0.0.1")
}
