// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// may reports whether a node that has been unready since so many seconds after the start may be held. It is not yet.
func (f *fleet) may(i, since int) bool { return f.Reserve(int32(i), f.request(i, since), f.now) == "" }

// issues lets the claims be made for which nodes wait, and returns the order.
func (f *fleet) issues(status *v1alpha1.RateStatus) Order {
	o := f.Order(status, f.now)
	f.Issue(&o)
	return o
}

// woken checks which nodes are woken.
func (f *fleet) woken(when string, want ...int32) {
	f.Helper()
	if got := f.Wake(nil); !slices.Equal(got, want) {
		f.Errorf("%s: woken %v, want %v", when, got, want)
	}
}

func TestALookAheadGrantsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		entries []v1alpha1.Limit
		use     bool // another node uses the limit
		want    string
	}{
		"there is room":            {[]v1alpha1.Limit{limitOf("1", "")}, false, ""},
		"there is no room":         {[]v1alpha1.Limit{limitOf("1", "")}, true, "as many nodes as"},
		"a rate":                   {[]v1alpha1.Limit{limitOf("1", ""), rateOf(1, 60)}, false, ""},
		"a rate, and no room":      {[]v1alpha1.Limit{limitOf("1", ""), rateOf(1, 60)}, true, "as many nodes as"},
		"a rule that has no limit": {nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, racks("a", "a", "a"), c.entries...)
			if c.use {
				f.is(1, Node{Counted: true, Claimed: true})
			}
			r := f.request(0, 0)
			r.Peek = true
			for range 2 {
				if got := f.Reserve(0, r, f.now); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
			full := f.Why(Claims, f.domains(2)) != ""
			if waiting, _ := f.Waiting(Claims, 1); waiting != 0 || full != (c.use && c.entries != nil) {
				t.Errorf("%d nodes wait, the limit is reached: %t", waiting, full)
			}
		})
	}
}

// TestAGrantIsUsedOnce is about what becomes of a place between its grant and the next version of the node.
func TestAGrantIsUsedOnce(t *testing.T) {
	t.Run("two nodes use two places at the same time", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "a"), limitOf("2", ""))
		if !f.may(0, 0) || !f.may(1, 1) || f.may(2, 2) {
			t.Error("not exactly the first two nodes may be held")
		}
	})
	t.Run("another try after a write without an answer does not go to the end", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), limitOf("1", ""))
		f.now = start.Add(10 * time.Second)
		f.may(0, 0)
		f.settles(0, Fate{Unknown: true})
		f.may(1, 5)
		if !f.may(0, 0) || !f.InTime(Claims, 0, f.now) {
			t.Error("the node may not be held, and its place is in use")
		}
	})
	t.Run("another try a minute later that is refused frees the place", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), limitOf("1", ""))
		f.may(0, 0)
		f.settles(0, Fate{Unknown: true})
		f.may(1, 1)
		f.now = f.now.Add(time.Minute)
		f.may(0, 0)
		f.woken("before")
		f.settles(0, Fate{Unwritten: true})
		f.woken("refused", 1)
	})
	t.Run("a new turn under a rate uses no second place", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "a"), rateOf(5, 600), limitOf("2", ""))
		f.may(0, 0)
		o := f.issues(nil)
		f.may(0, 0)
		f.settles(0, Fate{Unknown: true})
		f.now = f.now.Add(45 * time.Second)
		f.may(0, 0)
		if o = f.issues(o.Status); !f.may(0, 0) {
			t.Fatal("the node has no other turn")
		}
		f.versions[0]++
		f.settles(0, Fate{}) // ready again
		f.may(1, 1)
		f.may(2, 2)
		f.issues(o.Status)
		f.woken("both places are free", 1, 2)
	})
	t.Run("a turn that was not used in time keeps no place", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), rateOf(5, 600), limitOf("1", ""))
		f.may(0, 0)
		o := f.issues(nil)
		f.may(0, 0)
		f.now = f.now.Add(45 * time.Second)
		f.may(0, 0)
		if o = f.issues(o.Status); o.Claims != 1 || !f.may(0, 0) {
			t.Errorf("ordered %+v", o)
		}
	})
	t.Run("a woken node keeps its turn while another gets room", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "b", "c", "a"), limitOf("2", ""), limitOf("50%", rack))
		f.is(4, Node{})
		f.asks(0, 1, 3, 2)
		f.is(3, Node{Counted: true})
		f.woken("only rack b has room", 2)
		f.is(4, Node{Counted: true})
		f.woken("rack a has room, too")
		if !f.may(2, 2) || f.may(1, 1) {
			t.Error("the turn of a node is taken away")
		}
	})
	t.Run("a woken node whose domain changes has no turn there", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "b", "b"), limitOf("1", rack))
		f.asks(0, 2, 1)
		f.may(3, 0)
		f.is(0, Node{Counted: true})
		f.woken("rack a has room", 1)
		f.is(2, Node{Counted: true})
		f.labels[1] = f.labels[3]
		f.is(1, f.nodes[1])
		if f.may(1, 1) || !f.may(3, 0) {
			t.Error("the node overtakes one that has been unready for longer")
		}
	})
}

// TestANodeAfterAFailedWrite is about when a node comes after the others.
func TestANodeAfterAFailedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		first  bool // node 0 is the next
		before func(f *fleet)
	}{
		"not if nothing was granted and the outcome is unknown": {true, func(f *fleet) {
			f.settles(0, Fate{Unknown: true})
		}},
		"not if nothing was granted and the write was refused": {true, func(f *fleet) {
			f.settles(0, Fate{Unwritten: true})
		}},
		"not if the write has succeeded": {true, func(f *fleet) {
			f.asks(0)
			f.is(0, Node{Counted: true})
		}},
		"not if a later write has succeeded": {true, func(f *fleet) {
			f.may(0, 0)
			f.settles(0, Fate{Unwritten: true})
			f.asks(0)
			f.is(0, Node{Counted: true})
		}},
		"if it was refused": {false, func(f *fleet) {
			f.may(0, 0)
			f.settles(0, Fate{Unwritten: true})
		}},
		"if another write was refused since": {false, func(f *fleet) {
			f.may(0, 0)
			f.settles(0, Fate{Unwritten: true})
			f.settles(0, Fate{Unwritten: true})
		}},
		"if the outcome of another write is unknown since": {false, func(f *fleet) {
			f.may(0, 0)
			f.settles(0, Fate{Unwritten: true})
			f.settles(0, Fate{Unknown: true})
		}},
		"also after an edit of the rule": {false, func(f *fleet) {
			f.may(0, 0)
			f.settles(0, Fate{Unwritten: true})
			f.version(limitOf("1", ""))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, racks("a", "a", "a"), limitOf("1", ""))
			f.now = start.Add(time.Minute)
			c.before(f)
			f.is(2, Node{Counted: true, Claimed: true})
			f.may(0, 0)
			f.may(1, 1)
			f.woken("no room")
			f.is(2, Node{Counted: true})
			f.woken("the place is free", map[bool]int32{true: 0, false: 1}[c.first])
		})
	}
}

// TestAnEditKeepsWhatWasGranted edits the limits while writes are under way, and nodes wait.
func TestAnEditKeepsWhatWasGranted(t *testing.T) {
	for name, edited := range map[string][]v1alpha1.Limit{
		"the same limits": {limitOf("1", rack)}, "the sum": {limitOf("1", "")}, "another label": {limitOf("1", zone)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, racks("a/x", "a/x"), limitOf("1", rack))
			f.may(0, 0)
			f.may(1, 1)
			f.version(edited...)
			f.woken("the write is under way")
			if waiting, first := f.Waiting(Claims, 5); waiting != 1 || !slices.Equal(first, []int32{1}) {
				t.Errorf("%d nodes wait, %v", waiting, first)
			}
			f.settles(0, Fate{Unwritten: true})
			f.woken("the write was refused", 1)
		})
	}
	f := newFleet(t, racks("a", "a"), limitOf("1", ""))
	f.asks(0, 1)
	f.version()
	if waiting, _ := f.Waiting(Claims, 5); waiting != 0 {
		t.Errorf("%d nodes wait for a limit that was removed", waiting)
	}
}

func TestWaitingNamesTheLongestUnready(t *testing.T) {
	f := newFleet(t, racks("a", "b", "c", "a", "b", "c", "d", "e", "f"), limitOf("0", rack))
	f.asks(8, 4, 0, 3, 7, 1, 6, 2)
	for few, want := range map[int][]int32{0: nil, 1: {0}, 3: {0, 1, 2}, 20: {0, 1, 2, 3, 4, 6, 7, 8}} {
		if nodes, got := f.Waiting(Claims, few); nodes != 8 || !slices.Equal(got, want) {
			t.Errorf("%d nodes wait, the first %d are %v", nodes, few, got)
		}
	}
	if nodes, got := f.Waiting(Marks, 3); nodes != 0 || got != nil {
		t.Errorf("%d nodes wait for the condition to become False, %v", nodes, got)
	}
}

// TestNoNodeIsForgottenBehindOthers: a zone with many racks has a limit of its nodes, and the zones
// have one of their number.
func TestNoNodeIsForgottenBehindOthers(t *testing.T) {
	for _, otherZone := range []bool{false, true} {
		f := newFleet(t, racks("a/x", "b/x", "c/x", "d/x", "e/x", "f/x", "g/x", "h/x", "i/x", "j/y"), limitOf("1", zone),
			domainsOf(1, zone), limitOf("9", rack))
		for i := range 9 {
			f.asks(i)
		}
		f.woken("the limit of zone x is reached")
		f.is(0, Node{Counted: true})
		if otherZone {
			f.may(9, -1)
			f.woken("zone y is in use")
		}
		for i := 1; i < 8; i++ {
			f.settles(i, Fate{}) // ready again
		}
		f.settles(9, Fate{})
		f.woken("no zone is in use", 8)
	}
}
