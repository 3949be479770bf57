// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	pool  = "example.com/pool"
	taint = "readiness.k8s.io/NetworkReady"
)

// good is a rule that there is nothing to say about.
func good() *build.RuleWrapper {
	return build.MakeRule("good").UID("good").Selector(pool, "workers").Condition("example.com/CNI").
		Taint(taint, "pending", corev1.TaintEffectNoSchedule)
}

func other() *build.RuleWrapper {
	r := good()
	r.Name = "other"
	return r.UID("other")
}

// inRacks are nodes with a label, or without it for "-".
func inRacks(racks ...string) (nodes []*corev1.Node) {
	for _, rack := range racks {
		n := build.MakeNode("n").Label(pool, "workers").Condition("example.com/CNI", "True", now)
		if rack != "-" {
			n.Label("rack", rack)
		}
		nodes = append(nodes, n.Obj())
	}
	return nodes
}

func compile(r *build.RuleWrapper) *ruleset.Rule { return ruleset.Compile(r.Obj(), nil, now) }

func waitsFor(r *build.RuleWrapper, p v1alpha1.PodsRequirement) *build.RuleWrapper {
	p.Namespace = "kube-system"
	p.Selector = v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"component": "init"}}
	return r.Evidence(v1alpha1.Requirement{Name: "init", Pods: &p})
}

func daemonSet(namespace string, tolerations ...corev1.Toleration) Workload {
	return Workload{Kind: "DaemonSet", Namespace: namespace, Name: "init", Labels: map[string]string{"component": "init"},
		Pod: &corev1.PodSpec{Tolerations: tolerations,
			Containers: []corev1.Container{{Name: "c", ReadinessProbe: &corev1.Probe{}}}}}
}

// driver is a DaemonSet that registers a driver at the kubelet.
func driver(name string, tolerations ...corev1.Toleration) Workload {
	return Workload{Kind: "DaemonSet", Namespace: "storage", Name: "node", Pod: &corev1.PodSpec{Tolerations: tolerations,
		Containers: []corev1.Container{{Name: "registrar",
			Args: []string{"--kubelet-registration-path=/var/lib/kubelet/plugins/" + name + "/csi.sock"}}}}}
}

// devicePlugin is a DaemonSet with the directory of the kubelet's device plugins.
func devicePlugin(name string) Workload { return mounting(name, "/var/lib/kubelet/device-plugins") }

// draDriver is a DaemonSet with the directories of the kubelet's plugins.
func draDriver(name string) Workload {
	return mounting(name, "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins")
}

func mounting(name string, paths ...string) Workload {
	w := Workload{Kind: "DaemonSet", Namespace: "storage", Name: name, Pod: &corev1.PodSpec{}}
	for _, path := range paths {
		w.Pod.Volumes = append(w.Pod.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	return w
}

// agents makes a rule require the DaemonSets of kube-system.
func agents(r *build.RuleWrapper, edits ...func(*v1alpha1.DaemonSetsRequirement)) *build.RuleWrapper {
	return r.MaxUnavailable("1").DaemonSets("kube-system", edits...)
}

// agent is a DaemonSet that tolerates some taints.
func agent(name string, tolerates ...string) Workload {
	d := build.MakeDaemonSet("kube-system", name)
	for _, key := range tolerates {
		d.Tolerate(key)
	}
	return DaemonSet(d.Obj())
}

// reporting is a node with other conditions.
func reporting(types ...string) *corev1.Node {
	n := inPool("workers")
	n.Status.Conditions = nil
	for _, t := range append(types, "example.com/CNI") {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(t)})
	}
	return n
}

func inPool(name string) *corev1.Node {
	return build.MakeNode(name).Label(pool, name).Condition("example.com/CNI", "True", now).Obj()
}

func TestWarnings(t *testing.T) {
	tolerant := corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists}
	probeless := daemonSet("kube-system", tolerant)
	probeless.Pod.Containers[0].ReadinessProbe = nil
	controlPlane := build.MakeNode("cp-0").Label(pool, "workers").Label("node-role.kubernetes.io/control-plane", "").Obj()
	csiDriver := v1alpha1.Requirement{Name: "csi", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}}
	gpus := v1alpha1.Requirement{Name: "gpus", Resource: &v1alpha1.ResourceRequirement{Name: "nvidia.com/gpu",
		Min: resource.MustParse("1")}}
	claimed := build.MakeNode("worker-1").Label(pool, "workers").Label(nodePoolLabel, "default").
		Condition("example.com/CNI", "True", now).Obj()
	worker := build.MakeNode("worker-0").Label(pool, "workers").Condition("example.com/CNI", "True", now).Obj()
	equipped := worker.DeepCopy()
	equipped.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"),
		"nvidia.com/gpus": resource.MustParse("1")}

	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		others []*build.RuleWrapper
		facts  Facts
		want   []Code
		says   string
	}{
		"nothing about a good rule": {rule: good()},
		"a selector that selects none of the nodes": {
			rule:  good().Selector(pool, "worker").Selector("kubernetes.io/os", "linux"),
			facts: Facts{Nodes: []*corev1.Node{worker}}, want: []Code{SelectsNothing},
			says: "selects none of the 1 nodes of the cluster: nodes have example.com/pool=workers; no node has the label " +
				"kubernetes.io/os; nodes have example.com/pool"},
		"a condition that nothing reports": {rule: good().Condition("Raedy"),
			facts: Facts{Nodes: []*corev1.Node{worker}}, want: []Code{NoEvidence},
			says: "spec.conditions[1].type: no node has the condition Raedy, and no rule publishes it: until something " +
				"reports it, no node is ready; nodes have example.com/CNI"},
		"a condition that is spelled like the last of many": {rule: good().Condition("Raedy"),
			facts: Facts{Nodes: []*corev1.Node{reporting("DiskPressure", "MemoryPressure", "PIDPressure", "Ready")}},
			want:  []Code{NoEvidence}, says: "nodes have Ready, "},
		"a selector that is spelled like the last of many": {
			rule: good().Selector(pool, "worker"), facts: Facts{Nodes: []*corev1.Node{inPool("batch"), inPool("control"),
				inPool("gpu"), inPool("workers")}}, want: []Code{SelectsNothing},
			says: "nodes have example.com/pool=workers, "},
		"a label that is spelled like one of many": {
			rule: good().Selector("example.com/zoen", "a"), facts: Facts{Nodes: []*corev1.Node{
				build.WrapNode(worker).Label("a", "").Label("b", "").Label("c", "").Label("example.com/zone", "a").Obj()}},
			want: []Code{SelectsNothing}, says: "no node has the label example.com/zoen; nodes have example.com/zone, "},
		"a CSI driver that no selected node has": {rule: good().Evidence(
			v1alpha1.Requirement{Name: "csi", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.co"}}),
			facts: Facts{Nodes: []*corev1.Node{worker}, Drivers: map[string][]string{"worker-0": {"ebs.csi.aws.com"}}},
			want:  []Code{NoEvidence},
			says: "spec.requirements[0].csiDriver.name: no selected node has the CSI driver ebs.csi.aws.co: until one has, " +
				"no node is ready; they have ebs.csi.aws.com"},
		"not one that a node has": {rule: good().Evidence(csiDriver),
			facts: Facts{Nodes: []*corev1.Node{worker}, Drivers: map[string][]string{"worker-0": {"ebs.csi.aws.com"}}}},
		"a resource that no selected node has": {rule: good().Evidence(gpus),
			facts: Facts{Nodes: []*corev1.Node{equipped}}, want: []Code{NoEvidence},
			says: "no selected node has the resource nvidia.com/gpu: until one has, no node is ready; they have " +
				"nvidia.com/gpus"},
		"not one that counts as satisfied where it is missing": {
			rule: func() *build.RuleWrapper {
				r := good().Condition("example.com/Broken")
				r.Spec.Conditions[1].DefaultStatus = v1alpha1.ConditionTrue
				return r
			}(), facts: Facts{Nodes: []*corev1.Node{worker}}},
		"nor one that another rule publishes": {rule: good().Condition("example.com/Verdict"),
			others: []*build.RuleWrapper{other().Taint("example.com/other", "", "NoSchedule").MaxUnavailable("1").
				Publish("example.com/Verdict")}, facts: Facts{Nodes: []*corev1.Node{worker}}},
		"a condition of another rule's probe": {
			rule: good().Probe("example.com/CNI", 1), others: []*build.RuleWrapper{other().Taint("example.com/other", "",
				"NoSchedule").Probe("example.com/CNI", 2)},
			facts: Facts{Nodes: []*corev1.Node{worker}}, want: []Code{ConditionTaken},
			says: "on nodes that both select (1 at present) only the probe of rule other runs",
		},
		"a condition of another rule's probe, which is younger": {
			rule: good().Created(now).Probe("example.com/CNI", 1),
			others: []*build.RuleWrapper{other().Created(now.Add(time.Second)).Taint("example.com/other", "",
				"NoSchedule").Probe("example.com/CNI", 2)},
			want: []Code{ConditionTaken}, says: "only the probe of rule good runs",
		},
		"a condition that is published for remediators, without a limit": {rule: good().Publish("example.com/Verdict"),
			want: []Code{PublishedUnlimited}, says: "spec.maxUnavailable: publish without maxUnavailable: if one reporter " +
				"breaks, the condition turns False on all nodes at once"},
		"a condition that is published with a limit of each rack only": {
			rule:  good().Publish("example.com/Verdict").LimitPer("rack", "1"),
			facts: Facts{Nodes: inRacks("a", "a", "a", "b")}, want: []Code{PublishedUnlimited},
			says: "spec.limits: publish without a limit for all nodes together: if one reporter breaks, the condition turns " +
				"False on up to 2 of 4 nodes at a time, and a remediator may delete them all; add an entry with only max"},
		"a condition that is published at a rate only": {rule: good().Publish("example.com/Verdict").Rate(1, 60),
			want: []Code{PublishedUnlimited}, says: "turns False on all nodes one after another, and"},
		"a condition that is published twice": {rule: good().Publish("example.com/Verdict").MaxUnavailable("1"),
			others: []*build.RuleWrapper{other().Taint("example.com/other", "", "NoSchedule").Publish("example.com/Verdict")},
			want:   []Code{ConditionTaken}, says: "an older rule before a younger one"},
		"nodes that are replaced by two rules": {rule: good().Replace(900, 1, "example.com/replace"),
			others: []*build.RuleWrapper{other().Taint("example.com/other", "", "NoSchedule").Replace(900, 1, "")},
			want:   []Code{ReplacedTwice}, says: "maxPerHour of both adds up"},
		"NodeClaims of nodes that have none": {rule: good().Replace(900, 1, ""),
			facts: Facts{Nodes: []*corev1.Node{worker, claimed}},
			want:  []Code{NoNodeClaim}, says: "1 of 2 nodes"},
		"NodeClaims of other nodes than the rule's": {rule: good().Replace(900, 1, ""),
			facts: Facts{Nodes: []*corev1.Node{build.MakeNode("a").Label(pool, "other").Obj(), claimed}}},
		"a condition of a probe for other nodes": {
			rule:   good().Probe("example.com/CNI", 1),
			others: []*build.RuleWrapper{other().Selector(pool, "others").Probe("example.com/CNI", 2)},
		},
		"nothing about a good rule in a cluster that is known": {
			rule: waitsFor(good(), v1alpha1.PodsRequirement{}), others: []*build.RuleWrapper{},
			facts: Facts{Nodes: []*corev1.Node{worker}, Workloads: []Workload{daemonSet("kube-system", tolerant)},
				Operator: []Workload{daemonSet("x", tolerant)}},
		},
		"another rule with the same taint for the same nodes": {
			rule: good(), others: []*build.RuleWrapper{other()}, facts: Facts{Nodes: []*corev1.Node{worker}},
			want: []Code{SharedTaint}, says: "rule other has the same taint readiness.k8s.io/NetworkReady:NoSchedule: on " +
				"nodes that both select (1 at present)",
		},
		"not its own former version": {rule: good(), others: []*build.RuleWrapper{good().UID("old")}},
		"not the same key with another effect": {
			rule: good(), others: []*build.RuleWrapper{other().Taint(taint, "", corev1.TaintEffectPreferNoSchedule)},
		},
		"not the same taint for other nodes": {
			rule: good(), others: []*build.RuleWrapper{other().Selector(pool, "gpus")},
		},
		"not the same taint where an expression keeps them apart": {
			rule: good(), others: []*build.RuleWrapper{
				build.MakeRule("a").Condition("c").Taint(taint, "", corev1.TaintEffectNoSchedule).SelectorExpression(pool, "NotIn",
					"workers", "gpus"),
				build.MakeRule("b").Condition("c").Taint(taint, "", corev1.TaintEffectNoSchedule).SelectorExpression(pool,
					"DoesNotExist"),
			},
		},
		"not the same taint where one wants a label that the other does not": {
			rule:   good().SelectorExpression("zone", "DoesNotExist"),
			others: []*build.RuleWrapper{other().SelectorExpression("zone", "Exists")},
		},
		"the same taint where nothing keeps them apart": {
			rule: good(), want: []Code{SharedTaint},
			others: []*build.RuleWrapper{build.MakeRule("a").Condition("c").Taint(taint, "",
				corev1.TaintEffectNoSchedule).SelectorExpression("zone", "Exists")},
		},
		"eviction without a limit": {
			rule: good().Taint(taint, "", corev1.TaintEffectNoExecute), want: []Code{NoMaxUnavailable},
			says: "spec.maxUnavailable: NoExecute without maxUnavailable evicts the pods of all nodes at once if they lose " +
				"their evidence, for example when one reporter breaks: set a limit, such as maxUnavailable: 30%",
		},
		"a percentage of a rack with one node": {
			rule: good().LimitPer("rack", "30%"), facts: Facts{Nodes: inRacks("a")}, want: []Code{SmallDomains},
			says: `30% of 1 node in the domain "a" of rack, rounded up, is 1`,
		},
		"a number of a rack with one node": {
			rule: good().LimitPer("rack", "1"), facts: Facts{Nodes: inRacks("a")},
		},
		"half of the nodes have a rack": {
			rule: good().LimitPer("rack", "1"), facts: Facts{Nodes: inRacks("a", "-")},
		},
		"most nodes have no rack": {
			rule: good().LimitPer("rack", "1"), facts: Facts{Nodes: inRacks("a", "-", "-")}, want: []Code{FewDomains},
			says: "spec.limits[0].per: 2 of 3 nodes that the rule selects do not have the label rack",
		},
		"no rack at all, of nodes that have none": {
			rule: good().MaxDomains("rack", 0), facts: Facts{Nodes: inRacks("-", "-")},
		},
		"as many racks as may be in use": {
			rule: good().MaxDomains("rack", 2), facts: Facts{Nodes: inRacks("a", "b", "b")}, want: []Code{FewDomains},
			says: "spec.limits[0].maxDomains: this is no limit: the nodes that the rule selects have 2 values of rack",
		},
		"more racks than may be in use": {
			rule: good().MaxDomains("rack", 1), facts: Facts{Nodes: inRacks("a", "-")},
		},
		"eviction with a limit of each rack only": {
			rule: good().LimitPer("rack", "1").Taint(taint, "", corev1.TaintEffectNoExecute), want: []Code{NoMaxUnavailable},
			says: "spec.limits: NoExecute without a limit for all nodes together evicts the pods of as many nodes at a time " +
				"as the limits by failure domain allow if they lose",
		},
		"eviction of all that is there when a bootstrap-only rule is created": {
			rule: good().BootstrapOnly().Taint(taint, "", corev1.TaintEffectNoExecute), want: []Code{NoMaxUnavailable},
			says: "when the rule is created",
		},
		"not eviction from new nodes only": {
			rule: good().BootstrapOnly().ExistingNodes(v1alpha1.ExistingNodesNone).Taint(taint, "", corev1.TaintEffectNoExecute),
		},
		"a label that kubelets may not set": {rule: good().Selector("node-restriction.kubernetes.io/pci", "yes"),
			want: []Code{KubeletCannotLabel}},
		"not a label that a kubelet may set": {rule: good().Selector("topology.kubernetes.io/zone",
			"a").Selector("node.kubernetes.io/instance-type", "m").Selector("x.kubelet.kubernetes.io/y", "z")},
		"not a label that must be missing": {
			rule: good().SelectorExpression("node-role.kubernetes.io/control-plane", "DoesNotExist")},
		"a taint that autoscalers do not know": {rule: good().Taint("example.com/net", "",
			corev1.TaintEffectNoSchedule), want: []Code{UnknownToAutoscalers}, says: "example.com/net"},
		"not one that they do not care about": {rule: good().Taint("example.com/net", "",
			corev1.TaintEffectPreferNoSchedule)},
		"a maximum age that kubelet does not keep": {rule: good().FreshCondition("Ready", 899), want: []Code{ShortMaxAge},
			says: "at least 900"},
		"not one that it just keeps": {rule: good().FreshCondition("Ready", 900)},
		"a maximum age that a probe of the rule does not keep": {
			rule: good().FreshCondition("example.com/P", 343).Probe("example.com/P", 1), want: []Code{ShortMaxAge},
			says: "spec.conditions[1].maxAgeSeconds: node agents repeat condition example.com/P every 5 minutes"},
		"a maximum age that a slow probe of another rule does not keep": {
			rule: good().FreshCondition("example.com/P", 900), want: []Code{ShortMaxAge},
			others: []*build.RuleWrapper{slowly(other().Taint("example.com/other", "", "NoSchedule").
				Probe("example.com/P", 1))}},
		"not one that the probe just keeps": {
			rule: good().FreshCondition("example.com/P", 344).Probe("example.com/P", 1)},
		"not a short one for a reporter of one's own": {rule: good().FreshCondition("example.com/GPU", 60)},
		"a maximum age for what is never repeated": {rule: good().FreshCondition("NetworkUnavailable", 3600),
			want: []Code{NeverRepeated}},
		"a condition that is not set again after a reboot": {rule: good().Condition("NetworkUnavailable").RearmOnReboot(),
			want: []Code{NeverRepeated}, says: "spec.rearmOn"},
		"not one that is repeated, nor without rearmOn": {rule: good().Condition("NetworkUnavailable")},
		"a timeout before minHoldSeconds": {
			rule: good().BootstrapOnly().MinHoldSeconds(600).Timeout(600, 0, v1alpha1.TimeoutActionRelease),
			want: []Code{ShortTimeout}, says: "spec.timeout.seconds: the timeout ends before minHoldSeconds, 600 seconds"},
		"a timeout before readySeconds": {rule: good().ReadySeconds(901).Replace(900, 1, "example.com/replace"),
			want: []Code{ShortTimeout}, says: "before readySeconds, 901 seconds"},
		"not a longer one": {
			rule: good().MinHoldSeconds(600).ReadySeconds(60).Timeout(601, 0, v1alpha1.TimeoutActionRelease)},
		"not one that only reports": {rule: good().MinHoldSeconds(600).Timeout(300, 0, v1alpha1.TimeoutActionKeep)},
		"nor one for evidence that does not appear": {
			rule: good().MinHoldSeconds(600).Timeout(0, 300, v1alpha1.TimeoutActionRelease)},
		"a selector that takes in the control plane": {rule: build.MakeRule("r").SelectorExpression("kubernetes.io/os",
			"Exists").Condition("c").Taint(taint, "", corev1.TaintEffectNoSchedule), want: []Code{ControlPlane}},
		"a node of the control plane that is selected": {rule: good(),
			facts: Facts{Nodes: []*corev1.Node{controlPlane, worker}}, want: []Code{ControlPlane},
			says: "selects 1 node of the control plane (cp-0)"},
		"not a rule that is about the control plane": {
			rule: build.MakeRule("r").SelectorExpression("node-role.kubernetes.io/control-plane", "Exists").
				Condition("c").Taint(taint, "", corev1.TaintEffectNoSchedule),
			want: []Code{KubeletCannotLabel}},
		"pods that nothing makes": {
			rule:  waitsFor(good(), v1alpha1.PodsRequirement{}),
			facts: Facts{Workloads: []Workload{daemonSet("default", tolerant)}},
			want:  []Code{NoEvidence}, says: "no workload in namespace kube-system creates pods component=init",
		},
		"pods that the wrong DaemonSet makes": {
			rule:  waitsFor(good(), v1alpha1.PodsRequirement{OwnerDaemonSet: "startup"}),
			facts: Facts{Workloads: []Workload{daemonSet("kube-system", tolerant)}},
			want:  []Code{NoEvidence}, says: "of DaemonSet startup",
		},
		"pods that wait for the rule that waits for them": {
			rule: waitsFor(good(), v1alpha1.PodsRequirement{}), facts: Facts{Workloads: []Workload{daemonSet("kube-system")}},
			want: []Code{Deadlock}, says: "DaemonSet kube-system/init does not tolerate this rule's own taint",
		},
		"a CSI driver that waits for the rule that waits for it": {rule: good().Evidence(csiDriver),
			facts: Facts{Workloads: []Workload{driver("ebs.csi.aws.com")}}, want: []Code{Deadlock},
			says: "spec.requirements[0].csiDriver.name: DaemonSet storage/node provides CSI driver ebs.csi.aws.com and does " +
				"not tolerate this rule's own taint"},
		"not another driver, nor one that tolerates the taint": {rule: good().Evidence(csiDriver),
			facts: Facts{Workloads: []Workload{driver("ebs.csi.aws.com", tolerant), driver("ebs.csi.aws.com.example.com")}}},
		"a device plugin that waits for the rule that waits for it": {rule: good().Evidence(gpus),
			facts: Facts{Workloads: []Workload{devicePlugin("nvidia-device-plugin-daemonset"), devicePlugin("amd-gpu")}},
			want:  []Code{Deadlock}, says: "DaemonSet storage/nvidia-device-plugin-daemonset provides resource nvidia.com/gpu"},
		"a DRA driver that waits for the rule that waits for it": {
			rule: good().Evidence(v1alpha1.Requirement{Name: "devices",
				Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.nvidia.com", Min: 1}}),
			facts: Facts{Workloads: []Workload{driver("gpu.nvidia.com")}}, want: []Code{Deadlock},
			says: "provides DRA driver gpu.nvidia.com"},
		"NVIDIA's DRA driver, which is told only the directories of its sockets": {
			rule: good().Evidence(v1alpha1.Requirement{Name: "devices",
				Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.nvidia.com", Min: 1}}),
			facts: Facts{Workloads: []Workload{draDriver("nvidia-dra-driver-gpu-kubelet-plugin")}}, want: []Code{Deadlock},
			says: "DaemonSet storage/nvidia-dra-driver-gpu-kubelet-plugin provides DRA driver gpu.nvidia.com"},
		"pods that stand an eviction for a while only": {
			rule: waitsFor(good().Taint(taint, "", corev1.TaintEffectNoExecute).MaxUnavailable("1"),
				v1alpha1.PodsRequirement{}),
			facts: Facts{Workloads: []Workload{daemonSet("kube-system", corev1.Toleration{Key: taint,
				Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))})}},
			want: []Code{Deadlock},
		},
		"not pods that a preference keeps off": {
			rule:  waitsFor(good().Taint(taint, "", corev1.TaintEffectPreferNoSchedule), v1alpha1.PodsRequirement{}),
			facts: Facts{Workloads: []Workload{daemonSet("kube-system")}},
		},
		"pods without a readiness probe": {
			rule: waitsFor(good(), v1alpha1.PodsRequirement{}), facts: Facts{Workloads: []Workload{probeless}},
			want: []Code{NoReadinessProbe},
		},
		"not those where the rule says for how long": {
			rule:  waitsFor(good(), v1alpha1.PodsRequirement{MinReadySeconds: new(int32(30))}),
			facts: Facts{Workloads: []Workload{probeless}},
		},
		"nothing about DaemonSets that are not known": {rule: agents(good())},
		"a DaemonSet without a toleration": {rule: agents(good()),
			facts: Facts{Workloads: []Workload{agent("cni", taint), agent("logs")}}, want: []Code{LeftOut},
			says: "spec.requirements[0].daemonSets: the rule leaves out DaemonSets that do not tolerate its own taint " +
				"readiness.k8s.io/NetworkReady=pending:NoSchedule: kube-system/logs: add a toleration"},
		"not one that the rule excludes": {
			rule: agents(good(), func(q *v1alpha1.DaemonSetsRequirement) {
				q.Exclude = []v1alpha1.DaemonSetReference{{Namespace: "kube-system", Name: "logs"}}
			}), facts: Facts{Workloads: []Workload{agent("cni", taint), agent("logs")}}},
		"a DaemonSet without a toleration that is waited for": {
			rule:  agents(good(), func(q *v1alpha1.DaemonSetsRequirement) { q.Untolerated = v1alpha1.UntoleratedHold }),
			facts: Facts{Workloads: []Workload{agent("logs")}}, want: []Code{Deadlock},
			says: "never have a pod on the nodes that wait for them: kube-system/logs: add a toleration"},
		"a DaemonSet that another rule keeps away, which waits for this one": {rule: agents(good()),
			others: []*build.RuleWrapper{other().After("good").Taint("readiness.k8s.io/other", "", "NoSchedule")},
			facts:  Facts{Workloads: []Workload{agent("cni", taint)}}, want: []Code{Deadlock},
			says: "DaemonSet kube-system/cni does not tolerate taint readiness.k8s.io/other:NoSchedule of rule other, and " +
				"that rule waits for this one"},
		"too few DaemonSets": {
			rule:  agents(good(), func(q *v1alpha1.DaemonSetsRequirement) { q.MinMatching = new(int32(2)) }),
			facts: Facts{Workloads: []Workload{agent("cni", taint), agent("logs")}}, want: []Code{LeftOut, NoEvidence},
			says: "waits for 1 of the DaemonSets in the cluster, and requires at least 2 on each node: until there are more, " +
				"no node is ready; the operator sees them only in the namespaces of daemonSetNamespaces"},
		"DaemonSets that the operator may not watch": {rule: agents(good()),
			facts: Facts{Workloads: []Workload{}, Unwatched: []string{"kube-system"}}, want: []Code{NoEvidence},
			says: "spec.requirements[0].daemonSets.namespaces: the operator may not watch DaemonSets of namespace " +
				"kube-system, so the rule is frozen and has no effect: add the namespace to the chart value " +
				"daemonSetNamespaces"},
		"an operator that would wait for itself": {
			rule: good(), facts: Facts{Operator: []Workload{daemonSet("nodegate-system")}}, want: []Code{Deadlock},
			says: "cannot start and does not remove it",
		},
		"probes and checks of another machine": {rule: asks("192.0.2.1", "node.example.com"),
			want: []Code{RemoteAddress, RemoteAddress}, says: "spec.health.checks[0].httpGet.host: node agents connect"},
		"probes and checks of the node itself": {rule: asks("::1", "localhost")},
		"checks of /health without the rule's verdict": {rule: good().Untainted().Health("node_ready", "rule:other"),
			want: []Code{VerdictUnused}, says: "spec.health.checks: GET /health does not check this rule's verdict"},
		"not with the rule's verdict":          {rule: good().Untainted().Health("node_ready", "rule:good")},
		"not with the verdicts of all rules":   {rule: good().Untainted().Health("rules")},
		"not with another effect than /health": {rule: good().Health("node_ready")},
		"not where the check is the evidence": {
			rule: build.MakeRule("good").Selector(pool, "workers").Condition("Ready").Health("node_ready")},
		"not where another rule has the check": {rule: good().Untainted().Health("node_ready"),
			others: []*build.RuleWrapper{other().Taint("example.com/other", "", "NoSchedule").Health("rules")}},
		"the verdict of a rule that is not there": {rule: good().Health("rule:good", "rule:other", "rule:nope"),
			others: []*build.RuleWrapper{other().Taint("example.com/other", "", "NoSchedule")}, want: []Code{UnknownRule},
			says: "spec.health.checks[2].name: rule nope does not exist"},
		"a condition that the rule and its own probe publish": {
			rule: good().MaxUnavailable("1").Publish("example.com/P").Probe("example.com/P", 1), want: []Code{ConditionTaken},
			says: "spec.publish.conditionType: a probe of this rule publishes the condition example.com/P"},
		"two pods of one DaemonSet": {
			rule: waitsFor(good(), v1alpha1.PodsRequirement{OwnerDaemonSet: "init", MinReady: new(int32(2))}),
			want: []Code{NeverSatisfied}, says: "spec.requirements[0].pods.minReady: a DaemonSet has one pod on a node"},
		"one pod of a DaemonSet": {
			rule: waitsFor(good(), v1alpha1.PodsRequirement{OwnerDaemonSet: "init", MinReady: new(int32(1))})},
		"a rule that is required and is not there": {rule: good().After("preinit"), others: []*build.RuleWrapper{},
			want: []Code{UnknownRule}},
		"a rule that is required for other nodes": {rule: good().After("other"),
			others: []*build.RuleWrapper{other().Selector(pool, "gpus")}, want: []Code{NeverSatisfied}},
		"probes and health without node agents": {rule: asks("", ""), facts: Facts{Served: Served{Agents: new(false)}},
			want: []Code{NotServed, NotServed}, says: "spec.probes: no probe runs: no node agent is running"},
		"probes and health with node agents": {rule: asks("", ""), facts: Facts{Served: Served{Agents: new(true)}}},
		"podAdmission without its webhook": {rule: admitting(v1alpha1.PodAdmissionDeny, ""),
			facts: Facts{Served: Served{PodAdmission: new(false)}}, want: []Code{NotServed}, says: "no pod is refused"},
		"nodeAdmission without an engine": {rule: admitting("", v1alpha1.NodeAdmissionTaint),
			facts: Facts{Served: Served{NodeAdmission: new(false)}}, want: []Code{NotServed}, says: "shortly after"},
		"nothing that needs more than the operator": {rule: good(), facts: Facts{Served: Served{Agents: new(false),
			PodAdmission: new(false), NodeAdmission: new(false)}}},
		"not a rule that is required, and unknown": {rule: good().After("preinit")},
		"several things at a time, in a fixed order": {rule: other().Taint("example.com/net", "",
			corev1.TaintEffectNoExecute), want: []Code{NoMaxUnavailable, UnknownToAutoscalers}},
	} {
		t.Run(name, func(t *testing.T) {
			var others *ruleset.Set
			if c.others != nil {
				others = ruleset.NewSet()
				for _, o := range c.others {
					others = others.With(compile(o.UID("uid-of-" + o.Name)))
				}
			}
			rule := compile(c.rule)
			if len(rule.Problems) > 0 {
				t.Fatalf("the rule is invalid: %v", rule.Problems)
			}
			var got []Code
			text := ""
			for _, w := range Warnings(rule, others, c.facts) {
				got = append(got, w.Code)
				text += w.String() + "\n"
				if !strings.HasPrefix(w.Field, "spec.") {
					t.Errorf("%s names no field", w)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s%s", diff, text)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("does not say %q:\n%s", c.says, text)
			}
		})
	}
}

func admitting(pods v1alpha1.PodAdmissionPolicy, nodes v1alpha1.NodeAdmissionPolicy) *build.RuleWrapper {
	r := good()
	r.Spec.PodAdmission, r.Spec.NodeAdmission = pods, nodes
	return r
}

// slowly makes the probe of a rule run every ten minutes.
func slowly(r *build.RuleWrapper) *build.RuleWrapper {
	r.Spec.Probes[0].PeriodSeconds = new(int32(600))
	return r
}

// asks returns a rule with a probe and a check of these hosts.
func asks(probe, check string) *build.RuleWrapper {
	r := good()
	r.Spec.Probes = []v1alpha1.Probe{{ConditionType: "example.com/A",
		TCPSocket: &v1alpha1.TCPSocketAction{Host: probe, Port: 1}}}
	r.Spec.Health = &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "http:a",
		HTTPGet: &v1alpha1.HTTPGetAction{Host: check, Port: 1}}}}
	return r
}

func TestProblems(t *testing.T) {
	a, b := good().After("other"), other().After("good")
	rule, others := compile(a), ruleset.NewSet(compile(b))

	got := Problems(rule, others, Facts{})
	if len(got) != 1 || got[0].Reason != ruleset.ReasonCycle || !strings.Contains(got[0].Message,
		"good requires other requires good") {
		t.Errorf("a circle: got %v", got)
	}
	if got := Problems(rule, nil, Facts{}); len(got) != 0 {
		t.Errorf("no others: got %v", got)
	}
	if got := Problems(compile(good().After("good")), nil, Facts{}); len(got) != 1 {
		t.Errorf("a rule that requires itself: got %v", got)
	}
	if got := Problems(compile(good().Taint("node.kubernetes.io/x", "", corev1.TaintEffectNoSchedule)),
		others, Facts{}); len(got) != 1 || got[0].Field != "spec.taint.key" {
		t.Errorf("an invalid rule: got %v", got)
	}
	if len(rule.Problems) != 0 {
		t.Errorf("the rule has been changed: %v", rule.Problems)
	}
	if got := Problems(compile(good()), nil, Facts{KeyPrefixes: []string{"example.org/"}}); len(got) != 1 ||
		got[0].Reason != ruleset.ReasonForbiddenKey {
		t.Errorf("a key that the operator does not allow: got %v", got)
	}
}
