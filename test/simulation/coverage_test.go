// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// leastCoverage is the file with the least percentage of statements that several random stories run. Raise it where the
// coverage has grown, and never lower it.
const leastCoverage = "testdata/coverage.txt"

// unmeasured are the files of internal that stories cannot run, because they need real connections, serve only people,
// or are the node agent's or the plugin's: by path, with the reason, and the test that holds them instead.
var unmeasured = []struct{ path, why, test string }{
	{"agent/", "the node agent", "internal/agent/probes/publisher_test.go"},
	{"plugin/", "the plugin", "internal/plugin/explain/explain_test.go"},
	{"version/", "the version of the commands", "test/docs/version_test.go"},
	{"controller/agentconfig/", "writes what node agents read", "internal/controller/agentconfig/reconciler_test.go"},
	{"ruleset/agent.go", "validates what node agents read", "internal/ruleset/validate_test.go"},
	{"watch/decode.go", "decodes nodes of a connection", "internal/watch/nodes_test.go"},
	{"watch/nodes.go", "decodes nodes of a connection", "internal/watch/nodes_test.go"},
	{"watch/strings.go", "shares texts of decoded nodes", "internal/watch/nodes_test.go"},
	{"watch/informer.go", "connects informers again", "internal/watch/informer_test.go"},
	{"watch/admissionclient.go", "watches with a real client", "internal/admission/node/suite_test.go"},
	{"controller/admissionrules/start.go", "runs in real time", "internal/admission/node/suite_test.go"},
	{"watch/restored.go", "reads versions of a real server", "internal/watch/restored_test.go"},
	{"watch/followforeign.go", "a watch of a real connection", "internal/watch/foreign_test.go"},
	{"sources/informers.go", "client-go's informers", "internal/sources/informers_test.go"},
	{"sources/snapshot.go", "reads evidence for the plugin", "internal/sources/sources_test.go"},
	{"operator/run.go", "the manager with its connections", "internal/operator/run_test.go"},
	{"operator/webhooks.go", "the server of webhooks", "internal/admission/server_test.go"},
	{"operator/events.go", "events, for people", "internal/operator/events_test.go"},
	{"controller/controller.go", "the manager's options", "internal/controller/node/suite_test.go"},
	{"admission/certs/", "certificates", "internal/admission/certs/suite_test.go"},
	{"admission/server.go", "the server of webhooks", "internal/admission/server_test.go"},
	{"admission/connections.go", "connections", "internal/admission/server_test.go"},
	{"admission/bounds.go", "bounds of requests", "internal/admission/server_test.go"},
	{"admission/replicas.go", "the number of replicas", "internal/admission/replicas_test.go"},
	{"admission/handler.go", "decodes requests", "internal/admission/handler_test.go"},
	{"admission/rule/", "tells the author of a rule what its status says later", "internal/admission/rule/rules_test.go"},
	{"ruleset/lint/", "warnings, for people", "internal/ruleset/lint/lint_test.go"},
	{"admission/node/engine.go", "reads what is installed", "internal/admission/node/engine_test.go"},
	{"admission/node/failure.go", "a command of the installation", "internal/admission/node/failure_test.go"},
	{"serverclock/", "reads the answers of connections", "internal/serverclock/clock_test.go"},
	{"guard/users.go", "validates a flag", "internal/guard/users_test.go"},
	{"guard/webhook/announce.go", "events and metrics, for people", "internal/guard/webhook/handler_test.go"},
	{"guard/webhook/monitor.go", "reads what is installed, for people", "internal/guard/webhook/monitor_test.go"},
	{"fleet/counts.go", "metrics, for people", "internal/controller/rule/metrics_test.go"},
	{"controller/rule/metrics.go", "metrics, for people", "internal/controller/rule/metrics_test.go"},
	{"ruleset/keys.go", "a flag that stories do not set", "internal/watch/rules_test.go"},
}

// TestCoverage plays stories in a program that counts the statements of internal which run.
func TestCoverage(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, u := range unmeasured {
		for _, file := range []string{filepath.Join("internal", u.path), u.test} {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("unmeasured: %v", err)
			}
		}
	}
	profile := filepath.Join(t.TempDir(), "profile")
	stories := exec.CommandContext(t.Context(), "go", "test", ".", "-count=1", "-vet=off", "-run", "^TestStories$",
		"-coverpkg", "../../internal/...", "-coverprofile", profile, "-args", fmt.Sprintf("-seeds=%d", several))
	if out, err := stories.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run, missing, all := 0, map[string]int{}, 0
	for block, covered := range blocks(t, profile) {
		file, _, _ := strings.Cut(block.at, ":")
		_, file, _ = strings.Cut(file, "/internal/")
		if slices.ContainsFunc(unmeasured, func(u struct{ path, why, test string }) bool {
			return strings.HasPrefix(file, u.path)
		}) {
			continue
		}
		all += block.statements
		if covered {
			run += block.statements
		} else {
			missing[file] += block.statements
		}
	}
	raw, err := os.ReadFile(leastCoverage)
	if err != nil {
		t.Fatal(err)
	}
	least, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f%% of %d statements run", 100*float64(run)/float64(all), all)
	if 100*run < least*all {
		t.Errorf("%.1f%% of %d statements run, and %s says at least %d%%; by file, these do not: %v",
			100*float64(run)/float64(all), all, leastCoverage, least, missing)
	}
}

// block is one block of statements of a profile.
type block struct {
	at         string
	statements int
}

// blocks reads a profile, and returns which blocks have run.
func blocks(t *testing.T, profile string) map[block]bool {
	t.Helper()
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	out := map[block]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() { // file:from,to statements times
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue
		}
		statements, err := strconv.Atoi(words[1])
		if err != nil {
			t.Fatal(err)
		}
		b := block{words[0], statements}
		out[b] = out[b] || words[2] != "0"
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
