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

type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

func readRule(t *testing.T) (rule prometheusRule, spec []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "config", "components", "monitoring", "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &whole); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &rule); err != nil {
		t.Fatal(err)
	}
	if spec, err = yaml.Marshal(whole["spec"]); err != nil {
		t.Fatal(err)
	}
	return rule, spec
}

// TestAlerts: each alert has its page, each page an alert, and all ask for metrics that there are.
func TestAlerts(t *testing.T) {
	rule, _ := readRule(t)
	inRule, documented := sets.New[string](), sets.New[string]()
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			inRule.Insert(r.Alert)
			if want := "https://github.com/nodegate/nodegate/blob/main/docs/alerts.md#" +
				strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s: runbook_url is %q, not %q", r.Alert, r.Annotations["runbook_url"], want)
			}
			known(t, r.Alert, r.Expr)
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, alerts))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(string(raw), -1) {
		documented.Insert(m[1])
	}
	same(t, "alerts", alerts, inRule, documented)
}

func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	dashboard := struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}{}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Error("no panels")
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			known(t, p.Title, target.Expr)
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

func TestPromtool(t *testing.T) {
	promtool := needs.Command(t, "promtool", "prometheus")
	_, spec := readRule(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint=all", "--lint-fatal",
		file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	series, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(dir, "alerts.yaml")
	if err := os.WriteFile(tests, series, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", tests).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
