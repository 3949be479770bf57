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

// agentCheckWriteLimit is how long a client may take to read its line.
const agentCheckWriteLimit = time.Second

// acceptRetry is the pause after a connection could not be accepted.
const acceptRetry = 50 * time.Millisecond

// maxAgentCheckReason bounds what is told of a failure.
const maxAgentCheckReason = 100

// agentCheckLine is the answer in HAProxy's agent-check protocol (section 5.2, "agent-check", of its configuration
// manual). It never says "ready", "drain" or "maint": these change the administrative state, which is the people's who
// run HAProxy, and whatever they have set would be undone with the next poll. A healthy node is "up 100%". While the
// agent ends or the node is in maintenance it is "up 0%": a weight of 0 stops new sessions and leaves the others alone.
// So the line says all there is to say, and nothing has to be undone later.
func (h *Handler) agentCheckLine(ctx context.Context) string {
	a := h.Answer(ctx, nil)
	if a.Status == StatusReady {
		return "up 100%\n"
	}
	if a.onlyDrains() {
		return "up 0%\n"
	}
	reason := headerValue(strings.ReplaceAll(a.FirstReason(), "#", ""))
	return "down #" + reason[:min(len(reason), maxAgentCheckReason)] + "\n"
}

// ServeAgentCheck tells each client that connects how the node is, in one line, until ctx ends.
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
			time.Sleep(acceptRetry) // out of file descriptors, for a while
			continue
		}
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			line := h.agentCheckLine(context.WithoutCancel(ctx))
			_ = conn.SetWriteDeadline(time.Now().Add(agentCheckWriteLimit))
			_, _ = conn.Write([]byte(line))
		})
	}
}
