// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

const cni = "example.com/CNI"

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestJudge(t *testing.T) {
	reported := func() *build.NodeWrapper { return build.MakeNode("n").Condition(cni, "True", at(-90)) }
	minute := v1alpha1.ConditionRequirement{MaxAgeSeconds: new(int32(60))}
	for name, c := range map[string]struct {
		node      *build.NodeWrapper
		required  v1alpha1.ConditionRequirement // of True, where it names no status
		notBefore time.Time
		want      Judgement
		message   string
	}{
		"as it must be": {node: reported(),
			want:    Judgement{Satisfied: true, Status: "True", Cause: CauseReported, Since: at(-90), Heartbeat: at(-90)},
			message: "condition example.com/CNI is True"},
		"otherwise": {node: build.MakeNode("n").Condition(cni, "False", at(-90)),
			required: v1alpha1.ConditionRequirement{DefaultStatus: "True"},
			want:     Judgement{Status: "False", Cause: CauseReported, Since: at(-90), Heartbeat: at(-90)},
			message:  "condition example.com/CNI is False, must be True"},
		"a status that no condition has": {node: build.MakeNode("n").Condition(cni, "true", at(-90)),
			want:    Judgement{Status: "Unknown", Cause: CauseInvalid, Reported: "true", Since: at(-90), Heartbeat: at(-90)},
			message: `condition example.com/CNI is "true", which is not True, False or Unknown, must be True`},
		"a status that no condition has, counted as the Unknown that the rule requires": {
			node:     build.MakeNode("n").Condition(cni, "\xff"+corev1.ConditionStatus(strings.Repeat("é", 50)), at(-90)),
			required: v1alpha1.ConditionRequirement{RequiredStatus: "Unknown"},
			want: Judgement{Satisfied: true, Status: "Unknown", Cause: CauseInvalid, Reported: "\xff" + strings.Repeat("é", 50),
				Since: at(-90), Heartbeat: at(-90)},
			message: `condition example.com/CNI is "\xff` + strings.Repeat("é", 31) + `", which is not True, False or Unknown`},
		"not reported": {node: build.MakeNode("n"),
			want:    Judgement{Status: "Unknown", Cause: CauseMissing},
			message: "condition example.com/CNI has not been reported, must be True"},
		"not reported, as it must be": {node: build.MakeNode("n"),
			required: v1alpha1.ConditionRequirement{RequiredStatus: "Unknown"},
			want:     Judgement{Satisfied: true, Status: "Unknown", Cause: CauseMissing},
			message:  "condition example.com/CNI has not been reported"},
		"not reported, and assumed": {node: build.MakeNode("n"),
			required: v1alpha1.ConditionRequirement{DefaultStatus: "True"},
			want:     Judgement{Satisfied: true, Status: "True", Cause: CauseDefault},
			message:  "condition example.com/CNI has not been reported and is assumed to be True"},
		"not reported, and assumed otherwise": {node: build.MakeNode("n"),
			required: v1alpha1.ConditionRequirement{DefaultStatus: "False"},
			want:     Judgement{Status: "False", Cause: CauseDefault},
			message:  "condition example.com/CNI has not been reported and is assumed to be False, must be True"},
		"a second before its age is over": {node: reported().Heartbeat(cni, at(-59)), required: minute,
			want: Judgement{Satisfied: true, Status: "True", Cause: CauseReported, Since: at(-90), Heartbeat: at(-59),
				ChangesAt: at(1), Revived: at(-59)},
			message: "condition example.com/CNI is True"},
		"when its age is over": {node: reported().Heartbeat(cni, at(-60)), required: minute,
			want: Judgement{Status: "Unknown", Cause: CauseStale, Since: start, Heartbeat: at(-60), Awaits: true},
			message: "condition example.com/CNI is stale: last reported at 2026-01-01T11:59:00Z, at least 1m0s ago, must be " +
				"True"},
		"stale, without a heartbeat, and with a default that does not count": {node: reported().Heartbeat(cni, time.Time{}),
			required: v1alpha1.ConditionRequirement{MaxAgeSeconds: new(int32(60)), DefaultStatus: "True"},
			want:     Judgement{Status: "Unknown", Cause: CauseStale, Since: at(-30), Heartbeat: at(-90), Awaits: true},
			message: "condition example.com/CNI is stale: last reported at 2026-01-01T11:58:30Z, at least 1m0s ago, must be " +
				"True"},
		"stale, because it has no time": {node: build.MakeNode("n").Condition(cni, "True", time.Time{}), required: minute,
			want: Judgement{Status: "Unknown", Cause: CauseStale, Awaits: true},
			message: "condition example.com/CNI does not say when it was reported, which must be within 1m0s, must be " +
				"True"},
		"wrong, a second before its age is over": {
			node: build.MakeNode("n").Condition(cni, "False", at(-59)), required: minute,
			want:    Judgement{Status: "False", Cause: CauseReported, Since: at(-59), Heartbeat: at(-59), ChangesAt: at(1)},
			message: "condition example.com/CNI is False, must be True"},
		"stale, and wrong since before": {node: build.MakeNode("n").Condition(cni, "False", at(-90)), required: minute,
			want: Judgement{Status: "Unknown", Cause: CauseStale, Since: at(-90), Heartbeat: at(-90), Awaits: true},
			message: "condition example.com/CNI is stale: last reported at 2026-01-01T11:58:30Z, at least 1m0s ago, must be " +
				"True"},
		"before the node booted": {node: reported(), notBefore: at(-30),
			want:    Judgement{Status: "Unknown", Cause: CauseBeforeBoot, Since: at(-30), Heartbeat: at(-90), Awaits: true},
			message: "condition example.com/CNI has not been reported since the node booted, must be True"},
		"before the node booted, without a heartbeat": {node: reported().Heartbeat(cni, time.Time{}), notBefore: at(-30),
			want:    Judgement{Status: "Unknown", Cause: CauseBeforeBoot, Since: at(-30), Heartbeat: at(-90), Awaits: true},
			message: "condition example.com/CNI has not been reported since the node booted, must be True"},
	} {
		t.Run(name, func(t *testing.T) {
			c.required.Type, c.required.RequiredStatus = cni, cmp.Or(c.required.RequiredStatus, v1alpha1.ConditionTrue)
			got := Judge(&c.required, c.node.Obj(), c.notBefore, start)
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if message := Message(&c.required, got); message != c.message {
				t.Errorf("got %q", message)
			}
		})
	}
}
