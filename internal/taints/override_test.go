// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/internal/gate"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

func TestParseOverride(t *testing.T) {
	cases := map[string]struct {
		value string
		want  gate.Override
		says  string // part of the error
	}{
		"Release": {value: "Release", want: gate.Override{Action: gate.OverrideRelease}},
		"Hold":    {value: "Hold", want: gate.Override{Action: gate.OverrideHold}},
		"with blanks": {value: " Hold ; until=2026-01-02T15:00:30Z ",
			want: gate.Override{Action: gate.OverrideHold, Until: at(30)}},
		"until": {value: "Release;until=2026-01-02T15:00:30Z",
			want: gate.Override{Action: gate.OverrideRelease, Until: at(30)}},
		"until, in another zone": {value: "Release;until=2026-01-02T16:00:30+01:00",
			want: gate.Override{Action: gate.OverrideRelease, Until: at(30)}},
		"empty":                   {value: "", says: "neither Release nor Hold"},
		"another word":            {value: "Drain", says: "neither Release nor Hold"},
		"in lower case":           {value: "hold", says: "neither Release nor Hold"},
		"until of nothing":        {value: ";until=2026-01-02T15:00:30Z", says: "neither Release nor Hold"},
		"another option":          {value: "Hold;for=5m", says: "want until="},
		"nothing after the ;":     {value: "Hold;", says: "want until="},
		"no time":                 {value: "Hold;until=tomorrow", says: "RFC 3339"},
		"two of them":             {value: "Hold;until=2026-01-02T15:00:30Z;Release", says: "RFC 3339"},
		"a time without its zone": {value: "Hold;until=2026-01-02T15:00:30", says: "RFC 3339"},
		"a day":                   {value: "Hold;until=2026-01-02", says: "RFC 3339"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := gate.ParseOverride(c.value)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(),
					v1alpha1.OverrideAnnotation) {
					t.Errorf("error %v, want one on %s that says %q", err, v1alpha1.OverrideAnnotation, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("override (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverride(t *testing.T) {
	set := func(value string) func(*build.NodeWrapper) {
		return func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, value) }
	}
	lift := func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) }
	held := step{tells: "held", at: 1, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
		changes: []string{"added cni " + pending}}
	untilThirty := ";until=2026-01-02T15:00:30Z"
	play(t, map[string]story{
		"Release takes the taint off and keeps it off, until it is lifted": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "set", at: 10, node: set("Release"), states: []string{"cni Exempt OverrideRelease"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{v1alpha1.OverrideAnnotation: "Release"}},
				{tells: "unready for another reason", at: 11, node: unready(11), states: []string{"cni Exempt OverrideRelease"},
					quiet: true},
				{tells: "lifted", at: 12, node: lift, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"Release ends, to the second": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "set", at: 10, node: set("Release" + untilThirty), states: []string{"cni Exempt OverrideRelease"},
					changes: []string{"removed cni " + pending}, recheck: 30},
				{tells: "one second before", at: 29, states: []string{"cni Exempt OverrideRelease"}, quiet: true, recheck: 30},
				{tells: "at its end", at: 30, taints: []string{pending}, states: []string{"cni Held EvidenceMissing"},
					changes: []string{"added cni " + pending}},
			},
		},
		"Release takes off a taint that somebody else had put there": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Taint(key, "kubelet",
				noSchedule).Annotation(v1alpha1.OverrideAnnotation, "Release"),
			steps: []step{{tells: "seen", at: 1, states: []string{"cni Exempt OverrideRelease"},
				changes: []string{"removed cni " + pending}}},
		},
		"Hold puts the taint on a ready node and keeps it there, until it is lifted": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(cni, "True", at(0)),
			steps: []step{
				{tells: "ready", at: 1, states: []string{"cni Ready EvidenceHolds"},
					annotations: map[string]string{recordKey: released(1)}},
				{tells: "set", at: 10, node: set("Hold"), taints: []string{pending}, states: []string{"cni Held OverrideHold"},
					changes: []string{"added cni " + pending}},
				{tells: "later", at: 20, taints: []string{pending}, states: []string{"cni Held OverrideHold"}, quiet: true},
				{tells: "lifted", at: 30, node: lift, states: []string{"cni Ready EvidenceHolds"},
					changes:     []string{"removed cni " + pending},
					annotations: map[string]string{recordKey: released(1)}},
			},
		},
		"Hold ends, to the second": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Condition(cni, "True", at(0)).Annotation(recordKey, released(1)),
			steps: []step{
				{tells: "set", at: 10, node: set("Hold" + untilThirty), taints: []string{pending},
					states: []string{"cni Held OverrideHold"}, changes: []string{"added cni " + pending}, recheck: 30},
				{tells: "one second before", at: 29, taints: []string{pending}, states: []string{"cni Held OverrideHold"},
					quiet: true, recheck: 30},
				{tells: "at its end", at: 30, states: []string{"cni Ready EvidenceHolds"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"Hold overrules a completed bootstrap, which stays completed": {
			rules: []*build.RuleWrapper{rule().BootstrapOnly()}, node: fresh().Annotation(markerKey, isMarked),
			steps: []step{
				{tells: "set", at: 10, node: set("Hold"), taints: []string{pending}, states: []string{"cni Held OverrideHold"},
					changes: []string{"added cni " + pending}},
				{tells: "lifted", at: 30, node: lift, states: []string{"cni Ready BootstrapCompleted"},
					changes: []string{"removed cni " + pending}},
			},
		},
		"Hold does not wait for a budget, and the breaker counts the node": {
			rules: []*build.RuleWrapper{rule().MaxUnavailable("0")}, node: old().Condition(cni, "True", at(0)),
			steps: []step{{tells: "set", at: 10, node: set("Hold"), refuse: []string{"cni"}, taints: []string{pending},
				states:      []string{"cni Held OverrideHold"},
				changes:     []string{"added cni " + pending},
				annotations: map[string]string{v1alpha1.OverrideAnnotation: "Hold", recordKey: counted(reclaimed(10, 10))}}},
		},
		"Hold does not make a suspended rule add anything": {
			rules: []*build.RuleWrapper{rule().Suspend(true)}, node: fresh().Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			steps: []step{{tells: "seen", at: 10, states: []string{"cni Exempt Suspended"}, quiet: true}},
		},
		"gate.Hold keeps what a suspended rule holds": {
			rules: []*build.RuleWrapper{rule()}, node: fresh(),
			steps: []step{
				held,
				{tells: "suspended and ready", at: 10, rules: []*build.RuleWrapper{rule().Generation(2).Suspend(true)},
					node: func(n *build.NodeWrapper) {
						n.Condition(cni, "True", at(5)).Annotation(v1alpha1.OverrideAnnotation, "Hold")
					},
					taints: []string{pending}, states: []string{"cni Held OverrideHold"}, quiet: true},
			},
		},
		"neither moves a rule in dry-run": {
			rules: []*build.RuleWrapper{rule().DryRun(true)}, node: fresh().Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			steps: []step{{tells: "seen", at: 10, states: []string{"cni Exempt DryRun"}, quiet: true}},
		},
		"one that cannot be read is none": {
			rules: []*build.RuleWrapper{rule()}, node: fresh().Annotation(v1alpha1.OverrideAnnotation, "Release please"),
			steps: []step{held},
		},
		"it overrules every rule of the node": {
			rules: []*build.RuleWrapper{rule(), ruleOf("disk", disk, "readiness.k8s.io/disk")}, node: fresh(),
			steps: []step{
				{tells: "held", at: 1, taints: []string{pending, "readiness.k8s.io/disk=pending:NoSchedule"},
					states:  []string{"cni Held EvidenceMissing", "disk Held EvidenceMissing"},
					changes: []string{"added cni " + pending, "added disk readiness.k8s.io/disk=pending:NoSchedule"}},
				{tells: "set", at: 10, node: set("Release"), states: []string{"cni Exempt OverrideRelease",
					"disk Exempt OverrideRelease"},
					changes: []string{"removed cni " + pending, "removed disk readiness.k8s.io/disk=pending:NoSchedule"}},
			},
		},
	})
}
