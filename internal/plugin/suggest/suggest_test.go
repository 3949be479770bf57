// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// agent is a DaemonSet of a cluster, with what it brings to a node on which it runs.
type agent struct {
	*build.DaemonSetWrapper
	csi, gpus, dra string
	labels         bool // those of Node Feature Discovery
	condition      string
}

func daemonSet(namespace, name string) *agent {
	return &agent{DaemonSetWrapper: build.MakeDaemonSet(namespace, name)}
}

func (a *agent) edit(edit func(*corev1.PodSpec)) *agent {
	a.Template(edit)
	return a
}

func (a *agent) tolerate(key string, effects ...corev1.TaintEffect) *agent {
	return a.edit(func(pod *corev1.PodSpec) {
		for _, effect := range append(effects, slices.Repeat([]corev1.TaintEffect{""}, 1-min(len(effects), 1))...) {
			pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: effect})
		}
	})
}

func (a *agent) mounting(path string, readOnly bool) *agent {
	return a.edit(func(pod *corev1.PodSpec) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: label(path), VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path}}})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: label(path),
			MountPath: path, ReadOnly: readOnly})
	})
}

func (a *agent) unprobed() *agent {
	return a.edit(func(pod *corev1.PodSpec) { pod.Containers[0].ReadinessProbe = nil })
}

func cni(namespace, name string) *agent {
	return daemonSet(namespace, name).mounting("/etc/cni/net.d", false).mounting("/opt/cni/bin", false).tolerate("")
}

func csi(namespace, name, driver string) *agent {
	a := daemonSet(namespace, name).unprobed().edit(func(pod *corev1.PodSpec) {
		pod.Containers[0].Args = []string{"--kubelet-registration-path=/var/lib/kubelet/plugins/" + driver + "/csi.sock"}
	})
	a.csi = driver
	return a
}

// devicePlugin is NVIDIA's, which tolerates only the taint of GPU nodes.
func devicePlugin() *agent {
	a := daemonSet("kube-system", "nvidia-device-plugin-daemonset").unprobed().
		mounting("/var/lib/kubelet/device-plugins", false).tolerate("nvidia.com/gpu", corev1.TaintEffectNoSchedule)
	a.gpus = "nvidia.com/gpu"
	return a
}

func nfd() *agent {
	a := daemonSet("gpu-operator", "gpu-operator-node-feature-discovery-worker")
	a.labels = true
	return a
}

const gpuLabel = "nvidia.com/gpu.deploy.device-plugin"

// world is a cluster, and what runs in it.
type world struct {
	nodes  []*build.NodeWrapper
	agents []*agent
	rules  []*build.RuleWrapper
}

func worker(name string) *build.NodeWrapper {
	return build.MakeNode(name).UID(name).Created(now.Add(-time.Hour)).Label(corev1.LabelOSStable, "linux").
		Condition("Ready", "True", now.Add(-time.Hour))
}

func gpuWorker(name string) *build.NodeWrapper {
	return worker(name).Label("karpenter.sh/nodepool", "gpus").Taint("nvidia.com/gpu", "", "NoSchedule").
		Label("example.com/has-gpu", "true")
}

func fleet(agents ...*agent) world {
	w := world{agents: agents}
	w.nodes = append(w.nodes, build.MakeNode("control-plane").UID("control-plane").Created(now.Add(-time.Hour)).
		Label(corev1.LabelOSStable, "linux").Label("node-role.kubernetes.io/control-plane", ""))
	for i := range 3 {
		w.nodes = append(w.nodes, worker(fmt.Sprint("worker-", i)).Label("karpenter.sh/nodepool", "plain"))
	}
	return w
}

func (w world) with(nodes ...*build.NodeWrapper) world {
	w.nodes = append(w.nodes, nodes...)
	return w
}

func (w world) having(rules ...*build.RuleWrapper) world {
	w.rules = append(w.rules, rules...)
	return w
}

// run lets the DaemonSets start on a node, as the scheduler does, and returns the evidence that they bring.
func (w world) run(n *build.NodeWrapper) (out []runtime.Object) {
	csiNode := &storagev1.CSINode{}
	csiNode.Name = n.Name
	started := map[*agent]bool{}
	for range w.agents { // one may need what another one brings
		for _, a := range w.agents {
			d := evidence.CompileDaemonSet(a.Obj())
			every := func(*corev1.Taint) bool { return true }
			if started[a] || !d.Fits(n.Obj()) || d.RepelledBy(n.Spec.Taints, every) != nil {
				continue
			}
			started[a] = true
			out = append(out, a.Pod(n.Name, now.Add(-30*time.Minute)).Obj())
			if a.csi != "" {
				csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: a.csi, NodeID: n.Name})
			}
			if a.gpus != "" && n.Labels["example.com/has-gpu"] != "" {
				n.Status.Capacity = corev1.ResourceList{corev1.ResourceName(a.gpus): resource.MustParse("8")}
				n.Status.Allocatable = n.Status.Capacity
			}
			if a.labels && n.Labels["example.com/has-gpu"] != "" {
				n.Label(gpuLabel, "true")
			}
			if a.condition != "" {
				n.Condition(a.condition, "False", now.Add(-30*time.Minute))
			}
			if a.dra != "" && n.Labels["example.com/has-gpu"] != "" {
				slice := &resourcev1.ResourceSlice{}
				slice.Name, slice.Spec.Driver, slice.Spec.NodeName = n.Name+a.dra, a.dra, new(n.Name)
				slice.Spec.Pool = resourcev1.ResourcePool{Name: n.Name, ResourceSliceCount: 1}
				slice.Spec.Devices = []resourcev1.Device{{Name: "gpu-0"}}
				out = append(out, slice)
			}
		}
	}
	return append(out, csiNode)
}

// cluster returns what suggest reads.
func (w world) cluster() *Cluster {
	c := &Cluster{Now: now}
	var objects []runtime.Object
	for _, n := range w.nodes {
		objects = append(objects, w.run(n)...)
		c.Nodes = append(c.Nodes, n.Obj())
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *storagev1.CSINode:
			if c.Drivers == nil {
				c.Drivers = map[string][]string{}
			}
			for _, d := range o.Spec.Drivers {
				c.Drivers[o.Name] = append(c.Drivers[o.Name], d.Name)
			}
		case *resourcev1.ResourceSlice:
			c.Slices = append(c.Slices, o)
		}
	}
	for _, a := range w.agents {
		c.DaemonSets = append(c.DaemonSets, a.Obj())
	}
	for _, r := range w.rules {
		c.Rules = append(c.Rules, *r.Obj())
	}
	c.Read = func(set *ruleset.Set) *sources.Snapshot { return sources.Of(objects, set) }
	return c
}

// released reports whether a rule releases a new node that is like one of those that it selects, and holds the same
// node as long as nothing runs there.
func (w world) released(t *testing.T, r *Rule, all []*Rule) bool {
	t.Helper()
	set := ruleset.Compile(r.Object(), nil, now)
	var like *build.NodeWrapper
	for _, n := range w.nodes {
		if set.Matches(n.Labels) {
			like = n
		}
	}
	if like == nil {
		t.Fatalf("rule %s selects no node", r.Name)
	}
	joining := worker("new")
	for key, value := range like.Labels {
		if !podLabel(key) {
			joining.Label(key, value)
		}
	}
	joining.Spec.Taints = slices.Clone(like.Spec.Taints)
	for _, o := range all { // a new node gets the taints of all rules that select it
		matches := ruleset.Compile(o.Object(), nil, now).Matches(joining.Labels)
		if o == r || matches && (len(o.Problems) == 0 || waits(o) && waits(r)) {
			joining.Spec.Taints = append(joining.Spec.Taints, *o.taint())
		}
	}
	if !set.Matches(joining.Labels) {
		t.Errorf("rule %s does not select a new node at its creation", r.Name)
	}
	for _, a := range w.agents {
		if a.condition != "" {
			joining.Without(a.condition)
		}
	}
	held := func(r *Rule, objects []runtime.Object) bool {
		s := &suggester{Cluster: &Cluster{Nodes: []*corev1.Node{joining.Obj()}, Now: now,
			Read: func(set *ruleset.Set) *sources.Snapshot { return sources.Of(objects, set) }}}
		return len(s.held(r)) == 1
	}
	if !held(r, []runtime.Object{&corev1.Pod{}, &storagev1.CSINode{}, &resourcev1.ResourceSlice{}}) {
		t.Errorf("rule %s does not hold a new node", r.Name)
	}
	for range all {
		brought := w.run(joining)
		for _, o := range all {
			if !held(o, brought) {
				joining.Untaint(o.Spec.Taint.Key)
			}
		}
	}
	return !held(r, w.run(joining))
}

// waits reports whether a rule is left out because of other rules.
func waits(r *Rule) bool {
	return slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "wait for each other") })
}

func TestSuggestions(t *testing.T) {
	const (
		netKey, storageKey, deviceKey = "readiness.k8s.io/NetworkReady", "readiness.k8s.io/StorageReady",
			"readiness.k8s.io/DevicesReady"
	)
	onGPU := func(a *agent) *agent {
		a.Select(gpuLabel, "true")
		return a
	}
	dra := func(a *agent) *agent {
		a.gpus, a.dra = "", "gpu.nvidia.com"
		a.Spec.Template.Spec.Volumes[0].HostPath.Path = "/var/lib/kubelet/plugins_registry"
		return a
	}
	only := func(a *agent) *agent {
		a.Spec.Template.Spec.Tolerations = nil
		return a
	}
	ebs := func() *agent {
		return csi("kube-system", "ebs-csi-node", "ebs.csi.aws.com").tolerate("").edit(func(pod *corev1.PodSpec) {
			pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "eks.amazonaws.com/compute-type",
						Operator: corev1.NodeSelectorOpNotIn, Values: []string{"fargate"}}}}}}}}
		})
	}
	flannel := cni("kube-flannel", "kube-flannel-ds").unprobed()
	flannel.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}}
	flannel.condition = "NetworkUnavailable"

	for name, c := range map[string]struct {
		in    world
		want  []string // the names of rules, with their evidence; a rule that is left out has a ! in front
		notes []string
		says  []string
	}{
		"Calico and Amazon EBS": {
			in: fleet(cni("kube-system", "calico-node"), ebs(), daemonSet("kube-system", "kube-proxy")).
				with(worker("fargate").Label("eks.amazonaws.com/compute-type", "fargate")),
			want: []string{"network pods kube-system/calico-node", "storage csiDriver ebs.csi.aws.com"},
			says: []string{"# DaemonSet kube-system/calico-node installs a network plugin: it mounts /etc/cni/net.d.\n",
				"operator: NotIn", "# The rule selects 3 nodes and would hold none of them now.\n"},
		},
		"Flannel, whose pods have no probe, and Ceph CSI, which tolerates nothing": {
			in: fleet(flannel, csi("ceph", "csi-rbdplugin", "rbd.csi.ceph.com")),
			want: []string{"network NetworkUnavailable pods kube-flannel/kube-flannel-ds",
				"!storage csiDriver rbd.csi.ceph.com"},
			says: []string{"minReadySeconds: 10", "# # Add this toleration to DaemonSet ceph/csi-rbdplugin, and run ",
				"# # - {key: " + storageKey + ", operator: Exists, effect: NoSchedule}"},
		},
		"one driver that tolerates the taint, and one that does not": {
			in: fleet(cni("kube-system", "calico-node"), ebs(), csi("ceph", "csi-rbdplugin", "rbd.csi.ceph.com")),
			want: []string{"network pods kube-system/calico-node", "storage csiDriver ebs.csi.aws.com",
				"!storage-rbd-csi-ceph-com csiDriver rbd.csi.ceph.com"},
		},
		"components that tolerate only the taint of their own rule": {
			in: fleet(only(cni("kube-system", "calico-node")).tolerate(netKey),
				only(ebs()).tolerate(storageKey)),
			want: []string{"!network pods kube-system/calico-node", "!storage csiDriver ebs.csi.aws.com"},
			says: []string{"wait for each other"},
		},
		"a driver that waits for the network": {
			in:   fleet(cni("kube-system", "calico-node"), only(ebs()).tolerate(storageKey)),
			want: []string{"network pods kube-system/calico-node", "storage csiDriver ebs.csi.aws.com"},
		},
		"two drivers of one name": {
			in: fleet(cni("a", "node"), cni("b", "node")), want: []string{"network pods a/node pods b/node"},
		},
		"Cilium beside Istio's plugin, and a scanner that only reads": {
			in: fleet(cni("kube-system", "cilium"), cni("istio-system", "istio-cni-node"),
				daemonSet("security", "scanner").mounting("/etc/cni/net.d", true).unprobed()),
			want: []string{"network pods kube-system/cilium pods istio-system/istio-cni-node"},
		},
		"a plugin that only its name tells": {
			in: fleet(daemonSet("kube-system", "weave-net").tolerate("").edit(func(pod *corev1.PodSpec) {
				pod.PriorityClassName = "system-node-critical"
			})),
			want: []string{"network pods kube-system/weave-net"},
		},
		"NVIDIA's device plugin as it is published": {
			in:    fleet(devicePlugin()).with(gpuWorker("gpu-0")),
			want:  []string{"!devices resource nvidia.com/gpu"},
			notes: []string{"network: no DaemonSet is recognized as a network plugin: nothing is suggested"},
			says:  []string{"toleration to DaemonSet kube-system/nvidia-device-plugin-daemonset"},
		},
		"NVIDIA's device plugin with a toleration": {
			in:   fleet(cni("kube-system", "calico-node"), devicePlugin().tolerate(deviceKey)).with(gpuWorker("gpu-0")),
			want: []string{"network pods kube-system/calico-node", "devices resource nvidia.com/gpu"},
			says: []string{"key: karpenter.sh/nodepool", "Each of these nodes has 8 or more"},
		},
		"a device plugin that needs labels of a pod that does not tolerate the taint": {
			in: fleet(cni("kube-system", "calico-node"), onGPU(devicePlugin().tolerate(deviceKey)),
				nfd().tolerate("nvidia.com/gpu")).with(gpuWorker("gpu-0")),
			want: []string{"network pods kube-system/calico-node", "!devices resource nvidia.com/gpu"},
			says: []string{"DaemonSet gpu-operator/gpu-operator-node-feature-discovery-worker sets labels such as " + gpuLabel},
		},
		"the GPU operator with tolerations": {
			in: fleet(cni("kube-system", "calico-node"), onGPU(devicePlugin().tolerate(deviceKey)), nfd().tolerate("")).
				with(gpuWorker("gpu-0")),
			want: []string{"network pods kube-system/calico-node", "devices resource nvidia.com/gpu"},
		},
		"GPUs on nodes without a label of their pool": {
			in: fleet(cni("kube-system", "calico-node"), devicePlugin().tolerate(deviceKey)).
				with(gpuWorker("gpu-0").Unlabel("karpenter.sh/nodepool")),
			want: []string{"network pods kube-system/calico-node", "!devices resource nvidia.com/gpu"},
			says: []string{"no label that nodes have at their creation selects the nodes with resource nvidia.com/gpu only"},
		},
		"a DRA driver": {
			in:   fleet(cni("kube-system", "calico-node"), dra(devicePlugin().tolerate(deviceKey))).with(gpuWorker("gpu-0")),
			want: []string{"network pods kube-system/calico-node", "devices devices gpu.nvidia.com"},
		},
		"a device plugin without devices, and a driver that nothing provides": {
			in: fleet(cni("kube-system", "calico-node"), devicePlugin(), &agent{csi: "static.example.com",
				DaemonSetWrapper: build.MakeDaemonSet("kube-system", "static").Tolerate("")}),
			want: []string{"network pods kube-system/calico-node"},
			notes: []string{
				"storage: no DaemonSet is known to provide CSI driver static.example.com on all nodes that have it: it is left out",
				"devices: DaemonSet kube-system/nvidia-device-plugin-daemonset is a device plugin, and no node is known to have " +
					"a resource of it: it is left out; run suggest again when a node has its devices"},
		},
		"conditions that all nodes report": {
			in: fleet(cni("kube-system", "calico-node"), &agent{condition: "KernelDeadlock",
				DaemonSetWrapper: build.MakeDaemonSet("kube-system", "node-problem-detector").Tolerate("")}),
			want: []string{"network pods kube-system/calico-node"},
			notes: []string{"nearly all nodes report KernelDeadlock=False: if new nodes should wait for that, see " +
				"spec.conditions; nothing is suggested, because the reporter may not tolerate the taint"},
		},
		"rules that exist": {
			in: fleet(cni("kube-system", "calico-node"), ebs()).having(
				build.MakeRule("network").UID("u1").Selector("a", "b").Condition("c").Taint("example.com/x", "", "NoSchedule"),
				build.MakeRule("mine").UID("u2").Selector("a", "b").Taint("example.com/y", "", "NoSchedule").
					Evidence(v1alpha1.Requirement{Name: "ebs", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}})),
			notes: []string{
				"network: rule network exists already: nothing is suggested for the network of DaemonSet kube-system/calico-node",
				"storage: rule mine requires CSI driver ebs.csi.aws.com already"},
		},
		"GPUs on all workers, without a label of a pool": {
			in: world{agents: []*agent{cni("kube-system", "calico-node"), devicePlugin().tolerate(deviceKey)}}.
				with(gpuWorker("gpu-0").Unlabel("karpenter.sh/nodepool")),
			want: []string{"network pods kube-system/calico-node", "devices resource nvidia.com/gpu"},
			says: []string{"# All workers have it today: narrow the selector before workers without it join.\n"},
		},
		"a driver that got the suggested toleration after the other rules were applied": {
			in: fleet(cni("kube-system", "calico-node"), ebs(), csi("ceph", "csi-rbdplugin", "rbd.csi.ceph.com").
				tolerate(storageKey+"-rbd-csi-ceph-com")).having(
				build.MakeRule("storage").UID("u1").Selector("a", "b").Taint(storageKey, "pending", "NoSchedule").
					Evidence(v1alpha1.Requirement{Name: "ebs", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}})),
			want:  []string{"network pods kube-system/calico-node", "storage-rbd-csi-ceph-com csiDriver rbd.csi.ceph.com"},
			notes: []string{"storage: rule storage requires CSI driver ebs.csi.aws.com already"},
		},
		"GPUs on all workers": {
			in: world{agents: []*agent{cni("kube-system", "calico-node"), devicePlugin().tolerate(deviceKey)}}.
				with(gpuWorker("gpu-0"), gpuWorker("gpu-1")),
			want: []string{"network pods kube-system/calico-node", "devices resource nvidia.com/gpu"},
			says: []string{"    - key: karpenter.sh/nodepool\n      operator: In\n      values:\n      - gpus\n"},
		},
		"a device plugin that needs labels, and nothing is known to set them": {
			in: fleet(cni("kube-system", "calico-node"), onGPU(devicePlugin().tolerate(deviceKey))).
				with(gpuWorker("gpu-0").Label(gpuLabel, "true")),
			want: []string{"network pods kube-system/calico-node", "!devices resource nvidia.com/gpu"},
			says: []string{"kube-system/nvidia-device-plugin-daemonset needs the label " + gpuLabel + ", and no DaemonSet is " +
				"known to set it: check that what sets it tolerates the taint " + deviceKey},
		},
		"a component's own taint": {
			in: fleet(cni("kube-system", "calico-node")).with(worker("tainted").Taint(netKey, "", "NoSchedule")),
			notes: []string{"network: node tainted has the taint readiness.k8s.io/NetworkReady, which belongs to no rule: " +
				"nothing is suggested for the network of DaemonSet kube-system/calico-node"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := c.in.cluster()
			s := For(cluster)
			var got []string
			for _, r := range s.Rules {
				got = append(got, describe(r))
				if len(r.Problems) == 0 {
					c.in.hold(t, cluster, r, s.Rules)
				} else if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "no label") }) &&
					c.in.released(t, r, s.Rules) {
					t.Errorf("rule %s releases a new node, and is left out: %v", r.Name, r.Problems)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("rules: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.notes, s.Notes); diff != "" {
				t.Errorf("notes: -want +got\n%s", diff)
			}
			text, err := s.YAML()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("the rules do not say %q:\n%s", want, text)
				}
			}
		})
	}
}

// hold checks what holds for each suggestion.
func (w world) hold(t *testing.T, cluster *Cluster, r *Rule, all []*Rule) {
	t.Helper()
	facts := lint.Facts{Nodes: cluster.Nodes, Workloads: []lint.Workload{}}
	for _, d := range cluster.DaemonSets {
		facts.Workloads = append(facts.Workloads, lint.DaemonSet(d))
	}
	rule, set := ruleset.Compile(r.Object(), nil, now), ruleset.NewSet()
	for i := range cluster.Rules {
		set = set.With(ruleset.Compile(&cluster.Rules[i], nil, now))
	}
	for _, warning := range lint.Warnings(rule, set, facts) {
		if !warning.Code.Advice() {
			t.Errorf("rule %s: %s", r.Name, warning)
		}
	}
	if !w.released(t, r, all) {
		t.Errorf("rule %s never releases a new node", r.Name)
	}
	spec := &r.Spec
	if !spec.DryRun || !spec.BootstrapOnly() || spec.ExistingNodes != v1alpha1.ExistingNodesNone ||
		*spec.Timeout.Seconds != 1800 || spec.Timeout.Action != v1alpha1.TimeoutActionRelease ||
		!strings.HasPrefix(spec.Taint.Key, "readiness.k8s.io/") {
		t.Errorf("rule %s is not careful: %+v", r.Name, spec)
	}
}

func describe(r *Rule) string {
	out := []string{r.Name}
	if len(r.Problems) > 0 {
		out[0] = "!" + r.Name
	}
	for _, c := range r.Spec.Conditions {
		out = append(out, c.Type)
	}
	for _, q := range r.Spec.Requirements {
		switch {
		case q.Pods != nil:
			out = append(out, "pods", q.Pods.Namespace+"/"+q.Pods.OwnerDaemonSet)
		case q.CSIDriver != nil:
			out = append(out, "csiDriver", q.CSIDriver.Name)
		case q.Resource != nil:
			out = append(out, "resource", q.Resource.Name)
		case q.Devices != nil:
			out = append(out, "devices", q.Devices.Driver)
		}
	}
	return strings.Join(out, " ")
}

// TestHeld: a rule says which nodes lack its evidence now.
func TestHeld(t *testing.T) {
	w := fleet(cni("kube-system", "calico-node"))
	c := w.cluster()
	before := c.Read
	c.Read = func(set *ruleset.Set) *sources.Snapshot { return before(set) }
	c.Nodes = append(c.Nodes, worker("bare").Obj())
	s := For(c)
	if diff := cmp.Diff([]string{"bare"}, s.Rules[0].Held); diff != "" {
		t.Errorf("held: %s", diff)
	}
	want := []string{"rule network: selects 4 nodes and would hold 1 of them now (bare), if it were enforced for " +
		"existing nodes, too"}
	if diff := cmp.Diff(want, s.Summary()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	c.Read = func(set *ruleset.Set) *sources.Snapshot { return sources.Of(nil, set) } // the pods are not known
	want = []string{"rule network: selects 4 nodes; how many of them it would hold now is not known"}
	if diff := cmp.Diff(want, For(c).Summary()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestLimit: the limit for continuous is no smaller than what a rollout takes.
// TestKeyPrefixes: a key that the operator does not allow keeps a rule from being applied, and splits no rule.
func TestKeyPrefixes(t *testing.T) {
	c := fleet(cni("kube-system", "calico-node"), csi("kube-system", "a", "a.example.com").tolerate(""),
		csi("kube-system", "b", "b.example.com").tolerate("")).cluster()
	c.KeyPrefixes = []string{"example.com/", "readiness.k8s.io/Net"}
	s := For(c)
	if len(s.Rules) != 2 || len(s.Rules[0].Problems) > 0 || len(s.Rules[1].Problems) != 1 ||
		!strings.Contains(s.Rules[1].Problems[0], `spec.taint.key: the key "readiness.k8s.io/StorageReady" is not allowed`) {
		t.Errorf("got %q", s.Summary())
	}
}

func TestLimit(t *testing.T) {
	for own, want := range map[string]string{"": "10%", "2": "2", "33%": "33%"} {
		a := cni("kube-system", "calico-node")
		if own != "" {
			a.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.Parse(own))}
		}
		if got := For(fleet(a).cluster()).Rules[0].Limit; got != intstr.Parse(want) {
			t.Errorf("maxUnavailable %q of the DaemonSet: %s, want %s", own, got.String(), want)
		}
	}
}

// TestYAML: what is not a comment can be applied, and a rule with a problem is a comment as a whole.
func TestYAML(t *testing.T) {
	s := For(fleet(cni("kube-system", "calico-node"), csi("kube-system", "ebs-csi-node", "ebs.csi.aws.com").tolerate(""),
		csi("ceph", "csi-rbdplugin", "rbd.csi.ceph.com")).cluster())
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for document := range strings.SplitSeq(text, "---\n") {
		rule := &v1alpha1.NodeReadinessRule{}
		if err := yaml.UnmarshalStrict([]byte(document), rule); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		names = append(names, rule.Name)
	}
	if diff := cmp.Diff([]string{"network", "storage"}, names); diff != "" {
		t.Error(diff)
	}
	list, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(list, `"kind": "NodeReadinessRule"`); n != 2 || strings.Contains(list, "ceph") {
		t.Errorf("%d rules in %s", n, list)
	}
	if empty, _ := For(&Cluster{Now: now}).JSON(); !strings.Contains(empty, `"items": []`) {
		t.Error(empty)
	}
}
