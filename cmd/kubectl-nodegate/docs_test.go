// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestDocs holds docs/kubectl-plugin.md against the commands: each is there, with each of its flags and their defaults.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile("../../docs/kubectl-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	inherits := map[string]string{"hold": "release", "resume": "pause"} // "The flags are those of"

	commands := newCommand(calling("").plugin).Commands()
	if len(commands) < 9 {
		t.Fatalf("only %d commands: this test has gone blind", len(commands))
	}
	documented := sets.New[string]()
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(page, -1) {
		documented.Insert(m[1])
	}
	for _, cmd := range commands {
		name := cmd.Name()
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
		want := flagsOf(cmd)
		got := tableOf(section)
		if from := inherits[name]; from != "" {
			if !strings.Contains(strings.Join(strings.Fields(section), " "), "flags are those of `"+from+"`") {
				t.Errorf("%s: does not say that its flags are those of %s", name, from)
			}
			maps.Copy(got, tableOf(sectionOf(page, from)))
		}
		for flag, value := range got {
			if value == "" || !regexp.MustCompile("^`[^`]*`$").MatchString(value) {
				got[flag] = want[flag] // the default is told in words
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -in the code +in the documentation\n%s", name, diff)
		}
	}
	if documented.Len() > 0 {
		t.Errorf("documented, and not there: %v", sets.List(documented))
	}
}

// flagsOf are a command's own flags with their defaults, but for those that all commands of kubectl that print have.
func flagsOf(cmd *cobra.Command) map[string]string {
	out := map[string]string{}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"allow-missing-template-keys", "show-managed-fields", "template", "help"}, f.Name) {
			return
		}
		out["--"+f.Name] = "`" + f.DefValue + "`"
	})
	return out
}

// sectionOf is what stands below a heading of the third level.
func sectionOf(page, name string) string {
	_, after, _ := strings.Cut(page, "\n### "+name+"\n")
	end := regexp.MustCompile(`(?m)^#{2,3} `).FindStringIndex(after)
	if end != nil {
		after = after[:end[0]]
	}
	return after
}

// tableOf are the flags of the table of a section, with what its column of defaults says.
func tableOf(section string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`--") {
			continue
		}
		for _, m := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
			out[m[1]] = ""
			if len(cells) > 4 {
				out[m[1]] = strings.TrimSpace(cells[2])
			}
		}
	}
	return out
}
