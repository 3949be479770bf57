// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressInterval is how often a long run says that it is still there: a log that stands still for minutes looks
// like a hang, and some CI systems take it for one.
const progressInterval = time.Minute

// printer writes whole lines, from whichever goroutine.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(b)
}

func (p *printer) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format, args...)
}

// progress tells what runs and, from time to time, that it still does, until the returned function is called.
func (p *printer) progress(what string) (stop func()) {
	start, done := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				p.printf("...   %s, %s\n", what, time.Since(start).Round(time.Second))
			}
		}
	})
	p.printf("run   %s\n", what)
	return func() {
		close(done)
		wg.Wait()
	}
}

// counts is how many tests passed, failed and were skipped.
type counts struct{ passed, failed, skipped int }

func count(results []result) counts {
	var c counts
	for _, r := range results {
		switch r.outcome {
		case passed:
			c.passed++
		case skipped:
			c.skipped++
		default:
			c.failed++
		}
	}
	return c
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// pkg prints the line of a package, and what it said about its failure.
func (p *printer) pkg(run *packageRun, results []result, failure string) {
	c, word := count(results), "ok"
	if c.failed > 0 {
		word = "FAIL"
	}
	p.printf("%-5s %-40s %s  (%.1fs)\n", word, run.name, c, run.elapsed.Seconds())
	if failure != "" {
		p.printf("%s\n", strings.TrimRight(failure, "\n"))
	}
}

// summary prints what is wrong and the count, and returns whether all is well. Whatever is wrong beyond the tests
// that failed counts as failed too: the last line must not look like a success.
func (p *printer) summary(results []result, broken []string, d difference, took time.Duration) bool {
	c := count(results)
	p.names("failed", results, failed)
	p.names("skipped", results, skipped)
	for _, b := range broken {
		p.printf("\nbroken: %s\n", b)
	}
	c.failed += len(broken) + len(d.missing)
	p.lines("In the test list, and did not run", d.missing)
	if len(d.extra) > 0 {
		c.failed++
		p.lines("Ran, and not in the test list (run `make update-testlist`, with PKGS=./the/package for a part, and commit it)", d.extra)
	}
	if len(d.skipped) > 0 {
		c.failed++
		p.lines("Skipped, without `"+strings.TrimSpace(maySkip)+" <why>` in the test list", d.skipped)
	}
	p.printf("\ntook %s\n%s\n", took.Round(time.Second), c)
	return c.failed == 0
}

func (p *printer) names(title string, results []result, o outcome) {
	var names []string
	for _, r := range results {
		if r.outcome == o {
			names = append(names, r.key())
		}
	}
	p.lines(title, names)
}

func (p *printer) lines(title string, lines []string) {
	if len(lines) > 0 {
		p.printf("\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
	}
}
