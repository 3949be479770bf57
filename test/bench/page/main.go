// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command page writes the tables of docs/performance.md, and draws its charts, from the files that the bench has
// written with --json:
//
//	go run ./test/bench/page docs/performance.md docs/bench/*.json
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// chart is one chart: for each number of rules a line over the number of nodes.
type chart struct {
	file, title, unit string
	value             func(*measure.Line) (float64, bool)
}

var charts = []chart{
	{"performance-memory.svg", "Most memory of the operator", "MiB", func(l *measure.Line) (float64, bool) {
		return l.PeakMiB, strings.HasPrefix(l.Phase, "operator: ")
	}},
	{"performance-p99.svg", "From a changed condition to the node's patch, p99, among heartbeats", "ms",
		func(l *measure.Line) (float64, bool) {
			return l.P99 * 1000, strings.HasPrefix(l.Phase, "operator: heartbeats, and")
		}},
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: page PAGE FILE.json...")
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// write writes the tables into a page, and the charts beside it.
func write(page string, files []string) error {
	runs, err := read(files)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	next, err := fill(string(text), runs)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(next), 0o600); err != nil {
		return err
	}
	for _, c := range charts {
		if err := os.WriteFile(filepath.Join(filepath.Dir(page), c.file), []byte(c.draw(runs)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// read reads the files, in the order of their sizes.
func read(files []string) ([]*measure.Run, error) {
	var runs []*measure.Run
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		run := &measure.Run{}
		if err := json.Unmarshal(raw, run); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs = append(runs, run)
	}
	slices.SortStableFunc(runs, func(a, b *measure.Run) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Evidence, b.Evidence))
	})
	return runs, nil
}

// series returns the greatest value for each number of rules and of nodes, without a control plane.
func (c *chart) series(runs []*measure.Run) map[int]map[int]float64 {
	out := map[int]map[int]float64{}
	for _, run := range runs {
		for i := range run.Lines {
			v, ok := c.value(&run.Lines[i])
			if !ok || run.Evidence != "" {
				continue
			}
			if out[run.Rules] == nil {
				out[run.Rules] = map[int]float64{}
			}
			out[run.Rules][run.Nodes] = max(out[run.Rules][run.Nodes], v)
		}
	}
	return out
}

const (
	width, height            = 640.0, 360.0
	left, right, top, bottom = 64.0, 110.0, 48.0, 48.0
)

var colors = []string{"#1b6ca8", "#d1495b", "#3b8f3e", "#8a5a9e"}

// draw returns the chart as SVG. Nodes are on a logarithmic scale.
func (c *chart) draw(runs []*measure.Run) string {
	series := c.series(runs)
	var nodes []int
	most := 1.0
	for _, values := range series {
		for n, v := range values {
			nodes, most = append(nodes, n), max(most, v)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	if len(nodes) == 0 {
		nodes = []int{1}
	}
	step := nice(most / 5)
	most = step * math.Ceil(most/step)
	first, last := math.Log(float64(nodes[0])), math.Log(float64(nodes[len(nodes)-1]))
	x := func(n int) float64 {
		return left + (width-left-right)*(math.Log(float64(n))-first)/max(last-first, 1e-9)
	}
	y := func(v float64) float64 { return height - bottom - (height-top-bottom)*v/most }

	b := &strings.Builder{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`,
		width, height)
	fmt.Fprintf(b, "\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", c.title)
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, s)
	}
	text(width/2, 24, "middle", c.title+" ("+c.unit+")")
	for v := 0.0; v <= most+step/2; v += step {
		fmt.Fprintf(b, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", left, y(v), width-right)
		text(left-8, y(v)+4, "end", fmt.Sprintf("%g", v))
	}
	for _, n := range nodes {
		text(x(n), height-bottom+20, "middle", fmt.Sprint(n))
	}
	text((left+width-right)/2, height-8, "middle", "nodes")
	for i, rules := range slices.Sorted(maps.Keys(series)) {
		color, values := colors[i%len(colors)], series[rules]
		var points []string
		end := 0.0
		for _, n := range slices.Sorted(maps.Keys(values)) {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), y(values[n])))
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(n), y(values[n]), color)
			end = y(values[n])
		}
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
			strings.Join(points, " "), color)
		text(width-right+8, end+4, "start", fmt.Sprintf("%d %s", rules, plural("rule", rules)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// nice rounds a step up to 1, 2 or 5 times a power of ten.
func nice(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, f := range []float64{1, 2, 5} {
		if step <= f*power {
			return f * power
		}
	}
	return 10 * power
}

func plural(s string, n int) string {
	if n == 1 {
		return s
	}
	return s + "s"
}
