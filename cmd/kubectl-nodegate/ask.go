// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/plugin/cluster"
)

// changing is what commands that change something share: they say what they will do, ask, do it and print it.
type changing struct {
	yes     bool
	dryRun  string
	flags   *genericclioptions.PrintFlags
	printer printers.ResourcePrinter
	done    string // what has been done to an object, such as "released"
}

func newChanging(cmd *cobra.Command, done string) *changing {
	c := &changing{done: done, flags: genericclioptions.NewPrintFlags(done).WithTypeSetter(cluster.Scheme())}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", "none", `Must be "none", "server", or "client". With client what would be sent is printed and not sent; with server it is sent and not stored.`)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient // as kubectl
	c.flags.AddFlags(cmd)
	return c
}

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// validate says what is wrong with the flags before anything is asked of a server.
func (c *changing) validate() error {
	switch c.dryRun {
	case dryRunNone, dryRunClient, dryRunServer:
	default:
		return fmt.Errorf("--dry-run: must be none, server or client, not %q", c.dryRun)
	}
	if c.dryRun != dryRunNone {
		if err := c.flags.Complete("%s (" + c.dryRun + " dry run)"); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
	}
	var err error
	if c.printer, err = c.flags.ToPrinter(); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	return nil
}

// ask says what will be done and asks whether to.
func (p *plugin) ask(ctx context.Context, c *changing, what string) error {
	fmt.Fprintln(p.streams.ErrOut, what)
	if c.yes || c.dryRun != dryRunNone {
		return nil
	}
	if !p.asks() {
		return errors.New("nobody can be asked here, since standard input is no terminal: give --yes, or --dry-run=server to try it")
	}
	fmt.Fprint(p.streams.ErrOut, "Continue? [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(p.streams.In).ReadString('\n') // the end of input is no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.streams.ErrOut)
		return errors.New("interrupted: nothing was changed")
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errors.New("nothing was changed")
	}
}

// apply sends a merge patch to an object that was read before, and prints the object.
func (p *plugin) apply(ctx context.Context, to *cluster.Cluster, c *changing, o client.Object, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("making the patch: %w", err)
	}
	if err := c.send(ctx, to, o, client.RawPatch(types.MergePatchType, body)); err != nil {
		if strings.Contains(err.Error(), "metadata.uid") {
			return fmt.Errorf("%s has been deleted and created anew in the meantime: it is left alone; look at it again", o.GetName())
		}
		return cluster.Explain(err, fmt.Sprintf("changing %q", o.GetName()))
	}
	return c.printer.PrintObj(o, p.streams.Out)
}

// send sends a patch, as far as --dry-run lets it.
func (c *changing) send(ctx context.Context, to *cluster.Cluster, o client.Object, patch client.Patch) error {
	switch c.dryRun {
	case dryRunClient:
		return nil
	case dryRunServer:
		return to.Client.Patch(ctx, o, patch, client.DryRunAll)
	}
	return to.Client.Patch(ctx, o, patch)
}
