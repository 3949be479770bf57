// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testcheck runs a command that runs the tests, and judges the run. It counts Ginkgo's specs as tests. It fails
// if tests were skipped in CI, if there are fewer tests than before, or if a process is left behind. It names the tests
// that passed only when they ran again. Its last line of output is the plain count.
//
//	testcheck -events FILE [-least FILE [-raise]] COMMAND [ARGUMENT...]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodegate/nodegate/test/needs"
)

// check is the command line.
type check struct {
	events, least string
	raise         bool
	command       []string
	out           io.Writer
	// patience is how long processes may outlive the command: those that are about to end, on a busy machine.
	patience time.Duration
}

func main() {
	c := check{out: os.Stdout, patience: 30 * time.Second}
	flag.StringVar(&c.events, "events", "", "file to which the command writes what go test -json prints")
	flag.StringVar(&c.least, "least", "", "file with the least number of tests; empty to compare nothing")
	flag.BoolVar(&c.raise, "raise", false, "write the number of tests to that file if all is well")
	flag.Parse()
	c.command = flag.Args()
	if c.events == "" || len(c.command) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !c.run(ctx) {
		os.Exit(1)
	}
}

// run returns whether all is well. Every problem counts as a failed test: the last line must not look like a success.
func (c check) run(ctx context.Context) bool {
	_ = os.Remove(c.events) // an earlier run's
	adoptOrphans()
	start := time.Now()
	commandErr := c.execute(ctx, start)
	var problems []string
	if strays := endStrays(c.patience); len(strays) > 0 {
		problems = append(problems, "processes were left behind: "+strings.Join(strays, ", "))
	}
	r, err := readEvents(c.events)
	if err != nil {
		problems = append(problems, err.Error())
	}
	t := r.count()
	if commandErr != nil && t.failed == 0 {
		problems = append(problems, fmt.Sprintf("%s: %v, and no test failed", c.command[0], commandErr))
	}
	total := t.passed + t.failed + t.skipped
	if total == 0 {
		problems = append(problems, "no test ran")
	}
	if t.skipped > 0 && needs.InCI() {
		problems = append(problems, fmt.Sprintf("%d tests were skipped; with CI=true every test must run", t.skipped))
	}
	// The subtests of a skipped test are not known, and not counted.
	if c.least != "" && t.skipped == 0 {
		problems = append(problems, c.compare(total, t.failed+len(problems) == 0)...)
	}
	for _, p := range problems {
		fmt.Fprintf(c.out, "\nproblem: %s\n", p)
	}
	for _, name := range r.flaky() {
		fmt.Fprintf(c.out, "\nFLAKY: %s (failed once, passed when it ran again)\n", name)
	}
	t.failed += len(problems)
	fmt.Fprintf(c.out, "\ntook %s\n%s\n", time.Since(start).Round(time.Second), t)
	return t.failed == 0
}

// execute runs the command, and tells every minute which packages' tests are running.
func (c check) execute(ctx context.Context, start time.Time) error {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stdout, cmd.Stderr = c.out, os.Stderr
	// An interrupt must reach the tests, too: they have servers to stop.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute // more than Ginkgo's grace period
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what ignored the interrupt
			}
			return err
		case <-time.After(time.Minute):
			r, _ := readEvents(c.events)
			fmt.Fprintf(c.out, "... %s: %d passed, running: %s\n",
				time.Since(start).Round(time.Second), r.count().passed, cmp.Or(r.running(), "nothing yet"))
		}
	}
}

// compare holds the number of tests against the least number, or writes it there.
func (c check) compare(total int, well bool) []string {
	if c.raise && well {
		if err := os.WriteFile(c.least, []byte(strconv.Itoa(total)+"\n"), 0o600); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	content, err := os.ReadFile(c.least)
	if err != nil {
		return []string{err.Error()}
	}
	least, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", c.least, err)}
	}
	if total < least {
		return []string{fmt.Sprintf("%d tests ran, and %s says that there are at least %d: "+
			"if tests were removed on purpose, write the new number there", total, c.least, least)}
	}
	return nil
}
