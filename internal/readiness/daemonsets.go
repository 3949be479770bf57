// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// A DaemonSet that belongs on a node is in one of these states there:
//
//	  created after the release               pod ready for minReadySeconds
//	┌───────┐ on a released node   ┌─────────┐ ───────────────────────────► ┌───────┐
//	│ Later │ ◄─────────────────── │ Missing │                              │ Ready │
//	└───────┘                      └─────────┘ ◄─────────────────────────── └───────┘
//	                                    ▲        pod not ready any more         │ on a node in service:
//	                                    │                                       │ pod deleted
//	                                    │ after disruptionSeconds  ┌───────────┐│
//	                                    └───────────────────────── │ Disrupted │◄┘
//	                                                               └───────────┘
//
// Missing holds the node; the others do not. No state is stored: the release stands in the record, and a pod that
// replaced another one says by its creation when the other one had gone. Only while there is no pod at all, this
// process remembers since when.

// Service is since when a node is in service under a rule, as requirements of DaemonSets ask for it.
type Service struct {
	// Released is when the node was released; zero: it was not, or it was re-armed since.
	Released time.Time
	// Undisrupted is whether the rule has held since then: what is missing now was ready there.
	Undisrupted bool
}

// daemonSetsFound is what was found of a requirement's DaemonSets.
type daemonSetsFound struct {
	belong  int // how many belong on the node
	counted int // without those that were created after the release
	ready   int // also those that count because they are being replaced
	waiting []waitingDaemonSet
	ignored []*ruleset.DaemonSet
	own     *corev1.Taint
}

// waitingDaemonSet is a DaemonSet that is missing.
type waitingDaemonSet struct {
	set *ruleset.DaemonSet
	pod string // the name of its pod, if it has any
	why podState
	by  *corev1.Taint // what keeps the pod away, if any does
	of  string        // the rule that manages by
}

// daemonSetState is how a DaemonSet stands on a node: since when it counts, until when at most, or why it does not.
type daemonSetState struct {
	ready        bool
	since, until time.Time
	waitingDaemonSet
	seen bool // it has a pod there
}

// judgeDaemonSets judges the DaemonSets that belong on the node.
func judgeDaemonSets(rule *ruleset.Rule, q *ruleset.DaemonSets, facts *Facts, now time.Time) (judgement,
	*daemonSetsFound) {
	placed := q.On(facts.Node, rule.Taint, facts.Rules)
	out := &daemonSetsFound{belong: len(placed.Belong), ignored: placed.Ignored, own: rule.Taint}
	boot := facts.bootState(now)
	pods := facts.daemonPods(boot, q)
	since, changes, seen := time.Time{}, time.Time{}, false
	for _, d := range placed.Belong {
		if released := facts.Service.Released; !released.IsZero() && d.CreationTimestamp.After(released) {
			continue
		}
		out.counted++
		s := facts.daemonSet(q, d, pods[d.Namespace], boot, now)
		seen = seen || s.seen
		if s.ready {
			out.ready++
			since = latest(since, s.since)
		} else {
			out.waiting = append(out.waiting, s.waitingDaemonSet)
		}
		if s.until.After(now) && (changes.IsZero() || s.until.Before(changes)) {
			changes = s.until
		}
	}
	j := requirement(out.ready == out.counted && out.belong >= q.Least(), !seen)
	j.ChangesAt = changes
	if j.Satisfied {
		j.Since = since
	}
	facts.Boot.await(boot, &j, now)
	return j, out
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// daemonSet is how a DaemonSet stands on the node. Of several pods the one that is ready for longest decides.
func (f *Facts) daemonSet(q *ruleset.DaemonSets, d *ruleset.DaemonSet, pods []DaemonPod, boot bootState,
	now time.Time) daemonSetState {
	out := daemonSetState{waitingDaemonSet: waitingDaemonSet{set: d, why: podAbsent}}
	owner := unique.Make(d.UID)
	var gone time.Time // since when the pod that was there is not
	for i := range pods {
		p := &pods[i]
		if p.Owner != owner {
			continue
		}
		why, since := p.judge(q, d, now)
		if (why == podCounts || why == podTooYoung) && !p.proves(&f.Boot, boot, now) {
			why = podBeforeBoot
		}
		if why == podCounts && (!out.ready || since.Before(out.since)) {
			out.ready, out.since = true, since
		}
		if why == podTooYoung {
			out.until = since
		}
		if !out.seen || out.why == podTerminating {
			out.pod, out.why = p.Name, why
		}
		out.seen = true
		gone = f.replaced(p, gone)
	}
	if out.ready {
		out.until = time.Time{}
		return out
	}
	if end := f.disruptedUntil(q, d, &out, gone, now); end.After(now) {
		out.ready, out.until = true, end
		return out
	}
	if out.why == podAbsent {
		anyTaint := func(*corev1.Taint) bool { return true }
		if out.by = d.RepelledBy(f.Node.Spec.Taints, anyTaint); out.by != nil {
			if manager := f.Rules.Manager(out.by); manager != nil {
				out.of = manager.Name
			}
		}
	}
	return out
}

// replaced is since when, by this pod, the one that was ready at the release has gone, or the given time.
func (f *Facts) replaced(p *DaemonPod, gone time.Time) time.Time {
	at := p.deleted.time()
	if p.deleted == 0 {
		at = p.created.time()
	}
	if !at.After(f.Service.Released) {
		return gone
	}
	if gone.IsZero() || at.Before(gone) {
		return at
	}
	return gone
}

// disruptedUntil is until when a DaemonSet counts whose pod is not ready; zero, where it does not.
func (f *Facts) disruptedUntil(q *ruleset.DaemonSets, d *ruleset.DaemonSet, s *daemonSetState, gone,
	now time.Time) time.Time {
	switch {
	case !f.Service.Undisrupted || f.Service.Released.IsZero():
		return time.Time{}
	case !s.seen && f.Evidence != nil && f.Evidence.Absent != nil:
		gone = f.Evidence.Absent(d.UID, now)
	}
	if gone.IsZero() {
		return time.Time{}
	}
	return gone.Add(q.Disruption())
}

// judge judges one pod: since when it counts, or will count, or why it does not.
func (p *DaemonPod) judge(q *ruleset.DaemonSets, d *ruleset.DaemonSet, now time.Time) (podState, time.Time) {
	switch {
	case p.deleted != 0:
		return podTerminating, time.Time{}
	case p.flags&podIsUnschedulable != 0:
		return podUnschedulable, time.Time{}
	case p.flags&podIsBound == 0:
		return podUnscheduled, time.Time{}
	case p.ready == 0:
		return podUnready, time.Time{}
	}
	since := p.readySince(now).Add(p.minReady(q, d))
	if since.After(now) {
		return podTooYoung, since
	}
	return podCounts, since
}

// minReady is for how long a pod must have been ready.
func (p *DaemonPod) minReady(q *ruleset.DaemonSets, d *ruleset.DaemonSet) time.Duration {
	switch {
	case q.MinReadySeconds != nil:
		return time.Duration(*q.MinReadySeconds) * time.Second
	case d.MinReadySeconds > 0:
		return time.Duration(d.MinReadySeconds) * time.Second
	case p.flags&podIsProbeless != 0:
		return probelessReadySeconds * time.Second
	}
	return 0
}

// daemonPods are the pods of DaemonSets on the node, by namespace.
func (f *Facts) daemonPods(boot bootState, q *ruleset.DaemonSets) map[string][]DaemonPod {
	if boot >= confirmed && f.Live != nil {
		out := map[string][]DaemonPod{}
		for _, namespace := range q.Namespaces {
			for _, pod := range f.Live(string(namespace), labels.Everything()) {
				if p, ok := DaemonPodOf(pod); ok {
					out[pod.Namespace] = append(out[pod.Namespace], p)
				}
			}
		}
		return out
	}
	if f.Evidence == nil {
		return nil
	}
	return f.Evidence.DaemonPods
}
