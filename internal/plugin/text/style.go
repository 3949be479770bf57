// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is how it may be written.
type Style struct {
	// Color allows for ANSI colours.
	Color bool
	// Width is how many characters a line may have; 0 means any number.
	Width int
	// Height is how many lines the terminal has; 0 where there is none.
	Height int
	// Wide says everything.
	Wide bool
	// Location is the time zone of the times of day.
	Location *time.Location
	// Now is the moment that times are related to.
	Now time.Time
}

// StyleOf is what a writer allows for: colours and a width only where it is a terminal. The environment may forbid colours
// (NO_COLOR, see no-color.org; TERM=dumb).
func StyleOf(w io.Writer, getenv func(string) string) Style {
	s := Style{Location: time.Local}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	if columns, lines, err := term.GetSize(int(f.Fd())); err == nil && columns > 20 {
		s.Width, s.Height = columns, lines
	}
	return s
}

type color string

const (
	plain  color = ""
	bold   color = "1"
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"

	boldRed    color = "1;31"
	boldGreen  color = "1;32"
	boldYellow color = "1;33"
)

func (s Style) paint(c color, text string) string {
	if !s.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// ago is how long ago a time was.
func (s Style) ago(t time.Time) string { return duration.HumanDuration(max(0, s.Now.Sub(t))) }

// in is how far away a time is, with the time of day.
func (s Style) in(t time.Time) string {
	at, now := t.In(s.Location), s.Now.In(s.Location)
	layout := "15:04:05"
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		layout = "2006-01-02 15:04:05"
	}
	return fmt.Sprintf("in %s (%s)", duration.HumanDuration(max(0, t.Sub(s.Now))), at.Format(layout))
}

// page collects lines.
type page struct {
	Style
	b strings.Builder
}

// line writes a line. Where it is wider than the terminal it is broken between words, and goes on below its text.
func (p *page) line(c color, indent int, format string, args ...any) {
	p.mark(c, indent, "", plain, fmt.Sprintf(format, args...))
}

// mark writes a line that begins with a mark in a colour of its own.
func (p *page) mark(c color, indent int, mark string, text color, words string) {
	lead := strings.Repeat(" ", indent)
	if mark != "" {
		lead += p.paint(c, mark) + " "
		c = text
	}
	hang := indent
	if mark != "" {
		hang += utf8.RuneCountInString(mark) + 1
	}
	for i, part := range wrap(words, p.Width-hang) {
		if i > 0 {
			lead = strings.Repeat(" ", hang)
		}
		p.b.WriteString(lead + p.paint(c, part) + "\n")
	}
}

// command writes a command to be copied: in one piece.
func (p *page) command(what, command string) {
	if p.Width > 0 && utf8.RuneCountInString(what)+1+utf8.RuneCountInString(command) > p.Width {
		p.b.WriteString(what + "\n  " + command + "\n")
		return
	}
	p.b.WriteString(what + " " + command + "\n")
}

func (p *page) blank() { p.b.WriteString("\n") }

// wrap breaks a text between words into lines of a width; all in one, where the width is too small to be of use.
func wrap(text string, width int) []string {
	const least = 20
	if width < least || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	current := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width:
			current += " " + word
		default:
			lines = append(lines, current)
			current = word
		}
	}
	return append(lines, current)
}

// cell is a text and its colour. Its width is counted without the colour.
type cell struct {
	text  string
	color color
}

// gap is between two columns of a table.
const gap = 3

// columns are the widths of the columns.
func columns(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// table writes rows of equal columns. Where they are wider than the terminal, the last column is cut.
func (p *page) table(rows [][]cell) {
	widths := columns(rows)
	for _, row := range rows {
		var line strings.Builder
		used := 0
		for i, c := range row {
			text := c.text
			if i < len(row)-1 {
				text += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap)
			}
			text = cut(text, p.Width, used)
			used += utf8.RuneCountInString(text)
			trimmed := strings.TrimRight(text, " ")
			line.WriteString(p.paint(c.color, trimmed) + text[len(trimmed):])
		}
		p.b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// cut shortens a text to what is left of a line of the given width.
func cut(text string, width, used int) string {
	if width <= 0 || used+utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-used)])
}
