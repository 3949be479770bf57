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

// providerOf returns what provides a requirement, or false if a DaemonSet that does cannot be recognized.
func providerOf(q *evidence.Requirement) (p evidence.Provider, known bool) {
	k, provided := q.Kind.(evidence.Provided)
	if !provided {
		return p, false
	}
	p = k.Provider()
	_, known = vendorOf(p.Domain)
	return p, known || p.Driver != ""
}

// provides reports whether a workload is what p describes.
func (w *Workload) provides(p evidence.Provider) bool {
	if w.Kind != "DaemonSet" {
		return false
	}
	vendor, known := vendorOf(p.Domain)
	return slices.Contains(w.Drivers(), p.Driver) || known && w.mounts(p.Mounts) && w.namedAfter(vendor)
}

// Provides reports whether a DaemonSet brings the evidence of a requirement to a node. It recognizes CSI drivers, DRA
// drivers and device plugins.
func Provides(q *evidence.Requirement, w *Workload) bool {
	p, known := providerOf(q)
	return known && w.provides(p)
}

// vendorOf returns the name of the vendor in a domain, such as nvidia in gpu.nvidia.com.
func vendorOf(domain string) (string, bool) {
	labels := strings.Split(domain, ".")
	if len(labels) < 2 {
		return "", false
	}
	return labels[len(labels)-2], true
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

// KeptAway warns about DaemonSets that bring the evidence of a rule to a node and do not tolerate its taint.
func KeptAway(rule *ruleset.Rule, workloads []Workload) (out []Warning) {
	t := rule.Taint
	if !evidence.Repels(t) {
		return nil
	}
	for i := range rule.Requirements {
		p, known := providerOf(&rule.Requirements[i])
		if !known {
			continue
		}
		for j := range workloads {
			if w := &workloads[j]; w.provides(p) && !tolerates(w.Pod, t) {
				out = append(out, Warning{Code: Deadlock, Field: fmt.Sprintf("spec.requirements[%d].%s", i, p.Field),
					Message: fmt.Sprintf("%s provides %s and does not tolerate this rule's own taint %s, so it never starts on a "+
						"held node: add a toleration for %s", w, p.What, t.ToString(), t.Key)})
			}
		}
	}
	return out
}

// Provided reports whether DaemonSets of any namespace may bring the evidence of a rule that keeps them off the node.
func Provided(rule *ruleset.Rule) bool {
	return evidence.Repels(rule.Taint) && slices.ContainsFunc(rule.Requirements, func(q evidence.Requirement) bool {
		_, known := providerOf(&q)
		return known
	})
}
