// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// # Rates
//
// A rate needs to be remembered across restarts, and two leaders must not use it twice. So the rule controller writes
// the times of claims to the rule's status before they are made:
//
//	          a node waits, and the rate     the status     Reserve
//	┌──────┐  allows it: Order        ┌───┐  is written ┌────────┐ ────────► ┌──────┐
//	│ None │ ───────────────────────► │...│ ──────────► │ Ticket │           │ Used │
//	└──────┘                          └───┘    Issue    └────────┘ ────────► └──────┘
//	                                                            ticketLife has passed
//
// The time in the status is the latest at which the claim may be made, and it counts from then, used or not. So no
// window of any position has more claims than the rate allows.

// ticketLife is how long a claim may be made after its time was written.
const ticketLife = 30 * time.Second

// inTime reports whether a claim may be made that may be until a time. After the clock was set back, it may not.
func inTime(until, now time.Time) bool {
	left := until.Sub(now)
	return left >= 0 && left <= ticketLife
}

func within(e *v1alpha1.Limit) time.Duration {
	if e.WithinSeconds == nil {
		return 0
	}
	return time.Duration(*e.WithinSeconds) * time.Second
}

// Rated reports whether a limit is a rate.
func (r Rule) Rated() bool { return r.longest() > 0 }

// longest returns the longest time of a rate.
func (r Rule) longest() (longest time.Duration) {
	for i := range r.entries {
		longest = max(longest, within(&r.entries[i]))
	}
	return longest
}

// sameRates reports whether two versions of a rule have the same rates.
func (r Rule) sameRates(o Rule) bool {
	return slices.EqualFunc(r.entries, o.entries, func(a, b v1alpha1.Limit) bool {
		return within(&a) == within(&b) && (within(&a) == 0 || a.Max.IntValue() == b.Max.IntValue())
	})
}

// rates are the claims that may be made under limits that are rates.
type rates struct {
	apply bool
	// issued are the times until which one claim each may be made. They are in order.
	issued [wakes][]time.Time
	// wanting says which entry keeps more claims from being issued, and until when.
	wanting [wakes]nextClaim
	woken   int // the number of waiting nodes that were woken
}

// nextClaim is when an entry allows one more claim. The zero value says that it is not known.
type nextClaim struct {
	entry int
	at    time.Time
}

// allowance returns how many claims the rates allow now, by the times of others, and when one more if that is none.
func (r Rule) allowance(times []metav1.Time, now time.Time) (n int, next nextClaim) {
	n = v1alpha1.MaxRate - len(times)
	for i := range r.entries {
		e := &r.entries[i]
		if within(e) == 0 {
			continue
		}
		var ends []time.Time
		for _, t := range times {
			if end := t.Add(within(e)); end.After(now) {
				ends = append(ends, end)
			}
		}
		slices.SortFunc(ends, time.Time.Compare)
		over := len(ends) - e.Max.IntValue()
		if n = min(n, max(0, -over)); over >= 0 && ends[over].After(next.at) {
			next = nextClaim{i, ends[over]}
		}
	}
	return max(0, n), next
}

// Order is what a rule's status says of the times of claims, and what may be claimed once it is written.
type Order struct {
	Status *v1alpha1.RateStatus
	// Claims and Marks are the numbers of claims that may be made until a time.
	Claims, Marks int
	Until         time.Time
	// Next is when to order again, or zero. Why says when a rate allows one more node, if nodes wait for that.
	Next time.Time
	Why  string

	wanting [wakes]nextClaim
}

// Allows returns what the rates allow now, by the times in the rule's status.
func (r Rule) Allows(status *v1alpha1.RateStatus, now time.Time) *Order {
	o := &Order{Until: now.Add(ticketLife)}
	if status == nil {
		status = &v1alpha1.RateStatus{}
	}
	o.Claims, _ = r.allowance(status.Claims, now)
	_, o.wanting[claims] = r.allowance(o.times(status.Claims, o.Claims), now)
	return o
}

// Reached says when a rate allows one more node to be held, by the times in the rule's status, or "" if it is now.
func (r Rule) Reached(status *v1alpha1.RateStatus, now time.Time) string {
	if o := r.Allows(status, now); o.Claims == 0 && !o.wanting[claims].at.IsZero() {
		return r.next(o.wanting[claims])
	}
	return ""
}

// times returns the times of claims, with those of the order.
func (o *Order) times(before []metav1.Time, n int) []metav1.Time {
	return append(slices.Clone(before), slices.Repeat([]metav1.Time{metav1.NewTime(o.Until)}, n)...)
}

// Order returns the times of claims for the rule's status, with those that waiting nodes need and the rates allow.
func (l *Limit) Order(before *v1alpha1.RateStatus, now time.Time) Order {
	if !l.rates.apply {
		return Order{}
	}
	if before == nil {
		before = &v1alpha1.RateStatus{}
	}
	o := Order{Status: &v1alpha1.RateStatus{}, Until: now.Truncate(time.Second).Add(ticketLife)}
	o.Status.Claims, o.Claims = l.add(&o, claims, before.Claims, now)
	o.Status.Marks, o.Marks = l.add(&o, marks, before.Marks, now)
	if len(o.Status.Claims)+len(o.Status.Marks) == 0 {
		o.Status = nil
	}
	return o
}

// add returns the times that still count, and those that are added.
func (l *Limit) add(o *Order, u use, before []metav1.Time, now time.Time) (after []metav1.Time, added int) {
	for _, t := range before {
		if t.After(o.Until) { // of a clock that was ahead
			t = metav1.NewTime(o.Until)
		}
		if t.Add(l.rule.longest()).After(now) {
			after = append(after, t)
		}
	}
	allowed, _ := l.rule.allowance(after, now)
	left := l.tickets(u, now)
	wanted := l.wanted(u) - left
	added = max(0, min(wanted, allowed))
	after = o.times(after, added)
	_, o.wanting[u] = l.rule.allowance(after, now)
	var again time.Time
	switch { // some of them may not be made
	case added > 0:
		again = o.Until.Add(time.Second)
	case left > 0 && wanted+left > 0:
		again = l.rates.issued[u][left-1].Add(time.Second)
	}
	if next := o.wanting[u]; wanted > added && !next.at.IsZero() {
		if o.Why = cmp.Or(o.Why, l.rule.next(next)); again.IsZero() || next.at.Before(again) {
			again = next.at
		}
	}
	if !again.IsZero() && (o.Next.IsZero() || again.Before(o.Next)) {
		o.Next = again
	}
	return after, added
}

// Issue lets the claims of an order be made. Its times are written.
func (l *Limit) Issue(o *Order) {
	if !l.rates.apply {
		return
	}
	for range o.Claims {
		l.rates.issued[claims] = append(l.rates.issued[claims], o.Until)
	}
	for range o.Marks {
		l.rates.issued[marks] = append(l.rates.issued[marks], o.Until)
	}
	l.rates.wanting, l.changed = o.wanting, true
}

// tickets returns how many claims may be made.
func (l *Limit) tickets(u use, now time.Time) int {
	l.rates.issued[u] = slices.DeleteFunc(l.rates.issued[u], func(until time.Time) bool { return !inTime(until, now) })
	return len(l.rates.issued[u])
}

// spend uses a claim that was issued, and returns until when it may be made.
func (r *rates) spend(u use) (until time.Time) {
	if r.apply {
		until, r.issued[u] = r.issued[u][0], r.issued[u][1:]
	}
	return until
}

// rateWhy says why a rate allows no claim now, or "".
func (l *Limit) rateWhy(u use, now time.Time) string {
	if !l.rates.apply || l.tickets(u, now) > 0 {
		return ""
	}
	if next := l.rates.wanting[u]; next.at.After(now) {
		return l.rule.next(next)
	}
	return "a limit is a rate, and the operator first writes to the rule's status that it holds one more node"
}

// next says when an entry allows one more node.
func (r Rule) next(next nextClaim) string {
	return fmt.Sprintf("%s (%s) allows the next node at %s", r.name(next.entry), describe(&r.entries[next.entry]),
		next.at.UTC().Format(time.RFC3339))
}

// wanted returns how many waiting nodes have room under the limits that are no rates, at most MaxRate.
func (l *Limit) wanted(u use) int {
	var taken []*cell
	take := func(c *cell) bool {
		if e, _ := c.full(u); e != nil || len(taken) == v1alpha1.MaxRate {
			return false
		}
		c.take(u, 1)
		taken = append(taken, c)
		return true
	}
	if u == claims {
		for _, c := range l.cells {
			for i := 0; i < c.waiting.Len() && take(c); i++ {
			}
		}
	} else {
		for _, c := range l.denied {
			take(c)
		}
	}
	for _, c := range taken {
		c.take(u, -1)
	}
	return len(taken)
}
