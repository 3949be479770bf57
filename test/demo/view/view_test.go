// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const taint = "readiness.k8s.io/NetworkReady=pending:NoSchedule"

func example() *ledger.Snapshot {
	return &ledger.Snapshot{
		Rows: []ledger.Row{
			{Name: "node-0", Condition: "True", Pods: 3},
			{Name: "node-1", Condition: "True", Taint: taint},
			{Name: "node-2", Condition: "False", Taint: taint, OtherTaints: 1},
			{Name: "node-3", OtherTaints: 1},
			{Name: "node-10", Condition: "Unknown", Taint: taint, Pods: 12},
		},
		Pods: 30, Bound: 15, Running: 15,
	}
}

func TestTable(t *testing.T) {
	want := []string{
		"  NODE     CNI           GATE      PODS           TAINT",
		"  node-0   up            open      ●●●",
		"  node-1   up            held                     " + taint,
		"  node-2   not ready     held                     " + taint,
		"  node-3   not reported  starting",
		"  node-10  unknown       held      ●●●●●●●●●● +2  " + taint,
	}
	if diff := cmp.Diff(want, Table(example(), report.Style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTableNeverIsWiderThanTheTerminal(t *testing.T) {
	for width := 1; width < 120; width++ {
		for _, colored := range []bool{false, true} {
			for _, text := range Table(example(), report.Style{Width: width, Color: colored}) {
				if n := utf8.RuneCountInString(uncolored(text)); n > width {
					t.Fatalf("a line of %d in a terminal of %d: %q", n, width, text)
				}
			}
		}
	}
}

func TestColorsChangeNothingElse(t *testing.T) {
	colored := Table(example(), report.Style{Color: true})
	if !strings.Contains(strings.Join(colored, ""), "\x1b[33m") {
		t.Errorf("no colours in %q", colored)
	}
	for i, want := range Table(example(), report.Style{}) {
		if got := strings.TrimRight(uncolored(colored[i]), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	want := "2 of 5 nodes open, 15 of 30 pods placed, 0 placed too early"
	if got := Summary(example()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChangesTellOnlyWhatIsNew(t *testing.T) {
	before, after := example(), example()
	if got := Changes(before, after); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
	after.Rows[1].Taint, after.Rows[1].Pods = "", 1
	after.Rows[2].OtherTaints = 7
	for _, name := range []string{"node-11", "node-12"} {
		after.Rows = append(after.Rows, ledger.Row{Name: name, Taint: taint})
	}
	for i := range 10 {
		after.Rows = append(after.Rows, ledger.Row{Name: fmt.Sprintf("node-2%d", i), Condition: "False", Taint: taint})
	}
	want := []string{
		"node-1: CNI up, open, 1 pod",
		"node-11, node-12: CNI not reported, held, 0 pods",
		"10 nodes: CNI not ready, held, 0 pods",
	}
	if diff := cmp.Diff(want, Changes(before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScreenWithoutATerminalWritesALineForEachChange(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out, false, false, func() int { return 0 }, clock())
	s.Step("Nodes %s", "register")
	held := &ledger.Snapshot{Rows: []ledger.Row{{Name: "node-0", Taint: taint}}}
	for range 3 {
		s.Show(held)
	}
	s.Show(&ledger.Snapshot{Rows: []ledger.Row{{Name: "node-0", Condition: "True"}}}) // not for long
	s.Show(&ledger.Snapshot{Rows: []ledger.Row{{Name: "node-0", Condition: "True", Pods: 2}}})
	s.Step("Next")
	want := `   0.5s  Nodes register
   2.0s  node-0: CNI not reported, held, 0 pods
   4.0s  node-0: CNI up, open, 2 pods
   4.5s  Next
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScreenOnATerminalRedrawsInPlace(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out, true, false, func() int { return 100 }, clock())
	s.Step("one")
	s.Show(example())
	after := example()
	after.Rows[0].Pods = 1
	s.Show(after)
	s.Step("two")
	s.Show(after)

	frame := func(snapshot *ledger.Snapshot) string {
		lines := append(Table(snapshot, report.Style{}), "", "  "+Summary(snapshot), "")
		return strings.Join(lines, "\x1b[K\n") + "\x1b[J"
	}
	want := "   0.5s  one\n" + frame(example()) + "\x1b[8A" + frame(after) + "\n   1.0s  two\n" + frame(after)
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScreenOnAFileIsNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	s := NewScreen(f, func(string) string { return "" })
	if s.terminal || s.color {
		t.Error("a file was taken for a terminal")
	}
}

// clock goes on by half a second at each look.
func clock() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(500 * time.Millisecond)
		return now.Add(-500 * time.Millisecond)
	}
}

var color = regexp.MustCompile("\x1b\\[[0-9]*m")

// uncolored takes the colours off.
func uncolored(s string) string { return color.ReplaceAllString(s, "") }
