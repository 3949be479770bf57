// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestChartUnit lints the chart and runs charts/nodegate/tests, where the tests of single values are.
func TestChartUnit(t *testing.T) {
	if _, err := tool(t.Context(), "helm", "lint", "--strict", "charts/nodegate"); err != nil {
		t.Error(err)
	}
	out, err := tool(t.Context(), "helm-unittest", "--strict", "charts/nodegate")
	cluster.Must(t, err)
	suites, err := filepath.Glob(filepath.Join(root, "charts", "nodegate", "tests", "*_test.yaml"))
	cluster.Must(t, err)
	if !bytes.Contains(out, fmt.Appendf(nil, "Test Suites: %d passed, %[1]d total", len(suites))) {
		t.Errorf("helm-unittest did not run all suites:\n%s", out)
	}
}

// TestChartPackage: the package has no tests and no templates of documentation.
func TestChartPackage(t *testing.T) {
	dir := t.TempDir()
	_, err := tool(t.Context(), "helm", "package", "-d", dir, "charts/nodegate")
	cluster.Must(t, err)
	packages, err := filepath.Glob(filepath.Join(dir, "nodegate-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages: %q %v", packages, err)
	}
	out, err := execute(t.Context(), "tar", "-tzf", packages[0])
	cluster.Must(t, err)
	files := strings.Fields(string(out))
	for _, wanted := range []string{"README.md", "values.schema.json",
		"crds/readiness.node.x-k8s.io_nodereadinessrules.yaml"} {
		if !slices.Contains(files, "nodegate/"+wanted) {
			t.Errorf("%s is missing among %q", wanted, files)
		}
	}
	for _, f := range files {
		if strings.HasPrefix(f, "nodegate/tests/") || strings.HasSuffix(f, ".gotmpl") {
			t.Errorf("%s is packaged", f)
		}
	}
}

// TestReleaseChart: the chart of a release installs the release's image by its digest. An image that the values name
// wins, as in the commands of docs/install.md and docs/upgrade.md.
func TestReleaseChart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nodegate")
	cluster.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "charts", "nodegate"))))
	digest := "@sha256:" + strings.Repeat("a", 64)
	_, err := execute(t.Context(), "hack/chart.sh", dir, "v1.2.3-rc.1", "ghcr.io/nodegate/nodegate"+digest)
	cluster.Must(t, err)
	other := "@sha256:" + strings.Repeat("b", 64)
	for _, c := range []struct{ values, want string }{
		{"", "ghcr.io/nodegate/nodegate" + digest},
		{"image.repository=registry.example.com/nodegate,image.tag=v9", "registry.example.com/nodegate:v9"},
		{"image.tag=v9", "ghcr.io/nodegate/nodegate:v9"},
		{"image.repository=registry.example.com/nodegate", "registry.example.com/nodegate:v1.2.3-rc.1"},
		{"image.digest=" + other[1:], "ghcr.io/nodegate/nodegate" + other},
	} {
		out, err := tool(t.Context(), "helm", "template", "nodegate", dir, "--kube-version=1.37.0", "--is-upgrade",
			"--set=agent.enabled=true,rules.a.spec.suspend=true,"+c.values)
		cluster.Must(t, err)
		objects, err := cluster.ParseObjects(out)
		cluster.Must(t, err)
		got := images(objects) // of the operator, the agent, and the jobs
		if all := slices.Compact(got); len(got) < 4 || !slices.Equal(all, []string{c.want}) {
			t.Errorf("with %q, %d pods have the images %q, want %s", c.values, len(got), all, c.want)
		}
	}
}

// TestChartInstall: Helm installs the chart as a second release, and prints a rule that the API server accepts.
func TestChartInstall(t *testing.T) {
	release := []string{"second", "--kubeconfig", control.Kubeconfig(), "--namespace", "second"}
	out, err := tool(t.Context(), "helm",
		append([]string{"install", "--create-namespace", "--set=replicas=0"}, append(release, "charts/nodegate")...)...)
	cluster.Must(t, err)
	_, first, _ := bytes.Cut(out, []byte("<<EOT\n"))
	first, _, _ = bytes.Cut(first, []byte("  EOT\n"))
	first = bytes.ReplaceAll(append([]byte("\n"), first...), []byte("\n  "), []byte("\n"))
	rules, err := cluster.ParseObjects(bytes.TrimSpace(first))
	if err != nil || len(rules) != 1 {
		t.Fatalf("the notes have no first rule: %v\n%s", err, out)
	}
	if err := kube.Create(t.Context(), rules[0], client.DryRunAll); err != nil {
		t.Errorf("the first rule of the notes: %v", err)
	}
	if diff := cmp.Diff(exampleSpec(t), rules[0].Object["spec"]); diff != "" {
		t.Errorf("the notes do not begin with the example in Chart.yaml (-example +notes):\n%s", diff)
	}
	_, err = tool(t.Context(), "helm", append([]string{"upgrade", "--set=replicas=0", "--set=apiGroup=rules.nodegate.io"},
		append(release, "charts/nodegate")...)...)
	if err == nil || !strings.Contains(err.Error(), "this release serves readiness.node.x-k8s.io") {
		t.Errorf("an upgrade to another API group: %v", err)
	}
	// "kubectl nodegate convert --live" has moved the rules.
	moved := &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name}}
	_, err = controllerutil.CreateOrUpdate(t.Context(), kube, moved, func() error {
		moved.MarkerPrefix = v1alpha1.Groups()[1].MarkerPrefix
		return nil
	})
	cluster.Must(t, err)
	t.Cleanup(func() { cluster.Must(t, kube.Delete(context.Background(), moved)) })
	_, err = tool(t.Context(), "helm", append([]string{"upgrade", "--dry-run=server", "--set=replicas=0",
		"--set=apiGroup=rules.nodegate.io"}, append(release, "charts/nodegate")...)...)
	cluster.Must(t, err)
	_, err = tool(t.Context(), "helm", append([]string{"uninstall"}, release...)...)
	cluster.Must(t, err)
}

// TestChartWithoutHelm runs the commands of docs/install.md that apply the rendered chart, the last one twice, as an
// upgrade does.
func TestChartWithoutHelm(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	cluster.Must(t, err)
	commands := regexp.MustCompile("(?ms)^```sh\n(kubectl create namespace [^\n]*\n)(helm template .*?)^```")
	block := commands.FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no such commands")
	}
	_, err = tool(t.Context(), "helm", "version") // looks it up
	cluster.Must(t, err)
	empty := cluster.ForTest(t, cluster.Options{})
	script := fmt.Sprintf("set -eo pipefail\nexport KUBECONFIG=%s PATH=%s:$PATH\nhelm() { \"$0\" \"$@\"; }\n%s%s%[4]s",
		empty.Kubeconfig(), empty.Assets(), block[1], block[2])
	out, err := execute(t.Context(), "bash", "-c", script, executables["helm"])
	cluster.Must(t, err)
	for _, again := range []string{"deployment.apps/nodegate-manager unchanged",
		"customresourcedefinition.apiextensions.k8s.io/nodereadinessrules.readiness.node.x-k8s.io unchanged"} {
		if !bytes.Contains(out, []byte(again)) {
			t.Errorf("the commands do not print %q:\n%s", again, out)
		}
	}
}

// allValues are values that differ from the defaults and add something to an object.
const allValues = `
fullnameOverride: gate
namespaceOverride: default
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}
revisionHistoryLimit: 2
securityContext: {fsGroup: 1000}
livenessProbe: {failureThreshold: 5}
dnsPolicy: Default
logLevel: debug
logFormat: console
extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: default}}]
commonLabels: {a: b}
commonAnnotations: {a: b}
imagePullSecrets: [{name: s}]
extraArgs: [--kube-api-qps=100]
extraEnv: [{name: A, value: b}]
extraVolumes: [{name: ca, configMap: {name: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /ca}]
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]
podLabels: {c: d}
podAnnotations: {c: d}
podDisruptionBudget: {maxUnavailable: 50%}
serviceAccount: {name: mine, annotations: {a: b}}
metrics: {port: 9090, service: {annotations: {a: b}}}
webhooks: {port: 10250}
podAdmission: {enabled: true}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {matchLabels: {a: b}}}]}
monitoring: {dashboard: {enabled: true}, prometheusServiceAccount: {name: p, namespace: default}}
agent:
  enabled: true
  agentCheckPort: 25002
  conditions: [example.com/A, B]
  maxUnavailable: 3
  runtimeSocket: true
  writeTest: [/var/lib/kubelet]
  listenAddress: 192.0.2.1
  allowFrom: [192.0.2.0/24, "2001:db8::/64"]
  metricsAddress: "2001:db8::1"
  drainStatus: 404
  extraEnv: [{name: KUBERNETES_SERVICE_HOST, value: api.example.com}]
  extraVolumes: [{name: ca, secret: {secretName: ca}}]
  extraVolumeMounts: [{name: ca, mountPath: /ca}]
  affinity: {nodeAffinity: {}}
  serviceAccount: {name: agents}
rules:
  network:
    spec:
      nodeSelector: {matchLabels: {a: b}}
      conditions: [{type: example.com/Ready, requiredStatus: "True"}]
      taint: {key: readiness.k8s.io/Network, effect: NoSchedule}
      enforcementMode: continuous
`

// TestChartValuesAreValid: the API server accepts what the chart renders from values.
func TestChartValuesAreValid(t *testing.T) {
	values := valuesFile(t, allValues)
	for name, args := range map[string][]string{
		"all values": {"--values", values, "--set=nodeAdmission.engine=webhook"},
		"a policy for nodes": {"--values", values,
			"--set=nodeAdmission.engine=policy,nodeAdmission.failurePolicy=Fail"},
		"as little as is possible": {
			"--set=webhooks.enabled=false,metrics.enabled=false,recordGuard.enabled=false,rbac.create=false"},
		"empty values": {"--set=priorityClassName=,tolerations=null,nodeSelector=null,resources=null,agent.enabled=true," +
			"agent.priorityClassName=,agent.tolerations=null,agent.nodeSelector=null,agent.resources=null"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := helm(t.Context(), args...)
			cluster.Must(t, err)
			validate(t, objects)
		})
	}
}

// exampleSpec returns the spec of the rule that Artifact Hub shows as the example.
func exampleSpec(t *testing.T) any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "charts", "nodegate", "Chart.yaml"))
	cluster.Must(t, err)
	chart, examples := struct{ Annotations map[string]string }{}, []map[string]any{}
	cluster.Must(t, yaml.Unmarshal(raw, &chart))
	cluster.Must(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crdsExamples"]), &examples))
	if len(examples) == 0 {
		t.Fatal("Chart.yaml has no example of a rule")
	}
	return examples[0]["spec"]
}

// TestChartValuesAreDocumented: each property of the schema has a description, a line in values.yaml and one in the
// README, which is generated from values.yaml.
func TestChartValuesAreDocumented(t *testing.T) {
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(root, "charts", "nodegate", name))
		cluster.Must(t, err)
		return raw
	}
	values, schema := map[string]any{}, map[string]any{}
	cluster.Must(t, yaml.Unmarshal(read("values.yaml"), &values))
	cluster.Must(t, json.Unmarshal(read("values.schema.json"), &schema))
	rows := map[string]bool{}
	row := regexp.MustCompile(`(?m)^\| ([a-z][\w.]*) \| \w+ \| .* \| .{10,} \|$`)
	for _, m := range row.FindAllStringSubmatch(string(read("README.md")), -1) {
		rows[m[1]] = true
	}
	var check func(path string, values, schema map[string]any)
	check = func(path string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			s, _ := p.(map[string]any)
			if d, _ := s["description"].(string); !strings.HasSuffix(d, ".") && !strings.Contains(d, ";") {
				t.Errorf("the schema does not explain %s%s", path, name)
			}
			v, ok := values[name]
			if !ok && name != "global" {
				t.Errorf("values.yaml does not have %s%s", path, name)
			}
			if inner, ok := v.(map[string]any); ok && s["properties"] != nil {
				check(path+name+".", inner, s)
			} else if ok && !rows[path+name] {
				t.Errorf("the README does not explain %s%s", path, name)
			}
		}
	}
	check("", values, schema) // "helm lint" finds values that the schema does not have
}
