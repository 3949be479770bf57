// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errFailed says that the run is over and was not good; why has been printed.
var errFailed = errors.New("failed")

// options is the command line.
type options struct {
	list          string
	update        bool
	race          bool
	servers       bool
	timeout       time.Duration
	serverTimeout time.Duration
	parallel      int
	patterns      []string
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("testrunner", flag.ContinueOnError)
	fs.StringVar(&o.list, "list", "test/testlist.txt", "file with the names of all tests, compared with those that ran; empty to compare nothing")
	fs.BoolVar(&o.update, "update", false, "write the names that ran to the list, where nothing failed")
	fs.BoolVar(&o.race, "race", true, "build with the race detector")
	fs.BoolVar(&o.servers, "servers", true, "run the packages that start servers, too")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "limit for one package")
	fs.DurationVar(&o.serverTimeout, "server-timeout", 30*time.Minute, "limit for one package that starts servers")
	fs.IntVar(&o.parallel, "p", 2, "how many packages run at a time, of those that start no server")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.patterns = fs.Args(); len(o.patterns) == 0 {
		o.patterns = []string{"./..."}
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRunner(o, os.Stdout).run(ctx); err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "testrunner:", err)
		}
		os.Exit(1)
	}
}
