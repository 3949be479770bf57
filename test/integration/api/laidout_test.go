// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// wholeSpec is the API as it is laid out, every field of it.
const wholeSpec = `
nodeSelector: {matchLabels: {example.com/pool: workers}}
conditions:
- {type: projectcalico.org/CalicoReady, requiredStatus: "True", defaultStatus: Unknown, maxAgeSeconds: 900}
requirements:
- {name: warm-up, pods: {namespace: kube-system, selector: {matchLabels: {startup.k8s.io/component: init}},
                         ownerDaemonSet: startup-init, minReady: 1, minReadySeconds: 10,
                         readyWhen: PodReadyOrAnnotation, readyAnnotation: {key: startup.k8s.io/ready, value: "true"}}}
- {name: ebs,     csiDriver: {name: ebs.csi.aws.com, minimumAllocatable: 1}}
- {name: gpus,    resource: {name: nvidia.com/gpu, minimum: "1", source: Allocatable}}
- {name: kernel,  cel: {expression: "node.status.nodeInfo.kernelVersion.startsWith('6.')"}}
- {name: phase-1, ruleSatisfied: {name: preinit}}
conditionPolicy: allOf
probes:
- {conditionType: projectcalico.org/CalicoReady, httpGet: {port: 9099, path: /readiness}, periodSeconds: 30,
   timeoutSeconds: 10, successThreshold: 1, failureThreshold: 3}
taint: {key: readiness.k8s.io/NetworkReady, value: pending, effect: NoSchedule}
evictionGuard: {maxHoldSeconds: 1800}
podAdmission: None
health: {checks: [{name: node_ready}, {name: disk_pressure, timeoutSeconds: 2, cacheSeconds: 10,
                   disk: {paths: [/var/lib/kubelet], minimumFreePercent: 10}}]}
enforcementMode: continuous
rearmOn: [Reboot]
admission: Taint
existingNodes: All
stabilization: {readySeconds: 10, unreadySeconds: 30, minimumHoldSeconds: 0}
maxUnavailable: 30%
timeout: {seconds: 900, appearSeconds: 300, action: Keep}
completionAnnotation: startup.k8s.io/completedAt
dryRun: false
suspend: false
`

// laidOut is a group in which the CRD is installed without the rules that refuse what this version cannot do yet.
const laidOut = "laidout.example.com"

func TestWholeAPI(t *testing.T) {
	t.Run("is known to the Go types, field by field", func(t *testing.T) {
		spec := v1alpha1.NodeReadinessRuleSpec{}
		if err := yaml.UnmarshalStrict([]byte(wholeSpec), &spec); err != nil {
			t.Fatal(err)
		}
		written, err := yaml.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		// What is said as by default is not written again.
		want := changed(t, wholeSpec, "{stabilization: {minimumHoldSeconds: null}, dryRun: null, suspend: null}")
		if diff := cmp.Diff(rule(t, group, "x", want).Object, rule(t, group, "x", string(written)).Object); diff != "" {
			t.Errorf("the Go types lose something (-given +written):\n%s", diff)
		}
	})
	t.Run("is accepted by a schema without those refusals", func(t *testing.T) {
		installVariant(t, laidOut, supportAll)
		sent := rule(t, laidOut, "whole", wholeSpec)
		stored := sent.DeepCopy()
		if err := create(t, stored, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent.Object["spec"], stored.Object["spec"]); diff != "" {
			t.Errorf("reads back otherwise than it was written (-written +read):\n%s", diff)
		}
	})
}

func TestLaidOutEffects(t *testing.T) {
	installVariant(t, laidOut, supportAll)
	only := "taint: null, enforcementMode: null, "
	judge(t, laidOut, plainSpec, map[string]verdict{
		"an eviction guard alone":         {"{" + only + "evictionGuard: {}}", nil},
		"podAdmission: Deny alone":        {"{" + only + "podAdmission: Deny}", refused("spec.podAdmission", "podAdmission: Deny needs a taint")},
		"podAdmission: None alone":        {"{" + only + "podAdmission: None}", refused("spec", "a rule needs an effect")},
		"requirements alone":              {"{conditions: null, requirements: [{name: a, csiDriver: {name: x}}]}", nil},
		"neither of them":                 {"{conditions: [], requirements: []}", refused("spec", "a rule needs evidence")},
		"maxHoldSeconds at its edges":     {"evictionGuard: {maxHoldSeconds: 604800}", nil},
		"maxHoldSeconds too short":        {"evictionGuard: {maxHoldSeconds: 0}", refused("spec.evictionGuard.maxHoldSeconds", "greater than or equal to 1")},
		"maxHoldSeconds too long":         {"evictionGuard: {maxHoldSeconds: 604801}", refused("spec.evictionGuard.maxHoldSeconds", "less than or equal to 604800")},
		"podAdmission: Deny with a taint": {"podAdmission: Deny", nil},
	})
}

func TestLaidOutRequirements(t *testing.T) {
	installVariant(t, laidOut, supportAll)
	const (
		at  = "spec.requirements[0]"
		one = "give exactly one of pods, csiDriver, resource, cel and ruleSatisfied"
	)
	requirement := func(r string) string { return "requirements: [" + r + "]" }
	pods := func(p string) string {
		return requirement("{name: a, pods: {namespace: kube-system, selector: {matchLabels: {a: b}}, " + p + "}}")
	}
	resource := func(r string) string { return requirement("{name: a, resource: {name: nvidia.com/gpu, " + r + "}}") }
	judge(t, laidOut, plainSpec, map[string]verdict{
		"of no kind":                      {requirement("{name: a}"), refused(at, one)},
		"of two kinds":                    {requirement("{name: a, cel: {expression: x}, ruleSatisfied: {name: b}}"), refused(at, one)},
		"one name twice":                  {requirement("{name: a, csiDriver: {name: x}}, {name: a, csiDriver: {name: z}}"), refused("spec.requirements[1]", "Duplicate value")},
		"a name in capitals":              {requirement("{name: A, csiDriver: {name: x}}"), refused(at+".name", "should match")},
		"a name of 63":                    {requirement("{name: " + strings.Repeat("n", 63) + ", csiDriver: {name: x}}"), nil},
		"a name of 64":                    {requirement("{name: " + strings.Repeat("n", 64) + ", csiDriver: {name: x}}"), refused(at+".name", "may not be more than 63 bytes")},
		"32 of them":                      {requirement(words(32, "{name: n%d, csiDriver: {name: x}}")), nil},
		"33 of them":                      {requirement(words(33, "{name: n%d, csiDriver: {name: x}}")), refused("spec.requirements", "must have at most 32 items")},
		"pods":                            {pods("minReady: 1"), nil},
		"pods of any namespace":           {requirement("{name: a, pods: {selector: {matchLabels: {a: b}}}}"), refused(at+".pods.namespace", "Required value")},
		"pods of a bad namespace":         {requirement("{name: a, pods: {namespace: Kube_System, selector: {matchLabels: {a: b}}}}"), refused(at+".pods.namespace", "should match")},
		"no ready pods":                   {pods("minReady: 0"), refused(at+".pods.minReady", "greater than or equal to 1")},
		"pods by an annotation":           {pods(`readyWhen: Annotation, readyAnnotation: {key: k, value: ""}`), nil},
		"pods by an annotation, no which": {pods("readyWhen: Annotation"), refused(at+".pods.readyWhen", "readyWhen: Annotation and PodReadyOrAnnotation need readyAnnotation")},
		"pods by either, no which":        {pods("readyWhen: PodReadyOrAnnotation"), refused(at+".pods.readyWhen", "readyWhen: Annotation and PodReadyOrAnnotation need readyAnnotation")},
		"pods with a useless annotation":  {pods("readyWhen: PodReady, readyAnnotation: {key: k, value: v}"), refused(at+".pods.readyAnnotation", "readyAnnotation has no use with readyWhen: PodReady")},
		"pods of another readiness":       {pods("readyWhen: Soon"), refused(at+".pods.readyWhen", "supported values")},
		"a driver with no volume":         {requirement("{name: a, csiDriver: {name: x, minimumAllocatable: 0}}"), refused(at+".csiDriver.minimumAllocatable", "greater than or equal to 1")},
		"a driver without a name":         {requirement("{name: a, csiDriver: {}}"), refused(at+".csiDriver.name", "Required value")},
		"a resource":                      {resource("minimum: 1, source: ResourceSlice"), nil},
		"a resource with a suffix":        {resource("minimum: 4Gi"), nil},
		"a resource of a broken power":    {resource("minimum: 1e3.5"), refused(at+".resource.minimum", "must be a quantity, such as 1 or 4Gi")},
		"a resource of words":             {resource("minimum: some"), []cause{{at + ".resource.minimum", "must be a quantity, such as 1 or 4Gi"}, {at + ".resource.minimum", "should match"}}},
		"a resource from elsewhere":       {resource("minimum: 1, source: Capacity"), refused(at+".resource.source", "supported values")},
		"an expression that is empty":     {requirement(`{name: a, cel: {expression: ""}}`), refused(at+".cel.expression", "at least 1 chars long")},
		"another rule without a name":     {requirement("{name: a, ruleSatisfied: {}}"), refused(at+".ruleSatisfied.name", "Required value")},
	})
}
