// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

func TestParseOverride(t *testing.T) {
	cases := map[string]struct {
		value string
		want  nodeview.Override
		says  string // part of the error
	}{
		"Release": {value: "Release", want: nodeview.Override{Action: nodeview.OverrideRelease}},
		"with blanks": {value: " Hold ; until=2026-01-02T15:00:30Z ",
			want: nodeview.Override{Action: nodeview.OverrideHold, Until: At(30)}},
		"until": {value: "Release;until=2026-01-02T15:00:30Z",
			want: nodeview.Override{Action: nodeview.OverrideRelease, Until: At(30)}},
		"until, in another zone": {value: "Release;until=2026-01-02T16:00:30+01:00",
			want: nodeview.Override{Action: nodeview.OverrideRelease, Until: At(30)}},
		"empty":               {value: "", says: "must be Release or Hold"},
		"in lower case":       {value: "hold", says: "must be Release or Hold"},
		"until of nothing":    {value: ";until=2026-01-02T15:00:30Z", says: "must be Release or Hold"},
		"another option":      {value: "Hold;for=5m", says: "must be until="},
		"nothing after the ;": {value: "Hold;", says: "must be until="},
		"no time":             {value: "Hold;until=tomorrow", says: "RFC 3339"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nodeview.ParseOverride(c.value)
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
	set := func(value string) Edit {
		return func(n *build.NodeWrapper) { n.Annotation(v1alpha1.OverrideAnnotation, value) }
	}
	var lift Edit = func(n *build.NodeWrapper) { n.Unannotate(v1alpha1.OverrideAnnotation) }
	held := Then(1, "held", "Held EvidenceMissing", Added)
	untilThirty := ";until=2026-01-02T15:00:30Z"
	inService := func() *build.NodeWrapper { return Old().Condition(CNI, "True", At(0)) }
	limited := Rules(Rule().MaxUnavailable("1"))
	onReady := Then(10, "set", "Held OverrideHold", set("Hold"), Refuse{"cni"}, Added,
		Annotated{v1alpha1.OverrideAnnotation: "Hold", RecordKey: Found(Forced(Reclaimed(10, 10)))})
	inRackB := Recorded(strings.Replace(Found(Counted(Reclaimed(10, 10))), `"limited":true`,
		`"limited":true,"domains":"rack=b"`, 1))
	Play(t, map[string]Story{
		"Release takes the taint off and keeps it off, until it is lifted": On(Fresh(), Rules(Rule()),
			held,
			Then(10, "set", "Exempt OverrideRelease", set("Release"), Removed,
				Annotated{v1alpha1.OverrideAnnotation: "Release", RecordKey: `{"rule":"cni","counted":true}`}),
			Then(11, "unready for another reason", "Exempt OverrideRelease", Unready(11)),
			Then(12, "lifted", "Held EvidenceMissing", lift, Added),
		),
		"Release ends, to the second": On(Fresh(), Rules(Rule()),
			held,
			Then(10, "set", "Exempt OverrideRelease", set("Release"+untilThirty), Removed, Again(30)),
			Then(29, "one second before", "Exempt OverrideRelease", Again(30)),
			Then(30, "at its end", "Held EvidenceMissing", Added, Recorded(
				`{"rule":"cni","taint":"`+Pending+`","since":"`+Stamp(30)+`","counted":true}`)),
		),
		"one that has ended is removed, also where no rule selects the node": On(
			Fresh().Annotation(v1alpha1.OverrideAnnotation, "Release"+untilThirty), Rules(),
			Then(29, "one second before", "", Annotated{v1alpha1.OverrideAnnotation: "Release" + untilThirty}),
			Then(30, "at its end", "", Written, Annotated{}),
		),
		"Release removes a taint that another client had added": On(
			Fresh().Taint(Key, "kubelet", NoSchedule).Annotation(v1alpha1.OverrideAnnotation, "Release"), Rules(Rule()),
			Then(1, "seen", "Exempt OverrideRelease", Removed),
		),
		"Release under a suspended rule takes back the handover for replacement": On(handedOver(),
			Rules(Rule().Replace(60, 1, "example.com/replace").Suspend(true)),
			Then(99, "set", "Exempt OverrideRelease", set("Release"), Removed, Annotated{
				v1alpha1.OverrideAnnotation: "Release",
				RecordKey:                   fmt.Sprintf(`{"rule":"cni","timedOut":%q,"handed":true}`, Stamp(61))}),
		),
		"Hold puts the taint on a ready node and keeps it there, until it is lifted": On(
			Fresh().Condition(CNI, "True", At(0)), Rules(Rule()),
			Then(1, "ready", "Ready EvidenceHolds", Recorded(Released(1))),
			Then(10, "set", "Held OverrideHold", set("Hold"), Added),
			Then(20, "later", "Held OverrideHold"),
			Then(30, "lifted", "Ready EvidenceHolds", lift, Removed, Recorded(Released(1))),
		),
		"Hold ends, to the second": On(Fresh().Condition(CNI, "True", At(0)).Annotation(RecordKey, Released(1)),
			Rules(Rule()),
			Then(10, "set", "Held OverrideHold", set("Hold"+untilThirty), Added, Again(30)),
			Then(29, "one second before", "Held OverrideHold", Again(30)),
			Then(30, "at its end", "Ready EvidenceHolds", Removed),
		),
		"Hold overrules a completed bootstrap, which stays completed": On(Fresh().Annotation(MarkerKey, IsMarked),
			Rules(Rule().BootstrapOnly()),
			Then(10, "set", "Held OverrideHold", set("Hold"), Added),
			Then(30, "lifted", "Ready BootstrapCompleted", lift, Removed),
		),
		"Hold uses no room under the limit, and the node stays held where there is room": On(inService(), limited,
			onReady,
			Then(20, "not ready", "Held OverrideHold", Unready(20)),
			Then(30, "lifted", "Held EvidenceMissing", lift, Refuse{}, Recorded(Found(Counted(Reclaimed(10, 10))))),
			Then(31, "not asked again", "Held EvidenceMissing", Refuse{"cni"}),
		),
		"the node is released where there is none, and waits for it": On(inService(), limited,
			onReady,
			Then(20, "not ready", "Held OverrideHold", Unready(20)),
			Then(30, "lifted", "Exempt OverBudget", lift, Removed, Recorded(Found(Released(10)))),
			Then(40, "there is room", "Held EvidenceMissing", Refuse{}, Added,
				Recorded(Found(Counted(Reclaimed(40, 10))))),
		),
		"on a cordoned node, that is decided when it is uncordoned": On(inService(), limited,
			onReady,
			Then(20, "cordoned and not ready", "Held OverrideHold",
				Edit(func(n *build.NodeWrapper) { Unready(20)(n.Cordoned()) })),
			Then(30, "lifted", "Held EvidenceMissing", lift, Recorded(Found(Forced(Reclaimed(10, 10))))),
			Then(40, "uncordoned", "Exempt OverBudget",
				Edit(func(n *build.NodeWrapper) { n.Spec.Unschedulable = false }), Removed),
		),
		"where the limit is removed meanwhile, the node stays held": On(inService(), limited,
			onReady,
			Then(20, "not ready", "Held OverrideHold", Unready(20)),
			Then(30, "lifted, without a limit", "Held EvidenceMissing", lift, Rules(Rule().Generation(2)),
				Recorded(Found(Reclaimed(10, 10)))),
		),
		"the limit counts the node in the failure domain that it is in when Hold ends": On(inService().Label("rack", "a"),
			Rules(Rule().LimitPer("rack", "1")),
			onReady,
			Then(20, "not ready, in another rack", "Held OverrideHold",
				Edit(func(n *build.NodeWrapper) { Unready(20)(n.Label("rack", "b")) })),
			Then(30, "lifted", "Held EvidenceMissing", lift, Refuse{}, inRackB),
			Then(40, "in a third rack", "Held EvidenceMissing",
				Edit(func(n *build.NodeWrapper) { n.Label("rack", "c") }), inRackB, Quiet),
		),
		"a claim that had room before keeps it": On(inService(), limited,
			Then(5, "held", "Held EvidenceMissing", Unready(5), Added),
			Then(10, "set", "Held OverrideHold", set("Hold"), Refuse{"cni"},
				Annotated{v1alpha1.OverrideAnnotation: "Hold", RecordKey: Found(Counted(Reclaimed(5, 5)))}),
			Then(30, "lifted", "Held EvidenceMissing", lift, Recorded(Found(Counted(Reclaimed(5, 5))))),
		),
		"a claim from before there was a limit has a place only if there is room when Hold ends": On(
			Old().Condition(CNI, "False", At(0)).Annotation(RecordKey, Reclaimed(5, 5)).Taint(Key, "pending", NoSchedule),
			limited,
			Then(10, "set", "Held OverrideHold", set("Hold"),
				Annotated{v1alpha1.OverrideAnnotation: "Hold", RecordKey: Forced(Reclaimed(5, 5))}),
			Then(30, "lifted", "Exempt OverBudget", lift, Refuse{"cni"}, Removed),
		),
		"neither moves a rule in dry-run": On(Fresh().Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			Rules(Rule().DryRun(true)),
			Then(10, "seen", "Exempt DryRun"),
			Then(20, "ready", "Ready EvidenceHolds", Ready(20)),
			Then(30, "Release", "Ready EvidenceHolds", set("Release")),
		),
		"one that cannot be read is none": On(Fresh().Annotation(v1alpha1.OverrideAnnotation, "Release please"),
			Rules(Rule()),
			held,
		),
		"it overrules every rule of the node": On(Fresh(), Rules(Rule(), RuleOf("disk", Disk, "readiness.k8s.io/disk")),
			Then(1, "held", "Held EvidenceMissing, disk Held EvidenceMissing", Added,
				Change("added disk readiness.k8s.io/disk=pending:NoSchedule"),
				Tainted{Pending, "readiness.k8s.io/disk=pending:NoSchedule"}),
			Then(10, "set", "Exempt OverrideRelease, disk Exempt OverrideRelease", set("Release"), Removed,
				Change("removed disk readiness.k8s.io/disk=pending:NoSchedule")),
		),
	})
}
