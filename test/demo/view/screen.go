// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const (
	// fewestRows is how many rows a terminal must have for the table of 13 nodes.
	fewestRows = 19
	// settled is for how long nothing changes before changes are written as lines: steps on the way are noise.
	settled = 300 * time.Millisecond
)

// Screen writes for people. It is safe for concurrent use.
type Screen struct {
	w        io.Writer
	terminal bool
	color    bool
	width    func() int
	now      func() time.Time
	began    time.Time

	mu    sync.Mutex
	drawn int // lines of the table that stand above the cursor
	lines []string

	// Without a terminal: what was written, what has been shown, and since when the latter is as it is.
	written, shown ledger.Snapshot
	since          time.Time
}

// NewScreen writes to a file: a table in place if it is a terminal, plain lines if not. The environment may forbid
// colours (NO_COLOR, see no-color.org) and both (TERM=dumb).
func NewScreen(f *os.File, getenv func(string) string) *Screen {
	fd := int(f.Fd())
	terminal := term.IsTerminal(fd) && getenv("TERM") != "dumb"
	if _, rows, err := term.GetSize(fd); err == nil && rows > 0 && rows < fewestRows {
		terminal = false // what has scrolled away cannot be redrawn
	}
	width := func() int {
		columns, _, err := term.GetSize(fd)
		if err != nil || columns < 2 {
			return 0
		}
		return columns - 1 // in the last column some terminals wrap
	}
	return newScreen(f, terminal, report.StyleOf(f, getenv).Color, width, time.Now)
}

func newScreen(w io.Writer, terminal, colored bool, width func() int, now func() time.Time) *Screen {
	return &Screen{w: w, terminal: terminal, color: colored, width: width, now: now, began: now()}
}

// Terminal reports whether a person looks at it.
func (s *Screen) Terminal() bool { return s.terminal }

// Step says what comes next. It stands above the table from then on.
func (s *Screen) Step(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	s.leave()
	fmt.Fprintf(s.w, "%s  %s\n", s.stamp(), s.style().Paint(bold, text))
}

// Print writes text as it is.
func (s *Screen) Print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	fmt.Fprint(s.w, text)
}

// Write implements io.Writer, for the progress of others: their lines are shown as steps, dimmed.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	for text := range strings.Lines(string(p)) {
		fmt.Fprintf(s.w, "%s  %s\n", s.stamp(), s.style().Paint(dim, strings.TrimRight(text, "\n")))
	}
	return len(p), nil
}

// Show shows the ledger: on a terminal in place of what it showed before, else by lines about what has changed, once it
// has settled.
func (s *Screen) Show(snapshot *ledger.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		now := s.now()
		if len(Changes(&s.shown, snapshot)) > 0 {
			s.shown, s.since = *snapshot, now
		}
		if now.Sub(s.since) >= settled {
			s.writeChanges()
		}
		return
	}
	style := s.style()
	lines := Table(snapshot, style)
	lines = append(lines, "", cut("  "+Summary(snapshot), style.Width, 0))
	if s.drawn > 0 && slices.Equal(lines, s.lines) {
		return
	}
	s.lines = lines
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, text := range lines {
		b.WriteString(text + "\x1b[K\n") // what a longer line left is erased
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	fmt.Fprint(s.w, b.String())
}

func (s *Screen) writeChanges() {
	for _, text := range Changes(&s.written, &s.shown) {
		fmt.Fprintf(s.w, "%s  %s\n", s.stamp(), text)
	}
	s.written = s.shown
}

// leave lets the table stand as it is and goes on below it.
func (s *Screen) leave() {
	s.writeChanges()
	if s.drawn > 0 {
		fmt.Fprintln(s.w)
	}
	s.drawn = 0
}

func (s *Screen) style() report.Style { return report.Style{Color: s.color, Width: s.width()} }

func (s *Screen) stamp() string {
	return s.style().Paint(dim, fmt.Sprintf("%6.1fs", s.now().Sub(s.began).Seconds()))
}
