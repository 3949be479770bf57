// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the operator at work on a control plane of its own: "make demo". With -admission, it also shows
// nodes that join without the taint. With -dashboard, it opens the dashboard.
//
// DEMO_WAIT is for how many seconds it stays up when it is done. If it is unset, the demo stays up until Ctrl-C.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/test/child"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/view"
)

func main() {
	admission := flag.Bool("admission", false, "also show nodes that join without the taint")
	dashboard := flag.Bool("dashboard", false, "open the dashboard; without a terminal, print its address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends it at once; what it has started ends with it anyway
	}()
	log.SetLogger(logr.Discard()) // what a client logs is no part of the story; its errors are
	screen := view.NewScreen(os.Stdout, os.Getenv)
	if err := run(ctx, screen, os.Getenv("DEMO_WAIT"), *admission, *dashboard); err != nil {
		screen.Print(fmt.Sprintf("\ndemo: %v\n", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, screen *view.Screen, wait string, admission, dashboard bool) (err error) {
	seconds, err := strconv.ParseUint(cmp.Or(wait, forever), 10, 32)
	if err != nil {
		return fmt.Errorf("DEMO_WAIT=%s: must be a number of seconds; 0 ends at once, and empty stays until Ctrl-C", wait)
	}
	screen.Step("Starting a Kubernetes control plane on this machine, and the operator")
	o := cluster.Options{ControllerManager: true, Scheduler: true, Kwok: true, Log: screen}
	c, err := cluster.StartWithOperator(ctx, o, cluster.OperatorOptions{Webhooks: true})
	if err != nil {
		return told(ctx, err)
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if dashboard {
		end, err := showDashboard(ctx, c, screen)
		if err != nil {
			return told(ctx, err)
		}
		defer end()
	}
	if err := newDemo(c, screen).play(ctx, admission); err != nil {
		if err = told(ctx, err); !errors.Is(err, errInterrupted) {
			err = fmt.Errorf("%w\n\nthe end of the operator's log:\n%s", err, c.Operator.LogTail(15))
		}
		return err
	}
	screen.Print(closing)
	if admission {
		screen.Print(closingAdmission)
	}
	screen.Print(closingReal)
	if seconds == 0 {
		return nil
	}
	screen.Print(lookAround(c))
	return stay(ctx, c, time.Duration(seconds)*time.Second)
}

// showDashboard starts the dashboard of the cluster, and waits until it says that it runs.
func showDashboard(ctx context.Context, c *cluster.Cluster, screen *view.Screen) (end func(), err error) {
	binary, err := c.Binary(ctx, "kubectl-nodegate")
	if err != nil {
		return nil, err
	}
	args := []string{"dashboard", "--kubeconfig", c.Kubeconfig()}
	if !screen.Terminal() {
		args = append(args, "--no-browser")
	}
	cmd := exec.Command(binary, args...)
	cmd.Stderr = screen
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = child.Start(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("starting the dashboard: %w", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		screen.Print(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "until Ctrl-C") {
			return func() { _, _ = cmd.Process.Kill(), cmd.Wait() }, nil
		}
	}
	return nil, errors.Join(errors.New("the dashboard has ended"), cmd.Wait())
}

// forever is the number of seconds, a century, for those who give none.
const forever = "3155760000"

var errInterrupted = errors.New("interrupted")

// told is what is told about an error: of the many that follow from an interrupt, only that.
func told(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// stay leaves the cluster up for people to look around.
func stay(ctx context.Context, c *cluster.Cluster, patience time.Duration) error {
	ended := make(chan string, 6)
	all := []*cluster.Component{c.Etcd, c.APIServer, c.ControllerManager, c.Scheduler, c.Kwok, c.Operator.Component}
	for _, component := range all {
		go func() {
			<-component.Exited()
			ended <- strings.TrimSuffix(filepath.Base(component.LogFile()), ".log")
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(patience):
		return nil
	case name := <-ended:
		return fmt.Errorf("%s has ended", name)
	}
}
