// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

func TestChartLint(t *testing.T) {
	if _, err := tool(t.Context(), "helm", "lint", "--strict", "charts/nodegate"); err != nil {
		t.Error(err)
	}
}

// TestChartUnit runs the chart's own suites, charts/nodegate/tests. Each case is told apart in the output of a failure.
func TestChartUnit(t *testing.T) {
	out, err := tool(t.Context(), "helm-unittest", "--strict", "charts/nodegate")
	if err != nil {
		t.Fatal(err)
	}
	if suites, err := filepath.Glob(filepath.Join(root, "charts", "nodegate", "tests", "*_test.yaml")); err != nil ||
		!bytes.Contains(out, fmt.Appendf(nil, "Test Suites: %d passed, %[1]d total", len(suites))) {
		t.Errorf("not all of the suites were run: %v\n%s", err, out)
	}
}

// TestChartPackage: what users get holds nothing that is of no use to them.
func TestChartPackage(t *testing.T) {
	dir := t.TempDir()
	if _, err := tool(t.Context(), "helm", "package", "-d", dir, "charts/nodegate"); err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(dir, "nodegate-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages: %q %v", packages, err)
	}
	out, err := execute(t.Context(), "tar", "-tzf", packages[0])
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	for _, wanted := range []string{"nodegate/README.md", "nodegate/values.schema.json", "nodegate/crds/readiness.node.x-k8s.io_nodereadinessrules.yaml"} {
		if !slices.Contains(files, wanted) {
			t.Errorf("%s is missing among %q", wanted, files)
		}
	}
	for _, f := range files {
		if strings.HasPrefix(f, "nodegate/tests/") || strings.HasSuffix(f, ".gotmpl") {
			t.Errorf("%s is packaged", f)
		}
	}
}

// TestChartInstall: Helm itself installs the chart, as a second release beside what is there, and takes it away again.
func TestChartInstall(t *testing.T) {
	user, err := adminUser()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, user, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := tool(t.Context(), "helm", "install", "second", "charts/nodegate", "--kubeconfig", kubeconfig,
		"--namespace", "second", "--create-namespace", "--set", "replicas=0")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubectl -n second rollout status deployment/second-nodegate-manager",
		"https://second-nodegate-manager-metrics.second.svc:8443/metrics",
		"second-nodegate-metrics-reader",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the notes do not say %q:\n%s", want, out)
		}
	}
	_, first, _ := bytes.Cut(out, []byte("<<EOT\n"))
	first, _, _ = bytes.Cut(first, []byte("  EOT\n"))
	rules, err := parse(bytes.TrimSpace(bytes.ReplaceAll(append([]byte("\n"), first...), []byte("\n  "), []byte("\n"))))
	if err != nil || len(rules) != 1 {
		t.Fatalf("the notes have no first rule: %v\n%s", err, out)
	}
	if err := kube.Create(t.Context(), rules[0], client.DryRunAll); err != nil {
		t.Errorf("the first rule of the notes: %v", err)
	}
	key := client.ObjectKey{Namespace: "second", Name: "second-nodegate-manager"}
	if err := kube.Get(t.Context(), key, &appsv1.Deployment{}); err != nil {
		t.Error(err)
	}
	if _, err := tool(t.Context(), "helm", "uninstall", "second", "--kubeconfig", kubeconfig, "--namespace", "second"); err != nil {
		t.Error(err)
	}
}

// valuesCase is a value of the chart, and what it does.
type valuesCase struct {
	set   string // values, in YAML
	path  string // of what is looked at: kind/name/field.field.0
	want  any
	gone  []string // kind/name of objects that are not rendered
	count int      // of objects, if not as many as usual
}

// TestChartValues: each value does what it says, and whatever is rendered is valid.
func TestChartValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, c := range map[string]valuesCase{
		"image.tag":                     {set: "image: {repository: r.example/n, tag: v9}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.image", want: "r.example/n:v9"},
		"image.digest":                  {set: "image: {tag: v9, digest: \"" + digest + "\"}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.image", want: "ghcr.io/nodegate/nodegate@" + digest},
		"image.pullPolicy":              {set: "image: {pullPolicy: Always}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.imagePullPolicy", want: "Always"},
		"imagePullSecrets":              {set: "imagePullSecrets: [{name: s}]", path: "Deployment/nodegate-manager/spec.template.spec.imagePullSecrets.0.name", want: "s"},
		"replicas":                      {set: "replicas: 3", path: "Deployment/nodegate-manager/spec.replicas", want: int64(3)},
		"extraArgs":                     {set: "extraArgs: [--zap-log-level=2]", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.5", want: "--zap-log-level=2"},
		"resources":                     {set: "resources: {limits: {memory: 2Gi}}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.resources.limits.memory", want: "2Gi"},
		"priorityClassName":             {set: "priorityClassName: \"\"", path: "Deployment/nodegate-manager/spec.template.spec.priorityClassName"},
		"tolerations":                   {set: "tolerations: [{key: a, operator: Exists}]", path: "Deployment/nodegate-manager/spec.template.spec.tolerations.0.key", want: "a"},
		"nodeSelector":                  {set: "nodeSelector: {a: b}", path: "Deployment/nodegate-manager/spec.template.spec.nodeSelector.a", want: "b"},
		"affinity":                      {set: "affinity: {nodeAffinity: {}}", path: "Deployment/nodegate-manager/spec.template.spec.affinity", want: map[string]any{"nodeAffinity": map[string]any{}}},
		"topologySpreadConstraints":     {set: "topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]", path: "Deployment/nodegate-manager/spec.template.spec.topologySpreadConstraints.0.topologyKey", want: "rack"},
		"terminationGracePeriodSeconds": {set: "terminationGracePeriodSeconds: 60", path: "Deployment/nodegate-manager/spec.template.spec.terminationGracePeriodSeconds", want: int64(60)},
		"podAnnotations":                {set: "podAnnotations: {a: b}", path: "Deployment/nodegate-manager/spec.template.metadata.annotations.a", want: "b"},
		"podLabels":                     {set: "podLabels: {a: b}", path: "Deployment/nodegate-manager/spec.template.metadata.labels.a", want: "b"},
		"podDisruptionBudget.enabled":   {set: "podDisruptionBudget: {enabled: false}", gone: []string{"PodDisruptionBudget/nodegate-manager"}},
		"serviceAccount.annotations":    {set: "serviceAccount: {annotations: {a: b}}", path: "ServiceAccount/nodegate-manager/metadata.annotations.a", want: "b"},
		"serviceAccount.name":           {set: "serviceAccount: {name: mine}", path: "ClusterRoleBinding/nodegate-manager-rolebinding/subjects.0.name", want: "mine", gone: []string{"ServiceAccount/nodegate-manager"}, count: 23},
		"serviceAccount.create":         {set: "serviceAccount: {create: false, name: theirs}", path: "Deployment/nodegate-manager/spec.template.spec.serviceAccountName", want: "theirs", gone: []string{"ServiceAccount/nodegate-manager"}},
		"rbac.create":                   {set: "rbac: {create: false}", gone: []string{"ClusterRole/nodegate-manager-role", "Role/nodegate-manager-role", "ClusterRoleBinding/nodegate-manager-rolebinding", "RoleBinding/nodegate-manager-rolebinding", "ClusterRole/nodegate-metrics-reader", "ClusterRole/nodegate-nodereadinessrule-viewer", "ClusterRole/nodegate-nodereadinessrule-editor", "ClusterRole/nodegate-nodereadinessrule-admin", "ClusterRole/nodegate-webhook-role", "Role/nodegate-webhook-role", "ClusterRoleBinding/nodegate-webhook-rolebinding", "RoleBinding/nodegate-webhook-rolebinding"}},
		"rbac.aggregate":                {set: "rbac: {aggregate: false}", path: `ClusterRole/nodegate-nodereadinessrule-viewer/metadata.labels.rbac\.authorization\.k8s\.io/aggregate-to-view`},
		"rbac.aggregateWrite":           {set: "rbac: {aggregateWrite: true}", path: `ClusterRole/nodegate-nodereadinessrule-editor/metadata.labels.rbac\.authorization\.k8s\.io/aggregate-to-edit`, want: "true"},
		"evictionGuard.users":           {set: "evictionGuard: {users: [jane]}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.5", want: "--eviction-guard-users=jane"},
		"metrics.enabled":               {set: "metrics: {enabled: false}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.1", want: "--metrics-bind-address=0", gone: []string{"Service/nodegate-manager-metrics"}},
		"metrics.port":                  {set: "metrics: {port: 9443}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.1", want: "--metrics-bind-address=:9443"},
		"metrics.service.annotations":   {set: "metrics: {service: {annotations: {a: b}}}", path: "Service/nodegate-manager-metrics/metadata.annotations.a", want: "b"},
		"webhooks.enabled": {set: "webhooks: {enabled: false}", path: "Deployment/nodegate-manager/spec.template.spec.volumes", gone: []string{"Service/nodegate-webhook", "Secret/nodegate-webhook-cert",
			"MutatingWebhookConfiguration/nodegate-webhook", "ValidatingWebhookConfiguration/nodegate-webhook", "ClusterRole/nodegate-webhook-role", "Role/nodegate-webhook-role",
			"ClusterRoleBinding/nodegate-webhook-rolebinding", "RoleBinding/nodegate-webhook-rolebinding"}},
		"webhooks.port":                             {set: "webhooks: {port: 10250}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.4", want: "--webhook-bind-address=:10250"},
		"nodeAdmission.failurePolicy":               {set: "nodeAdmission: {failurePolicy: Fail}", path: "MutatingWebhookConfiguration/nodegate-webhook/webhooks.0.failurePolicy", want: "Fail"},
		"fullnameOverride":                          {set: "fullnameOverride: gate", path: "Deployment/gate-manager/spec.template.spec.serviceAccountName", want: "gate-manager"},
		"nodeAdmission.engine":                      {set: "nodeAdmission: {engine: policy}", path: "MutatingAdmissionPolicyBinding/nodegate-node-admission/spec.policyName", want: "nodegate-node-admission", count: 25},
		"nodeAdmission.engine as a flag":            {set: "nodeAdmission: {engine: webhook}", path: "Deployment/nodegate-manager/spec.template.spec.containers.0.args.5", want: "--node-admission=webhook"},
		"nodeAdmission.failurePolicy of the policy": {set: "nodeAdmission: {engine: policy, failurePolicy: Fail}", path: "MutatingAdmissionPolicy/nodegate-node-admission/spec.failurePolicy", want: "Fail", count: 25},
		"recordGuard.enabled":                       {set: "recordGuard: {enabled: false}", gone: []string{"ValidatingAdmissionPolicy/nodegate-records", "ValidatingAdmissionPolicyBinding/nodegate-records"}},
		"recordGuard and the service account": {set: "serviceAccount: {name: mine}", path: "ValidatingAdmissionPolicy/nodegate-records/spec.matchConditions.0.expression",
			want: "request.userInfo.username != 'system:serviceaccount:nodegate-system:mine'", gone: []string{"ServiceAccount/nodegate-manager"}, count: 23},
		"fullnameOverride of the policy": {set: "fullnameOverride: gate", path: "Deployment/gate-manager/spec.template.spec.containers.0.args.6", want: "--node-admission-policy-name=gate-node-admission"},
		"fullnameOverride of webhooks":   {set: "fullnameOverride: gate", path: "Deployment/gate-manager/spec.template.spec.containers.0.args.4", want: "--webhook-name=gate-webhook"},
		"nameOverride":                   {set: "nameOverride: gate", path: `Deployment/nodegate-manager/spec.selector.matchLabels.app\.kubernetes\.io/name`, want: "gate"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, len(installed)) })
	}
}

// check renders the chart with the value, and with further arguments. usual is how many objects there usually are, the
// namespace included.
func (c valuesCase) check(t *testing.T, usual int, args ...string) {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(c.set), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := helm(t.Context(), append([]string{"--values", values}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if c.count == 0 {
		c.count = usual - 1 - len(c.gone) // Helm makes the namespace
	}
	if len(objects) != c.count {
		t.Errorf("%d objects are rendered, not %d", len(objects), c.count)
	}
	for _, o := range objects {
		id := o.GetKind() + "/" + o.GetName()
		if slices.Contains(c.gone, id) {
			t.Errorf("%s is rendered", id)
		}
		if rest, ok := strings.CutPrefix(c.path, id+"/"); ok {
			if diff := cmp.Diff(c.want, at(o.Object, rest)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.path, diff)
			}
			c.path = ""
		}
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		o.SetName("values-" + o.GetName()) // beside what is installed
		if err := kube.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("%s is not valid: %v", id, err)
		}
	}
	if c.path != "" {
		t.Errorf("there is no object for %s", c.path)
	}
}

// at is the field at a path of names and numbers, nil if there is none.
func at(v any, path string) any {
	for step := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, "\x00"), ".") {
		step = strings.ReplaceAll(step, "\x00", ".")
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			if i := int(step[0] - '0'); i < len(x) {
				v = x[i]
				continue
			}
			return nil
		}
	}
	return v
}

func TestChartRefusesBadValues(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=two":                                      "at '/replicas': got string, want integer",
		"replicaCount=3":                                    "additional properties 'replicaCount' not allowed",
		"image.digest=latest":                               "at '/image/digest': 'latest' does not match pattern",
		"image.pullPolicy=Sometimes":                        "at '/image/pullPolicy': value must be one of",
		"extraArgs={leader-elect}":                          "at '/extraArgs/0': 'leader-elect' does not match pattern",
		"metrics.port=8081":                                 "at '/metrics/port': 'not' failed",
		"webhooks.port=8081":                                "at '/webhooks/port': 'not' failed",
		"nodeAdmission.engine=cel":                          "at '/nodeAdmission/engine': value must be one of",
		"nodeAdmission.failurePolicy=Maybe":                 "at '/nodeAdmission/failurePolicy': value must be one of",
		"metrics.port=80":                                   "at '/metrics/port': minimum: got 80, want 1,024",
		"serviceAccount.enabled=true":                       "additional properties 'enabled' not allowed",
		"commonLabels.helm\\.sh/chart=x":                    "at '/commonLabels/helm.sh~1chart': false schema",
		"agent.podLabels.app\\.kubernetes\\.io/component=x": "at '/agent/podLabels/app.kubernetes.io~1component': false schema",
		"podLabels.a=b/c":                                   "at '/podLabels/a': 'b/c' does not match pattern",
		"commonAnnotations.a=1":                             "at '/commonAnnotations/a': got number, want string",
		"extraEnv[0].name=A,extraEnv[0].value=1":            "at '/extraEnv/0/value': got number, want string",
		"extraVolumes[0].emptyDir.medium=Memory":            "at '/extraVolumes/0': missing property 'name'",
		"agent.extraVolumeMounts[0].name=a":                 "at '/agent/extraVolumeMounts/0': missing property 'mountPath'",
		"tolerations[0].opertor=Exists":                     "at '/tolerations/0': additional properties 'opertor' not allowed",
		"resources.memory=1Gi":                              "at '/resources': additional properties 'memory' not allowed",
		"podDisruptionBudget.maxUnavailable=0":              "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1",
		"uninstall.deleteRules=Some":                        "at '/uninstall/deleteRules': value must be one of",
		"uninstall.timeoutSeconds=300":                      "at '/uninstall/timeoutSeconds': maximum: got 300, want 200",
		"rules.My_rule.spec.suspend=true":                   "at '/rules': additional properties 'My_rule' not allowed",
		"rules.network.labels.a=b":                          "at '/rules/network': missing property 'spec'",
		"rules.network.suspend=true":                        "at '/rules/network': additional properties 'suspend' not allowed",
		"rules.network.spec.suspended=true":                 "rules.network.spec.suspended: there is no such field",
	} {
		if _, err := helm(t.Context(), "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s\nshould be refused with: %s\nbut: %v", set, want, err)
		}
	}
}

// TestChartValuesAreDocumented: every value has a line in values.yaml, in the schema and in the README, and the other way round.
func TestChartValuesAreDocumented(t *testing.T) {
	dir := filepath.Join(root, "charts", "nodegate")
	raw, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, "values.schema.json")); err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, "README.md")); err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][\w.]*) \| \w+ \| .* \| .{10,} \|$`).FindAllStringSubmatch(string(raw), -1) {
		rows[m[1]] = true
	}
	var documented func(path string, values, schema map[string]any)
	documented = func(path string, values, schema map[string]any) {
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
				documented(path+name+".", inner, s)
			} else if ok && !rows[path+name] {
				t.Errorf("the README does not explain %s%s", path, name)
			}
			delete(rows, path+name)
		}
		for name := range values {
			if _, ok := properties[name]; !ok {
				t.Errorf("the schema does not have %s%s", path, name)
			}
		}
	}
	documented("", values, schema)
	for name := range rows {
		t.Errorf("the README explains %s, which is no value", name)
	}
}

func TestChartCarriesTheCRD(t *testing.T) {
	name := "readiness.node.x-k8s.io_nodereadinessrules.yaml"
	ours, err := os.ReadFile(filepath.Join(root, "config", "crd", "bases", name))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(filepath.Join(root, "charts", "nodegate", "crds", name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ours, theirs) {
		t.Error("charts/nodegate/crds is out of date: run make manifests")
	}
}

// adminUser is a kubeconfig of somebody who may do everything.
func adminUser() ([]byte, error) {
	u, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, config)
	if err != nil {
		return nil, err
	}
	return u.KubeConfig()
}
