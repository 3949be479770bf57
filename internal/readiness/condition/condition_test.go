// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

const cni = "example.com/CNI"

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestJudge(t *testing.T) {
	reported := func() *build.NodeWrapper { return build.MakeNode("n").Condition(cni, "True", at(-90)) }
	for _, c := range []struct {
		name      string
		node      *build.NodeWrapper
		required  v1alpha1.ConditionRequirement
		notBefore time.Time
		want      Judgement
		message   string
	}{
		{name: "as it must be", node: reported(),
			want:    Judgement{Satisfied: true, Status: "True", Cause: CauseReported, Since: at(-90), Heartbeat: at(-90)},
			message: "condition example.com/CNI is True"},
		{name: "otherwise", node: build.MakeNode("n").Condition(cni, "False", at(-90)),
			want:    Judgement{Status: "False", Cause: CauseReported, Since: at(-90), Heartbeat: at(-90)},
			message: "condition example.com/CNI is False, must be True"},
		{name: "not reported", node: build.MakeNode("n"),
			want:    Judgement{Status: "Unknown", Cause: CauseMissing},
			message: "condition example.com/CNI has not been reported, must be True"},
		{name: "not reported, and assumed", node: build.MakeNode("n"),
			required: v1alpha1.ConditionRequirement{DefaultStatus: "True"},
			want:     Judgement{Satisfied: true, Status: "True", Cause: CauseDefault},
			message:  "condition example.com/CNI has not been reported and is assumed to be True"},
		{name: "a second before its age is over", node: reported().Heartbeat(cni, at(-59)),
			required: v1alpha1.ConditionRequirement{MaxAgeSeconds: new(int32(60))},
			want: Judgement{Satisfied: true, Status: "True", Cause: CauseReported, Since: at(-90), Heartbeat: at(-59),
				ChangesAt: at(1), Revived: at(-59)},
			message: "condition example.com/CNI is True"},
		{name: "when its age is over", node: reported().Heartbeat(cni, at(-60)),
			required: v1alpha1.ConditionRequirement{MaxAgeSeconds: new(int32(60))},
			want:     Judgement{Status: "Unknown", Cause: CauseStale, Since: start, Heartbeat: at(-60), Awaits: true},
			message: "condition example.com/CNI is stale: last reported at 2026-01-01T11:59:00Z, at least 1m0s ago, must be " +
				"True"},
		{name: "before the node booted", node: reported(), notBefore: at(-30),
			want:    Judgement{Status: "Unknown", Cause: CauseBeforeBoot, Since: at(-30), Heartbeat: at(-90), Awaits: true},
			message: "condition example.com/CNI has not been reported since the node booted, must be True"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.required.Type, c.required.RequiredStatus = cni, v1alpha1.ConditionTrue
			got := Judge(&c.required, c.node.Obj(), c.notBefore, start)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if message := Message(&c.required, got); message != c.message {
				t.Errorf("got %q", message)
			}
		})
	}
}
