// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation has one table of valid and invalid rules for the two judges of rules: the API server and the
// operator.
package validation

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"text/template"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"
)

//go:embed cases.yaml
var cases string

// Case is a spec, and what the two judges say to it. cases.yaml explains the fields.
type Case struct {
	// Spec is in JSON.
	Spec            []byte
	Refused, Frozen []string
}

// Run runs a judge on each case, as subtests.
func Run(t *testing.T, judge func(t *testing.T, c Case)) {
	t.Helper()
	var file struct {
		Plain  json.RawMessage
		Tables map[string]map[string]struct {
			Change          json.RawMessage
			Refused, Frozen []string
		}
	}
	functions := template.FuncMap{"repeat": strings.Repeat, "list": list, "domain": domain}
	text, err := template.New("cases").Delims("<<", ">>").Funcs(functions).Parse(cases)
	if err != nil {
		t.Fatal(err)
	}
	var expanded bytes.Buffer
	if err := text.Execute(&expanded, nil); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(expanded.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	for table, all := range file.Tables {
		for name, c := range all {
			t.Run(table+"/"+name, func(t *testing.T) {
				spec, err := jsonpatch.MergePatch(file.Plain, c.Change)
				if err != nil {
					t.Fatal(err)
				}
				judge(t, Case{Spec: spec, Refused: c.Refused, Frozen: c.Frozen})
			})
		}
	}
}

// ReadAloud fails where a message explains itself by a regular expression, instead of saying what to type.
func ReadAloud(t *testing.T, message string) {
	t.Helper()
	for _, sign := range []string{"should match", "regex", "^[", "^("} {
		if strings.Contains(message, sign) {
			t.Errorf("not readable aloud: %s", message)
		}
	}
}

// list makes a list of n items from a format with %d.
func list(n int, format string) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(format, i))
	}
	return strings.Join(items, ", ")
}

// domain is a DNS subdomain of n characters.
func domain(n int) string {
	return strings.Repeat("a.", n/2-1) + strings.Repeat("b", n-2*(n/2-1))
}
