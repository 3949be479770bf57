// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// timesAt returns times so many seconds after the start.
func timesAt(seconds ...int) (times []metav1.Time) {
	for _, s := range seconds {
		times = append(times, metav1.NewTime(start.Add(time.Duration(s)*time.Second)))
	}
	return times
}

func TestReachedNamesTheRateThatAllowsTheNextNodeLast(t *testing.T) {
	const hour, minute = "limits[0] (2 within 1h0m0s) allows the next node at 2026-01-02T04:04:",
		"limits[1] (1 within 1m0s) allows the next node at 2026-01-02T03:05:"
	r := newFleet(t, racks("a"), rateOf(2, 3600), rateOf(1, 60)).rule
	for name, c := range map[string]struct {
		times  []metav1.Time
		after  int
		allows int
		want   string
	}{
		"no times yet":              {nil, 0, 1, ""},
		"the long one":              {timesAt(0, 10), 20, 0, hour + "05Z"},
		"the long one, in disorder": {timesAt(10, 0), 20, 0, hour + "05Z"},
		"the short one":             {timesAt(10), 20, 0, minute + "15Z"},
		"none, its time is over":    {timesAt(10), 70, 1, ""},
	} {
		var status *v1alpha1.RateStatus
		if c.times != nil {
			status = &v1alpha1.RateStatus{ClaimTimes: c.times}
		}
		now := start.Add(time.Duration(c.after) * time.Second)
		if got, allows := r.Reached(status, now), r.Allows(status, now).Claims; got != c.want || allows != c.allows {
			t.Errorf("%s: %q, and %d nodes may be held", name, got, allows)
		}
	}
	old := &v1alpha1.RateStatus{ClaimTimes: slices.Repeat(timesAt(0), v1alpha1.MaxRate)}
	after := start.Add(time.Hour)
	if got, allows := r.Reached(old, after), r.Allows(old, after).Claims; got != "" || allows != 1 {
		t.Errorf("all times are too old: %q, and %d nodes may be held", got, allows)
	}
}

// TestAnOrder says what one order adds for nodes that wait, and when it has to be repeated.
func TestAnOrder(t *testing.T) {
	const next = "limits[0] (2 within 1m0s) allows the next node at 2026-01-02T03:04:"
	for name, c := range map[string]struct {
		rate          v1alpha1.Limit // 2 within 60 seconds, if empty
		claims, marks []int          // the nodes that wait to be held, and for the condition to become False
		held, marked  []metav1.Time  // the times in the status
		want          Order
		next          int // in seconds, or 0
	}{
		"nothing":                     {},
		"for one node, one time":      {claims: []int{0}, want: Order{Claims: 1}, next: 31},
		"for each use":                {claims: []int{0}, marks: []int{1}, want: Order{Claims: 1, Marks: 1}, next: 31},
		"old times are not repeated":  {held: timesAt(-20), claims: []int{0}, want: Order{Claims: 1}, next: 31},
		"no node waits for the limit": {held: timesAt(-20, -10)},
		"the limit is reached": {held: timesAt(-20, -10), claims: []int{0}, want: Order{Why: next + "45Z"},
			next: 40},
		"the next time comes before this one is over": {held: timesAt(-50), claims: []int{0, 1},
			want: Order{Claims: 1, Why: next + "15Z"}, next: 10},
		"a node waits to be held for less long": {held: timesAt(-20, -30), claims: []int{0}, marked: timesAt(-10, -10),
			marks: []int{1}, want: Order{Why: next + "35Z"}, next: 30},
		"a node waits to be held for longer": {held: timesAt(-10, -10), claims: []int{0}, marked: timesAt(-20, -30),
			marks: []int{1}, want: Order{Why: next + "55Z"}, next: 30},
		"another leader has written the same time": {held: timesAt(30), claims: []int{0, 1}, next: 1},
		"another leader has also written others":   {rate: rateOf(3, 60), held: timesAt(30, 29), claims: []int{0}, next: 1},
		"another leader has written one before":    {held: timesAt(29), claims: []int{0}, want: Order{Claims: 1}, next: 31},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rate.Max == nil {
				c.rate = rateOf(2, 60)
			}
			f := newFleet(t, racks("a", "a", "a"), c.rate)
			f.asks(c.claims...)
			f.marks(c.marks...)
			got := f.Order(&v1alpha1.RateStatus{ClaimTimes: c.held, MarkTimes: c.marked}, f.now)
			if got.Claims != c.want.Claims || got.Marks != c.want.Marks || got.Why != c.want.Why {
				t.Errorf("%d claims, %d marks, %q, want %+v", got.Claims, got.Marks, got.Why, c.want)
			}
			if at := start.Add(time.Duration(c.next) * time.Second); c.next == 0 && !got.Next.IsZero() ||
				c.next != 0 && !got.Next.Equal(at) {
				t.Errorf("again at %s, want after %d seconds", got.Next, c.next)
			}
		})
	}
}

func TestOrdersInARow(t *testing.T) {
	t.Run("of one process may be in the same second", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), rateOf(5, 600))
		f.asks(0)
		first := f.issues(nil)
		f.asks(0, 1)
		if o := f.issues(first.Status); o.Claims != 1 || len(o.Status.ClaimTimes) != 2 {
			t.Errorf("ordered %+v", o)
		}
	})
	t.Run("look again when a time that is not used is over", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), rateOf(5, 600))
		f.asks(0)
		o := f.issues(nil)
		f.settles(0, Fate{}) // ready again
		f.now = f.now.Add(20 * time.Second)
		if o = f.issues(o.Status); o.Claims != 0 || !o.Next.Equal(start.Add(31*time.Second)) {
			t.Errorf("ordered %+v", o)
		}
	})
	t.Run("go on after an edit that leaves the rates as they are", func(t *testing.T) {
		for name, c := range map[string]struct {
			edited []v1alpha1.Limit
			held   int
		}{
			"another limit":    {[]v1alpha1.Limit{rateOf(1, 600), limitOf("4", rack)}, 1},
			"another number":   {[]v1alpha1.Limit{rateOf(2, 600), limitOf("3", rack)}, 0},
			"a longer time":    {[]v1alpha1.Limit{rateOf(1, 900), limitOf("3", rack)}, 0},
			"no rate any more": {[]v1alpha1.Limit{limitOf("3", rack)}, 1},
			"one more rate":    {[]v1alpha1.Limit{rateOf(1, 600), rateOf(2, 900)}, 0},
		} {
			f := newFleet(t, racks("a"), rateOf(1, 600), limitOf("3", rack))
			f.asks(0)
			f.issues(nil)
			f.version(c.edited...)
			if got := f.asks(0); len(got) != c.held {
				t.Errorf("%s: held %v", name, got)
			}
		}
	})
	t.Run("are not made by a rule without a rate, or in dry-run", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), limitOf("1", ""))
		f.asks(0, 1)
		f.is(0, Node{Counted: true})
		if o := f.issues(nil); o.Status != nil || o.Claims != 0 {
			t.Errorf("without a rate: ordered %+v", o)
		}
		f.version(limitOf("1", ""), rateOf(1, 60))
		f.suspends()
		if o := f.issues(&v1alpha1.RateStatus{ClaimTimes: timesAt(0)}); o.Status != nil || o.Claims != 0 {
			t.Errorf("in dry-run: ordered %+v", o)
		}
	})
}

// TestATurnThatIsGivenBack refuses the writes of some of several nodes that have a turn.
func TestATurnThatIsGivenBack(t *testing.T) {
	t.Run("is not that of a node that is held", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), rateOf(5, 600))
		f.asks(0)
		o := f.issues(nil)
		if got := f.asks(0); len(got) != 1 {
			t.Fatal("node 0 is not held")
		}
		f.now = f.now.Add(2 * time.Second)
		f.asks(1)
		o = f.issues(o.Status)
		f.may(1, 1)
		f.settles(1, Fate{Unwritten: true})
		f.now = f.now.Add(time.Minute)
		o = f.issues(o.Status)
		if diff := cmp.Diff(&v1alpha1.RateStatus{ClaimTimes: timesAt(30)}, o.Status); diff != "" {
			t.Errorf("times, want that of the node that is held (-want +got):\n%s", diff)
		}
	})
	t.Run("is free for each of two nodes", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), rateOf(5, 600))
		f.asks(0, 1)
		o := f.issues(nil)
		f.may(0, 0)
		f.may(1, 1)
		f.settles(0, Fate{Unwritten: true})
		f.settles(1, Fate{Unwritten: true})
		f.now = f.now.Add(time.Minute)
		if o = f.issues(o.Status); o.Status != nil {
			t.Errorf("no node is held, and the times are %v", o.Status)
		}
	})
}

// TestAClaimIsMadeInItsTime by the clocks of several API servers, which may differ by 10 seconds.
func TestAClaimIsMadeInItsTime(t *testing.T) {
	for seconds, want := range map[int]bool{-3600: false, -11: false, -10: true, 0: true, 30: true, 31: false} {
		f := newFleet(t, racks("a"), rateOf(1, 600))
		f.asks(0)
		f.issues(nil)
		f.may(0, 0)
		f.now = f.now.Add(time.Duration(seconds) * time.Second)
		if got := f.InTime(Claims, 0, f.now); got != want {
			t.Errorf("after %d seconds: in time %t", seconds, got)
		}
	}
	f := newFleet(t, racks("a"), limitOf("1", ""))
	f.may(0, 0)
	if !f.InTime(Claims, 0, start.Add(time.Hour)) {
		t.Error("without a rate, a claim is too late")
	}
}
