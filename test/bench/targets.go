// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
)

const (
	// maxStart is the time from the start until the first patch is seen.
	maxStart = 10 * time.Second
	// The operator writes a rule's status at most once in two seconds, and two statuses a second in all, after a burst of
	// 20. The times are those at which the API server received the writes: the margin is for the way there, which is
	// long where the machine is busy.
	statusInterval, statusMargin = 2 * time.Second, time.Second
	statusRate, statusBurst      = 2, 20
)

func (r *results) targets() []measure.Target {
	most := measure.MostOf(r.rules)
	out := []measure.Target{
		r.timed("wall time", most.Wall, wall, changing...),
		r.timed("p99", most.P99, p99, changing...),
		r.timed("CPU for heartbeats", most.Heartbeats, cpu, beating),
	}
	out = append(out, r.memory()...)
	return append(out, r.nodePatches(), r.events(), r.statusWrites(), r.heartbeatRequests(), r.restarts(), r.correct())
}

// memory compares the most memory of all phases and rounds with the target, and that of the third burst with the first.
func (r *results) memory() []measure.Target {
	var out []measure.Target
	if limit := measure.MemoryTarget(r.nodes, r.rules); limit > 0 {
		most := 0.0
		for phase := range phaseCount {
			most = slices.Max(append(r.series(operatorName, phase, peak), most))
		}
		out = append(out, measure.Target{Title: fmt.Sprintf("at most %d MiB of memory", limit),
			Reached: most <= float64(limit), Detail: fmt.Sprintf("%.0f MiB", most)})
	}
	const noise = 1.1
	first := measure.Median(r.series(operatorName, applied, peak))
	third := measure.Median(r.series(operatorName, turnedFalse, peak))
	return append(out, measure.Target{Title: "the third burst needs no more memory than the first",
		Reached: third <= noise*first, Detail: fmt.Sprintf("%.0f MiB, %.0f MiB", first, third)})
}

func (r *results) events() measure.Target {
	complaints := r.operator(func(_ int, m *measurement) string {
		if m.requests.events > m.requests.nodePatches+m.requests.statusWrites {
			return fmt.Sprintf("%d events for %d node patches", m.requests.events, m.requests.nodePatches)
		}
		return ""
	})
	return counted("at most one event for each node patch", complaints,
		"and at most one about a rule for each status write")
}

func (r *results) restarts() measure.Target {
	complaints := r.operator(func(phase int, m *measurement) string {
		if m.idleWrites > 0 {
			return fmt.Sprintf("%d writes with nothing to do", m.idleWrites)
		}
		if phase == restarted && m.wall > maxStart {
			return fmt.Sprintf("the first patch after %s", m.wall)
		}
		return ""
	})
	return counted("a restart writes nothing, and then the first patch within 10 s", complaints,
		fmt.Sprintf("the first patch after %.1f s", measure.Median(r.series(operatorName, restarted, wall))))
}

// timed compares the operator with the equal floor. The lean floor has no target.
func (r *results) timed(title string, most float64, get func(*measurement) float64, phases ...int) measure.Target {
	t := measure.Target{Title: fmt.Sprintf("%s at most %.2f x the equal floor", title, most)}
	var all []string
	missed := false
	for _, phase := range phases {
		v := r.ratio(phase, equalName, get)
		reached, undecided := v.Compare(most)
		missed = missed || !reached && !undecided
		t.Undecided = t.Undecided || undecided
		all = append(all, v.String())
	}
	t.Undecided = t.Undecided && !missed
	t.Reached = !missed && !t.Undecided
	t.Detail = strings.Join(all, ", ")
	return t
}

// operator calls a function with each measurement of the operator, and joins what it complains of.
func (r *results) operator(complaint func(phase int, m *measurement) string) string {
	var all []string
	for phase := range phaseCount {
		for _, m := range r.measured[operatorName][phase] {
			if s := complaint(phase, m); s != "" {
				all = append(all, fmt.Sprintf("phase %d: %s", phase+1, s))
			}
		}
	}
	return strings.Join(all, "; ")
}

func counted(title, complaints, fine string) measure.Target {
	return measure.Target{Title: title, Counted: true, Reached: complaints == "", Detail: cmp.Or(complaints, fine)}
}

func (r *results) nodePatches() measure.Target {
	complaints := r.operator(func(phase int, m *measurement) string {
		sent, most := m.requests.nodePatches+m.requests.refused, r.mostChanges(phase)
		if sent < min(r.nodes, most) || sent > most {
			return fmt.Sprintf("%d patches of %d nodes", sent, r.nodes)
		}
		return ""
	})
	return counted("one node patch per node and change", complaints, fmt.Sprintf("%d in each phase", r.nodes))
}

func (r *results) statusWrites() measure.Target {
	least, most := time.Duration(math.MaxInt64), 0
	complaints := r.operator(func(_ int, m *measurement) string {
		most = max(most, m.requests.statusWrites)
		for _, times := range m.requests.statusTimes {
			for i := 1; i < len(times); i++ {
				least = min(least, times[i].Sub(times[i-1]))
			}
		}
		return paceComplaint(m.requests.statusTimes)
	})
	fine := fmt.Sprintf("at most %d in a phase", most)
	if least < math.MaxInt64 {
		fine += fmt.Sprintf(", at least %.1f s between two of a rule", least.Seconds())
	}
	return counted("status writes at most one per rule in 2 s, 2/s in all", complaints, fine)
}

// paceComplaint says whether status writes came faster than they may.
func paceComplaint(byRule map[string][]time.Time) string {
	var all []time.Time
	for _, name := range slices.Sorted(maps.Keys(byRule)) {
		if tooFast(byRule[name], statusInterval, statusMargin) {
			return fmt.Sprintf("more than one write in %s of rule %s", statusInterval, name)
		}
		all = append(all, byRule[name]...)
	}
	const interval = time.Second / statusRate
	if tooFast(all, interval, statusMargin+(statusBurst-1)*interval) {
		return fmt.Sprintf("more than %d writes a second", statusRate)
	}
	return ""
}

// tooFast reports whether any of the times is earlier than an interval after the one before, by more than a tolerance.
// Times that are later make no room for others (the generic cell rate algorithm, ITU-T I.371).
func tooFast(times []time.Time, interval, tolerance time.Duration) bool {
	var due time.Time
	for _, t := range slices.SortedFunc(slices.Values(times), time.Time.Compare) {
		if t.Before(due.Add(-tolerance)) {
			return true
		}
		due = latest([]time.Time{t, due}).Add(interval)
	}
	return false
}

func (r *results) heartbeatRequests() measure.Target {
	complaints := r.operator(func(phase int, m *measurement) string {
		if phase == beating && m.requests.all > 0 {
			return fmt.Sprintf("%d requests (%s)", m.requests.all, m.summary(phase))
		}
		return ""
	})
	return counted("no request for heartbeats", complaints, fmt.Sprintf("0 for %d heartbeats", r.heartbeats*r.nodes))
}

// correct is what all the rest is worth nothing without.
func (r *results) correct() measure.Target {
	complaints := r.operator(func(phase int, m *measurement) string {
		if m.wrong > 0 {
			return fmt.Sprintf("%d nodes are not as they should be", m.wrong)
		}
		if most := r.mostChanges(phase); m.changes > most {
			return fmt.Sprintf("taints changed %d times, at most %d would do", m.changes, most)
		}
		for _, s := range m.rules {
			nodes, held := int32(r.nodes), int32(m.wantHeld)
			if want := (v1alpha1.NodeCounts{Matched: nodes, Ready: nodes - held, Held: held}); s.nodes != want {
				return fmt.Sprintf("the status of rule %s has %+v, not %+v", s.name, s.nodes, want)
			}
		}
		return ""
	})
	return counted("every taint right, no flapping, every status true", complaints, "as seen after each phase")
}

// mostChanges returns how often a node's taints may change in a phase, over all nodes.
func (r *results) mostChanges(phase int) int {
	switch phase {
	case applied: // rules come one by one: a node may meet each on its own
		return r.nodes * r.rules
	case beating:
		return 0
	case restarted:
		return 1
	}
	return r.nodes
}
