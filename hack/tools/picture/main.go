// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Picture draws the text of a terminal as an SVG: it reads lines with ANSI colors from stdin and writes the image to
// stdout. See hack/picture.sh.
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
	var lines []string
	widest := 0
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := strings.TrimRight(in.Text(), " ")
		lines = append(lines, line)
		widest = max(widest, utf8.RuneCountInString(sgr.ReplaceAllString(line, "")))
	}
	for len(lines) > 0 && sgr.ReplaceAllString(lines[len(lines)-1], "") == "" {
		lines = lines[:len(lines)-1]
	}
	width, height := int(float64(widest)*columnWidth)+2*margin, len(lines)*lineHeight+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		width, height, width, height)
	fmt.Println(`<rect width="100%" height="100%" rx="8" fill="#1b2431"/>`)
	fmt.Println(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">`)
	for i, line := range lines {
		fmt.Printf(`<text x="%d" y="%d">%s</text>`+"\n", margin, margin+(i+1)*lineHeight-5, spans(line))
	}
	fmt.Println("</g>\n</svg>")
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
