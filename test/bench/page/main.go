// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command page writes the tables of docs/performance.md from the files that the benches have written with --json:
//
//	go run ./test/bench/page docs/performance.md docs/bench/*.json
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/nodegate/nodegate/test/bench/measure"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: page PAGE FILE.json...")
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// write writes the tables into a page.
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
	return os.WriteFile(page, []byte(next), 0o600)
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
		if !run.Committed() {
			return nil, fmt.Errorf("%s: commit %q cannot be checked out: run the bench from a clean checkout", file, run.Commit)
		}
		runs = append(runs, run)
	}
	slices.SortStableFunc(runs, func(a, b *measure.Run) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Evidence, b.Evidence))
	})
	return runs, nil
}
