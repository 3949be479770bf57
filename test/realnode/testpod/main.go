// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Testpod is what the pods of the tests with real nodes run. Without arguments it does nothing until it is told to end,
// as what keeps a sandbox does.
//
//	testpod serve -listen=:8080 -unready
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	if len(args) == 0 {
		<-end
		return nil
	}
	if args[0] != "serve" {
		return fmt.Errorf("unknown command %q", args[0])
	}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := fs.String("listen", ":8080", "address")
	unready := fs.Bool("unready", false, "answer 503 on /readyz until a client has posted to /ready")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: handler(!*unready), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-end:
		return errors.Join(server.Close())
	}
}

// handler answers who it is on /, and 200 or 503 on /readyz and /readiness.
func handler(isReady bool) http.Handler {
	var ready atomic.Bool
	ready.Store(isReady)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "%s on %s\n", os.Getenv("POD_NAME"), os.Getenv("NODE_NAME"))
	})
	readiness := func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	}
	mux.HandleFunc("GET /readyz", readiness)
	mux.HandleFunc("GET /readiness", readiness) // as Calico calls it
	mux.HandleFunc("POST /ready", func(http.ResponseWriter, *http.Request) { ready.Store(true) })
	return mux
}
