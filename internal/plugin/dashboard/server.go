// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

//go:embed page/index.html
var index string

//go:embed page/app.js
var script string

//go:embed page/style.css
var style string

//go:embed page/icon.svg
var icon string

// files are the page, by path. A file server would take the types from the machine: on some, scripts are plain text,
// which browsers do not run.
var files = map[string]struct{ kind, content string }{
	"/{$}":       {"text/html; charset=utf-8", index},
	"/app.js":    {"text/javascript; charset=utf-8", script},
	"/style.css": {"text/css; charset=utf-8", style},
	"/icon.svg":  {"image/svg+xml", icon},
}

const (
	// maxStreams leaves one of the six connections that a browser makes to one server for other requests.
	maxStreams = 5
	// beat is how often the stream says that it is alive.
	beat = 5 * time.Second
)

// Server serves the page and what it shows.
type Server struct {
	live    *Live
	streams chan struct{} // one element for each open stream
	mux     *http.ServeMux
}

// NewServer returns a server for what a Live knows.
func NewServer(live *Live) *Server {
	s := &Server{live: live, streams: make(chan struct{}, maxStreams), mux: http.NewServeMux()}
	for path, file := range files {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = io.WriteString(w, file.content) // the browser may have gone
		})
	}
	s.mux.HandleFunc(streamPath, s.stream)
	s.mux.HandleFunc("/api/node", s.node)
	return s
}

// Serve serves on a free port of the loopback interface until the context ends. It calls ready with the address to
// open, which has the one-time code.
func (s *Server) Serve(ctx context.Context, ready func(url string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on the loopback interface: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	a := newAccess(port, s.mux)
	server := &http.Server{Handler: a, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready("http://" + listener.Addr().String() + "/#code=" + a.code)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close() // not Shutdown, which waits for the streams
	}
}

// node answers with all about one node.
func (s *Server) node(w http.ResponseWriter, r *http.Request) {
	view, err := s.live.Node(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	reply(w, view)
}

// Message is one line of the stream.
type Message struct {
	// Whole says that the nodes are all nodes. Otherwise they are those that have changed.
	Whole bool `json:"whole,omitempty"`
	// Fleet is what concerns no single node, if it has changed.
	Fleet *Fleet   `json:"fleet,omitempty"`
	Nodes []Node   `json:"nodes,omitempty"`
	Gone  []string `json:"gone,omitempty"`
	// Touched are nodes of which something has changed that is not in a Node. If they are many, they are left out.
	Touched []string `json:"touched,omitempty"`
}

// stream sends what changes, as one JSON object in each line. A slow reader gets fewer and larger messages.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open: close one", maxStreams), http.StatusTooManyRequests)
		return
	}
	control, out := http.NewResponseController(w), json.NewEncoder(w)
	_ = control.SetReadDeadline(time.Time{}) // the stream has no end
	w.Header().Set("Content-Type", "application/x-ndjson")
	reader := s.live.Reader(r.URL.Query().Get("group"))
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		message, changed := reader.Next()
		if err := control.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
			return
		}
		if out.Encode(message) != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-alive.C:
		}
	}
}
