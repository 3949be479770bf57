// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// suiteReport is the part of Ginkgo's JSON report that is needed here; the field names are those of
// github.com/onsi/ginkgo/v2/types.Report and SpecReport.
type suiteReport struct {
	SuiteDescription string
	SuiteSucceeded   bool
	SpecReports      []specReport
}

type specReport struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
}

// readReport returns the report of a suite, or nil where there is none: the package runs no suite, or its process
// died before it could write one, which the stream and the list tell.
func readReport(path string) (*suiteReport, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Ginkgo report: %w", err)
	}
	var reports []suiteReport
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, fmt.Errorf("decoding the Ginkgo report: %w", err)
	}
	if len(reports) != 1 {
		return nil, fmt.Errorf("the Ginkgo report holds %d suites, not one", len(reports))
	}
	return &reports[0], nil
}

// results lists the specs, and of the other nodes (BeforeSuite and its like) those that failed.
func (r *suiteReport) results(pkg string) []result {
	if r == nil {
		return nil
	}
	var list []result
	for _, spec := range r.SpecReports {
		res := result{pkg: pkg, name: spec.fullText()}
		switch spec.State {
		case "passed":
			res.outcome = passed
		case "skipped", "pending":
			res.outcome = skipped
		default: // failed, panicked, interrupted, aborted, timedout
			res.outcome = failed
		}
		if spec.LeafNodeType != "It" {
			if res.outcome != failed {
				continue
			}
			res.name = "[" + spec.LeafNodeType + "] " + res.name
		}
		res.name = strings.TrimSpace(res.name)
		list = append(list, res)
	}
	return list
}

// fullText is the spec's name on one line, as Ginkgo prints it.
func (s specReport) fullText() string {
	texts := append(append([]string{}, s.ContainerHierarchyTexts...), s.LeafNodeText)
	return strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
}

// testName finds the Go test that ran the suite. The report does not tell; the suite's banner in its output does.
func (r *suiteReport) testName(p *packageRun) string {
	if r == nil {
		return ""
	}
	for _, name := range p.names {
		if strings.Contains(p.tests[name].output.String(), "Running Suite: "+r.SuiteDescription+" - ") {
			return name
		}
	}
	return ""
}
