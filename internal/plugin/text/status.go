// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// maxBar is how many characters a bar has at most.
const maxBar = 20

// Status is how all rules stand.
func Status(list *report.RuleStatusList, style Style) string {
	p := &page{Style: style}
	if list.Operator != nil && !list.Operator.Leads {
		p.line(boldRed, 0, "No operator leads; the last sign of one was %s ago. Nothing changes until one does.", p.ago(list.Operator.RenewedAt.Time))
	}
	if len(list.Items) == 0 {
		p.line(plain, 0, "There are no rules, and so no node is held.")
		return p.b.String()
	}
	header := []cell{{"RULE", dim}, {"STATE", dim}, {"NODES", dim}, {"READY", dim}, {"HELD", dim}, {"EXEMPT", dim}, {"FAILED", dim}, {"PENDING", dim}}
	if p.Wide {
		header = append(header, cell{"MODE", dim}, cell{"TAINT", dim}, cell{"HELD NODES", dim})
	}
	rows := [][]cell{header}
	for i := range list.Items {
		rows = append(rows, p.status(&list.Items[i]))
	}
	p.table(p.withBars(rows, list.Items))
	for i := range list.Items {
		r := &list.Items[i]
		switch {
		case r.Message != "":
			p.mark(yellow, 0, r.Rule+":", plain, r.Message)
		case r.Paused != nil:
			p.mark(yellow, 0, r.Rule+":", plain, fmt.Sprintf("paused %s ago; kubectl nodegate resume %s ends that", p.ago(r.Paused.Time), r.Rule))
		case r.BudgetExhausted:
			p.mark(yellow, 0, r.Rule+":", plain, "maxUnavailable keeps nodes open that are not ready")
		}
	}
	return p.b.String()
}

// withBars adds bars to the rows of a table, on a terminal that has room for them.
func (p *page) withBars(rows [][]cell, items []report.RuleStatus) [][]cell {
	const least = 6
	room := p.Width
	for _, w := range columns(rows) {
		room -= w + gap
	}
	if room < least {
		return rows
	}
	for i := range items {
		rows[i+1] = append(rows[i+1], cell{bar(items[i].Nodes, min(room, maxBar)), plain})
	}
	return rows
}

func (p *page) status(r *report.RuleStatus) []cell {
	state := cell{r.State, green}
	if r.State != "InForce" {
		state.color = yellow
	}
	row := []cell{{r.Rule, bold}, state}
	if r.Nodes == nil {
		row = append(row, cell{"-", dim}, cell{"-", dim}, cell{"-", dim}, cell{"-", dim}, cell{"-", dim}, cell{"-", dim})
	} else {
		n := r.Nodes
		row = append(row, number(n.Matched, plain), number(n.Ready, green), number(n.Held, red), number(n.Exempt, yellow),
			number(n.Failed, red), number(n.Pending, yellow))
	}
	if p.Wide {
		row = append(row, cell{r.Mode, plain}, cell{r.Taint, plain}, cell{strings.Join(r.HeldNodes, ","), plain})
	}
	return row
}

func number(n int32, c color) cell {
	if n == 0 {
		c = dim
	}
	return cell{fmt.Sprint(n), c}
}

// bar draws ready nodes, then those that are neither, then held and failed ones. Whatever there is any of is to be seen.
func bar(n *v1alpha1.NodeCounts, width int) string {
	if n == nil || n.Matched == 0 {
		return strings.Repeat("·", width)
	}
	share := func(part int32) int {
		if part == 0 {
			return 0
		}
		return max(1, int(part)*width/int(n.Matched))
	}
	held, other := share(n.Held+n.Failed), share(n.Exempt+n.Pending)
	ready := width - held - other
	switch {
	case n.Ready > 0 && ready < 1: // rounding has left no room for the few that are ready
		ready = 1
		if held > other {
			held = width - other - ready
		} else {
			other = width - held - ready
		}
	case n.Ready == 0 && held > 0:
		held, ready = held+ready, 0
	case n.Ready == 0:
		other, ready = other+ready, 0
	}
	return strings.Repeat("█", ready) + strings.Repeat("▒", other) + strings.Repeat("░", held)
}

// Findings are what there is to say about rules in files.
func Findings(r *report.LintReport, style Style) string {
	p := &page{Style: style}
	for _, f := range r.Findings {
		c := yellow
		if f.Severity == report.SeverityError {
			c = red
		}
		where := f.Source + ": rule " + f.Rule
		field := ""
		if f.Field != "" {
			field = f.Field + ": "
		}
		p.mark(c, 0, fmt.Sprintf("%s: %s:", where, strings.ToLower(f.Severity)), plain, fmt.Sprintf("%s%s (%s)", field, f.Message, f.Code))
	}
	if len(r.Findings) == 0 {
		p.line(green, 0, "%s: nothing to say.", plural(r.Rules, "rule", "rules"))
	}
	return p.b.String()
}
