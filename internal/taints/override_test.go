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
		"empty":                   {value: "", says: "must be Release or Hold"},
		"another word":            {value: "Drain", says: "must be Release or Hold"},
		"in lower case":           {value: "hold", says: "must be Release or Hold"},
		"until of nothing":        {value: ";until=2026-01-02T15:00:30Z", says: "must be Release or Hold"},
		"another option":          {value: "Hold;for=5m", says: "must be until="},
		"nothing after the ;":     {value: "Hold;", says: "must be until="},
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
	held := then(1, "held", "Held EvidenceMissing", added)
	untilThirty := ";until=2026-01-02T15:00:30Z"
	play(t, map[string]story{
		"Release takes the taint off and keeps it off, until it is lifted": on(fresh(), rules(rule()),
			held,
			then(10, "set", "Exempt OverrideRelease", set("Release"), removed,
				map[string]string{v1alpha1.OverrideAnnotation: "Release", recordKey: `{"rule":"cni","counted":true}`}),
			then(11, "unready for another reason", "Exempt OverrideRelease", unready(11)),
			then(12, "lifted", "Held EvidenceMissing", lift, added),
		),
		"Release ends, to the second": on(fresh(), rules(rule()),
			held,
			then(10, "set", "Exempt OverrideRelease", set("Release"+untilThirty), removed, again(30)),
			then(29, "one second before", "Exempt OverrideRelease", again(30)),
			then(30, "at its end", "Held EvidenceMissing", added),
		),
		"Release removes a taint that another client had added": on(
			fresh().Taint(key, "kubelet", noSchedule).Annotation(v1alpha1.OverrideAnnotation, "Release"), rules(rule()),
			then(1, "seen", "Exempt OverrideRelease", removed),
		),
		"Hold puts the taint on a ready node and keeps it there, until it is lifted": on(
			fresh().Condition(cni, "True", at(0)), rules(rule()),
			then(1, "ready", "Ready EvidenceHolds", recorded(released(1))),
			then(10, "set", "Held OverrideHold", set("Hold"), added),
			then(20, "later", "Held OverrideHold"),
			then(30, "lifted", "Ready EvidenceHolds", lift, removed, recorded(released(1))),
		),
		"Hold ends, to the second": on(fresh().Condition(cni, "True", at(0)).Annotation(recordKey, released(1)),
			rules(rule()),
			then(10, "set", "Held OverrideHold", set("Hold"+untilThirty), added, again(30)),
			then(29, "one second before", "Held OverrideHold", again(30)),
			then(30, "at its end", "Ready EvidenceHolds", removed),
		),
		"Hold overrules a completed bootstrap, which stays completed": on(fresh().Annotation(markerKey, isMarked),
			rules(rule().BootstrapOnly()),
			then(10, "set", "Held OverrideHold", set("Hold"), added),
			then(30, "lifted", "Ready BootstrapCompleted", lift, removed),
		),
		"Hold does not wait for room under the limit, which counts the node": on(old().Condition(cni, "True", at(0)),
			rules(rule().MaxUnavailable("0")),
			then(10, "set", "Held OverrideHold", set("Hold"), refuse{"cni"}, added,
				map[string]string{v1alpha1.OverrideAnnotation: "Hold", recordKey: counted(reclaimed(10, 10))}),
		),
		"neither moves a rule in dry-run": on(fresh().Annotation(v1alpha1.OverrideAnnotation, "Hold"),
			rules(rule().DryRun(true)),
			then(10, "seen", "Exempt DryRun"),
		),
		"one that cannot be read is none": on(fresh().Annotation(v1alpha1.OverrideAnnotation, "Release please"),
			rules(rule()),
			held,
		),
		"it overrules every rule of the node": on(fresh(), rules(rule(), ruleOf("disk", disk, "readiness.k8s.io/disk")),
			then(1, "held", "Held EvidenceMissing, disk Held EvidenceMissing", added,
				change("added disk readiness.k8s.io/disk=pending:NoSchedule"),
				tainted{pending, "readiness.k8s.io/disk=pending:NoSchedule"}),
			then(10, "set", "Exempt OverrideRelease, disk Exempt OverrideRelease", set("Release"), removed,
				change("removed disk readiness.k8s.io/disk=pending:NoSchedule")),
		),
	})
}
