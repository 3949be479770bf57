// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// agentCheckWriteLimit is how long a client may take to read the line.
const agentCheckWriteLimit = time.Second

// acceptRetry is the pause after a connection could not be accepted.
const acceptRetry = 50 * time.Millisecond

// maxAgentCheckReason is the maximum length of the reason of a failure.
const maxAgentCheckReason = 100

// agentCheckLine is the answer in HAProxy's agent-check protocol (section 5.2, "agent-check", of its configuration
// manual). It never says "ready", "drain" or "maint": these change the administrative state, and would overwrite what
// an administrator of HAProxy has set. A healthy node is "up 100%". While the agent shuts down or the node is in
// maintenance, it is "up 0%": a weight of 0 stops new sessions and keeps the others. No line must be undone later.
func (h *Handler) agentCheckLine() string {
	a := h.Answer(nil)
	if a.Status == StatusReady {
		return "up 100%\n"
	}
	if a.onlyDrains() {
		return "up 0%\n"
	}
	reason := headerValue(strings.ReplaceAll(a.FirstReason(), "#", ""))
	return "down #" + reason[:min(len(reason), maxAgentCheckReason)] + "\n"
}

// ServeAgentCheck sends one line with the node's state to each client that connects, until ctx ends.
func (h *Handler) ServeAgentCheck(ctx context.Context, l *Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			time.Sleep(acceptRetry) // such as no free file descriptor
			continue
		}
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			line := h.agentCheckLine()
			_ = conn.SetWriteDeadline(time.Now().Add(agentCheckWriteLimit))
			_, _ = conn.Write([]byte(line))
		})
	}
}
