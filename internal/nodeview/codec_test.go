// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// TestRecordsAreReadAndWrittenAsByEncodingJSON compares both directions, for records with any of the fields set.
func TestRecordsAreReadAndWrittenAsByEncodingJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "", "cni", "a/b=c:NoSchedule", `"quoted"`, `back\slash`, "<", "&", ">",
		"a b~", "tab\t", "Ünïcode", "\xff"}
	text := func() string { return texts[random.IntN(len(texts))] }
	when := func() metav1.Time {
		if random.IntN(2) == 0 {
			return metav1.Time{}
		}
		return metav1.Unix(random.Int64N(1<<33), 0)
	}
	for range 2000 {
		r := Record{Rule: text(), Taint: text(), Since: when(), Late: random.IntN(2) == 0, Limited: random.IntN(2) == 0,
			Domains:  text(),
			Forced:   random.IntN(2) == 0,
			Existing: random.IntN(2) == 0, Released: when(), TimedOut: when(), BootID: text(), NotBefore: when(),
			RearmedAt: when(), Former: when(), GuardedSince: when(), GuardEnded: when(), Published: text(),
			Health: v1alpha1.HealthVerdict(text()), Adopted: random.IntN(2) == 0, Own: random.IntN(2) == 0,
			Missed:  random.IntN(2) == 0,
			Counted: random.IntN(2) == 0, Starting: random.IntN(2) == 0}
		want, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), r.Encode()); diff != "" {
			t.Fatalf("written (-want +got):\n%s", diff)
		}
		sameAsJSON(t, string(want))
	}
}

func TestJSONThatTheOperatorDoesNotWriteIsReadAsByEncodingJSON(t *testing.T) {
	for _, s := range []string{
		"", "{", "}", "{}", "{},", "{} ", "{}{}", "null", "[]", `{"rule"}`, `{"rule":}`, `{"rule":"a"`, `{"rule":"a",}`,
		`{,}`,
		`{"rule":"a""taint":"b"}`, `{"rule": "a"}`, ` {"rule":"a"}`, `{"rule":"a","rule":"b"}`, `{"Rule":"a"}`, `{"other":1}`,
		`{"rule":1}`, `{"rule":null}`, `{"late":true}`, `{"late":false}`, `{"late":truex}`, `{"late":"true"}`,
		`{"since":"2026-01-02T15:04:05Z"}`, `{"since":"2026-01-02T15:04:05.5+01:00"}`, `{"since":"2026-02-30T00:00:00Z"}`,
		`{"since":""}`, `{"since":null}`, `{"since":"x"}`, `{"rule":"\u0061"}`, "{\"rule\":\"\x01\"}", `{"health":"ready"}`,
		`{'rule":"a"}`, `{"rule":'a"}`, `{"rule":"a`, `{"rule`, `{"rule":"a\}`, "{\"rule\":\"a\x01}", `{"rule":"a\"`,
		`{"late":true"own":true}`, `{"rule":"a" "late":true}`, `{"rule""a"}`, `{"late"true}`,
		`{"since""2026-01-02T15:04:05Z"}`,
	} {
		sameAsJSON(t, s)
	}
}

func sameAsJSON(t *testing.T, s string) {
	t.Helper()
	var want Record
	err := json.Unmarshal([]byte(s), &want)
	if err != nil {
		want = Record{}
	}
	got, ok := ReadRecord(s)
	if ok != (err == nil) || !cmp.Equal(want, got) {
		t.Errorf("%s: got %+v, %v; want %+v, %v", s, got, ok, want, err)
	}
}
