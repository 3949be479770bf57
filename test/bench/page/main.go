// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command page writes the tables of docs/performance.md from the files that the benches have written with --json:
//
//	go run ./test/bench/page docs/performance.md docs/bench/*.json
package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/test/bench/measure"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: page PAGE FILE.json...")
	}
	page := os.Args[1]
	runs, err := measure.Read(os.Args[2:])
	text, errText := os.ReadFile(page)
	if err := errors.Join(err, errText); err != nil {
		log.Fatal(err)
	}
	next, err := fill(string(text), runs)
	if err != nil {
		log.Fatalf("%s: %s", page, err)
	}
	if err := os.WriteFile(page, []byte(next), 0o600); err != nil {
		log.Fatal(err)
	}
}

// none takes the place of a table without rows.
const none = "No run of this version on a quiet machine is committed yet.\n"

// fill replaces the tables of a page, between "<!-- begin NAME -->" and "<!-- end NAME -->".
func fill(page string, runs []*measure.Run) (filled string, err error) {
	for _, run := range runs {
		switch {
		case !run.Committed():
			return "", fmt.Errorf("commit %q of a run cannot be checked out: run the bench from a clean checkout", run.Commit)
		case len(run.Complaints) > 0:
			return "", fmt.Errorf("the run at commit %s failed: %s", run.Commit, strings.Join(run.Complaints, "; "))
		}
	}
	for evidence, table := range measure.Tables {
		name, text := cmp.Or(evidence, "sizes"), none
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			return "", fmt.Errorf("no %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
		}
		of := slices.DeleteFunc(slices.Clone(runs), func(r *measure.Run) bool { return r.Evidence != evidence })
		if len(of) > 0 {
			if text, err = table(of); err != nil {
				return "", err
			}
		}
		page = before + begin + "\n" + text + "\n" + end + after
	}
	return page, nil
}
