// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Picture draws the text of a terminal as an SVG: it reads lines with ANSI colors from stdin and writes the image to
// stdout. A line with a form feed begins the next frame of a picture that moves. See hack/picture.sh.
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels, of a monospaced font of 13 pixels.
const (
	columnWidth, lineHeight = 7.8, 18
	margin                  = 16
)

// colors are those of ECMA-48 SGR parameters that the demo and the plugin use, readable on a dark background.
var colors = map[string]string{
	"": "#d6deeb", "1": "#ffffff", "2": "#7f8fa6", "31": "#ff6b6b", "32": "#7bd88f", "33": "#ffd866", "36": "#78dce8",
}

var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func main() {
	frames, widest, highest := [][]string{nil}, 0, 0
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := strings.TrimRight(in.Text(), " ")
		if line == "\f" {
			frames = append(frames, nil)
			continue
		}
		last := &frames[len(frames)-1]
		*last = append(*last, line)
		if text := sgr.ReplaceAllString(line, ""); text != "" {
			widest, highest = max(widest, utf8.RuneCountInString(text)), max(highest, len(*last))
		}
	}
	width, height := int(float64(widest)*columnWidth)+2*margin, highest*lineHeight+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		width, height, width, height)
	if len(frames) > 1 {
		fmt.Print(moving(len(frames)))
	}
	fmt.Println(`<rect width="100%" height="100%" rx="8" fill="#1b2431"/>`)
	fmt.Println(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">`)
	for _, lines := range frames {
		fmt.Println("<g>")
		for i, line := range lines[:min(len(lines), highest)] {
			if line != "" {
				fmt.Printf(`<text x="%d" y="%d">%s</text>`+"\n", margin, margin+(i+1)*lineHeight-5, spans(line))
			}
		}
		fmt.Println("</g>")
	}
	fmt.Println("</g>\n</svg>")
}

// moving returns a style that shows one frame after another, and the last one for longer. A reader whose system asks for
// no motion sees only the last one.
func moving(frames int) string {
	const seconds, rest = 0.8, 4
	all := float64(frames+rest) * seconds
	var b strings.Builder
	fmt.Fprintf(&b, "<style>\ng > g { animation: frame %.1fs step-end infinite; visibility: hidden }\n", all)
	fmt.Fprintf(&b, "@keyframes frame { 0%% { visibility: visible } %.2f%% { visibility: hidden } }\n", 100*seconds/all)
	fmt.Fprintf(&b, "@keyframes last { 0%% { visibility: visible } %.2f%% { visibility: hidden } }\n",
		100*(rest+1)*seconds/all)
	for i := range frames {
		fmt.Fprintf(&b, "g > g:nth-child(%d) { animation-delay: %.1fs }\n", i+1, float64(i)*seconds)
	}
	fmt.Fprintf(&b, "g > g:last-child { animation-name: last }\n")
	b.WriteString("@media (prefers-reduced-motion: reduce) { g > g { animation: none } " +
		"g > g:last-child { visibility: visible } }\n</style>\n")
	return b.String()
}

// cell is a text without double spaces: browsers draw several spaces as one.
var cell = regexp.MustCompile(`\S+(?: \S+)*`)

// spans returns a line as colored cells, each at its own column, regardless of the width of the reader's font.
func spans(line string) string {
	var b strings.Builder
	color, column := "", 0
	piece := func(text string) {
		for _, at := range cell.FindAllStringIndex(text, -1) {
			x := margin + float64(column+utf8.RuneCountInString(text[:at[0]]))*columnWidth
			fmt.Fprintf(&b, `<tspan x="%.1f" fill="%s">%s</tspan>`, x, colors[color], html.EscapeString(text[at[0]:at[1]]))
		}
		column += utf8.RuneCountInString(text)
	}
	end := 0
	for _, at := range sgr.FindAllStringSubmatchIndex(line, -1) {
		piece(line[end:at[0]])
		end = at[1]
		color = ""
		for _, parameter := range strings.Split(line[at[2]:at[3]], ";") {
			if _, known := colors[parameter]; known && parameter != "" {
				color = parameter
			}
		}
	}
	piece(line[end:])
	return b.String()
}
