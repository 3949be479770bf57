// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/nodeview"
	. "github.com/nodegate/nodegate/test/story"
)

// A record that cannot be true is as if it were not there, and is replaced at the next occasion. A time in the future
// may be by a clock that was ahead.
func TestForgedRecords(t *testing.T) {
	held := func(tells string) Step {
		return Then(1, tells, "Held EvidenceMissing", Added, Recorded(Claimed(1)))
	}
	stories := map[string]Story{}
	for name, value := range map[string]string{
		"empty":                       ``,
		"no JSON":                     `{{{`,
		"JSON of another kind":        `["taint"]`,
		"null":                        `null`,
		"a time that is none":         `{"released":"yesterday"}`,
		"released before it existed":  Released(-1),
		"released in a former life":   Released(-86400),
		"timed out before it existed": fmt.Sprintf(`{"timedOut":%q}`, Stamp(-1)),
		"timed out in the future":     fmt.Sprintf(`{"timedOut":%q}`, Stamp(86400)),
		"a taint that is none":        `{"taint":"x"}`,
		"a taint of Kubernetes":       `{"taint":"node.kubernetes.io/not-ready=:NoExecute"}`,
	} {
		stories[name] = On(Fresh().Annotation(RecordKey, value),
			Rules(Rule().Timeout(900, 0, v1alpha1.TimeoutActionRelease)),
			func() Step { s := held("seen"); s.Recheck = 901; return s }(),
		)
	}
	stories["released far in the future, by a clock that was ahead: in service since now"] = On(
		Fresh().Annotation(RecordKey, Released(86400)), Rules(Rule()),
		Then(1, "seen", "Held EvidenceMissing", Added, Recorded(Reclaimed(1, 1))),
	)
	stories["a claim from the future is made now"] = On(
		Fresh().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(86400)), Rules(Rule()),
		Then(1, "seen", "Held EvidenceMissing",
			Recorded(Claimed(1))),
	)
	stories["evidence counts from a time in the far future"] = On(Fresh().BootID("b").Condition(CNI, "True", At(0)).
		Annotation(RecordKey, fmt.Sprintf(`{"bootID":"b","notBefore":%q}`, Stamp(86400))), Rules(Rule().RearmOnReboot()),
		Then(1, "seen", "Ready EvidenceHolds", Recorded(fmt.Sprintf(`{"rule":"cni","released":%q,"bootID":"b"}`, Stamp(1)))),
	)
	stories["on an existing node that is ready: it goes"] = On(
		Old().Condition(CNI, "True", At(-900)).Annotation(RecordKey, `{{{`), Rules(Rule()),
		Then(1, "seen", "Ready EvidenceHolds", Clean),
	)
	stories["a field of a later version is kept while nothing else changes"] = On(Fresh().
		Taint(Key, "pending", NoSchedule).
		Annotation(RecordKey, `{"verdict":"x","taint":"readiness.k8s.io/cni=pending:NoSchedule"}`), Rules(Rule()),
		Then(1, "seen", "Held EvidenceMissing"),
	)
	Play(t, stories)
}

func TestParseTaint(t *testing.T) {
	cases := map[string]struct {
		in   string
		want corev1.Taint
		says string // part of the error
	}{
		"key, value and effect": {in: "example.com/a=b:NoSchedule", want: corev1.Taint{Key: "example.com/a", Value: "b",
			Effect: NoSchedule}},
		"an empty value": {in: "a=:NoExecute", want: corev1.Taint{Key: "a", Effect: NoExecute}},
		"no value": {in: "a:PreferNoSchedule", want: corev1.Taint{Key: "a",
			Effect: corev1.TaintEffectPreferNoSchedule}},
		"no effect":            {in: "a=b", says: "must be key=value:effect"},
		"an unknown effect":    {in: "a=b:NoWay", says: "unknown effect"},
		"no key":               {in: "=b:NoSchedule", says: "key"},
		"empty":                {in: "", says: "must be key=value:effect"},
		"a bad key":            {in: "a b=c:NoSchedule", says: "key"},
		"a bad value":          {in: "a=b c:NoSchedule", says: "value"},
		"a value with a =":     {in: "a=b=c:NoSchedule", says: "value"},
		"a value with a colon": {in: "a=b:c:NoSchedule", says: "value"},
		"kubelet's":            {in: "node.kubernetes.io/not-ready=:NoExecute", says: "belong to Kubernetes"},
		"the cloud provider's": {in: "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
			says: "belong to Kubernetes"},
		"a role's": {in: "node-role.kubernetes.io/control-plane=:NoSchedule", says: "belong to Kubernetes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nodeview.ParseTaint(c.in)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want one that says %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("taint (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAClaimOfTheCreatingRequest: the API server sets the time of creation after the webhook has claimed.
func TestAClaimOfTheCreatingRequest(t *testing.T) {
	node := Fresh().Obj()
	r := nodeview.Record{Rule: "r", Taint: "a=b:NoSchedule", Since: metav1.NewTime(At(-1))}
	if got, _ := nodeview.DecodeRecord(r.Encode(), node, At(5)); !got.Since.Equal(&node.CreationTimestamp) {
		t.Errorf("the claim is of %s, want the time of creation", got.Since)
	}
}

// TestOnlyAClaimHasTheFormOfAdmission: the creator of a node may write nothing else.
func TestOnlyAClaimHasTheFormOfAdmission(t *testing.T) {
	whole := nodeview.Record{Rule: "r", Taint: "a=b:NoSchedule", Since: metav1.NewTime(At(1)), Late: true}
	unnamed, unclaimed, more := whole, whole, whole
	unnamed.Rule, unclaimed.Taint, more.Existing = "", "", true
	if !whole.Admitted() || unnamed.Admitted() || unclaimed.Admitted() || more.Admitted() {
		t.Error("a claim has not the form of admission, or something else has")
	}
}

func TestWhatTheOperatorWroteIsReadAgain(t *testing.T) {
	long := strings.Repeat("b", 64)
	for name, c := range map[string]struct{ value, want string }{
		"healthy":               {value: `{"health":"Ready"}`, want: `{"health":"Ready"}`},
		"unhealthy":             {value: `{"health":"NotReady"}`, want: `{"health":"NotReady"}`},
		"another health":        {value: `{"health":"Well"}`, want: `{}`},
		"a published condition": {value: `{"published":"example.com/V"}`, want: `{"published":"example.com/V"}`},
		"one of Kubernetes":     {value: `{"published":"Ready"}`, want: `{}`},
		"a boot ID":             {value: `{"bootID":"` + long + `"}`, want: `{"bootID":"` + long + `"}`},
		"no JSON":               {value: "x", want: `{}`},
		"a boot ID that is long": {value: `{"bootID":"` + long + `b"}`,
			want: `{"bootID":"` + nodeview.BootID(long+"b") + `"}`},
	} {
		r, _ := nodeview.DecodeRecord(c.value, Fresh().Obj(), At(10))
		if diff := cmp.Diff(c.want, r.Encode()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if id := nodeview.BootID("\xff"); !strings.HasPrefix(id, "sha256:") {
		t.Errorf("a record would keep the boot ID %q, which JSON cannot", id)
	}
}

// TestAShortRecordKeepsWhatDecides: a node's annotations may have room for no more.
func TestAShortRecordKeepsWhatDecides(t *testing.T) {
	r := nodeview.Record{Rule: "r", Taint: "a=b:NoSchedule", Domains: "zone=z", Adopted: true, Limited: true, BootID: "b"}
	if diff := cmp.Diff(`{"taint":"a=b:NoSchedule","limited":true}`, r.Short().Encode()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestARuleThatNoLongerRearmsKeepsTheEndOfTheStart, and no other node's start ends by that.
func TestARuleThatNoLongerRearmsKeepsTheEndOfTheStart(t *testing.T) {
	at := metav1.NewTime(At(1))
	for name, c := range map[string]struct {
		record         nodeview.Record
		started, count bool
	}{
		"new":                        {record: nodeview.Record{BootID: "b"}},
		"in service when first seen": {record: nodeview.Record{BootID: "b", Existing: true}, started: true},
		"in service, and rebooted":   {record: nodeview.Record{Existing: true, RearmedAt: at}, started: true},
		"released":                   {record: nodeview.Record{Released: at, RearmedAt: at}, started: true},
		"rebooted":                   {record: nodeview.Record{RearmedAt: at}, started: true, count: true},
		"rebooted, and timed out":    {record: nodeview.Record{RearmedAt: at, TimedOut: at}, started: true, count: true},
		"rebooted while it starts":   {record: nodeview.Record{RearmedAt: at, Starting: true}},
		"rebooted, and timed out while it starts": {record: nodeview.Record{RearmedAt: at, TimedOut: at, Starting: true},
			started: true},
	} {
		was := c.record.Started()
		c.record.ForgetBoot()
		if c.record.Started() != was || was != c.started || c.record.Counted != c.count || !c.record.RearmedAt.IsZero() {
			t.Errorf("%s: started %t, then %s", name, was, c.record.Encode())
		}
	}
}

func FuzzParseTaint(f *testing.F) {
	for _, s := range []string{"", "a:NoSchedule", "example.com/a=b:NoExecute", "a=b=c:NoSchedule",
		"node.kubernetes.io/x:NoSchedule", ":=:", "a=b:c:PreferNoSchedule"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		taint, err := nodeview.ParseTaint(s)
		if err != nil {
			if taint != (corev1.Taint{}) {
				t.Errorf("%q gives an error and %v", s, taint)
			}
			return
		}
		for _, p := range []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node-role.kubernetes.io/"} {
			if strings.HasPrefix(taint.Key, p) {
				t.Errorf("%q gives a taint of Kubernetes itself", s)
			}
		}
		again, err := nodeview.ParseTaint(nodeview.FormatTaint(taint))
		if err != nil || again != taint {
			t.Errorf("%q gives %v, and that again %v, %v", s, taint, again, err)
		}
	})
}

func FuzzParseOverride(f *testing.F) {
	for _, s := range []string{"", "Hold", "Release", "Hold;until=2026-01-02T15:04:05Z", "Release;until=", ";",
		" Hold ; until=2026-01-02T15:04:05+14:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := nodeview.ParseOverride(s)
		if (err == nil) != (o.Action == nodeview.OverrideHold || o.Action == nodeview.OverrideRelease) {
			t.Errorf("%q gives %+v and error %v", s, o, err)
		}
		if err != nil && o != (nodeview.Override{}) {
			t.Errorf("%q gives an error and %+v", s, o)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, s := range []string{"", "{}", "null", "{{{", Claimed(1), Released(1), Released(-1), Reclaimed(5, 1),
		`{"since":"0000-00-00"}`,
		`{"taint":"node.kubernetes.io/x=:NoExecute"}`, `{"bootID":"b","notBefore":"2026-01-02T15:00:00+01:00"}`,
		`{"released":"9999-12-31T23:59:59Z"}`} {
		f.Add(s)
	}
	node := Fresh().Obj()
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := nodeview.DecodeRecord(s, node, At(10))
		if !ok && r != (nodeview.Record{}) {
			t.Errorf("%q cannot be read and gives %+v", s, r)
		}
		for _, when := range []metav1.Time{r.Since, r.Released, r.TimedOut} {
			if !when.IsZero() && (when.Time.Before(At(0)) || when.After(At(10).Add(evidence.MaxClockSkew))) {
				t.Errorf("%q gives a time that cannot be: %s", s, when)
			}
		}
		if _, err := nodeview.ParseTaint(r.Taint); r.Taint != "" && err != nil {
			t.Errorf("%q gives a taint that no rule may have: %s", s, r.Taint)
		}
		again, ok := nodeview.DecodeRecord(r.Encode(), node, At(10))
		if !ok || again.Encode() != r.Encode() {
			t.Errorf("%q gives %s, and that again %s", s, r.Encode(), again.Encode())
		}
		// Every value of a node's annotation is applied without harm and settled by one patch.
		NewWorld(t, Rule().RearmOnReboot()).Pass(Fresh().BootID("b").Annotation(RecordKey, s).Obj(), At(10))
		w := NewWorld(t, Rule())
		w.Gone = []string{"u-gone"}
		w.Pass(Fresh().Annotation(v1alpha1.RecordAnnotationPrefix+"u-gone", s).Obj(), At(10))
	})
}
