// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// A rebooted node still shows its state from before the boot: pods that look ready, drivers, resources. This counts in
// each state:
//
//	settled ──reboot──► booting ──confirmed──► confirmed ──lastWait──► final ──release──► settled
//
//	booting    a pod whose containers all started after the boot's bound, and not in the future; a rule that re-arms as
//	           well, and has become ready since the boot
//	confirmed  also a pod that a live list shows ready, unless all its containers started before the boot for certain;
//	           other rules, and conditions that they publish; CSI drivers, resources and expressions
//	final      every pod that a live list shows ready, regardless of the clocks
//
// A boot is confirmed when the node is Ready, confirmAfter has passed since the operator saw the boot, and kubelet has
// reported confirmAfter after the bound and after it became Ready. final needs a Ready node, too. So a reboot that the
// operator did not see, or a wrong clock, never holds a node forever.
const (
	confirmAfter = 2 * time.Minute
	lastWait     = 10 * time.Minute
)

// Boot describes the last boot of a node. With the zero value, all evidence counts.
type Boot struct {
	// Bound is the Ready heartbeat in the version of the node that brought the boot ID, by kubelet's clock, or SeenAt if
	// that is far in the future. Evidence that was reported before is from an earlier boot.
	Bound time.Time
	// SeenAt is when the operator saw the boot, by the operator's clock.
	SeenAt time.Time
	// Former is the newest time of the record before the boot. Zero means unknown.
	Former time.Time
}

type bootState int

const (
	settled bootState = iota
	booting
	confirmed
	final
)

func (f *Facts) bootState(now time.Time) bootState {
	b := &f.Boot
	if b.Bound.IsZero() {
		return settled
	}
	ready := nodeReady(f.Node)
	if ready == nil || now.Before(b.SeenAt.Add(confirmAfter)) {
		return booting
	}
	if !now.Before(b.SeenAt.Add(lastWait)) {
		return final
	}
	from := b.Bound
	if ready.LastTransitionTime.After(from) {
		from = ready.LastTransitionTime.Time
	}
	if ready.LastHeartbeatTime.Time.Before(from.Add(confirmAfter)) {
		return booting
	}
	return confirmed
}

// ahead returns until when kubelet's times do not tell what was after the boot, by its clock that is ahead: the bound
// is by the operator's clock then. Zero means that they do.
func (f *Facts) ahead() (until time.Time) {
	if ready := condition.Find(f.Node, string(corev1.NodeReady)); ready != nil && f.Boot.Bound.Equal(f.Boot.SeenAt) {
		return ready.LastHeartbeatTime.Time
	}
	return until
}

// BootConfirmed reports whether a node's last boot is confirmed. If not, it returns when to ask again.
func BootConfirmed(node *corev1.Node, b Boot, now time.Time) (ok bool, at time.Time) {
	if f := (Facts{Node: node, Boot: b}); f.bootState(now) >= confirmed || b.Bound.IsZero() {
		return true, time.Time{}
	}
	if at = b.SeenAt.Add(confirmAfter); at.After(now) {
		return false, at
	}
	return false, now.Add(confirmAfter / 4)
}

func nodeReady(node *corev1.Node) *corev1.NodeCondition {
	if c := condition.Find(node, string(corev1.NodeReady)); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// judgeCondition evaluates a condition. A heartbeat in the future does not tell whether it is from before the boot, so
// the condition then counts after the boot is confirmed. Its age counts from when this process first saw it.
//
// So does a condition from before the boot that a rule publishes: the operator writes it only when it changes. It is
// unread while that rule itself does not know whether the node is ready.
func (f *Facts) judgeCondition(c *v1alpha1.ConditionRequirement, now time.Time) condition.Judgement {
	found := condition.Find(f.Node, c.Type)
	j := condition.JudgeReport(c, found, f.Boot.Bound, now)
	if cause := condition.Undecided(found); cause != "" && !j.Satisfied {
		j = unread()
		j.Cause = cause
		return j
	}
	if j.Cause == condition.CauseBeforeBoot && strings.HasPrefix(found.Reason, v1alpha1.PublishedReasonPrefix) {
		boot := f.bootState(now)
		if boot == booting {
			f.Boot.waits(boot, &j, now)
			return j
		}
		j = condition.JudgeReport(c, found, time.Time{}, now)
		j.Since = time.Time{}
		return j
	}
	seen, ahead := f.Arrivals.at(f.Node.Name, c.Type, j.Heartbeat, now)
	if !ahead {
		return j
	}
	if boot := f.bootState(now); boot == booting {
		j = condition.JudgeReport(c, found, j.Heartbeat.Add(1), now)
		f.Boot.await(boot, &j, now)
	} else if c.MaxAge() > 0 {
		if seen.Before(f.Boot.Bound) {
			seen = f.Boot.Bound
		}
		report := *found
		report.LastHeartbeatTime.Time = seen
		j = condition.JudgeReport(c, &report, f.Boot.Bound, now)
		j.Awaits = true // the next heartbeat counts from its arrival
	}
	return j
}

// podsSince returns the pods of a requirement, if they are known.
func (f *Facts) podsSince(boot bootState, p *Pods) (pods []*corev1.Pod, known bool) {
	if boot >= confirmed && f.Live != nil {
		return f.Live(p.Namespace, p.Labels)
	}
	return f.Gathered.Pods[p], true
}

// unlisted is the namespace of pods that could not be listed.
type unlisted string

// judge returns the judgement of a requirement of these pods.
func (u unlisted) judge(f *Facts, boot bootState, now time.Time) (condition.Judgement, finding) {
	j := unread()
	f.Boot.await(boot, &j, now)
	return j, u
}

func (u unlisted) message(*Result) string {
	return fmt.Sprintf("the node has rebooted, and its pods in namespace %s cannot be listed", string(u))
}

// starts are the starts of the first and the last of a pod's containers, or zero if not all of them run.
type starts struct{ first, last stamp }

func startsOf(pod *corev1.Pod) starts {
	var out starts
	for i := range pod.Status.ContainerStatuses {
		running := pod.Status.ContainerStatuses[i].State.Running
		if running == nil {
			return starts{}
		}
		at := stampOf(running.StartedAt)
		out.last = max(out.last, at)
		if i == 0 || at < out.first {
			out.first = at
		}
	}
	return out
}

// prove reports whether a pod has certainly started since the boot. If not, it may return when to look again: until
// then kubelet's clock, by which the pod has started, is ahead.
func (s starts) prove(f *Facts, boot bootState, now time.Time) (ok bool, again time.Time) {
	b, run := &f.Boot, s.last != 0
	switch {
	case boot == settled || boot == final:
		return true, again
	case !b.Former.IsZero() && run && s.last.time().Before(b.Former):
		return false, again
	case boot == confirmed:
		return true, again
	case !run || s.first.time().Before(b.Bound):
		return false, again
	}
	if again = s.last.time(); f.ahead().After(again) {
		again = f.ahead()
	}
	return !again.After(now), again
}

// await makes a judgement that is not satisfied wait for kubelet's next heartbeat, and for the next state of the boot.
func (b *Boot) await(boot bootState, j *condition.Judgement, now time.Time) {
	if !j.Satisfied {
		b.waits(boot, j, now)
	}
}

// waits is await for a judgement that may be satisfied, because the rule requires the status Unknown.
func (b *Boot) waits(boot bootState, j *condition.Judgement, now time.Time) {
	if boot == settled || boot == final {
		return
	}
	j.Awaits = true
	for _, at := range []time.Time{b.SeenAt.Add(confirmAfter), b.SeenAt.Add(lastWait)} {
		if at.After(now) {
			j.ChangesAt = earlier(j.ChangesAt, at)
		}
	}
}

// earlier returns the earlier of two times. Zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
