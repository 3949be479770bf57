// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// neighbour is a message of the kernel about a neighbour on link 7, with another attribute before its address.
func neighbour(state uint16, ip net.IP) []byte {
	var b []byte
	b = append(b, unix.AF_INET, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, 7)
	b = binary.NativeEndian.AppendUint16(b, state)
	b = append(b, 0, 0)
	attribute := func(kind uint16, value []byte) {
		b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	attribute(unix.NDA_LLADDR, []byte{1, 2, 3, 4, 5, 6})
	attribute(unix.NDA_DST, ip)
	return b
}

func TestParseNeighbour(t *testing.T) {
	ip := net.IP{192, 0, 2, 1}
	message := neighbour(unix.NUD_STALE, ip)
	if state, ok := parseNeighbour(message, ip, 7); !ok || state != unix.NUD_STALE {
		t.Errorf("got %d, %t", state, ok)
	}
	for name, c := range map[string]struct {
		message []byte
		ip      net.IP
		link    int
	}{
		"another link":    {message, ip, 8},
		"another address": {message, net.IP{192, 0, 2, 2}, 7},
		"cut":             {message[:len(message)-1], ip, 7},
		"nothing":         {nil, ip, 7},
	} {
		if _, ok := parseNeighbour(c.message, c.ip, c.link); ok {
			t.Errorf("%s: found", name)
		}
	}
}

func FuzzParseNeighbour(f *testing.F) {
	f.Add(neighbour(unix.NUD_REACHABLE, net.IP{192, 0, 2, 1}))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, message []byte) { parseNeighbour(message, net.IP{192, 0, 2, 1}, 7) })
}
