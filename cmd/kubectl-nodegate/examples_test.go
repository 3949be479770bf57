// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// accepts finds the warnings that a rule accepts.
var accepts = regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(v1alpha1.AcceptAnnotation) + `: ([A-Za-z,]+)`)

// TestExamples lints each rule of the examples, the samples and the documentation. None is refused. An example has no
// warning that its annotation does not accept, and its page, or a comment beside it, explains what it accepts.
func TestExamples(t *testing.T) {
	checked, accepted := 0, 0
	for _, dir := range []string{"../../examples", "../../config/samples"} {
		walk(t, dir, func(path, text string) {
			if !strings.HasSuffix(path, ".yaml") || !strings.Contains(text, "kind: NodeReadinessRule\n") {
				return
			}
			checked++
			page, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "README.md"))
			for _, f := range lintFindings(t, filepath.Dir(path)) {
				if f.Source == path && f.Severity != report.SeverityAdvice {
					t.Errorf("%s: rule %s: %s: %s (%s)", path, f.Rule, f.Field, f.Message, f.Code)
				}
			}
			for _, m := range accepts.FindAllStringSubmatch(text, -1) {
				accepted += strings.Count(m[1], ",") + 1
				for code := range strings.SplitSeq(m[1], ",") {
					if !strings.Contains(string(page)+text, "`"+code+"`") {
						t.Errorf("%s accepts the warning %s, and does not explain it", path, code)
					}
				}
			}
		})
	}
	block := regexp.MustCompile("(?ms)^ *```yaml\n((?: *#[^\n]*\n)? *apiVersion: readiness\\.node\\.x-k8s\\.io/.*?)^ *```")
	inPage := func(path, text string) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			checked++
			rule := filepath.Join(t.TempDir(), "rule.yaml")
			if err := os.WriteFile(rule, []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, f := range lintFindings(t, rule) {
				if f.Severity == report.SeverityError {
					t.Errorf("%s: rule %s: %s: %s", path, f.Rule, f.Field, f.Message)
				}
			}
		}
	}
	walk(t, "../../docs", inPage)
	walk(t, "../../README.md", inPage)
	if checked < 15 || accepted < 3 {
		t.Fatalf("only %d files and blocks with rules, which accept %d warnings", checked, accepted)
	}
}

// TestExamplesKeepAFleetInService: where nothing reports the evidence yet, an example holds few nodes in service, or
// its page says how to prevent more.
func TestExamplesKeepAFleetInService(t *testing.T) {
	check := func(path, text string) {
		page, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "README.md"))
		for document := range strings.SplitSeq(text, "\n---\n") {
			rule := &v1alpha1.NodeReadinessRule{}
			if err := yaml.Unmarshal([]byte(document), rule); err != nil || rule.Kind != "NodeReadinessRule" {
				continue
			}
			s := &rule.Spec
			if s.Taint != nil && !s.DryRun && s.MaxUnavailable == nil && s.ExistingNodes == "" &&
				!strings.Contains(string(page), "`existingNodes: None`") {
				t.Errorf("%s: rule %s taints all nodes in service: give maxUnavailable or existingNodes", path, rule.Name)
			}
		}
	}
	walk(t, "../../examples", check)
	walk(t, "../../config/samples", check)
}

func walk(t *testing.T, dir string, each func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		each(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lintFindings lints the rules of a file or a directory, together with what else is there.
func lintFindings(t *testing.T, path string) []report.Finding {
	t.Helper()
	_, out, stderr := local(t.Context(), "lint", "-f", path, "-o", "json")
	r := &report.LintReport{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, stderr)
	}
	return r.Findings
}
