// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

// A node in service, whose annotations leave so many bytes, loses its evidence and gets it back. Under a limit, it is
// not held if its record cannot say that the limit counts it.
func TestANodeWithoutRoomForRecordsIsTaintedAndReleased(t *testing.T) {
	const released = `"released":"2026-01-02T03:04:00Z"`
	limited, unlimited := Rule().MaxUnavailable("1").RearmOnReboot(), Rule().RearmOnReboot()
	for name, c := range map[string]struct {
		room   int
		rule   *build.RuleWrapper
		state  string
		record []string // what the record says while the node is not ready
		full   bool
	}{
		"room for all": {1000, limited, "Held EvidenceMissing",
			[]string{`"rule":"cni"`, `"bootID":"b1"`, `"limited":true`, released}, false},
		"room for the shortest record": {100, limited, "Held EvidenceMissing",
			[]string{`{"taint":"` + Pending + `"`, `"limited":true`, released}, true},
		"room for nothing more": {0, limited, "Exempt AnnotationsFull", []string{`{` + released + `}`}, true},
		"no room, and no limit": {0, unlimited, "Held EvidenceMissing", []string{`{"rule":"cni",` + released + `}`}, true},
		"no room, in a failure domain": {0, Rule().LimitPer("zone", "1"), "Exempt AnnotationsFull",
			[]string{`{"rule":"cni",` + released + `}`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, c.rule)
			node := Old().BootID("b1").Annotation(RecordKey, `{"rule":"cni",`+released+`}`)
			node.Annotation("example.com/filler", "")
			node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-c.room-bytesOf(node.Obj())))

			held, outcome, decisions := w.Pass(node.Obj(), At(10))
			if err := validation.ValidateAnnotations(held.Annotations, field.NewPath("a")).ToAggregate(); err != nil {
				t.Fatal(err)
			}
			record := held.Annotations[RecordKey]
			for _, part := range c.record {
				if !strings.Contains(record, part) {
					t.Errorf("the record is %s, without %s", record, part)
				}
			}
			tainted := strings.HasPrefix(c.state, "Held")
			if (len(held.Spec.Taints) > 0) != tainted || (len(outcome.Full) > 0) != c.full ||
				(len(outcome.Changes) > 0) != tainted {
				t.Errorf("held with %v, full: %v, told: %v", Formatted(held), outcome.Full, outcome.Changes)
			}
			if got := string(decisions[0].State) + " " + decisions[0].Reason; got != c.state {
				t.Errorf("the state is %s, not %s", got, c.state)
			}
			if _, again, _ := w.Pass(held, At(11)); again.Patch != nil {
				t.Errorf("a second pass writes %.500s", again.Patch)
			}
			after, _, _ := w.Pass(build.WrapNode(held).Condition(CNI, corev1.ConditionTrue, At(20)).Obj(), At(20))
			if r, _ := nodeview.ReadRecord(after.Annotations[RecordKey]); len(after.Spec.Taints) > 0 || r.Released.IsZero() {
				t.Errorf("not released: %v %s", Formatted(after), after.Annotations[RecordKey])
			}
		})
	}
}

// TestARuleWithoutRoomAsksNoLimit. Of two rules, each may ask if there is room for one of them.
func TestARuleWithoutRoomAsksNoLimit(t *testing.T) {
	const full, waits = "Exempt AnnotationsFull", "Exempt OverBudget"
	both := []*build.RuleWrapper{Rule().MaxUnavailable("1"),
		RuleOf("disk", Disk, "readiness.k8s.io/disk").MaxUnavailable("1")}
	for room, want := range map[int][]string{1000: {waits, waits}, 200: {waits, waits}, 0: {full, full}} {
		for n := 1; n <= len(both); n++ {
			w := NewWorld(t, both[:n]...)
			w.Refuse = []string{"cni", "disk"}
			node := Old().Annotation("example.com/filler", "")
			node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-room-bytesOf(node.Obj())))
			_, _, decisions := w.Pass(node.Obj(), At(10))
			for i, d := range decisions {
				if got := string(d.State) + " " + d.Reason; got != want[i] || w.Asked != (room > 0) {
					t.Errorf("with room for %d bytes, rule %s is %s, asked: %t", room, d.Rule.Name, got, w.Asked)
				}
			}
		}
	}
}

// TestAnyRoom: the API server accepts what is written, and the node is tainted and released as with room for all. Only
// a node in service under a limit is not tainted without a record that says so. The rule is told to have no room if
// something of it is missing.
func TestAnyRoom(t *testing.T) {
	most := taints.MaxAnnotations
	t.Cleanup(func() { taints.MaxAnnotations = most })
	const released, condition = `{"rule":"cni","released":"2026-01-02T03:04:00Z"}`, "example.com/P"
	publishes := func() []*build.RuleWrapper {
		return []*build.RuleWrapper{Rule().Publish(condition),
			RuleOf("disk", Disk, "readiness.k8s.io/disk").Publish(condition),
			RuleOf("gone", Disk, "readiness.k8s.io/disk").Publish(condition).Deleted(At(1))}
	}
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		node  *build.NodeWrapper
	}{
		"a new node": {[]*build.RuleWrapper{Rule(), RuleOf("disk", Disk, "readiness.k8s.io/disk")}, Fresh()},
		"a node in service": {[]*build.RuleWrapper{Rule().MaxUnavailable("1").RearmOnReboot()},
			Old().BootID("b1").Annotation(RecordKey, released)},
		"two rules with a limit": {[]*build.RuleWrapper{Rule().MaxUnavailable("1"),
			RuleOf("disk", Disk, "readiness.k8s.io/disk").MaxUnavailable("1")}, Old()},
		"a cordoned node":       {[]*build.RuleWrapper{Rule().MaxUnavailable("1")}, Old().Cordoned()},
		"a bootstrap-only rule": {[]*build.RuleWrapper{Rule().BootstrapOnly().CompletionAnnotation(CompletedAt)}, Fresh()},
		"a guard, and a timeout": {[]*build.RuleWrapper{Rule().EvictionGuard(1).Timeout(5, 0, v1alpha1.TimeoutActionRelease)},
			Old().Annotation(RecordKey, released)},
		"conditions": {publishes(), Fresh()},
		"conditions of other rules before": {publishes(), Fresh().Annotation(v1alpha1.RecordAnnotationPrefix+"u-gone",
			`{"rule":"gone","published":"example.com/P"}`).Condition(condition, "True", At(0)).
			Reason(condition, v1alpha1.PublishedReasonPrefix+"Ready", "")},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []Edit{func(*build.NodeWrapper) {}, Ready(2), Unready(3), func(*build.NodeWrapper) {},
				func(n *build.NodeWrapper) { n.Condition(CNI, "True", At(20)).Condition(Disk, "True", At(20)) }}
			var ample []*corev1.Node // after each pass
			for room := 350; room >= 0; room -= 14 {
				w, n := NewWorld(t, c.rules...), c.node.Obj()
				if taints.MaxAnnotations = bytesOf(n) + room; ample == nil {
					taints.MaxAnnotations = most
				}
				for i, edit := range edits {
					changed := build.WrapNode(n)
					edit(changed)
					after, out, _ := w.Pass(changed.Obj(), At(i*5))
					if n = after; len(ample) == i {
						ample = append(ample, n)
					}
					if bytesOf(n) > taints.MaxAnnotations {
						t.Fatalf("with room for %d bytes, pass %d makes it too many", room, i)
					}
					if i == 0 && (len(out.Full) > 0) == maps.Equal(ample[0].Annotations, n.Annotations) {
						t.Errorf("with room for %d bytes, these are full: %v; annotations %v", room, out.Full, n.Annotations)
					}
					want := slices.DeleteFunc(Formatted(ample[i]), func(taint string) bool {
						return slices.ContainsFunc(c.rules, func(r *build.RuleWrapper) bool {
							key := v1alpha1.RecordAnnotationPrefix + string(r.NodeReadinessRule.UID)
							_, claims := nodeview.ClaimIn(n.Annotations[key])
							return r.Spec.MaxUnavailable != nil && !claims && strings.HasPrefix(taint, r.Spec.Taint.Key+"=")
						})
					})
					if last := i == len(edits)-1; (i == 0 || last) && !slices.Equal(want, Formatted(n)) {
						t.Errorf("with room for %d bytes, pass %d leaves %v, not %v", room, i, Formatted(n), want)
					}
				}
			}
		})
	}
}

// TestNoRoomToMoveAMarker: without room, the marker of the rule that this one continues stays as it is, and counts.
func TestNoRoomToMoveAMarker(t *testing.T) {
	most := taints.MaxAnnotations
	t.Cleanup(func() { taints.MaxAnnotations = most })
	cni := Rule().UID("u-cni-is-longer-than-the-name-of-the-group").Created(At(1)).BootstrapOnly()
	cni.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: "u-gone"}
	former := v1alpha1.Groups()[1].MarkerPrefix + "cni"
	n := Fresh().Annotation(former, IsMarked).Obj()
	w := NewWorld(t, cni, RuleOf("disk", Disk, "readiness.k8s.io/disk"))
	for _, room := range []int{0, 1000} {
		taints.MaxAnnotations = bytesOf(n) + room
		if n, _, _ = w.Pass(n, At(2)); bytesOf(n) > taints.MaxAnnotations {
			t.Errorf("with room for %d bytes, the annotations take too many: %v", room, n.Annotations)
		}
		if _, stays := n.Annotations[former]; stays != (room == 0) ||
			!slices.Equal(Formatted(n), []string{"readiness.k8s.io/disk=pending:NoSchedule"}) {
			t.Errorf("with room for %d bytes: %v %v", room, Formatted(n), n.Annotations)
		}
	}
}

func TestFit(t *testing.T) {
	have := map[string]string{"a": "x", "b": strings.Repeat("x", taints.MaxAnnotations-10)}
	for value, want := range map[string]bool{"xxxxxx": true, "xxxxxxx": false} { // 3 bytes and 7 are free
		if got := taints.Fit(have, map[string]string{"c": value}); got != want {
			t.Errorf("%q fits: %t", value, got)
		}
	}
	if !taints.Fit(have, map[string]string{"b": ""}) || taints.Fit(map[string]string{"b": ""}, have) != true {
		t.Error("what is replaced takes room")
	}
}

// TestATimeoutWithoutRoomForTheEndOfTheGuard is recorded nevertheless: if the claim is from before the rule was put in
// force again, the taint would be added and removed again and again.
func TestATimeoutWithoutRoomForTheEndOfTheGuard(t *testing.T) {
	const key, times = "a.b/c", `"since":"2026-01-02T03:04:05Z","released":"2026-01-02T03:04:05Z"`
	w := NewWorld(t, Rule().Taint(key, "", NoSchedule).Timeout(60, 0, v1alpha1.TimeoutActionRelease).EvictionGuard(60))
	node := Old().Taint(key, "", NoSchedule).Annotation(RecordKey, `{"taint":"`+key+`=:NoSchedule",`+times+
		`,"guardedSince":"2026-01-02T03:04:05Z"}`).Annotation("example.com/filler", "")
	node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-bytesOf(node.Obj())))
	after, _, _ := w.Pass(node.Obj(), At(60))
	r, _ := nodeview.ReadRecord(after.Annotations[RecordKey])
	if len(after.Spec.Taints) > 0 || !r.Passed || r.GuardedSince.IsZero() {
		t.Errorf("taints %v, the record is %s", Formatted(after), after.Annotations[RecordKey])
	}
	if _, again, _ := w.Pass(after, At(60)); again.Patch != nil {
		t.Errorf("a second pass writes %.500s", again.Patch)
	}
}

func TestACompletionWithoutRoomRemovesTheTaint(t *testing.T) {
	w := NewWorld(t, Rule().BootstrapOnly().CompletionAnnotation("example.com/"+strings.Repeat("long", 15)))
	node := Fresh().Condition(CNI, corev1.ConditionTrue, At(0)).Taint(Key, "pending", NoSchedule)
	node.Annotation("example.com/filler", "")
	node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-40-bytesOf(node.Obj())))
	after, outcome, _ := w.Pass(node.Obj(), At(10))
	if len(after.Spec.Taints) > 0 || !maps.Equal(after.Annotations, node.Annotations) || len(outcome.Changes) != 1 {
		t.Errorf("taints %v, changes %v, %d annotations", Formatted(after), outcome.Changes, len(after.Annotations))
	}
}

// Otherwise, nothing would remove the condition after both rules are deleted.
func TestARecordNamesTheConditionUntilThatOfTheNextPublisherDoes(t *testing.T) {
	const condition = "example.com/P"
	for room, names := range map[int]string{1000: "u-cni", 0: "u-disk"} {
		w := NewWorld(t, Rule().Publish(condition), RuleOf("disk", Disk, "readiness.k8s.io/disk").Publish(condition))
		disk := v1alpha1.RecordAnnotationPrefix + "u-disk"
		node := Old().Condition(CNI, corev1.ConditionTrue, At(0)).Condition(Disk, corev1.ConditionTrue, At(0)).
			Annotation(disk, `{"rule":"disk","released":"2026-01-02T03:04:00Z","published":"`+condition+`"}`)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: condition,
			Status: corev1.ConditionTrue, Reason: v1alpha1.PublishedReasonPrefix + "Ready"})
		node.Annotation("example.com/filler", "")
		node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-room-bytesOf(node.Obj())))
		after, _, _ := w.Pass(node.Obj(), At(10))
		for _, uid := range []string{"u-cni", "u-disk"} {
			r, _ := nodeview.ReadRecord(after.Annotations[v1alpha1.RecordAnnotationPrefix+uid])
			if (r.Published == condition) != (uid == names) {
				t.Errorf("with room for %d bytes, the record of %s names %q", room, uid, r.Published)
			}
		}
		if err := validation.ValidateAnnotations(after.Annotations, field.NewPath("a")).ToAggregate(); err != nil {
			t.Error(err)
		}
		if _, again, _ := w.Pass(after, At(10)); again.Patch != nil {
			t.Errorf("with room for %d bytes, a second pass writes %.500s", room, again.Patch)
		}
	}
}

// TestTheRecordOfAFrozenRuleStays, also in dry-run, where the annotations have no room for that of another rule.
func TestTheRecordOfAFrozenRuleStays(t *testing.T) {
	frozen := Rule().Evidence(v1alpha1.Requirement{Name: "future"}).DryRun(true)
	const record = `{"rule":"cni","released":"2026-01-02T03:04:00Z"}`
	w := NewWorld(t, frozen, RuleOf("disk", Disk, "readiness.k8s.io/disk"))
	node := Old().Annotation(RecordKey, record).Annotation("example.com/filler", "")
	node.Annotation("example.com/filler", strings.Repeat("x", 256<<10-bytesOf(node.Obj())))
	held, outcome, _ := w.Pass(node.Obj(), At(10))
	if len(outcome.Full) != 1 || held.Annotations[RecordKey] != record {
		t.Errorf("full: %v, the record is %s", outcome.Full, held.Annotations[RecordKey])
	}
}

// The API server would refuse the request otherwise, and with it a change of labels. The controller taints the node.
func TestAdmissionAddsNoRecordForWhichThereIsNoRoom(t *testing.T) {
	admitting, _ := NewWorld(t, Rule()).Set(At(0)).ForAdmission(nil)
	rules := ruleset.CompileAdmission(admitting)
	for room, claims := range map[int]int{1000: 1, 100: 0} {
		node := Fresh().Annotation("example.com/filler", "")
		node.Annotation("example.com/filler", strings.Repeat("x", 192<<10-room-bytesOf(node.Obj())))
		if got := taints.Admit(rules, nil, node.Obj(), At(0)); got.Claims != claims || (got.Patch != nil) != (claims > 0) {
			t.Errorf("with room for %d bytes, %d taints are added by %.300s", room, got.Claims, got.Patch)
		}
	}
	for has, claims := range map[int]int{249: 1, 250: 0} {
		node := Fresh()
		for i := range has {
			node.Taint(fmt.Sprintf("example.com/other-%d", i), "", NoSchedule)
		}
		if got := taints.Admit(rules, nil, node.Obj(), At(0)); got.Claims != claims {
			t.Errorf("to %d taints of others, %d are added", has, got.Claims)
		}
	}
}

// TestAdmissionLeavesANodeThatMayBeInService to the controller: one that was older when kubelet last reported.
func TestAdmissionLeavesANodeThatMayBeInService(t *testing.T) {
	admitting, _ := NewWorld(t, Rule()).Set(At(0)).ForAdmission(nil)
	rules := ruleset.CompileAdmission(admitting)
	for seconds, claims := range map[int]int{600: 1, 601: 0} {
		node := Fresh().Condition(string(corev1.NodeReady), corev1.ConditionTrue, At(seconds))
		if got := taints.Admit(rules, Fresh().Unlabel("pool").Obj(), node.Obj(), At(900)); got.Claims != claims {
			t.Errorf("after %d seconds, %d rules claim the node", seconds, got.Claims)
		}
	}
}

func bytesOf(n *corev1.Node) int {
	size := 0
	for key, value := range n.Annotations {
		size += len(key) + len(value)
	}
	return size
}
