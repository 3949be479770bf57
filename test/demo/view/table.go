// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const (
	plain  report.Color = ""
	bold   report.Color = "1"
	dim    report.Color = "2"
	green  report.Color = "32"
	yellow report.Color = "33"
)

// cell is a text and its colour. Its width is counted without the colour.
type cell struct {
	text  string
	color report.Color
}

// widest are the widths of the columns from the beginning, so that the table stands still while it fills.
var widest = []int{len("node-0"), len("not reported"), len("starting"), len("PODS"), 0}

var header = []cell{{"NODE", dim}, {"CNI", dim}, {"GATE", dim}, {"PODS", dim}, {"TAINT", dim}}

// Table is the ledger as lines of equal columns, without line ends.
func Table(s *ledger.Snapshot, style report.Style) []string {
	rows := [][]cell{header}
	for i := range s.Rows {
		rows = append(rows, cells(&s.Rows[i]))
	}
	widths := slices.Clone(widest)
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	lines := make([]string, 0, len(rows))
	for _, row := range rows {
		lines = append(lines, line(row, widths, style))
	}
	return lines
}

func cells(r *ledger.Row) []cell {
	return []cell{{r.Name, plain}, condition(r), gate(r), {Pods(r.Pods), green}, {r.Taint, dim}}
}

func condition(r *ledger.Row) cell {
	switch r.Condition {
	case corev1.ConditionTrue:
		return cell{"up", green}
	case corev1.ConditionFalse:
		return cell{"not ready", yellow}
	case "":
		return cell{"not reported", dim}
	}
	return cell{"unknown", yellow}
}

func gate(r *ledger.Row) cell {
	switch {
	case r.Held():
		return cell{"held", yellow}
	case r.OtherTaints > 0: // of Kubernetes itself, while a node starts
		return cell{"starting", dim}
	}
	return cell{"open", green}
}

// Pods is a number of pods, drawn.
func Pods(n int) string {
	const most = 10
	if n > most {
		return fmt.Sprintf("%s +%d", strings.Repeat("●", most), n-most)
	}
	return strings.Repeat("●", n)
}

// line joins cells. It never is longer than the style's width, colours not counted: a line that wraps could not be
// redrawn in place.
func line(row []cell, widths []int, style report.Style) string {
	const gap = "  "
	var b strings.Builder
	used := 0
	for i, c := range row {
		text := c.text
		if i < len(row)-1 {
			text += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		}
		text = cut(gap+text, style.Width, used)
		used += utf8.RuneCountInString(text)
		b.WriteString(style.Paint(c.color, text))
	}
	if !style.Color {
		return strings.TrimRight(b.String(), " ")
	}
	return b.String()
}

// cut shortens a text to what is left of a line of the given width.
func cut(text string, width, used int) string {
	if width <= 0 || used+utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-used)])
}

// Summary is the ledger in a line.
func Summary(s *ledger.Snapshot) string {
	return fmt.Sprintf("%d of %d nodes open, %d of %d pods placed, %d placed too early",
		len(s.Rows)-s.Held(), len(s.Rows), s.Bound, s.Pods, len(s.Violations))
}

// fewNames is how many nodes a line names; of more it says only how many they are.
const fewNames = 3

// Changes are lines about the nodes that are other than they were; nodes that are alike now share a line.
func Changes(before, after *ledger.Snapshot) []string {
	var texts []string
	names := map[string][]string{}
	for i := range after.Rows {
		r := &after.Rows[i]
		text := describe(r)
		if was := before.Row(r.Name); was != nil && describe(was) == text {
			continue
		}
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], r.Name)
	}
	for i, text := range texts {
		who := strings.Join(names[text], ", ")
		if n := len(names[text]); n > fewNames {
			who = count(n, "node")
		}
		texts[i] = who + ": " + text
	}
	return texts
}

func describe(r *ledger.Row) string {
	return fmt.Sprintf("CNI %s, %s, %s", condition(r).text, gate(r).text, count(r.Pods, "pod"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
