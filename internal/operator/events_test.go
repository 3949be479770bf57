// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"

	"github.com/nodegate/nodegate/test/build"
)

func newTestRecorder(room int) (*Recorder, *clocktesting.FakePassiveClock, func(t *testing.T) []eventsv1.Event) {
	clients := fake.NewClientset()
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r := &Recorder{scheme: Scheme(), sink: clients.EventsV1(), clock: c, source: "nodegate-a",
		queue: make(chan *eventsv1.Event, room), known: lru.New(knownEvents)}
	return r, c, func(t *testing.T) []eventsv1.Event {
		t.Helper()
		for len(r.queue) > 0 {
			if err := r.write(context.Background(), <-r.queue); err != nil {
				t.Fatal(err)
			}
		}
		list, err := clients.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
}

func TestEventsThatRepeatAreCounted(t *testing.T) {
	r, c, written := newTestRecorder(10)
	node := build.MakeNode("n1").UID("u-n1").Obj()
	tell := func(note string) {
		r.Eventf(node, nil, corev1.EventTypeNormal, "TaintAdded", "AddTaint", "Added taint %s", note)
	}
	for range 3 {
		tell("a")
		c.SetTime(c.Now().Add(time.Minute))
	}
	tell("b")
	c.SetTime(c.Now().Add(seriesFor))
	tell("a")
	got := written(t)
	if len(got) != 3 {
		t.Fatalf("%d events, want 3", len(got))
	}
	counts := map[string]int32{}
	for i := range got {
		e := &got[i]
		if e.Namespace != "default" || e.Regarding.Kind != "Node" || e.Regarding.UID != "u-n1" ||
			e.ReportingController != "nodegate" {
			t.Errorf("unexpected event %+v", e)
		}
		if e.Series != nil {
			counts[e.Note] = e.Series.Count
		}
	}
	if len(counts) != 1 || counts["Added taint a"] != 3 {
		t.Errorf("counted %v, want the first one three times", counts)
	}
}

func TestAnEventWhoseAnswerWasLostIsNotDropped(t *testing.T) {
	r, _, written := newTestRecorder(1)
	r.Eventf(build.MakeNode("n1").UID("u-n1").Obj(), nil, corev1.EventTypeNormal, "TaintAdded", "AddTaint", "a")
	e := <-r.queue
	if err := r.send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	r.known.Clear() // nothing is known of an attempt without an answer
	if err := r.send(t.Context(), e); err != nil {
		t.Error(err)
	}
	if got := written(t); len(got) != 1 || got[0].Series != nil {
		t.Errorf("written: %+v", got)
	}
}

func TestEventsOfLongNamesAreValid(t *testing.T) {
	r, _, written := newTestRecorder(1)
	name := strings.Repeat("n", 250)
	r.Eventf(build.MakeNode(name).UID("u").Obj(), nil, corev1.EventTypeNormal, "TaintAdded", "AddTaint", "a")
	for _, e := range written(t) {
		if e.Regarding.Name != name || len(validation.IsDNS1123Subdomain(e.Name)) > 0 {
			t.Errorf("event %q about %q", e.Name, e.Regarding.Name)
		}
	}
}

// A burst of more events than the queue holds: one event on the rule stands for those about its nodes.
func TestEventsThatDoNotFitAreSummarized(t *testing.T) {
	r, _, written := newTestRecorder(2)
	before := testutil.ToFloat64(droppedEvents)
	rule := build.MakeRule("network").UID("u-rule").Obj()
	for i := range 9 {
		name := fmt.Sprintf("n%d", i)
		r.Eventf(build.MakeNode(name).UID(name).Obj(), rule, corev1.EventTypeNormal, "TaintAdded", "AddTaint", "%s",
			strings.Repeat("é", 1000))
	}
	r.Eventf(build.MakeNode("n9").UID("n9").Obj(), nil, corev1.EventTypeNormal, "TaintLeft", "AddTaint", "no rule")
	if got := testutil.ToFloat64(droppedEvents) - before; got != 1 {
		t.Errorf("%v events are lost, want only the one without a related object", got)
	}
	if waiting := r.summarized(); waiting != nil {
		t.Errorf("summaries overtake events: %v", waiting)
	}
	if got := written(t); len(got) != 2 || len(got[0].Note) > MaxNote || !strings.HasSuffix(got[0].Note, "é...") {
		t.Errorf("%d events: %q", len(got), got[0].Note)
	}
	all := r.summarized()
	if len(all) != 1 || r.summarized() != nil {
		t.Fatalf("summaries: %v", all)
	}
	const want = "7 nodes without an event of their own (n2, n3, n4, n5, n6 and 2 more). The first: éé"
	if e := all[0]; e.Regarding.Name != "network" || e.Related.Name != "n2" || e.Namespace != "default" ||
		e.Reason != "TaintAdded" || !strings.HasPrefix(e.Note, want) || len(e.Note) > MaxNote {
		t.Errorf("summary: %+v", e)
	}
}

func TestSummariesDoNotWaitForLongBehindEvents(t *testing.T) {
	r, c, _ := newTestRecorder(1)
	for _, name := range []string{"n1", "n2"} {
		r.Eventf(build.MakeNode(name).Obj(), build.MakeRule("network").Obj(), corev1.EventTypeNormal, "TaintAdded",
			"AddTaint", "a")
	}
	c.SetTime(c.Now().Add(summaryEvery))
	if all := r.summarized(); len(all) != 1 {
		t.Errorf("summaries after 10 s: %v", all)
	}
}
