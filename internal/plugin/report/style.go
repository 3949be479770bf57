// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/nodegate/nodegate/internal/text"
)

// Style is how a text is written.
type Style struct {
	Color bool      // whether to use ANSI colors
	Width int       // columns of the terminal; 0 if the output is not a terminal
	Wide  bool      // whether to print everything
	Now   time.Time // the time that others are related to; its location is that of the times of day
}

// StyleOf returns the style for a writer: colors and a width only for a terminal. NO_COLOR (see no-color.org) and
// TERM=dumb turn colors off.
func StyleOf(w io.Writer, getenv func(string) string) Style {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Style{}
	}
	s := Style{Color: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 20 {
		s.Width = columns
	}
	return s
}

// Color is an ANSI color; empty for none.
type Color string

const (
	plain  Color = ""
	bold   Color = "1"
	dim    Color = "2"
	red    Color = "31"
	green  Color = "32"
	yellow Color = "33"
)

// Paint returns a text in a color.
func (s Style) Paint(c Color, text string) string {
	if !s.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// ago returns how long ago a time was.
func (s Style) ago(t time.Time) string { return Age(s.Now, t) }

// Age returns how long ago a time was, such as 13m.
func Age(now, since time.Time) string { return duration.HumanDuration(max(0, now.Sub(since))) }

// in returns how far away a time is, with the time of day.
func (s Style) in(t time.Time) string {
	at, layout := t.In(s.Now.Location()), "15:04:05"
	if at.YearDay() != s.Now.YearDay() || at.Year() != s.Now.Year() {
		layout = time.DateTime
	}
	return fmt.Sprintf("in %s (%s)", Age(t, s.Now), at.Format(layout))
}

// page collects lines.
type page struct {
	Style
	strings.Builder
}

// line writes a line in a color. A line that is wider than the terminal is broken between words and indented.
func (p *page) line(c Color, indent int, format string, args ...any) {
	p.item(c, indent, "", fmt.Sprintf(format, args...))
}

// item writes a line that starts with a sign. If there is one, only the sign has the color.
func (p *page) item(c Color, indent int, sign, text string) {
	lead := strings.Repeat(" ", indent)
	if sign != "" {
		lead, indent, c = lead+p.Paint(c, sign)+" ", indent+utf8.RuneCountInString(sign)+1, plain
	}
	p.WriteString(lead + p.Paint(c, wrap(text, p.Width, indent)) + "\n")
}

// wrap breaks a text between words into lines of a width, of which the indent is taken.
func wrap(text string, width, indent int) string {
	var b strings.Builder
	used := indent
	for word := range strings.SplitSeq(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case b.Len() == 0:
		case width-indent >= 20 && used+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// command writes a command that people copy: never broken.
func (p *page) command(what, command string) {
	if p.Width > 0 && utf8.RuneCountInString(what)+1+utf8.RuneCountInString(command) > p.Width {
		what += "\n "
	}
	p.WriteString(what + " " + command + "\n")
}

func (p *page) blank() { p.WriteByte('\n') }

// row is a row of a table, in one color.
type row struct {
	color Color
	cells []string
}

// table writes rows in columns, with a header and the text that trailer, if given, returns for each row and for the
// space that is left on the terminal. Lines that are wider than the terminal are cut.
func (p *page) table(indent int, header []string, rows []row, trailer func(i, space int) string) {
	var b bytes.Buffer
	w := printers.GetNewTabWriter(&b)
	fmt.Fprintln(w, strings.Join(header, "\t")+"\t")
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r.cells, "\t")+"\t")
	}
	_ = w.Flush() // to a buffer
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		c := dim
		line = strings.Repeat(" ", indent) + line
		if i > 0 {
			c = rows[i-1].color
			if trailer != nil {
				line += trailer(i-1, p.Width-utf8.RuneCountInString(line))
			}
		}
		line = strings.TrimRight(line, " ")
		if runes := []rune(line); p.Width > 0 && len(runes) > p.Width {
			line = string(runes[:p.Width])
		}
		p.WriteString(p.Paint(c, line) + "\n")
	}
}

// unread writes what the plugin could not read.
func (p *page) unread(what []string) {
	for i, u := range what {
		if i == 0 {
			p.blank()
		}
		p.line(yellow, 0, "Could not be read: %s", u)
	}
}

// frozen writes why the operator changes nothing, if it is so.
func (p *page) frozen(why string) {
	if why != "" {
		p.item(red, 0, "Frozen:", "the operator changes nothing for any rule: "+why)
	}
}

// operator writes a warning if no operator leads.
func (p *page) operator(o *Operator) {
	switch {
	case o == nil:
	case !o.Leads:
		p.line(red, 0, "No operator leads; the last one renewed its lease %s ago. Nothing changes until one leads.",
			p.ago(o.RenewedAt.Time))
	case p.Wide:
		p.line(dim, 0, "The operator %s leads; it renewed its lease %s ago.", o.Leader, p.ago(o.RenewedAt.Time))
	}
}

// Plural returns a number with a word in the singular or the plural.
func Plural(n int, one, many string) string { return text.Plural(n, one, many) }

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
