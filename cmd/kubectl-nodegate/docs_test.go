// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestDocs holds docs/kubectl-plugin.md against the commands: each has a section with its usage, and the section names
// only flags that there are. The flags themselves are documented by --help, so each has a text there.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile("../../docs/kubectl-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	commands := newCommand(calling("").plugin).Commands()
	if len(commands) < 9 {
		t.Fatalf("only %d commands: this test has gone blind", len(commands))
	}
	documented := sets.New[string]()
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(page, -1) {
		documented.Insert(m[1])
	}
	named := 0
	for _, cmd := range commands {
		name := cmd.Name()
		if cmd.GroupID == "" {
			t.Errorf("%s: --help lists it in no group", name)
		}
		if !documented.Has(name) {
			t.Errorf("there is no section %q", name)
			continue
		}
		documented.Delete(name)
		section := sectionOf(page, name)
		if usage := "`kubectl nodegate " + cmd.Use; !strings.Contains(section, usage) {
			t.Errorf("%s: does not show %s`", name, usage)
		}
		for _, alias := range cmd.Aliases {
			if !strings.Contains(section, "`"+alias+"`") {
				t.Errorf("%s: does not name the alias %s", name, alias)
			}
		}
		for _, m := range flagName.FindAllStringSubmatch(section, -1) {
			named++
			known := cmd.Flag(strings.TrimPrefix(m[1], "--"))
			if len(m[1]) == 2 {
				known = cmp.Or(cmd.Flags().ShorthandLookup(m[1][1:]), cmd.InheritedFlags().ShorthandLookup(m[1][1:]))
			}
			if known == nil {
				t.Errorf("%s: there is no flag %s", name, m[1])
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --help says nothing of --%s", name, f.Name)
			}
		})
	}
	if named < 15 {
		t.Errorf("the sections name only %d flags: this test has gone blind", named)
	}
	if documented.Len() > 0 {
		t.Errorf("documented, and not there: %v", sets.List(documented))
	}
}

// flagName is a flag at the beginning of a text in backquotes.
var flagName = regexp.MustCompile("`(-[a-z]|--[a-z-]+)\\b")

// sectionOf is what stands below a heading of the third level.
func sectionOf(page, name string) string {
	_, after, _ := strings.Cut(page, "\n### "+name+"\n")
	end := regexp.MustCompile(`(?m)^#{2,4} `).FindStringIndex(after)
	if end != nil {
		after = after[:end[0]]
	}
	return after
}
