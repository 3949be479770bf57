// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-nodegate is Nodegate's plugin for kubectl. It explains what holds a node and why, simulates and
// checks rules, shows their state, holds and releases nodes, and pauses rules.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	asks := func() bool { return term.IsTerminal(int(os.Stdin.Fd())) }
	code := run(ctx, &plugin{streams: streams, now: time.Now, getenv: os.Getenv, asks: asks}, os.Args[1:])
	stop()
	os.Exit(code)
}

// Exit codes, besides 0.
const (
	exitError = 1 // something failed; the message says what to do
	exitFound = 2 // simulate or lint found what it looks for
)

// errFound ends the plugin with exitFound: its output has said why.
var errFound = errors.New("found")

// run runs a command line and returns the exit code.
func run(ctx context.Context, p *plugin, args []string) int {
	log.SetLogger(logr.Discard()) // what the clients log, the plugin reports as an error
	cmd := newCommand(p)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return exitFound
	}
	fmt.Fprintln(p.streams.ErrOut, "error:", err)
	return exitError
}
