// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs a control plane to play around with.
//
//	go run ./test/cluster/cmd/localcluster up -nodes 3
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/test/cluster"
)

const usage = `usage: localcluster up [-nodes N] [-dir DIR] [-assets DIR]

Runs etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback until Ctrl-C.
`

func main() {
	log.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "localcluster:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("localcluster up", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	nodes := flags.Int("nodes", 3, "how many simulated nodes to add")
	dir := flags.String("dir", "", "where to keep the cluster's files; else a temporary directory")
	assets := flags.String("assets", "", "directory of the binaries; else what hack/assets.sh makes sure of")
	if len(args) == 0 || args[0] != "up" {
		flags.Usage()
		return fmt.Errorf("the only command is %q", "up")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	return up(ctx, *nodes, cluster.Options{
		Assets: *assets, Dir: *dir, ControllerManager: true, Scheduler: true, Kwok: true, Log: os.Stderr,
	})
}

func up(ctx context.Context, nodes int, o cluster.Options) (err error) {
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := c.AddNodes(ctx, "node", nodes, cluster.NodeOptions{}); err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\nexport PATH=%s:$PATH\n", c.Kubeconfig(), c.Assets())
	fmt.Fprintf(os.Stderr, "logs are in %s; Ctrl-C ends it\n", filepath.Join(c.Dir(), "logs"))
	for _, component := range []*cluster.Component{c.Etcd, c.APIServer, c.ControllerManager, c.Scheduler, c.Kwok} {
		go func() {
			<-component.Exited()
			if ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "%s has ended; see %s\n", filepath.Base(component.LogFile()), component.LogFile())
			}
		}()
	}
	<-ctx.Done()
	return nil
}
