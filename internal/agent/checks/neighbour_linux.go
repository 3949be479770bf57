// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// discard is the port of the discard protocol: what is sent there asks for no answer.
const discard = 9

// reachable makes the kernel look for a neighbour on a link, by a packet to it, and waits until it is found. It needs no
// privilege. A neighbour that no longer answers is still believed in for some seconds, as the kernel does.
func reachable(ctx context.Context, ip net.IP, link int) error {
	zone := ""
	if ip.IsLinkLocalUnicast() {
		if i, err := net.InterfaceByIndex(link); err == nil {
			zone = i.Name
		}
	}
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: ip, Port: discard, Zone: zone})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for {
		if _, err := conn.Write([]byte{0}); errors.Is(err, syscall.EHOSTUNREACH) {
			return err
		}
		state, err := neighbourState(ip, link)
		if err != nil {
			return err
		}
		switch {
		case state&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY|unix.NUD_PROBE|unix.NUD_NOARP|unix.NUD_PERMANENT) != 0:
			return nil
		case state&unix.NUD_FAILED != 0:
			return errors.New("does not answer on the link")
		}
		select {
		case <-ctx.Done():
			return errors.New("does not answer on the link in time")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// neighbourState asks the kernel's neighbour table, by rtnetlink(7); 0 where there is no entry.
func neighbourState(ip net.IP, link int) (uint16, error) {
	family := unix.AF_INET6
	if ip.To4() != nil {
		family = unix.AF_INET
	}
	raw, err := syscall.NetlinkRIB(unix.RTM_GETNEIGH, family)
	if err != nil {
		return 0, fmt.Errorf("asking for the neighbours: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return 0, fmt.Errorf("asking for the neighbours: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWNEIGH {
			continue
		}
		if state, ok := parseNeighbour(m.Data, ip, link); ok {
			return state, nil
		}
	}
	return 0, nil
}

// parseNeighbour reads a struct ndmsg (family, padding, link, state, flags, type) with its attributes, and returns the state
// if it is about this neighbour.
func parseNeighbour(data []byte, ip net.IP, link int) (uint16, bool) {
	if len(data) < unix.SizeofNdMsg || int(binary.NativeEndian.Uint32(data[4:])) != link {
		return 0, false
	}
	state := binary.NativeEndian.Uint16(data[8:])
	for rest := data[unix.SizeofNdMsg:]; len(rest) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < unix.SizeofRtAttr || size > len(rest) {
			return 0, false
		}
		if binary.NativeEndian.Uint16(rest[2:]) == unix.NDA_DST {
			return state, net.IP(rest[unix.SizeofRtAttr:size]).Equal(ip)
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return 0, false
}
