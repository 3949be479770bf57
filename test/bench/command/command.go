// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is what the commands of the benches share: a logger, an end by a signal, and flags.
package command

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs a bench until it ends or is interrupted, and exits.
func Main(run func(context.Context) error) {
	log.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// ParseFlags parses the flags of a bench, which takes no other arguments. All numbers must be at least 1.
func ParseFlags() (err error) {
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	flag.VisitAll(func(f *flag.Flag) {
		if g, ok := f.Value.(flag.Getter); ok {
			if n, ok := g.Get().(int); ok && n < 1 {
				err = fmt.Errorf("--%s: must be at least 1, not %d", f.Name, n)
			}
		}
	})
	return err
}
