// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
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
- {name: agents, daemonSets: {namespaces: [kube-system], selector: {matchLabels: {tier: node}},
                              exclude: [{namespace: kube-system, name: kube-proxy}], minMatching: 1,
                              minReadySeconds: 10, untolerated: Ignore, disruptionSeconds: 300}}
- {name: ebs,     csiDriver: {name: ebs.csi.aws.com, minimumAllocatable: 1}}
- {name: gpus,    resource: {name: nvidia.com/gpu, minimum: "1"}}
- {name: devices, devices: {driver: gpu.nvidia.com, minimum: 1}}
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
nodeAdmission: Taint
existingNodes: All
stabilization: {readySeconds: 10, unreadySeconds: 30, minimumHoldSeconds: 0}
maxUnavailable: 30%
timeout: {seconds: 900, appearSeconds: 300, action: Keep}
completionAnnotation: startup.k8s.io/completedAt
dryRun: false
suspend: false
`

func TestWholeAPI(t *testing.T) {
	t.Run("is known to the Go types, field by field", func(t *testing.T) {
		spec := v1alpha1.NodeReadinessRuleSpec{}
		cluster.Must(t, yaml.UnmarshalStrict([]byte(wholeSpec), &spec))
		written, err := yaml.Marshal(spec)
		cluster.Must(t, err)
		// What is said as by default is not written again.
		defaults := "{stabilization: {minimumHoldSeconds: null}, dryRun: null, suspend: null}"
		want := rule(t, group, "x", changed(t, wholeSpec, defaults))
		if diff := cmp.Diff(want.Object, rule(t, group, "x", string(written)).Object); diff != "" {
			t.Errorf("the Go types lose something (-given +written):\n%s", diff)
		}
	})
	t.Run("is accepted", func(t *testing.T) {
		sent := rule(t, group, "whole", wholeSpec)
		stored := sent.DeepCopy()
		cluster.Must(t, create(t, stored, client.DryRunAll))
		if diff := cmp.Diff(sent.Object["spec"], stored.Object["spec"]); diff != "" {
			t.Errorf("reads back otherwise than it was written (-written +read):\n%s", diff)
		}
	})
}
