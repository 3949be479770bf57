// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/text"
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
// Missing holds the node; the other states do not. No state is stored: the record has the release, and the creation of
// a pod that replaced another one tells when the other pod was gone. Only if there is no pod at all does this process
// remember since when.

// Service tells since when a node is in service under a rule, for requirements of DaemonSets.
type Service struct {
	// Released is when the node was released. It is zero if the node was never released, or was re-armed since.
	Released time.Time
	// Undisrupted says that the rule has held since then: a pod that is missing now was ready.
	Undisrupted bool
}

// maxNamespaces is the most namespaces of a requirement of DaemonSets. Each needs two watches.
const maxNamespaces = 16

func compileDaemonSets(p *Problems, field string, r *v1alpha1.Requirement) Kind {
	q := r.DaemonSets
	if q == nil {
		return nil
	}
	field += ".daemonSets"
	out := &DaemonSets{DaemonSetsRequirement: *q, Labels: labels.Everything()}
	if q.Selector != nil {
		selector, err := q.Selector.AsSelector()
		if err != nil {
			p.Invalid(field+".selector", "%v", err)
		}
		out.Labels = selector
	}
	if n := len(q.Namespaces); n < 1 || n > maxNamespaces {
		p.Invalid(field+".namespaces", "must have 1 to %d entries", maxNamespaces)
	}
	for i, namespace := range q.Namespaces {
		if len(validation.IsDNS1123Label(string(namespace))) > 0 {
			p.Invalid(fmt.Sprintf("%s.namespaces[%d]", field, i), "must be the name of a namespace, without wildcards")
		}
	}
	OneOf(p, field+".untolerated", q.Untolerated, v1alpha1.UntoleratedIgnore, v1alpha1.UntoleratedHold)
	return out
}

// Origin implements Kind.
func (*DaemonSets) Origin() Origin { return Elsewhere }

// daemonSetsFound describes the DaemonSets of a requirement on a node.
type daemonSetsFound struct {
	*DaemonSets
	belong  int // on the node
	counted int // without those that were created after the release
	ready   int // also those that count because they are being replaced
	former  int // those whose pods may be from before the node booted, and would count if they were ready
	waiting []waitingDaemonSet
	ignored []*DaemonSet
	own     *corev1.Taint
}

// waitingDaemonSet is a DaemonSet in the state Missing.
type waitingDaemonSet struct {
	set *DaemonSet
	pod string // the name of its pod, if it has one
	why podState
	by  *corev1.Taint // keeps the pod off the node
	of  string        // the rule that manages by
}

// daemonSetState is the state of a DaemonSet on a node: since when and until when it counts, or why it does not.
type daemonSetState struct {
	ready        bool
	since, until time.Time
	waitingDaemonSet
	seen, former bool // it has a pod on the node, or one that may be from before the node booted
}

func (q *DaemonSets) judge(facts *Facts, now time.Time) (condition.Judgement, finding) {
	placed := q.On(facts.Node, facts.Own, facts.Manager)
	out := &daemonSetsFound{DaemonSets: q, belong: len(placed.Belong), ignored: placed.Ignored, own: facts.Own}
	boot := facts.bootState(now)
	pods, missing := facts.daemonPods(boot, q)
	if missing != "" {
		return missing.judge(facts, boot, now)
	}
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
			if s.since.After(since) {
				since = s.since
			}
		} else {
			out.waiting = append(out.waiting, s.waitingDaemonSet)
			if s.former {
				out.former++
			}
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

// daemonSet returns the state of a DaemonSet on the node. If it has several pods, the one that has been ready for the
// longest time decides.
func (f *Facts) daemonSet(q *DaemonSets, d *DaemonSet, pods []DaemonPod, boot bootState,
	now time.Time) daemonSetState {
	out := daemonSetState{waitingDaemonSet: waitingDaemonSet{set: d, why: podAbsent}}
	owner := unique.Make(d.UID)
	var gone time.Time // since when the former pod is gone
	for i := range pods {
		p := &pods[i]
		if p.Owner != owner {
			continue
		}
		why, since := f.judgeDaemonPod(p, q, d, now)
		ready := why == podCounts || why == podTooYoung
		if ok, again := p.starts.prove(f, boot, now); !ok && (ready || why == podUnready) {
			out.former = true
			if ready {
				why, out.until = podBeforeBoot, earlier(out.until, again)
			}
		}
		if why == podCounts && (!out.ready || since.Before(out.since)) {
			out.ready, out.since = true, since
		}
		if why == podTooYoung {
			out.until = earlier(out.until, since)
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
			out.of = f.Manager(out.by)
		}
	}
	return out
}

// replaced returns since when the pod that was ready at the release is gone: the earlier of gone and the time that p
// tells, if it tells one. A pod from the second of the release may be that pod: it passes for its successor, since that
// errs for disruptionSeconds only.
func (f *Facts) replaced(p *DaemonPod, gone time.Time) time.Time {
	at := p.deleted.time()
	if p.deleted == 0 {
		at = p.created.time()
	}
	if at.Before(f.Service.Released) {
		return gone
	}
	if gone.IsZero() || at.Before(gone) {
		return at
	}
	return gone
}

// disruptedUntil returns until when a DaemonSet counts although its pod is not ready. Zero means that it does not.
func (f *Facts) disruptedUntil(q *DaemonSets, d *DaemonSet, s *daemonSetState, gone,
	now time.Time) time.Time {
	switch {
	case !f.Service.Undisrupted:
		return time.Time{}
	case !s.seen && f.Gathered.Absent != nil:
		gone = f.Gathered.Absent(d.UID, now)
	}
	if gone.IsZero() {
		return time.Time{}
	}
	return gone.Add(q.Disruption())
}

// judgeDaemonPod returns why a pod does not count, and since when it counts or will count.
func (f *Facts) judgeDaemonPod(p *DaemonPod, q *DaemonSets, d *DaemonSet, now time.Time) (podState, time.Time) {
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
	since := f.readyFor(p.minReady(q, d), readyPod{d.Namespace, p.Name, p.ready.time(), p.created.time()}, now)
	if since.After(now) {
		return podTooYoung, since
	}
	return podCounts, since
}

// minReady returns for how long a pod must have been ready.
func (p *DaemonPod) minReady(q *DaemonSets, d *DaemonSet) time.Duration {
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

// daemonPods returns the pods of DaemonSets on the node, by namespace, or a namespace whose pods cannot be listed.
func (f *Facts) daemonPods(boot bootState, q *DaemonSets) (map[string][]DaemonPod, unlisted) {
	if boot < confirmed || f.Live == nil {
		return f.Gathered.DaemonPods, ""
	}
	out := map[string][]DaemonPod{}
	for _, namespace := range q.Namespaces {
		pods, known := f.Live(string(namespace), labels.Everything())
		if !known {
			return nil, unlisted(namespace)
		}
		for _, pod := range pods {
			if p, ok := DaemonPodOf(pod); ok {
				out[pod.Namespace] = append(out[pod.Namespace], p)
			}
		}
	}
	return out, ""
}

func (f *daemonSetsFound) refutes() bool { return f.belong < f.Least() || f.ready+f.former < f.counted }

func (f *daemonSetsFound) message(*Result) string {
	if f.belong < f.Least() {
		return fmt.Sprintf("%d of the DaemonSets belong on this node, must be at least %d", f.belong, f.Least())
	}
	if f.counted == 0 {
		return "the DaemonSets that belong on this node do not count: they were created after its release"
	}
	out := fmt.Sprintf("%d of %d DaemonSets that belong on this node are ready", f.ready, f.counted)
	if len(f.waiting) == 0 {
		return out
	}
	why := make([]string, len(f.waiting))
	for i := range f.waiting {
		why[i] = f.waiting[i].words()
	}
	return out + ": " + text.Few(why, maxWaiting, len(why))
}

// words returns why a DaemonSet does not count.
func (w *waitingDaemonSet) words() string {
	if w.why == podAbsent {
		return w.absent()
	}
	return fmt.Sprintf("pod %s of DaemonSet %s %s", w.pod, w.set, w.why.words())
}

func (w *waitingDaemonSet) absent() string {
	out := fmt.Sprintf("DaemonSet %s has no pod", w.set)
	switch {
	case w.by == nil:
		return out
	case w.of == "":
		return fmt.Sprintf("%s, because of taint %s", out, w.by.ToString())
	}
	return fmt.Sprintf("%s, because of taint %s of rule %s", out, w.by.ToString(), w.of)
}

// warning names the DaemonSets that the requirement leaves out.
func (f *daemonSetsFound) warning(requirement string) string {
	if len(f.ignored) == 0 {
		return ""
	}
	names := make([]string, len(f.ignored))
	for i, d := range f.ignored {
		names[i] = d.String()
	}
	return fmt.Sprintf("requirement %s leaves out DaemonSets that do not tolerate this rule's own taint %s: %s: add a "+
		"toleration to them, or exclude them", requirement, f.own.ToString(), text.Few(names, maxWaiting, len(names)))
}
