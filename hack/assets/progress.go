// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells what is going on: in one line that is written over where stderr is a terminal, in a plain
// line now and then where it is not.
type progress struct {
	out      io.Writer
	terminal bool
	interval time.Duration // between two calls of a tick
	start    time.Time

	mu   sync.Mutex
	open bool // the terminal's last line is one to be written over
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, interval: 15 * time.Second, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, p.interval = true, 500*time.Millisecond
		}
	}
	return p
}

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "assets: "+format+"\n", args...)
}

// show writes a line that the next one replaces, where that is possible.
func (p *progress) show(format string, args ...any) {
	if !p.terminal {
		p.say(format, args...)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "assets: "+format, args...)
	p.open = true
}

func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}

// every calls tick with the time since the start, until stop is called; no call outlives stop.
func (p *progress) every(tick func(elapsed string)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(p.interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				tick(time.Since(p.start).Round(time.Second).String())
			}
		}
	}()
	return func() { close(quit); <-done }
}
