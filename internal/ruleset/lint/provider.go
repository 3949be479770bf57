// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// provider recognizes the DaemonSets that bring a piece of evidence to a node.
type provider struct {
	field, what string
	is          func(*Workload) bool
}

// providerOf returns how to recognize what provides a requirement, or nil if a DaemonSet cannot be recognized.
func providerOf(q *evidence.Requirement) *provider {
	switch k := q.Kind.(type) {
	case *evidence.CSIDriver:
		return &provider{"csiDriver.name", "CSI driver " + k.Name, registers(k.Name)}
	case *evidence.Devices:
		vendor, known := vendorOf(k.Driver)
		return &provider{"devices.driver", "DRA driver " + k.Driver, func(w *Workload) bool {
			return registers(k.Driver)(w) || known && w.mounts("/plugins_registry") && w.namedAfter(vendor)
		}}
	case *evidence.Resource:
		domain, _, extended := strings.Cut(k.Name, "/")
		vendor, known := vendorOf(domain)
		if !extended || !known {
			return nil
		}
		return &provider{"resource.name", "resource " + k.Name, func(w *Workload) bool {
			return w.DevicePlugin() && w.namedAfter(vendor)
		}}
	}
	return nil
}

// Provides reports whether a DaemonSet brings the evidence of a requirement to a node. It recognizes CSI drivers, DRA
// drivers and device plugins.
func Provides(q *evidence.Requirement, w *Workload) bool {
	p := providerOf(q)
	return p != nil && w.Kind == "DaemonSet" && p.is(w)
}

// vendorOf returns the name of the vendor in a domain, such as nvidia in gpu.nvidia.com.
func vendorOf(domain string) (string, bool) {
	labels := strings.Split(domain, ".")
	if len(labels) < 2 {
		return "", false
	}
	return labels[len(labels)-2], true
}

// registers returns a function that reports whether a DaemonSet registers a driver at the kubelet.
func registers(driver string) func(*Workload) bool {
	return func(w *Workload) bool { return slices.Contains(w.Drivers(), driver) }
}

// Drivers returns the drivers that a workload registers at the kubelet, which have their sockets in the kubelet's
// directory plugins/NAME.
func (w *Workload) Drivers() (out []string) {
	for _, s := range told(w.Pod) {
		if _, after, found := strings.Cut(s, "/plugins/"); found {
			if name, _, _ := strings.Cut(after, "/"); name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// DevicePlugin reports whether a workload is a device plugin. Which resources it registers is in its code only.
func (w *Workload) DevicePlugin() bool { return w.mounts("/device-plugins") }

// mounts reports whether a workload mounts a directory of the node whose path ends so.
func (w *Workload) mounts(suffix string) bool {
	return slices.ContainsFunc(w.Pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && strings.HasSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), suffix)
	})
}

// namedAfter reports whether the name of a workload or of one of its images contains a word.
func (w *Workload) namedAfter(word string) bool {
	return strings.Contains(w.Name, word) || slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, word)
	})
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
	if !evidence.Repels(t) {
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
	return evidence.Repels(rule.Taint) && slices.ContainsFunc(rule.Requirements, func(q evidence.Requirement) bool {
		return providerOf(&q) != nil
	})
}
