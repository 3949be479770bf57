// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/plugin/report"
)

func TestFramesAreDrawnOverEachOther(t *testing.T) {
	want := "\x1b[HNo rules found: no node is held.\x1b[K\n\x1b[J"
	if got := (frame{&report.RuleStatusList{}}).Text(report.Style{Width: 80}); got != want {
		t.Errorf("got %q", strings.ReplaceAll(got, "\x1b", "ESC"))
	}
}

// What is wrong with a command line is found without a server, and a server that does not answer is an error.
func TestCommandLinesThatFail(t *testing.T) {
	const ruleRequired, nodeRequired = "one or more rule names, or --all, are required",
		"a node name or a selector (-l) is required"
	for _, c := range []struct{ args, want string }{
		{"pause -y", ruleRequired}, {"pause EMPTY -y", ruleRequired}, {"pause x --all -y", "cannot be combined"},
		{"resume -y", ruleRequired}, {"resume --all --force -y", "[all force] were all set"},
		{"why node", nodeRequired}, {"release", nodeRequired}, {"release a -l a=b", "cannot be combined"},
		{"why pod/x", `"pod/x" is not a node: use NAME or node/NAME`},
		{"why x -o xml", "allowed formats are: go-template"}, {"version -o name", "allowed formats are: go-template"},
		{"hold a --duration=-1h", "not a duration"}, {"hold a --undo --duration=1h", "[duration undo] were all set"},
		{"release a --dry-run=maybe", `invalid dry-run value ("maybe"): must be "none", "server", or "client"`},
		{"maintenance a b -y", "must be on or off"}, {"maintenance on -y", nodeRequired},
		{"maintenance a -l a=b on -y", "cannot be combined"}, {"stauts", `unknown command "stauts": did you mean status?`},
		{"hold a --duration=7x", "not a duration: use"},
		{"maintenance a off --duration=1h -y", "--duration cannot be combined with off"},
		{"maintenance a on --reason=false -y", "--reason: must not be"},
		{"get pods", "only nodes can be listed"}, {"get", "only nodes can be listed"},
		{"get pod/x", "only nodes can be listed"}, {"simulate", "must specify one of -f and -k"},
		{"lint -k /nope", "error: -k: "}, {"version", "the server cannot be reached"},
		{"support-bundle --file -", "nothing could be read: listing NodeReadinessRule: the server cannot be reached"},
	} {
		call := calling("")
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.Replace(args[i], "EMPTY", "", 1)
		}
		code := run(context.Background(), call.plugin, append(args, "--server", "https://127.0.0.1:1"))
		if got := call.err.String(); code != 1 || !strings.HasPrefix(got, "error: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: exit code %d, %q; want %q", c.args, code, got, c.want)
		}
	}
}
