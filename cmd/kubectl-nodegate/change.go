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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/plugin/input"
)

// changing is what commands share that change objects: they announce the change, ask, make it and print the objects.
type changing struct {
	yes     bool
	dryRun  string
	flags   *genericclioptions.PrintFlags
	printer printers.ResourcePrinter
	list    []runtime.RawExtension // objects that are printed together at the end
}

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// newChanging adds the flags. done is what the command does to an object, such as "released"; nil if only RunE knows
// it.
func newChanging(cmd *cobra.Command, done string) *changing {
	c := &changing{flags: genericclioptions.NewPrintFlags(done)}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "Do not ask for confirmation.")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", dryRunNone, `Must be "none", "server", or "client". `+
		"With client, the plugin prints the object that it would send; with server, the server does not store it.")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient              // as kubectl
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions( // it fails only without such a flag
		[]string{dryRunNone, dryRunServer, dryRunClient}, cobra.ShellCompDirectiveNoFileComp))
	c.flags.AddFlags(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error { return c.validate() } // before a request to the server
	return c
}

func (c *changing) validate() (err error) {
	done, known := map[string]string{dryRunNone: "%s", dryRunClient: "%s (dry run)", // as kubectl
		dryRunServer: "%s (server dry run)"}[c.dryRun]
	if !known {
		return fmt.Errorf(`invalid dry-run value (%q): must be "none", "server", or "client"`, c.dryRun)
	}
	if err := c.flags.Complete(done); err != nil {
		return err
	}
	c.printer, err = c.flags.ToPrinter()
	return err
}

// ask announces a change and asks for confirmation.
func (p *plugin) ask(ctx context.Context, c *changing, what string) error {
	fmt.Fprintln(p.streams.ErrOut, what)
	if c.yes || c.dryRun != dryRunNone {
		return nil
	}
	switch {
	case p.asks():
	case c.flags == nil: // the command has no --dry-run
		return errors.New("stdin is not a terminal; pass --yes to confirm")
	default:
		return errors.New("stdin is not a terminal; pass --yes to confirm, or --dry-run=server to try it")
	}
	fmt.Fprint(p.streams.ErrOut, "Continue? [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(p.streams.In).ReadString('\n') // the end of input means no
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

// apply sends a merge patch for an object, and prints the object. The UID in the patch makes it fail for another
// object of the same name.
func (p *plugin) apply(ctx context.Context, to *input.Cluster, c *changing, o client.Object, metadata,
	spec map[string]any) error {
	metadata["uid"] = o.GetUID()
	patch := map[string]any{"metadata": metadata}
	if spec != nil {
		patch["spec"] = spec
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	if err := c.send(ctx, to, o, client.RawPatch(types.MergePatchType, body)); err != nil {
		if strings.Contains(err.Error(), "metadata.uid") {
			return fmt.Errorf("%q was deleted and created again meanwhile; the plugin did not change it", o.GetName())
		}
		return input.Explain(err, fmt.Sprintf("changing %q", o.GetName()))
	}
	return c.print(p, o)
}

// annotate sets an annotation of nodes, or removes it if the value is nil. If one node cannot be changed, it still
// changes the others.
func (p *plugin) annotate(ctx context.Context, to *input.Cluster, c *changing, nodes []*corev1.Node, key string,
	value any) error {
	var failed []error
	for _, node := range nodes {
		failed = append(failed, p.apply(ctx, to, c, node, map[string]any{"annotations": map[string]any{key: value}}, nil))
	}
	return errors.Join(failed...)
}

// send sends a patch, as far as --dry-run allows.
func (c *changing) send(ctx context.Context, to *input.Cluster, o client.Object, patch client.Patch) error {
	switch c.dryRun {
	case dryRunClient:
		return nil
	case dryRunServer:
		return to.Patch(ctx, o, patch, client.DryRunAll)
	}
	return to.Patch(ctx, o, patch)
}

// print prints a line for an object, or keeps it for the list that flush prints.
func (c *changing) print(p *plugin, o runtime.Object) error {
	kinds, _, err := input.Scheme().ObjectKinds(o)
	if err != nil {
		return err
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	switch *c.flags.OutputFormat {
	case "", outputName:
		return c.printer.PrintObj(o, p.streams.Out)
	}
	c.list = append(c.list, runtime.RawExtension{Object: o})
	return nil
}

// flush prints the objects that print has kept: several as one List. It returns the given error, if there is one.
func (c *changing) flush(p *plugin, err error) error {
	var o runtime.Object = &corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: c.list}
	switch len(c.list) {
	case 0:
		return err
	case 1:
		o = c.list[0].Object
	}
	return errors.Join(c.printer.PrintObj(o, p.streams.Out), err)
}
