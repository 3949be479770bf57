// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func rateOf(most, seconds int32) v1alpha1.Limit {
	m := intstr.FromInt32(most)
	return v1alpha1.Limit{Max: &m, WithinSeconds: &seconds}
}

// TestRates lets nodes become unready and ready again. The status is written whenever it changes.
func TestRates(t *testing.T) {
	f := newFleet(t, racks("a", "a", "b", "c", "d", "e"), rateOf(2, 600), limitOf("1", rack))
	var status *v1alpha1.RateStatus
	pass := func(seconds int) { f.now = f.now.Add(time.Duration(seconds) * time.Second) }
	write := func() Order {
		o := f.Order(status, f.now)
		status = o.Status
		f.Issue(&o)
		return o
	}
	if got := f.asks(0, 1, 2, 3); got != nil {
		t.Fatalf("held %v before their times are in the status", got)
	}
	if o := write(); o.Claims != 2 || len(status.ClaimTimes) != 2 || !o.Next.Equal(start.Add(31*time.Second)) {
		t.Fatalf("ordered %+v", o)
	}
	if got := f.Wake(nil); !slices.Equal(got, []int32{0, 2}) {
		t.Errorf("woken %v, want the first nodes with room under both limits", got)
	}
	if got := f.asks(0, 2, 3); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("held %v", got)
	}
	f.is(0, Node{Counted: true})
	f.is(2, Node{Counted: true})
	pass(60)
	want := "limits[0] (2 within 10m0s) allows the next node at 2026-01-02T03:14:35Z"
	if o := write(); o.Claims != 0 || !o.Next.Equal(start.Add(630*time.Second)) || o.Why != want {
		t.Errorf("ordered %+v although the rate is used up", o)
	}
	if got := f.Reserve(3, f.request(3, 0), f.now); got != want {
		t.Errorf("node 3: %s", got)
	}
	f.version(rateOf(2, 600), limitOf("1", rack)) // a restart forgets what was not used, and the status counts it
	pass(570)
	f.asks(1, 3, 4)
	if o := write(); o.Claims != 2 || len(status.ClaimTimes) != 2 {
		t.Errorf("ordered %+v when the time is over", o)
	}
	pass(31)
	if got := f.asks(1, 3); got != nil {
		t.Errorf("held %v by orders that are too old", got)
	}
	dry := New(f.rule, false, func(a, b int32) bool { return a < b })
	if why := dry.Reserve(0, f.request(0, 0), f.now); why != "" {
		t.Errorf("a dry-run says: %s", why)
	}
}

// TestARateAllowsTheNextNodeAtItsTime, to the second.
func TestARateAllowsTheNextNodeAtItsTime(t *testing.T) {
	r := newFleet(t, racks("a"), rateOf(1, 60)).rule
	status := &v1alpha1.RateStatus{ClaimTimes: []metav1.Time{metav1.NewTime(start)}}
	for seconds, reached := range map[int]bool{59: true, 60: false} {
		if got := r.Reached(status, start.Add(time.Duration(seconds)*time.Second)); (got != "") != reached {
			t.Errorf("after %d seconds: %q", seconds, got)
		}
	}
}

// TestAClaimUnderARateIsMadeInTime tries again when the write of a claim has failed.
func TestAClaimUnderARateIsMadeInTime(t *testing.T) {
	f := newFleet(t, racks("a", "b"), rateOf(1, 60))
	ask := func(i, since int) bool {
		return f.Reserve(int32(i), f.request(i, since), f.now) == ""
	}
	issue := func(status *v1alpha1.RateStatus) *v1alpha1.RateStatus {
		o := f.Order(status, f.now)
		f.Issue(&o)
		return o.Status
	}
	ask(0, 0)
	ask(1, 1)
	status := issue(nil)
	if ask(1, 1) {
		t.Error("a node takes the turn of one that has been unready for longer")
	}
	if !ask(0, 0) {
		t.Error("the node whose turn it is may not be held")
	}
	f.settles(0, Fate{Unknown: true})
	f.now = start.Add(-5 * time.Second)
	if !ask(0, 0) {
		t.Error("the claim cannot be made by the clock of another API server")
	}
	f.now = start.Add(30 * time.Second)
	if !ask(0, 0) {
		t.Error("the claim cannot be tried again in its time")
	}
	f.now = start.Add(31 * time.Second)
	if ask(0, 0) {
		t.Error("the claim is made after its time")
	}
	f.now = start.Add(90 * time.Second)
	issue(status)
	if !ask(0, 0) {
		t.Error("the node has no other turn")
	}
}

// TestAClaimAfterItsTimeKeepsItsPlace: it may have been made, and the cache does not show that yet.
func TestAClaimAfterItsTimeKeepsItsPlace(t *testing.T) {
	f := newFleet(t, racks("a", "a"), rateOf(5, 60), limitOf("1", ""))
	f.asks(0, 1)
	o := f.Order(nil, f.now)
	f.Issue(&o)
	f.Reserve(0, f.request(0, 0), f.now)
	f.now = start.Add(25 * time.Second)
	f.settles(0, Fate{Unknown: true})
	for range 2 {
		f.now = f.now.Add(10 * time.Second)
		if f.Reserve(0, f.request(0, 0), f.now) == "" {
			t.Error("the claim is made after its time")
		}
		f.settles(0, Fate{Refused: true})
		if o = f.Order(nil, f.now); o.Claims != 0 || len(f.Wake(nil)) != 0 {
			t.Errorf("its place is free: %+v", o)
		}
	}
	f.now = f.now.Add(time.Minute)
	f.FreePlaces(f.now)
	if o = f.Order(nil, f.now); o.Claims != 1 {
		t.Errorf("ordered %+v for the next claim", o)
	}
	if f.Issue(&o); !slices.Equal(f.asks(0, 1), []int{1}) {
		t.Error("the next turn is not that of the node whose write has not failed")
	}
}

// TestARateDoesNotReleaseANode asks for nodes that are held already, as after the override Hold.
func TestARateDoesNotReleaseANode(t *testing.T) {
	f := newFleet(t, racks("a", "a", "a", "b", "c"), rateOf(1, 60), limitOf("2", ""), limitOf("1", rack))
	f.asks(0, 1) // they wait for the rate
	held := func(i int) bool {
		r := f.request(i, i)
		r.Held = true
		return f.Reserve(int32(i), r, f.now) == ""
	}
	if !held(4) {
		t.Error("a node is released although the limits that are no rates have room")
	}
	o := f.Order(nil, f.now)
	f.Issue(&o)
	if held(2) || held(3) {
		t.Error("a held node takes the place of one that may be held now, and has been unready for longer")
	}
	if got := f.asks(0); len(got) != 1 {
		t.Error("the claim of a held node has used the rate")
	}
}

// TestAClaimThatIsRefusedUsesNoRate refuses the writes of a node.
func TestAClaimThatIsRefusedUsesNoRate(t *testing.T) {
	for _, use := range []Use{Claims, Marks} {
		f := newFleet(t, racks("a", "a"), rateOf(1, 600))
		var status *v1alpha1.RateStatus
		issue := func(seconds int) *v1alpha1.RateStatus {
			f.now = f.now.Add(time.Duration(seconds) * time.Second)
			o := f.Order(status, f.now)
			f.Issue(&o)
			status = o.Status
			return status
		}
		ask := func(i int) bool {
			r := f.request(i, i)
			r.Use = use
			return f.Reserve(int32(i), r, f.now) == ""
		}
		ask(0)
		issue(2)
		if !ask(0) || ask(1) {
			t.Fatal("the node that has been unready for longest has no turn")
		}
		f.settles(0, Fate{Unwritten: true})
		if got := f.Wake(nil); !slices.Equal(got, []int32{1}) || ask(0) || !ask(1) {
			t.Fatalf("woken %v, and the turn does not go to the next node", got)
		}
		f.settles(1, Fate{Unwritten: true})
		f.settles(0, Fate{})
		if issue(30) == nil {
			t.Error("the time is removed while it may still be used")
		}
		if got := issue(1); got != nil {
			t.Errorf("no claim was made, and the status has %v", got)
		}

		ask(0)
		issue(0)
		ask(0)
		f.settles(0, Fate{Unknown: true})
		if ask(1); issue(31) == nil {
			t.Error("a claim that may have been made does not count")
		}
		issue(30) // until now, it stays granted
		f.settles(0, Fate{Unwritten: true})
		if issue(1); ask(0) || ask(1) {
			t.Error("a claim that may have been made does not use its turn")
		}
	}
}

// TestAnEditedRateCountsTheTimesThatAreLeft shortens a rate, and then restores it.
func TestAnEditedRateCountsTheTimesThatAreLeft(t *testing.T) {
	f := newFleet(t, racks("a", "a"), rateOf(2, 3600))
	status := &v1alpha1.RateStatus{ClaimTimes: []metav1.Time{metav1.NewTime(start),
		metav1.NewTime(start.Add(57 * time.Second))}}
	f.now = start.Add(time.Minute)
	for _, c := range []struct {
		rate v1alpha1.Limit
		want int
	}{{rateOf(2, 3600), 2}, {rateOf(2, 10), 1}, {rateOf(2, 3600), 1}} {
		f.version(c.rate)
		if status = f.Order(status, f.now).Status; len(status.ClaimTimes) != c.want {
			t.Errorf("times %v, want %d", status.ClaimTimes, c.want)
		}
	}
}

// TestAnEditedRateAllowsNoMoreThanItSays lowers a rate after times were written for it, and before they are used.
func TestAnEditedRateAllowsNoMoreThanItSays(t *testing.T) {
	f := newFleet(t, racks("a", "a"), rateOf(2, 600))
	f.asks(0, 1)
	o := f.Order(nil, f.now)
	if f.Issue(&o); o.Claims != 2 {
		t.Fatalf("ordered %+v", o)
	}
	f.version(rateOf(1, 600))
	if got := f.asks(0, 1); got != nil {
		t.Errorf("held %v by the times of the rate before the edit", got)
	}
	if o = f.Order(o.Status, f.now); o.Claims != 0 || len(o.Status.ClaimTimes) != 2 {
		t.Errorf("ordered %+v, and the times of the rate before the edit must count", o)
	}
}

// TestTimesOfAnotherClockStay reads the times of a leader whose clock was ahead, or is right while this one is behind.
func TestTimesOfAnotherClockStay(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{
		11 * time.Minute: 11 * time.Minute, 24 * time.Hour: ticketLife, // else nothing would be held for a day
	} {
		f := newFleet(t, racks("a"), rateOf(1, 600))
		f.asks(0)
		o := f.Order(&v1alpha1.RateStatus{ClaimTimes: []metav1.Time{metav1.NewTime(start.Add(ahead))}}, f.now)
		if got := o.Status.ClaimTimes; o.Claims != 0 || len(got) != 1 || !got[0].Time.Equal(start.Add(want)) {
			t.Errorf("%s ahead: ordered %d, times %v", ahead, o.Claims, got)
		}
	}
}

// TestANodeThatCannotBeWrittenComesAfterTheOthers lets the write of a node fail, without knowing its outcome.
func TestANodeThatCannotBeWrittenComesAfterTheOthers(t *testing.T) {
	f := newFleet(t, racks("a", "a", "a"), limitOf("1", ""))
	f.now = start.Add(time.Minute)
	f.Reserve(0, f.request(0, 0), f.now)
	f.settles(0, Fate{Unknown: true})
	f.asks(1)
	f.versions[0]++
	f.settles(0, Fate{Unwritten: true})
	f.Reserve(0, f.request(0, 0), f.now)
	f.Reserve(2, f.request(2, 70), f.now)
	if got := f.Wake(nil); !slices.Equal(got, []int32{1}) {
		t.Errorf("woken %v, want the node that has been unready for longest of the others", got)
	}
	f.settles(1, Fate{})
	if got := f.Wake(nil); !slices.Equal(got, []int32{0}) {
		t.Errorf("woken %v, want it before one that has become unready since", got)
	}
}

// TestNoWindowHasMoreClaimsThanTheRateAllows claims at random times, with restarts.
func TestNoWindowHasMoreClaimsThanTheRateAllows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := newFleet(t, racks(slices.Repeat([]string{"a"}, 20)...), rateOf(3, 60), rateOf(5, 200))
	var status *v1alpha1.RateStatus
	var held []time.Time
	for range 5000 {
		f.now = f.now.Add(time.Duration(random.IntN(8000)) * time.Millisecond)
		i := random.IntN(20)
		switch random.IntN(4) {
		case 0, 1:
			next := []int{i}
			for _, n := range f.Wake(nil) {
				next = append(next, int(n))
			}
			for range f.asks(next...) {
				held = append(held, f.now)
			}
		case 2:
			o := f.Order(status, f.now)
			if status = o.Status; random.IntN(10) > 0 { // else the operator is killed, or a conflict is not noticed
				f.Issue(&o)
			}
		case 3:
			f.is(i, Node{Counted: true})
			f.settles(i, Fate{})
		}
		if n := len(f.rates.tickets[Claims]); n > 10 {
			t.Fatalf("%d times are remembered, and most of them are over", n)
		}
	}
	if len(held) < 300 {
		t.Errorf("held only %d times", len(held))
	}
	for i := range held {
		for _, rate := range []struct{ max, seconds int }{{3, 60}, {5, 200}} {
			if j := i + rate.max; j < len(held) && held[j].Sub(held[i]) < time.Duration(rate.seconds)*time.Second {
				t.Fatalf("more than %d within %d s: %s", rate.max, rate.seconds, held[i:j+1])
			}
		}
	}
}
