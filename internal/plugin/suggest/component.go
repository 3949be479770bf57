// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

type labelSelector = metav1.LabelSelector

// component is something that makes nodes ready.
type component struct {
	kind string
	what string // what it provides, such as "CSI driver ebs.csi.aws.com"
	why  []string
	// nodes are the names of the nodes that it belongs on, sorted.
	nodes       []string
	requirement v1alpha1.Requirement
	conditions  []v1alpha1.ConditionRequirement
	providers   []*lint.Workload
}

// add adds a component, unless it belongs on no node.
func (s *suggester) add(c *component) bool {
	slices.Sort(c.nodes)
	if c.nodes = slices.Compact(c.nodes); len(c.nodes) == 0 {
		return false
	}
	for i, name := 2, c.requirement.Name; slices.ContainsFunc(s.found, func(o *component) bool {
		return o.requirement.Name == c.requirement.Name
	}); i++ {
		c.requirement.Name = fmt.Sprintf("%s-%d", name, i)
	}
	s.found = append(s.found, c)
	return true
}

// runsOn returns the names of the nodes that a DaemonSet's pods belong on.
func (s *suggester) runsOn(w *lint.Workload) (out []string) {
	for _, n := range s.workers {
		if w.DaemonSet.Fits(n) && w.DaemonSet.RepelledBy(n.Spec.Taints, s.lasting) == nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// lasting reports whether a taint of a node is not a temporary one of Kubernetes, an autoscaler or a rule.
func (s *suggester) lasting(t *corev1.Taint) bool {
	prefixes := append(slices.Clip(evidence.DefaultTransientTaintPrefixes), "node.kubernetes.io/",
		"node.cloudprovider.kubernetes.io/")
	return s.set.Manager(t) == nil &&
		!slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Key, p) })
}

// all returns the DaemonSets for which a function returns true.
func (s *suggester) all(is func(*lint.Workload) bool) (out []*lint.Workload) {
	for i := range s.workloads {
		if w := &s.workloads[i]; is(w) && len(s.runsOn(w)) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// The directories of network plugins end so. Some distributions have them below a directory of their own.
var cniDirectories = []string{"/cni/net.d", "/cni/bin"}

// networkNames are parts of the names of network plugins' DaemonSets, which count if no DaemonSet installs a plugin.
var networkNames = []string{"antrea", "aws-node", "azure-cns", "calico", "canal", "cilium", "flannel", "kindnet",
	"kube-ovn", "kube-router", "ovnkube", "weave"}

// network finds the DaemonSets that install network plugins.
func (s *suggester) network() {
	how := "installs a network plugin: it mounts "
	found := s.all(func(w *lint.Workload) bool { return writes(w.Pod) != "" })
	if len(found) == 0 {
		how = "is a network plugin by its name and its priority class "
		found = s.all(func(w *lint.Workload) bool {
			return w.Pod.PriorityClassName == "system-node-critical" &&
				slices.ContainsFunc(networkNames, func(part string) bool { return strings.Contains(w.Name, part) })
		})
	}
	for _, w := range found {
		c := &component{kind: network, what: "the network of DaemonSet " + w.DaemonSet.String(), nodes: s.runsOn(w),
			providers: []*lint.Workload{w}}
		c.why = append(c.why, fmt.Sprintf("DaemonSet %s %s%s.", w.DaemonSet, how,
			cmp.Or(writes(w.Pod), w.Pod.PriorityClassName)))
		selector, fits := podSelector(s.selectors[s.index(w)])
		if !fits {
			s.note("network: the selector of DaemonSet %s has more labels than a rule may have", w.DaemonSet)
			continue
		}
		c.requirement = v1alpha1.Requirement{Name: label(w.Name), Pods: &v1alpha1.PodsRequirement{Namespace: w.Namespace,
			Selector: selector, OwnerDaemonSet: w.Name}}
		if slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool { return c.ReadinessProbe == nil }) {
			c.requirement.Pods.MinReadySeconds = new(int32(10))
			c.why = append(c.why, "It has a container without a readiness probe: a pod counts 10 seconds after its start.")
			const available = string(corev1.NodeNetworkUnavailable)
			if n, ready := s.reports(c.nodes, available, corev1.ConditionFalse); nearlyAll(n, ready) {
				c.conditions = []v1alpha1.ConditionRequirement{{Type: available, RequiredStatus: v1alpha1.ConditionFalse}}
				c.why = append(c.why, fmt.Sprintf("%d of %d Ready nodes report %s=False.", n, ready, available))
			}
		}
		s.add(c)
	}
	if len(found) == 0 {
		s.note("network: no DaemonSet is recognized as a network plugin: nothing is suggested")
	}
}

// writes returns the directory of network plugins that a pod may write to, or "".
func writes(pod *corev1.PodSpec) string {
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			continue
		}
		path := strings.TrimSuffix(v.HostPath.Path, "/")
		if !slices.ContainsFunc(cniDirectories, func(end string) bool { return strings.HasSuffix(path, end) }) {
			continue
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == v.Name && !m.ReadOnly
			}) {
				return path
			}
		}
	}
	return ""
}

// podSelector returns the selector of a DaemonSet in the form of a rule. It returns false if it is too large.
func podSelector(from *labelSelector) (out v1alpha1.PodSelector, fits bool) {
	if from == nil || len(from.MatchLabels) > 16 || len(from.MatchExpressions) > 4 {
		return out, false
	}
	for key, value := range from.MatchLabels {
		if out.MatchLabels == nil {
			out.MatchLabels = map[string]v1alpha1.LabelValue{}
		}
		out.MatchLabels[key] = v1alpha1.LabelValue(value)
	}
	for _, e := range from.MatchExpressions {
		r := v1alpha1.NodeSelectorRequirement{Key: e.Key, Operator: v1alpha1.NodeSelectorOperator(e.Operator)}
		for _, value := range e.Values {
			r.Values = append(r.Values, v1alpha1.LabelValue(value))
		}
		out.MatchExpressions = append(out.MatchExpressions, r)
	}
	return out, true
}

// storage finds the CSI drivers that nodes have registered.
func (s *suggester) storage() {
	registered := map[string]int{}
	for _, n := range s.workers {
		for _, name := range s.Drivers[n.Name] {
			registered[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		c := &component{kind: storage, what: "CSI driver " + name, requirement: v1alpha1.Requirement{Name: label(name),
			CSIDriver: &v1alpha1.CSIDriverRequirement{Name: name}}}
		s.provided(c, "tells kubelet the socket of CSI driver "+name, nil)
	}
	if s.Drivers == nil {
		return
	}
	for _, w := range s.all(func(w *lint.Workload) bool { return len(w.Drivers()) > 0 }) {
		if !slices.ContainsFunc(w.Drivers(), func(d string) bool { return registered[d] > 0 }) && tells(w) {
			s.note("storage: DaemonSet %s registers the CSI driver %s, and no node has registered a driver of this name: it is "+
				"left out", w.DaemonSet, strings.Join(w.Drivers(), ", "))
		}
	}
}

// tells reports whether a DaemonSet has the sidecar that registers CSI drivers.
func tells(w *lint.Workload) bool {
	return slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(arg string) bool {
			return strings.Contains(arg, "kubelet-registration-path")
		})
	})
}

// resources finds the extended resources that device plugins have registered.
func (s *suggester) resources() {
	found := map[string][]string{}
	least := map[string]resource.Quantity{}
	for _, n := range s.workers {
		for name, quantity := range n.Status.Capacity {
			if r := string(name); strings.Contains(r, "/") && !strings.Contains(r, "kubernetes.io/") && !quantity.IsZero() {
				found[r] = append(found[r], n.Name)
				if l, ok := least[r]; !ok || quantity.Cmp(l) < 0 {
					least[r] = quantity
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := &component{kind: devices, what: "resource " + name, requirement: v1alpha1.Requirement{Name: label(name),
			Resource: &v1alpha1.ResourceRequirement{Name: name, Min: resource.MustParse("1")}}}
		if q := least[name]; s.provided(c, "is the device plugin of "+name, found[name]) && q.CmpInt64(1) > 0 {
			c.why = append(c.why, fmt.Sprintf("Each of these nodes has %s or more. A larger minimum than 1 holds a node that "+
				"lacks some of them.", q.String()))
		}
	}
}

// drivers finds the DRA drivers that publish devices.
func (s *suggester) drivers() {
	found := map[string][]string{}
	for _, slice := range s.Slices {
		if name := slice.Spec.NodeName; name != nil &&
			slices.ContainsFunc(s.workers, func(n *corev1.Node) bool { return n.Name == *name }) {
			found[slice.Spec.Driver] = append(found[slice.Spec.Driver], *name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := &component{kind: devices, what: "DRA driver " + name, requirement: v1alpha1.Requirement{Name: label(name),
			Devices: &v1alpha1.DevicesRequirement{Driver: name, Min: 1}}}
		s.provided(c, "is the DRA driver "+name, found[name])
	}
}

// provided adds a component on the given nodes, or on those of its DaemonSets. It reports whether that was possible.
func (s *suggester) provided(c *component, how string, nodes []string) bool {
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Spec.Requirements = []v1alpha1.Requirement{c.requirement}
	q := &ruleset.Compile(rule, nil, s.Now).Requirements[0]
	c.providers = s.all(func(w *lint.Workload) bool { return lint.Provides(q, w) })
	covered := sets.New[string]()
	for _, w := range c.providers {
		covered.Insert(s.runsOn(w)...)
		c.why = append(c.why, fmt.Sprintf("DaemonSet %s %s.", w.DaemonSet, how))
		s.use(w)
	}
	if c.nodes = nodes; nodes == nil {
		c.nodes = sets.List(covered)
	}
	if !covered.HasAll(c.nodes...) || covered.Len() == 0 {
		s.note("%s: no DaemonSet is known to provide %s on all nodes that have it: it is left out", c.kind, c.what)
		return false
	}
	return s.add(c)
}

func (s *suggester) use(w *lint.Workload) {
	if s.used == nil {
		s.used = map[*lint.Workload]bool{}
	}
	s.used[w] = true
}

// unused names the device plugins without a resource.
func (s *suggester) unused() {
	for _, w := range s.all((*lint.Workload).DevicePlugin) {
		if !s.used[w] {
			s.note("devices: DaemonSet %s is a device plugin, and no node is known to have a resource of it: it is left out; "+
				"run suggest again when a node has its devices", w.DaemonSet)
		}
	}
}

// reports counts the Ready nodes among the named ones, and those of them that report a condition with a status.
func (s *suggester) reports(names []string, condition string, status corev1.ConditionStatus) (count, ready int) {
	for _, n := range s.workers {
		if !slices.Contains(names, n.Name) || statusOf(n, string(corev1.NodeReady)) != corev1.ConditionTrue {
			continue
		}
		ready++
		if statusOf(n, condition) == status {
			count++
		}
	}
	return count, ready
}

func statusOf(n *corev1.Node, condition string) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if string(c.Type) == condition {
			return c.Status
		}
	}
	return ""
}

func nearlyAll(n, of int) bool { return of > 0 && n*20 >= of*19 }

// kubeletConditions are those that kubelet reports.
var kubeletConditions = sets.New(string(corev1.NodeReady), string(corev1.NodeMemoryPressure),
	string(corev1.NodeDiskPressure), string(corev1.NodePIDPressure), string(corev1.NodeNetworkUnavailable))

// conditions names the conditions that nearly all nodes report with one status. Who reports them is not known.
func (s *suggester) conditions() {
	names, seen := []string{}, sets.New[string]()
	for _, n := range s.workers {
		names = append(names, n.Name)
		for _, c := range n.Status.Conditions {
			if !kubeletConditions.Has(string(c.Type)) {
				seen.Insert(string(c.Type) + "=" + string(c.Status))
			}
		}
	}
	var found []string
	for _, pair := range sets.List(seen) {
		condition, status, _ := strings.Cut(pair, "=")
		if n, ready := s.reports(names, condition, corev1.ConditionStatus(status)); nearlyAll(n, ready) {
			found = append(found, pair)
		}
	}
	if len(found) > 0 {
		s.note("nearly all nodes report %s: if new nodes should wait for that, see spec.conditions; nothing is suggested, "+
			"because the reporter may not tolerate the taint", strings.Join(found, ", "))
	}
}

var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// label returns a name as a DNS label.
func label(name string) string {
	out := notInLabel.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(out[:min(len(out), 48)], "-")
}

// present returns the name of a rule that requires a component already, or "".
func (s *suggester) present(c *component) string {
	for i := range s.Rules {
		for _, q := range s.Rules[i].Spec.Requirements {
			if same(&q, &c.requirement) {
				return s.Rules[i].Name
			}
		}
	}
	return ""
}

func same(a, b *v1alpha1.Requirement) bool {
	switch {
	case a.CSIDriver != nil && b.CSIDriver != nil:
		return a.CSIDriver.Name == b.CSIDriver.Name
	case a.Resource != nil && b.Resource != nil:
		return a.Resource.Name == b.Resource.Name
	case a.Devices != nil && b.Devices != nil:
		return a.Devices.Driver == b.Devices.Driver
	case a.Pods != nil && b.Pods != nil:
		return a.Pods.Namespace == b.Pods.Namespace && a.Pods.OwnerDaemonSet == b.Pods.OwnerDaemonSet
	}
	return false
}
