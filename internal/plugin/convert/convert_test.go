// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

const (
	theirs = "readiness.node.x-k8s.io"
	own    = "rules.nodegate.io"
)

// before has each field that was renamed, in several forms of YAML.
const before = `# Rules of the GPU nodes.
apiVersion: readiness.node.x-k8s.io/v1alpha1   # of the SIG
kind: NodeReadinessRule
metadata: {name: gpus}
spec:
  nodeSelector: {matchLabels: {minimum: "1"}}  # a label, not a field
  requirements:
  - name: minimum
    resource: {name: nvidia.com/gpu, minimum: "8"} # all of them
  - {name: ä, devices: {driver: minimum, "minimum": 1}}
  - name: csi
    csiDriver: &csi
      name: a
      minimumAllocatable: 1
  - name: again
    csiDriver: *csi
  stabilization: {minimumHoldSeconds: 5}
  probes:
  - conditionType: example.com/A
    httpGet: {port: 1, headers: [{name: headers, value: a}]}
  health:
    checks:
    - name: disk_pressure
      cacheSeconds: 10
      disk: {minimumFreePercent: 1, 'minimumFreeInodesPercent': 2}
    - {name: "http:a", httpGet: {port: 1, headers: []}}
---
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "rules.nodegate.io/v1alpha1",
  "kind": "NodeReadinessRule", "metadata": {"name": "b"}, "spec": {"stabilization": {"minimumHoldSeconds": 1}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {minimum: a}
`

var after = strings.NewReplacer(`gpu, minimum:`, `gpu, min:`, `"minimum": 1`, `"min": 1`, "minimumAllocatable",
	"minAllocatable", "minimumHold", "minHold", "1, headers", "1, httpHeaders", "cacheSeconds", "periodSeconds",
	"minimumFree", "minFree").Replace(before)

// documentsBefore has rules in JSON, one after the other: in one line, behind each other, and with characters that YAML
// knows otherwise.
var documentsBefore = strings.ReplaceAll(`{"apiVersion": "GROUP/v1alpha1", "kind": "NodeReadinessRule", "metadata": `+
	`{"annotations": {"a": "ä\ud83d\ude00\\\\ud83d \/"}}, "spec": {"stabilization": {"minimumHoldSeconds": 1}}}
  {"kind": "NodeReadinessRule", "apiVersion": "GROUP/v1alpha1", "spec": {"stabilization": {"minimumHoldSeconds": 1}}}{
	"kind": "NodeReadinessRule", "apiVersion": "GROUP/v1alpha1", "spec": {"stabilization": {"minimumHoldSeconds": 1}}}

{"kind": "NodeReadinessRule",
 "metadata": {"uid": "a"},
 "apiVersion": "GROUP/v1alpha1"}
{"kind": "ConfigMap", "data": {"minimumFreePercent": "1"}}
`, "GROUP", theirs)

func TestText(t *testing.T) {
	const rule = "kind: NodeReadinessRule\napiVersion: \"" + theirs + "/v1alpha1\"\nmetadata: {name: a}\n"
	merges := "a0: &a0 {}\n"
	for i := range 64 {
		merges += fmt.Sprintf("a%d: &a%[1]d {<<: [*a%d, *a%[2]d]}\n", i+1, i)
	}
	for name, c := range map[string]struct {
		text, group, want string
		rules             int
		notes             []string
	}{
		"fields":    {text: before, want: after, rules: 2},
		"converted": {text: after, want: after, rules: 2},
		"own group": {text: before, group: own, want: strings.ReplaceAll(after, theirs, own), rules: 2},
		"and back": {text: strings.ReplaceAll(after, theirs, own), group: theirs,
			want: strings.ReplaceAll(after, own, theirs), rules: 2},
		"both": {text: rule + "spec: {stabilization: {minimumHoldSeconds: 1, minHoldSeconds: 2}}\n",
			want: rule + "spec: {stabilization: {minimumHoldSeconds: 1, minHoldSeconds: 2}}\n", rules: 1,
			notes: []string{"line    4: minimumHoldSeconds and minHoldSeconds are the same field: remove one of them"}},
		"of the cluster": {text: strings.Replace(rule, "}", ", uid: b, finalizers: [a]}", 1),
			want: strings.Replace(rule, "}", ", uid: b, finalizers: [a]}", 1), rules: 1, notes: []string{
				"line    3: metadata.finalizers is of the object in the cluster: remove it before you apply the file",
				"line    3: metadata.uid is of the object in the cluster: remove it before you apply the file"}},
		"continues a rule": {text: strings.Replace(rule, "}", ", annotations: {nodegate.io/successor-of: b}}", 1),
			want: strings.Replace(rule, "}", ", annotations: {nodegate.io/successor-of: b}}", 1), rules: 1, notes: []string{
				"line    3: the annotation nodegate.io/successor-of is of the object in the cluster: remove it before you apply " +
					"the file"}},
		"permissions": {text: rule + "---\nkind: ClusterRole\nrules:\n- {apiGroups: [" + theirs + "], verbs: [get]}\n",
			group: own, rules: 1,
			want: strings.Replace(rule, theirs, own, 1) + "---\nkind: ClusterRole\nrules:\n- {apiGroups: [" + theirs +
				"], verbs: [get]}\n",
			notes: []string{"line    7: " + theirs + " is not converted: if it is about Nodegate's rules, the group is " + own +
				" now"}},
		"values": {group: own,
			text: "replicas: 2\nnodeReadinessRules:\n- name: a\n  stabilization: {minimumHoldSeconds: 1}\n",
			want: "replicas: 2\nnodeReadinessRules:\n- name: a\n  stabilization: {minHoldSeconds: 1}\n", rules: 1,
			notes: []string{"line    1: set apiGroup: " + own + " in the values of the chart"}},
		"a list and a map of rules": {group: own,
			text: "nodeReadinessRules: [{name: a}]\nrules:\n  b: {spec: {stabilization: {minimumHoldSeconds: 1}}}\n" +
				"  c: null\n  d: {labels: {}}\napiGroup: " + own + "\n", rules: 2,
			want: "nodeReadinessRules: [{name: a}]\nrules:\n  b: {spec: {stabilization: {minHoldSeconds: 1}}}\n" +
				"  c: null\n  d: {labels: {}}\napiGroup: " + own + "\n"},
		"values of a chart that depends on it": {
			text: "a: b\nnodegate: {rules: {b: {spec: {stabilization: {minimumHoldSeconds: 1}}}}}\n", rules: 1,
			want: "a: b\nnodegate: {rules: {b: {spec: {stabilization: {minHoldSeconds: 1}}}}}\n"},
		"rules of others": {text: "rules: [{apiGroups: [a]}]\ngroups: {rules: {a: b}}\n",
			want: "rules: [{apiGroups: [a]}]\ngroups: {rules: {a: b}}\n"},
		"specs of others": {text: "rules: {a: {spec: {stabilization: {minimumHoldSeconds: 1}, replicas: 1}}}\n",
			want: "rules: {a: {spec: {stabilization: {minimumHoldSeconds: 1}, replicas: 1}}}\n"},
		"the finalizer of its group": {text: strings.Replace(rule, "}", ", finalizers: ["+theirs+"/cleanup-taints, a]}", 1),
			group: own, want: strings.Replace(strings.Replace(rule, theirs, own, 1), "}",
				", finalizers: [nodegate.io/cleanup-taints, a]}", 1), rules: 1, notes: []string{
				"line    3: metadata.finalizers is of the object in the cluster: remove it before you apply the file"}},
		"a value with another meaning": {text: rule + "spec:\n  requirements:\n  - pods: {minReadySeconds: 0}\n",
			want: rule + "spec:\n  requirements:\n  - pods: {minReadySeconds: 0}\n", rules: 1, notes: []string{
				"line    6: pods.minReadySeconds: 0 was ignored. Now a pod without a readiness probe counts at once, not after " +
					"10 seconds; without the field, it is 10 seconds"}},
		"every end of a line": {text: strings.Replace(rule, "{", "{b: \"\u2028\u2029\u0085\", ", 1) +
			"spec: {stabilization: {minimumHoldSeconds: 1}}\r---\r" + rule + "---\n",
			want: strings.Replace(rule, "{", "{b: \"\u2028\u2029\u0085\", ", 1) +
				"spec: {stabilization: {minHoldSeconds: 1}}\r---\r" + rule + "---\n", rules: 2},
		"circles": {text: rule + "spec: &a {<<: *a, stabilization: {minimumHoldSeconds: 1}}\n---\n" +
			"&l {kind: List, items: [*l]}\n",
			want:  rule + "spec: &a {<<: *a, stabilization: {minHoldSeconds: 1}}\n---\n&l {kind: List, items: [*l]}\n",
			rules: 1},
		"merges of merges": {text: merges + rule + "spec: *a64\n", want: merges + rule + "spec: *a64\n", rules: 1},
		"merged": {text: "a: &a {minimumHoldSeconds: 1}\n" + rule + "spec: {stabilization: {<<: *a}}\n",
			want: "a: &a {minHoldSeconds: 1}\n" + rule + "spec: {stabilization: {<<: *a}}\n", rules: 1},
		"windows": {text: strings.ReplaceAll(rule+"spec: {stabilization: {minimumHoldSeconds: 1}}\n", "\n", "\r\n"),
			want: strings.ReplaceAll(rule+"spec: {stabilization: {minHoldSeconds: 1}}\n", "\n", "\r\n"), rules: 1},
		"JSON documents": {text: documentsBefore, group: own, rules: 4,
			want:  strings.NewReplacer(theirs, own, "minimumHold", "minHold").Replace(documentsBefore),
			notes: []string{"line    6: metadata.uid is of the object in the cluster: remove it before you apply the file"}},
		"no rule": {text: "a: b\n", want: "a: b\n"},
		"empty":   {},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Text([]byte(c.text), c.group)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got.Text)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got.Rules != c.rules || !slices.Equal(got.Notes, c.notes) {
				t.Errorf("got %d rules, and %q", got.Rules, got.Notes)
			}
		})
	}
}

func TestAFileThatIsNoYAML(t *testing.T) {
	for _, text := range []string{"spec: {{ .Values.spec }}\n  a: b: c\n", "\xff\xfea\x00:\x00 \x00b\x00"} {
		if _, err := Text([]byte(text), ""); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// TestRenamedFieldsAreOfTheSchema: the new name is a field, and the former one is not.
func TestRenamedFieldsAreOfTheSchema(t *testing.T) {
	raw, err := os.ReadFile("../../../config/crd/bases/" + v1alpha1.GroupNames()[0] + "_nodereadinessrules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	for _, r := range renamed {
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		path := strings.Split(r.path, ".")
		for _, part := range path[:len(path)-1] {
			if part == each {
				schema = *schema.Items.Schema
			} else {
				schema = schema.Properties[part]
			}
		}
		_, former := schema.Properties[path[len(path)-1]]
		if _, present := schema.Properties[r.name]; former || !present {
			t.Errorf("%s is %s: the schema has the former name %t, and the new one %t", r.path, r.name, former, present)
		}
	}
}
