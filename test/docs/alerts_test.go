// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/test/needs"
)

const alerts = "docs/alerts.md"

// readAlerts returns the alerts, and the file of rules for Prometheus that has them.
func readAlerts(t *testing.T) (all []alert, file []byte) {
	t.Helper()
	var object map[string]json.RawMessage
	must(t, yaml.UnmarshalStrict(read(t, "config/components/monitoring/prometheus_rule.yaml"), &object))
	var spec struct{ Groups []struct{ Rules []alert } }
	must(t, json.Unmarshal(object["spec"], &spec))
	for _, g := range spec.Groups {
		all = append(all, g.Rules...)
	}
	return all, object["spec"]
}

type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

// TestAlerts: each alert has its page, each page an alert, and all ask for metrics that there are.
func TestAlerts(t *testing.T) {
	all, _ := readAlerts(t)
	inRule, documented := sets.New[string](), sets.New[string]()
	for _, a := range all {
		inRule.Insert(a.Alert)
		if want := "https://github.com/nodegate/nodegate/blob/main/docs/alerts.md#" +
			strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, not %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		known(t, a.Alert, a.Expr)
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(string(read(t, alerts)), -1) {
		documented.Insert(m[1])
	}
	same(t, "alerts", alerts, inRule, documented)
}

func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(read(t, "config/monitoring/dashboard.json"), &dashboard))
	if len(dashboard.Panels) == 0 {
		t.Error("no panels")
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			known(t, p.Title, target.Expr)
		}
	}
}

// TestTheDashboardSelectsItsJob: a Node Readiness Controller beside Nodegate exports metrics of the same names.
func TestTheDashboardSelectsItsJob(t *testing.T) {
	text := string(read(t, "config/monitoring/dashboard.json"))
	if !strings.Contains(text, `"query": "label_values(node_readiness_rule_node_states, job)"`) {
		t.Error("the variable job has other jobs than those with a metric that only Nodegate has")
	}
	for _, m := range regexp.MustCompile(`"expr": "(.*)"`).FindAllStringSubmatch(text, -1) {
		if strings.Count(m[1], "node_readiness_") != strings.Count(m[1], `{job=~\"$job\"`) {
			t.Errorf("not all metrics are of the job: %s", m[1])
		}
	}
}

// known checks that an expression asks for documented metrics; those are held against the code.
func known(t *testing.T, what, expr string) {
	t.Helper()
	documented := sets.New("leader_election_master_status") // client-go's
	for _, page := range []string{operating, nodeAgent} {
		documented = documented.Union(open(t, page).documented(t, 1, "Metrics"))
	}
	names := regexp.MustCompile(`[a-z]+(_[a-z]+){2,}`).FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for no metric: %s", what, expr)
	}
	for _, name := range names {
		if !documented.Has(strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("%s asks for %s, which no component exposes", what, name)
		}
	}
}

// TestEachAlertIsTested looks for a case in which each alert fires, and for one in which it does not.
func TestEachAlertIsTested(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Name string            `json:"alertname"`
				Fire []json.RawMessage `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	must(t, yaml.Unmarshal(read(t, "test/docs/testdata/alerts.yaml"), &file))
	fires, silent := sets.New[string](), sets.New[string]()
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Fire) > 0 {
				fires.Insert(c.Name)
			} else {
				silent.Insert(c.Name)
			}
		}
	}
	all, _ := readAlerts(t)
	for _, a := range all {
		if !fires.Has(a.Alert) || !silent.Has(a.Alert) {
			t.Errorf("test/docs/testdata/alerts.yaml: %s needs a case in which it fires, and one in which it does not", a.Alert)
		}
	}
}

func TestPromtool(t *testing.T) {
	promtool := needs.Command(t, "promtool", "prometheus")
	_, rules := readAlerts(t)
	dir := t.TempDir()
	file, tests := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "alerts.yaml")
	must(t, os.WriteFile(file, rules, 0o600))
	must(t, os.WriteFile(tests, read(t, "test/docs/testdata/alerts.yaml"), 0o600))
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", file}, {"test", "rules", tests}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
