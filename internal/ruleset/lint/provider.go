// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// provider recognizes the DaemonSets that bring a piece of evidence to a node.
type provider struct {
	field, what string
	is          func(*Workload) bool
}

// providerOf returns how to recognize what provides a requirement, or nil if a DaemonSet cannot be recognized.
func providerOf(q *ruleset.Requirement) *provider {
	switch {
	case q.CSIDriver != nil:
		return &provider{"csiDriver.name", "CSI driver " + q.CSIDriver.Name, registers(q.CSIDriver.Name)}
	case q.Devices != nil:
		return &provider{"devices.driver", "DRA driver " + q.Devices.Driver, registers(q.Devices.Driver)}
	case q.Resource != nil:
		domain, _, extended := strings.Cut(q.Resource.Name, "/")
		labels := strings.Split(domain, ".")
		if !extended || len(labels) < 2 {
			return nil
		}
		return &provider{"resource.name", "resource " + q.Resource.Name, plugsIn(labels[len(labels)-2])}
	}
	return nil
}

// registers returns a function that reports whether a DaemonSet registers a driver at the kubelet: drivers have their
// socket in the directory plugins/NAME of the kubelet.
func registers(driver string) func(*Workload) bool {
	return func(w *Workload) bool {
		return slices.ContainsFunc(told(w.Pod), func(s string) bool {
			_, after, found := strings.Cut(s, "/plugins/"+driver)
			return found && (after == "" || after[0] == '/')
		})
	}
}

// plugsIn returns a function that reports whether a DaemonSet is a device plugin of a vendor. Which resources a device
// plugin registers is in its code only.
func plugsIn(vendor string) func(*Workload) bool {
	return func(w *Workload) bool {
		if !slices.ContainsFunc(w.Pod.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && strings.HasSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), "/device-plugins")
		}) {
			return false
		}
		return strings.Contains(w.Name, vendor) || slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool {
			return strings.Contains(c.Image, vendor)
		})
	}
}

// told returns the paths that a pod mounts and what its containers are told.
func told(pod *corev1.PodSpec) (out []string) {
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			out = append(out, v.HostPath.Path)
		}
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		out = append(append(out, c.Command...), c.Args...)
		for _, e := range c.Env {
			out = append(out, e.Value)
		}
	}
	return out
}

// providers warns about DaemonSets that bring the rule's evidence to a node and do not tolerate its taint.
func (l *linter) providers() {
	t := l.rule.Taint
	if !ruleset.Repels(t) {
		return
	}
	for i := range l.rule.Requirements {
		p := providerOf(&l.rule.Requirements[i])
		if p == nil {
			continue
		}
		for j := range l.facts.Workloads {
			if w := &l.facts.Workloads[j]; w.Kind == "DaemonSet" && p.is(w) && !tolerates(w.Pod, t) {
				l.warn(Deadlock, fmt.Sprintf("spec.requirements[%d].%s", i, p.field), "%s provides %s and does not tolerate this "+
					"rule's own taint %s: it waits for the nodes, which wait for it; add a toleration for %s", w, p.what,
					t.ToString(), t.Key)
			}
		}
	}
}

// Provided reports whether DaemonSets of any namespace may bring the evidence of a rule that keeps them off the node.
func Provided(rule *ruleset.Rule) bool {
	return ruleset.Repels(rule.Taint) && slices.ContainsFunc(rule.Requirements, func(q ruleset.Requirement) bool {
		return providerOf(&q) != nil
	})
}
