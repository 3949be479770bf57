// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is Nodegate's operator: it holds nodes that do not satisfy their NodeReadinessRules, and releases
// those that do.
package main

import (
	"context"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(execute(ctrl.SetupSignalHandler(), &options{}, os.Args[1:]...))
}

// execute runs a command line and returns the exit code. The operator logs its error as it logs all else. The other
// commands are for people.
func execute(ctx context.Context, o *options, args ...string) int {
	root := newCommand(o)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case ran == root:
		o.newLogger().Error(err, "Ended")
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	return 1
}
