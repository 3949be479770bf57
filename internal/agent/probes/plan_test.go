// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func condition(name, status, reason string, since, heartbeat time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(name), Status: corev1.ConditionStatus(status), Reason: reason, Message: "m",
		LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.NewTime(heartbeat),
	}
}

func want(status, reason string, checkedAt time.Time) desired {
	return desired{status: corev1.ConditionStatus(status), reason: reason, message: "m", checkedAt: checkedAt,
		heartbeat: 5 * time.Minute}
}

func TestPlan(t *testing.T) {
	since := t0.Add(-time.Hour)
	ago := func(d time.Duration) time.Time { return t0.Add(-d) }
	observed := func(heartbeat time.Time) []corev1.NodeCondition {
		return []corev1.NodeCondition{condition("A", "True", "ok", since, heartbeat)}
	}
	isOK, renewed := map[string]desired{"A": want("True", "ok", t0)}, observed(t0)
	for _, c := range []struct {
		name     string
		observed []corev1.NodeCondition
		want     map[string]desired
		anyway   bool
		written  map[string]time.Time
		boot     time.Time
		write    []corev1.NodeCondition
	}{
		{name: "nothing to do"},
		{
			name:  "a condition that is not there is written, and has turned now",
			want:  isOK,
			write: []corev1.NodeCondition{condition("A", "True", "ok", t0, t0)},
		},
		{
			name:     "one that is as it shall be is left alone, a second before its heartbeat is due",
			observed: observed(ago(299 * time.Second)), want: isOK,
		},
		{
			name:     "the heartbeat is due: the transition time stays",
			observed: observed(ago(300 * time.Second)), want: isOK, write: renewed,
		},
		{
			name:     "a heartbeat is due, but no run has found anything since",
			observed: observed(ago(time.Hour)),
			want:     map[string]desired{"A": want("True", "ok", ago(time.Hour))},
		},
		{
			name: "the status turns", observed: observed(ago(time.Second)),
			want:  map[string]desired{"A": want("False", "ok", t0)},
			write: []corev1.NodeCondition{condition("A", "False", "ok", t0, t0)},
		},
		{
			name: "the message alone changes: that waits for the heartbeat",
			observed: []corev1.NodeCondition{message("it expired 1s ago", condition("A", "True", "ok", since,
				ago(299*time.Second)))},
			want: isOK,
		},
		{
			name: "and is written with it",
			observed: []corev1.NodeCondition{message("it expired 1s ago", condition("A", "True", "ok", since,
				ago(300*time.Second)))},
			want: isOK, write: renewed,
		},
		{
			name:     "a heartbeat in the future is not trusted by an agent that has not written it",
			observed: observed(ago(-time.Hour)), want: isOK, write: renewed,
		},
		{
			name:     "what the agent wrote itself counts, regardless of the clock: not yet due",
			observed: observed(ago(-time.Hour)),
			written:  map[string]time.Time{"A": ago(299 * time.Second)}, boot: ago(-time.Hour),
			want: isOK,
		},
		{
			name:     "what the agent wrote itself counts, regardless of the clock: due",
			observed: observed(ago(-time.Hour)),
			written:  map[string]time.Time{"A": ago(300 * time.Second)},
			want:     isOK, write: renewed,
		},
		{
			name:     "the clock was set forward since the agent wrote: due",
			observed: observed(ago(time.Hour)),
			written:  map[string]time.Time{"A": ago(time.Second)},
			want:     isOK, write: renewed,
		},
		{
			name:     "the reason alone changes: the transition time stays",
			observed: []corev1.NodeCondition{condition("A", "False", "x", since, ago(time.Second))},
			want:     map[string]desired{"A": want("False", "y", t0)},
			write:    []corev1.NodeCondition{condition("A", "False", "y", since, t0)},
		},
		{
			name:     "a heartbeat from before the boot is due",
			observed: observed(ago(time.Minute)),
			want:     isOK, boot: ago(30 * time.Second), write: renewed,
		},
		{
			name: "what is written takes along what would be due before long, and nothing else",
			observed: []corev1.NodeCondition{
				condition("A", "True", "ok", since, ago(time.Second)), condition("B", "True", "ok", since, ago(150*time.Second)),
				condition("C", "True", "ok", since, ago(149*time.Second)),
			},
			want:  map[string]desired{"A": want("False", "no", t0), "B": want("True", "ok", t0), "C": want("True", "ok", t0)},
			write: []corev1.NodeCondition{condition("A", "False", "no", t0, t0), condition("B", "True", "ok", since, t0)},
		},
		{
			name:     "a patch that removes another condition takes along what would be due before long",
			observed: observed(ago(150 * time.Second)),
			want:     isOK, anyway: true, write: renewed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			write := plan(c.observed, c.want, c.written, c.anyway, t0, c.boot)
			if diff := cmp.Diff(c.write, write); diff != "" {
				t.Errorf("write: -want +got:\n%s", diff)
			}
			if again := plan(write, c.want, nil, false, t0, time.Time{}); len(write) == len(c.want) && len(again) > 0 {
				t.Errorf("a second pass writes %v", again)
			}
		})
	}
}

func message(text string, c corev1.NodeCondition) corev1.NodeCondition {
	c.Message = text
	return c
}

func TestTheFirstRunAfterABootDecides(t *testing.T) {
	boot := t0.Add(-time.Minute)
	for _, c := range []struct {
		name      string
		heartbeat time.Time
		want      bool
	}{
		{"the condition is from before the boot", boot.Add(-time.Second), true},
		{"the condition is from this boot", boot, false},
	} {
		before := condition("A", "True", "before", t0, c.heartbeat)
		s := state{probe: &Probe{SuccessThreshold: 2, FailureThreshold: 3}}
		s.found(Finding{}, &before, t0, boot)
		if got := s.want != nil && s.want.status == corev1.ConditionFalse; got != c.want {
			t.Errorf("%s: %+v", c.name, s.want)
		}
	}
	wrong := New(Options{})
	wrong.booted = func() time.Time { return time.Now().Add(time.Hour) }
	if got := wrong.bootTime(); !got.IsZero() {
		t.Errorf("a boot in the future: %s", got)
	}
	wrong.booted = func() time.Time { return boot }
	if got := wrong.bootTime(); !got.Equal(boot) {
		t.Errorf("the clock was set after the start: %s", got)
	}
}

func TestOrphans(t *testing.T) {
	observed := []corev1.NodeCondition{
		condition("Ready", "True", "KubeletReady", t0, t0), condition("A", "True", ReasonSucceeded, t0, t0),
		condition("B", "False", ReasonFailed, t0, t0), condition("C", "True", "EndpointOK", t0, t0),
		condition("D", "False", ReasonTimedOut, t0, t0), condition("E", "False", ReasonTimedOut, t0, t0),
	}
	observed[4].Message = "no answer" // not an agent's
	observed[5].Message = timedOut + "10s"
	if diff := cmp.Diff([]string{"B", "E"}, orphans(observed, func(name string) bool { return name == "A" })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestThePatchNamesOnlyItsOwn(t *testing.T) {
	got, err := encodePatch([]corev1.NodeCondition{condition("A", "True", "ok", t0, t0)}, []string{"B"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"status":{"conditions":[{"type":"A","status":"True","lastHeartbeatTime":"2026-01-01T12:00:00Z",` +
		`"lastTransitionTime":"2026-01-01T12:00:00Z","reason":"ok","message":"m"},{"$patch":"delete","type":"B"}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestThresholds(t *testing.T) {
	existing := func(status string) *corev1.NodeCondition {
		c := condition("A", status, "before", t0, t0)
		return &c
	}
	for _, c := range []struct {
		name   string
		before *corev1.NodeCondition
		runs   string // + succeeds, - fails
		want   string // what the condition shall be after each run; . nothing yet
	}{
		{"three failures in a row turn it, two do not", existing("True"), "+--+---", "TTTTTTF"},
		{"two successes in a row turn it back", existing("False"), "-+-++", "FFFFT"},
		{"where nothing was ever said one failure says no", nil, "-", "F"},
		{"but a success has to be confirmed", nil, "++", ".T"},
		{"a restart does not turn what stands", existing("True"), "--", ".."},
		{"nor wait for what it confirms", existing("True"), "+", "T"},
		{"Unknown is nothing that counts on", existing("Unknown"), "---", "..F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := state{probe: &Probe{SuccessThreshold: 2, FailureThreshold: 3}}
			var got strings.Builder
			for i, r := range c.runs {
				s.found(Finding{OK: r == '+'}, c.before, t0.Add(time.Duration(i)*time.Second), time.Time{})
				if s.want == nil {
					got.WriteString(".")
				} else {
					got.WriteString(string(s.want.status[:1]))
				}
			}
			if got.String() != c.want {
				t.Errorf("got %s, want %s", got.String(), c.want)
			}
		})
	}
}

func TestARunThatDisagreesIsNoHeartbeat(t *testing.T) {
	s := state{probe: &Probe{SuccessThreshold: 1, FailureThreshold: 3}}
	s.found(Finding{OK: true}, nil, t0, time.Time{})
	s.found(Finding{OK: false}, nil, t0.Add(time.Minute), time.Time{})
	if !s.want.checkedAt.Equal(t0) {
		t.Errorf("checked at %s", s.want.checkedAt)
	}
}

func TestBootTime(t *testing.T) {
	if got := readBootTime(); runtime.GOOS == "linux" && (got.IsZero() || got.After(time.Now())) {
		t.Errorf("got %s", got)
	}
}
