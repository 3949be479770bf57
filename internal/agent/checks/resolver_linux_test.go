// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"net"

	"golang.org/x/net/dns/dnsmessage"
)

// answer is a resolver that knows node.example, until the connection is closed.
func answer(conn net.PacketConn) {
	buffer := make([]byte, 512)
	for {
		n, client, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		switch {
		case q.Name.String() != "node.example.":
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
			}}
		}
		if raw, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(raw, client)
		}
	}
}
