// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// strayPatience is how long processes may outlive the go test that started them: those that are about to end, on a busy machine.
const strayPatience = 30 * time.Second

// runner runs the batches one after the other and keeps what came out of them.
type runner struct {
	options *options
	out     *printer
	results []result
	// broken tells of failures that are no test's: go test itself failed, a report could not be read.
	broken []string
	// patience is how long processes may outlive the go test that started them.
	patience time.Duration
}

func newRunner(o *options, w io.Writer) *runner {
	return &runner{options: o, out: &printer{w: w}, patience: strayPatience}
}

// run is the whole: list, build, test, compare, count. Its last line of output is the count.
func (r *runner) run(ctx context.Context) error {
	start := time.Now()
	adoptOrphans()
	list, err := readList(r.options.list)
	if err != nil {
		return err
	}
	sel, err := listPackages(ctx, r.options.patterns)
	if err != nil {
		return err
	}
	if !r.options.servers {
		sel.dropServers()
	}
	if len(sel.packages) == 0 {
		return fmt.Errorf("no package with tests among %s", strings.Join(r.options.patterns, " "))
	}
	if err := r.prepare(ctx, sel); err != nil {
		return err
	}
	for _, batch := range sel.batches() {
		if ctx.Err() != nil {
			r.broken = append(r.broken, "interrupted")
			break
		}
		r.runBatch(ctx, sel.module, batch)
	}
	return r.judge(list, sel, time.Since(start))
}

// prepare compiles what the test binaries need from other modules, with all processors: go test would compile it
// in the middle of the servers' tests, which run one package at a time. A failure shows again, with its package.
func (r *runner) prepare(ctx context.Context, sel *selection) error {
	for _, p := range sel.packages {
		if p.servers && os.Getenv("KUBEBUILDER_ASSETS") == "" {
			return fmt.Errorf("%s starts an API server: set KUBEBUILDER_ASSETS to the directory that `make -s assets` prints", p.importPath)
		}
	}
	if len(sel.deps) == 0 {
		return nil
	}
	stop := r.out.progress("compiling dependencies")
	defer stop()
	args := []string{"build"}
	if r.options.race {
		args = append(args, "-race")
	}
	cmd := r.command(ctx, append(args, sel.deps...))
	_ = cmd.Run()
	return nil
}

// command is a go command whose tests cannot reach the cluster of the person who runs them.
func (r *runner) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
	// The interrupt goes to the whole group: go test does not hand it on, and the suites have servers to take down.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute // more than Ginkgo's grace period
	return cmd
}

func (r *runner) testArgs(batch []testPackage, reportPath string) []string {
	o, timeout, parallel := r.options, r.options.timeout, r.options.parallel
	if batch[0].servers {
		timeout, parallel = o.serverTimeout, 1
	}
	args := []string{"test", "-json", "-count=1", "-shuffle=on", fmt.Sprintf("-timeout=%s", timeout), fmt.Sprintf("-p=%d", parallel)}
	if o.race {
		args = append(args, "-race")
	}
	for _, p := range batch {
		args = append(args, p.importPath)
	}
	if reportPath != "" {
		// Ginkgo's own limit comes first, so that it tells where a spec hangs and runs its cleanups.
		args = append(args, "-ginkgo.json-report="+reportPath, "-ginkgo.randomize-all", "-ginkgo.no-color",
			fmt.Sprintf("-ginkgo.timeout=%s", timeout*9/10), "-ginkgo.grace-period=10s")
	}
	return args
}

// runBatch runs one go test and prints and keeps its results, package by package as they end.
func (r *runner) runBatch(ctx context.Context, module string, batch []testPackage) {
	dir, err := os.MkdirTemp("", "testrunner-")
	if err != nil {
		r.broken = append(r.broken, fmt.Sprintf("making a directory for the report: %v", err))
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	reportPath, label := "", fmt.Sprintf("%d packages without servers", len(batch))
	if batch[0].ginkgo {
		reportPath = filepath.Join(dir, "report.json")
	}
	if len(batch) == 1 {
		label = shortName(module, batch[0].importPath)
	}
	stop := r.out.progress(label)
	defer stop()

	paths := make([]string, 0, len(batch))
	for _, p := range batch {
		paths = append(paths, p.importPath)
	}
	var s *stream
	done := map[string]bool{}
	s = newStream(module, paths, func(p *packageRun) {
		// A suite's report is complete only once its process has ended, which is what this event says.
		done[p.importPath] = true
		r.finish(s, p, reportPath)
	})
	before := len(r.results)
	err = r.stream(ctx, s, r.testArgs(batch, reportPath))
	if strays := endStrays(r.patience); len(strays) > 0 {
		r.broken = append(r.broken, fmt.Sprintf("%s left processes behind: %s", label, strings.Join(strays, ", ")))
	}
	for _, path := range paths {
		if !done[path] {
			r.finish(s, s.packages[path], reportPath)
		}
	}
	if err != nil && !anyFailed(r.results[before:]) {
		r.broken = append(r.broken, fmt.Sprintf("%s: %v\n%s", label, err, s.stray.String()))
	}
}

// stream runs go test and feeds its output to the stream.
func (r *runner) stream(ctx context.Context, s *stream, args []string) error {
	cmd := r.command(ctx, args)
	cmd.Stderr = r.out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := s.read(stdout)
	err = cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever did not heed the interrupt
	}
	if err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return readErr
}

func (r *runner) finish(s *stream, p *packageRun, reportPath string) {
	var report *suiteReport
	if reportPath != "" {
		var err error
		if report, err = readReport(reportPath); err != nil {
			r.broken = append(r.broken, fmt.Sprintf("%s: %v", p.name, err))
		}
	}
	results := s.results(p, report)
	r.results = append(r.results, results...)
	text := ""
	if p.failed || !p.ended || anyFailed(results) {
		text = s.failureText(p)
	}
	r.out.pkg(p, results, text)
}

func anyFailed(results []result) bool {
	for _, r := range results {
		if r.outcome == failed {
			return true
		}
	}
	return false
}

// judge compares with the list, says what is wrong and prints the count.
func (r *runner) judge(list testList, sel *selection, took time.Duration) error {
	// A run of everything covers the packages that are gone, too.
	everything := r.options.servers && len(r.options.patterns) == 1 && r.options.patterns[0] == "./..."
	covered := func(pkg string) bool { return everything || sel.matched[pkg] }
	var d difference
	if r.options.list != "" {
		d = list.compare(r.results, covered)
	}
	if r.options.update {
		if len(r.broken) > 0 || anyFailed(r.results) {
			r.broken = append(r.broken, "the test list was not updated: something failed")
		} else if err := list.updated(r.results, covered).write(r.options.list); err != nil {
			return err
		} else {
			d.missing, d.extra = nil, nil
		}
	}
	if ok := r.out.summary(r.results, r.broken, d, took); !ok {
		return errFailed
	}
	return nil
}
