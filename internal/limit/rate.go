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
//	          a node waits, and the rate     the status       Reserve
//	┌──────┐  allows it: Order        ┌───┐  is written ┌──────┐ ──────────────────► ┌──────┐
//	│ None │ ───────────────────────► │...│ ──────────► │ Open │                     │ Used │
//	└──────┘                          └───┘    Issue    └──────┘ ◄────────────────── └──────┘
//	    ▲     Order removes the time  ┌────────┐            │    certainly not written
//	    └──────────────────────────── │ Lapsed │ ◄──────────┘
//	                                  └────────┘   ticketLife has passed
//
// The time in the status is the latest at which the claim may be made, and it counts from then. So no window of any
// position has more claims than the rate allows. After a restart, all times count, used or not. Times are by the API
// server's clock, which all leaders share.

// ticketLife is how long a claim may be made after its time was written.
const ticketLife = 30 * time.Second

// maxAhead is how far in the future a time in the status may be. Later ones are from a clock that was ahead. Those that
// are ahead by less stay as they are: this process may not have heard of the API server's clock for a while.
const maxAhead = time.Hour

// serversDiffer is by how much the clocks of several API servers may differ at most.
const serversDiffer = 10 * time.Second

// inTime reports whether a claim may be made that may be until a time. After the clock was set back, it may not.
func inTime(until, now time.Time) bool {
	left := until.Sub(now)
	return left >= 0 && left <= ticketLife+serversDiffer
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
	// tickets are those that this process has issued, in the order of their times, as long as they count.
	tickets [kinds][]ticket
	// wanting says which entry keeps more claims from being issued, and until when.
	wanting [kinds]nextClaim
	woken   [kinds]int // the number of waiting nodes that were woken
}

// ticket is one claim, which may be made until a time.
type ticket struct {
	until        time.Time
	used, lapsed bool
}

// nextClaim is when an entry allows one more claim. The zero value says that it is not known.
type nextClaim struct {
	entry int
	at    time.Time
}

// allowance returns how many claims the rates allow now, by the times of others, and when one more if that is none.
func (r Rule) allowance(times []metav1.Time, now time.Time) (n int, next nextClaim) {
	n = v1alpha1.MaxRate
	longest := r.longest()
	for _, t := range times {
		if t.Add(longest).After(now) {
			n--
		}
	}
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

	wanting [kinds]nextClaim
}

// Allows returns what the rates allow now, by the times in the rule's status.
func (r Rule) Allows(status *v1alpha1.RateStatus, now time.Time) *Order {
	o := &Order{Until: now.Add(ticketLife)}
	if status == nil {
		status = &v1alpha1.RateStatus{}
	}
	o.Claims, _ = r.allowance(status.ClaimTimes, now)
	_, o.wanting[Claims] = r.allowance(o.times(status.ClaimTimes, o.Claims), now)
	return o
}

// Reached says when a rate allows one more node to be held, by the times in the rule's status, or "" if it is now.
func (r Rule) Reached(status *v1alpha1.RateStatus, now time.Time) string {
	if o := r.Allows(status, now); o.Claims == 0 && !o.wanting[Claims].at.IsZero() {
		return r.next(o.wanting[Claims])
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
	o.Status.ClaimTimes, o.Claims = l.add(&o, Claims, before.ClaimTimes, now)
	o.Status.MarkTimes, o.Marks = l.add(&o, Marks, before.MarkTimes, now)
	if len(o.Status.ClaimTimes)+len(o.Status.MarkTimes) == 0 {
		o.Status = nil
	}
	return o
}

// add returns the times that still count, and those that are added.
func (l *Limit) add(o *Order, u Use, before []metav1.Time, now time.Time) (after []metav1.Time, added int) {
	left := l.tickets(u, now)
	counted, foreign := map[int64]int{}, false
	for _, t := range before {
		most, mine := l.rates.count(u, t.Time)
		if counted[t.Unix()]++; mine && counted[t.Unix()] > most {
			continue // it was certainly not used
		}
		if t.After(o.Until.Add(maxAhead)) {
			t = metav1.NewTime(o.Until)
		}
		foreign = foreign || !mine && t.Time.Equal(o.Until)
		if t.Add(l.rule.longest()).After(now) {
			after = append(after, t)
		}
	}
	allowed, _ := l.rule.allowance(after, now)
	wanted := l.wanted(u) - left
	if added = max(0, min(wanted, allowed)); foreign { // in the same second: it could not be told from those
		added = 0
	}
	after = o.times(after, added)
	_, o.wanting[u] = l.rule.allowance(after, now)
	var again time.Time
	switch { // some of them may not be made
	case foreign:
		again = now.Add(time.Second)
	case added > 0:
		again = o.Until.Add(time.Second)
	case left > 0:
		again = l.rates.last(u).Add(time.Second)
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
	for u, n := range [kinds]int{o.Claims, o.Marks} {
		l.rates.tickets[u] = append(l.rates.tickets[u], slices.Repeat([]ticket{{until: o.Until}}, n)...)
	}
	l.rates.wanting, l.changed = o.wanting, true
}

// tickets returns how many claims may be made.
func (l *Limit) tickets(u Use, now time.Time) int {
	l.rates.tickets[u] = slices.DeleteFunc(l.rates.tickets[u], func(t ticket) bool {
		return t.until.Add(l.rule.longest()).Before(now)
	})
	for i := range l.rates.tickets[u] {
		if t := &l.rates.tickets[u][i]; !t.used && !inTime(t.until, now) {
			t.lapsed = true
		}
	}
	return l.rates.open(u)
}

func (t ticket) open() bool { return !t.used && !t.lapsed }

// open returns how many claims may be made, by the last time that tickets was asked.
func (r *rates) open(u Use) (n int) {
	for _, t := range r.tickets[u] {
		if t.open() {
			n++
		}
	}
	return n
}

// last returns until when the last claim may be made. There is one.
func (r *rates) last(u Use) (until time.Time) {
	for _, t := range r.tickets[u] {
		if t.open() {
			until = t.until
		}
	}
	return until
}

// count returns how many claims count that may be made until a time, and whether this process has issued them.
func (r *rates) count(u Use, until time.Time) (n int, mine bool) {
	for _, t := range r.tickets[u] {
		if t.until.Equal(until) {
			mine = true
			if !t.lapsed {
				n++
			}
		}
	}
	return n, mine
}

// spend uses a claim that was issued, and returns until when it may be made.
func (r *rates) spend(u Use) (until time.Time) {
	if i := slices.IndexFunc(r.tickets[u], ticket.open); i >= 0 {
		r.tickets[u][i].used, until = true, r.tickets[u][i].until
	}
	return until
}

// giveBack returns a claim that was certainly not used, and that may be made until a time.
func (r *rates) giveBack(u Use, until time.Time) {
	if i := slices.IndexFunc(r.tickets[u], func(t ticket) bool { return t.used && t.until.Equal(until) }); i >= 0 {
		r.tickets[u][i].used = false
	}
}

// rateWhy says why a rate allows no claim now, or "".
func (l *Limit) rateWhy(u Use, now time.Time) string {
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
func (l *Limit) wanted(u Use) (n int) {
	l.fill(u, func(*waiter) bool {
		n++
		return n < v1alpha1.MaxRate
	})
	return n
}
