// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const rack, zone = "example.com/rack", "topology.kubernetes.io/zone"

// limitOf is an entry with a number or a percentage, of all nodes or of each domain.
func limitOf(most, per string) v1alpha1.Limit {
	m := intstr.Parse(most)
	return v1alpha1.Limit{Max: &m, Per: per}
}

func domainsOf(n int32, per string) v1alpha1.Limit { return v1alpha1.Limit{MaxDomains: &n, Per: per} }

// fleet is a limit and the nodes that it counts: node i is in the domains i of labels.
type fleet struct {
	testing.TB
	*Limit
	labels   []map[string]string
	nodes    []Node
	versions map[int]int
	now      time.Time
}

func newFleet(t testing.TB, labels []map[string]string, entries ...v1alpha1.Limit) *fleet {
	f := &fleet{TB: t, labels: labels, nodes: make([]Node, len(labels)), versions: map[int]int{}, now: start}
	f.version(entries...)
	for i := range labels {
		f.is(i, Node{Counted: true})
	}
	return f
}

// version begins another version of the rule.
func (f *fleet) version(entries ...v1alpha1.Limit) {
	before := f.Limit
	f.Limit = New(Of(&v1alpha1.NodeReadinessRuleSpec{Limits: entries}), true, func(a, b int32) bool { return a < b })
	for i, n := range f.nodes {
		f.Recount(int32(i), Node{}, n, f.domains(i))
	}
	if before != nil {
		f.Inherit(before, true)
	}
}

func (f *fleet) domains(i int) string { return f.rule.Domains("", f.labels[i]) }

// request is that of a node that has been unready since so many seconds after the start.
func (f *fleet) request(i, since int) Request {
	return Request{Since: start.Add(time.Duration(since) * time.Second), Domains: f.domains(i)}
}

func (f *fleet) is(i int, n Node) {
	f.Recount(int32(i), f.nodes[i], n, f.domains(i))
	f.nodes[i] = n
	f.versions[i]++
}

// asks lets nodes ask to be held, the first of them unready for longest, and returns which may be.
func (f *fleet) asks(nodes ...int) (granted []int) {
	for _, i := range nodes {
		if f.Reserve(int32(i), f.request(i, i), f.now) == "" {
			f.is(i, Node{Counted: true, Claimed: true})
			f.settles(i, Fate{})
			granted = append(granted, i)
		}
	}
	return granted
}

// settles says what has become of what was granted to a node.
func (f *fleet) settles(i int, fate Fate) {
	f.Settle(int32(i), strconv.Itoa(f.versions[i]), fate, fate, f.now)
}

// marks lets the condition become False on nodes, and returns on which.
func (f *fleet) marks(nodes ...int) (granted []int) {
	for _, i := range nodes {
		r := f.request(i, i)
		r.Use = Marks
		if f.Reserve(int32(i), r, f.now) == "" {
			f.is(i, Node{Counted: true, Marked: true})
			f.settles(i, Fate{})
			granted = append(granted, i)
		}
	}
	return granted
}

func racks(values ...string) (out []map[string]string) {
	for _, v := range values {
		labels := map[string]string{}
		for i, value := range strings.Split(v, "/") {
			if value != "" {
				labels[[]string{rack, zone}[i]] = value
			}
		}
		out = append(out, labels)
	}
	return out
}

func TestLimitsByDomain(t *testing.T) {
	cases := map[string]struct {
		racks   []string // of each node, and after a slash its zone
		entries []v1alpha1.Limit
		want    []int
	}{
		"one of each rack": {[]string{"a", "a", "b", "b", "b"}, []v1alpha1.Limit{limitOf("1", rack)},
			[]int{0, 2}},
		"nodes without the label are one domain": {[]string{"", "", "b"}, []v1alpha1.Limit{limitOf("1", rack)}, []int{0, 2}},
		"a percentage of each rack, rounded up": {[]string{"a", "a", "a", "b", "c", "c"},
			[]v1alpha1.Limit{limitOf("40%", rack)}, []int{0, 1, 3, 4}},
		"all nodes of one zone": {[]string{"a/x", "b/y", "c/x", "d/x"}, []v1alpha1.Limit{domainsOf(1, zone)}, []int{0, 2, 3}},
		"no domain":             {[]string{"a/x", "b/y"}, []v1alpha1.Limit{domainsOf(0, zone)}, nil},
		"all limits together": {[]string{"a/x", "a/x", "b/y", "c/x", "d/x", "e/x"},
			[]v1alpha1.Limit{limitOf("3", ""), limitOf("1", rack), domainsOf(1, zone)}, []int{0, 3, 4}},
		"an entry twice": {[]string{"a", "a", "a"}, []v1alpha1.Limit{limitOf("2", rack), limitOf("1", rack)}, []int{0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var all []int
			for i := range c.racks {
				all = append(all, i)
			}
			f := newFleet(t, racks(c.racks...), c.entries...)
			if diff := cmp.Diff(c.want, f.asks(all...)); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			f = newFleet(t, racks(c.racks...), c.entries...)
			if diff := cmp.Diff(c.want, f.marks(all...)); diff != "" {
				t.Errorf("False (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNodeThatWasUnreadyForLongestAndHasRoomIsNext(t *testing.T) {
	f := newFleet(t, racks("a", "a", "b", "a", "b"), limitOf("1", rack))
	f.asks(0, 1, 2, 3, 4)
	f.is(2, Node{Counted: true}) // ready again
	if got := f.Wake(nil); !slices.Equal(got, []int32{4}) {
		t.Errorf("woken %v, want the node of rack b", got)
	}
	f.is(0, Node{Counted: true})
	if got := f.Wake(nil); !slices.Equal(got, []int32{1}) {
		t.Errorf("woken %v, want the first node of rack a", got)
	}
	if got := f.asks(3); got != nil {
		t.Error("a node overtakes one that has been unready for longer")
	}
	if got := f.asks(1, 4); len(got) != 2 {
		t.Errorf("held %v, want both that were woken", got)
	}
}

func TestWhyNamesTheLimitAndTheDomain(t *testing.T) {
	f := newFleet(t, racks("a/x", "a/x", "b/y"), limitOf("2", ""), limitOf("50%", rack), domainsOf(1, zone))
	f.asks(0, 1, 2)
	for i, want := range map[int]string{
		1: `as many nodes of the domain "a" of example.com/rack as limits[1] allows (50%) are held already, and ` +
			`there is room when one of them is ready`,
		2: `nodes are held in as many domains of topology.kubernetes.io/zone as limits[2] allows (maxDomains: 1), "x", ` +
			`and this node is in "y": there is room when all of one domain are ready`,
	} {
		if got := f.Reserve(int32(i), f.request(i, 0), f.now); got != want {
			t.Errorf("node %d: %s", i, got)
		}
	}
	for _, c := range []struct {
		entry v1alpha1.Limit
		node  int
		want  string
	}{
		{limitOf("1", rack), 0, `as many nodes of the domain "a" of example.com/rack as limits[0] allows (1) are held ` +
			`already, and there is room when 2 of them are ready`},
		{limitOf("0%", rack), 0, "limits[0] allows no node (0% per example.com/rack)"},
		{domainsOf(0, rack), 2, "limits[0] allows no domain of example.com/rack (maxDomains: 0)"},
		{domainsOf(0, rack), 0, "limits[0] allows no domain of example.com/rack (maxDomains: 0)"},
		{domainsOf(1, rack), 0, `nodes are held in more domains of example.com/rack than limits[0] allows ` +
			`(maxDomains: 1), "a", "b", and this node is in "a": there is room when all of one other domain are ready`},
		{domainsOf(1, rack), 3, `nodes are held in more domains of example.com/rack than limits[0] allows ` +
			`(maxDomains: 1), "a", "b", and this node is in "c": there is room when all of 2 domains are ready`},
		{domainsOf(2, rack), 0, ""},
	} {
		edited := newFleet(t, racks("a", "a", "b", "c"), c.entry)
		edited.is(0, Node{Counted: true, Claimed: true})
		edited.is(1, Node{Counted: true, Claimed: true})
		edited.is(2, Node{Counted: true, Claimed: true})
		if got := edited.Why(Claims, edited.domains(c.node)); got != c.want {
			t.Errorf("edited: %s, want %s", got, c.want)
		}
	}
	want := []string{`limits[1] (50% per example.com/rack) in "a"`, `limits[2] (in 1 topology.kubernetes.io/zone) in "y"`}
	if diff := cmp.Diff(want, f.Reached()); diff != "" {
		t.Errorf("reached (-want +got):\n%s", diff)
	}
}

// TestWhyNamesDeletedNodes: their places are not free when a node that is there becomes ready.
func TestWhyNamesDeletedNodes(t *testing.T) {
	const deleted = "; one of these nodes was deleted, and counts until a new node becomes ready: find out what deletes " +
		"nodes, or raise the limit"
	for _, c := range []struct {
		entry v1alpha1.Limit
		node  int
		want  string
	}{
		{limitOf("1", ""), 2, "as many nodes as limits[0] allows (1) are held already" + deleted},
		{limitOf("2", ""), 2, "as many nodes as limits[0] allows (2) are held already, and there is room when one of them " +
			"is ready" + deleted},
		{limitOf("1", rack), 1, `as many nodes of the domain "a" of example.com/rack as limits[0] allows (1) are held ` +
			`already` + deleted},
		{limitOf("1", rack), 3, `as many nodes of the domain "b" of example.com/rack as limits[0] allows (1) are held ` +
			`already, and there is room when one of them is ready`},
		{domainsOf(1, rack), 1, `nodes are held in more domains of example.com/rack than limits[0] allows (maxDomains: 1), ` +
			`"a", "b", and this node is in "a": there is room when all of one other domain are ready` + deleted},
	} {
		f := newFleet(t, racks("a", "a", "b", "b"), c.entry)
		for _, i := range []int{0, 2} {
			f.is(i, Node{Counted: true, Claimed: true})
		}
		f.Delete(0, f.nodes[0], start)
		f.is(0, Node{})
		if got := f.Why(Claims, f.domains(c.node)); got != c.want {
			t.Errorf("%s of node %d: %s\nwant %s", describe(&c.entry), c.node, got, c.want)
		}
	}
	f := newFleet(t, racks("a", "b"), limitOf("30%", rack))
	f.is(1, Node{})
	const none = `limits[0] allows 30% of the nodes in service in the domain "b" of example.com/rack, and there are ` +
		`none: a node is in service when it was ready once`
	if got := f.Why(Marks, f.domains(1)); got != none {
		t.Errorf("a percentage of no nodes: %s", got)
	}
}

// TestAllowed: no limit alone allows more nodes.
func TestAllowed(t *testing.T) {
	labels := racks("a/x", "a/x", "a/y", "b/y", "b/y", "c/y")
	for _, c := range []struct {
		entries []v1alpha1.Limit
		want    int
	}{
		{nil, 6},
		{[]v1alpha1.Limit{limitOf("50%", "")}, 3},
		{[]v1alpha1.Limit{limitOf("1", rack)}, 3},
		{[]v1alpha1.Limit{limitOf("2", rack)}, 5},
		{[]v1alpha1.Limit{limitOf("34%", rack)}, 4},
		{[]v1alpha1.Limit{domainsOf(1, rack)}, 3},
		{[]v1alpha1.Limit{domainsOf(2, rack), limitOf("4", "")}, 4},
		{[]v1alpha1.Limit{domainsOf(9, rack), domainsOf(1, zone)}, 4},
		{[]v1alpha1.Limit{domainsOf(0, rack)}, 0},
		{[]v1alpha1.Limit{rateOf(1, 60)}, 6},
		{[]v1alpha1.Limit{limitOf("2", ""), limitOf("4", "")}, 2},
		{[]v1alpha1.Limit{limitOf("4", ""), limitOf("2", "")}, 2},
		{[]v1alpha1.Limit{limitOf("0", ""), limitOf("4", "")}, 0},
	} {
		f, domains := newFleet(t, labels, c.entries...), []string(nil)
		for i := range labels {
			domains = append(domains, f.domains(i))
		}
		if got, before := f.Allowed(), f.rule.Most(domains); got != c.want || before != c.want {
			t.Errorf("%+v: %d, before any node is held %d, want %d", c.entries, got, before, c.want)
		}
	}
}

// TestMaxDomainsIsLowered lowers the number of domains below those in use: as with maxUnavailable, no more nodes are
// held until there are fewer.
func TestMaxDomainsIsLowered(t *testing.T) {
	for _, u := range []Use{Claims, Marks} {
		f := newFleet(t, racks("a", "a", "a", "b", "b", "c", "c"), domainsOf(3, rack))
		asks := map[Use]func(...int) []int{Claims: f.asks, Marks: f.marks}[u]
		asks(0, 3, 5)
		f.version(domainsOf(1, rack))
		if got := asks(1, 4, 6); got != nil {
			t.Errorf("use %d: held %v in domains that are in use, and there are too many", u, got)
		}
		f.is(0, Node{Counted: true})
		if woken, got := f.Wake(nil), asks(1, 2, 4, 6); woken != nil || got != nil {
			t.Errorf("use %d: woken %v, held %v, and two domains are in use", u, woken, got)
		}
		f.is(3, Node{Counted: true})
		if got := f.Wake(nil); !slices.Equal(got, []int32{6}) {
			t.Errorf("use %d: woken %v, want the node of the domain that is left", u, got)
		}
		if got := asks(1, 2, 4, 6); !slices.Equal(got, []int{6}) {
			t.Errorf("use %d: held %v, want the node of the domain that is left", u, got)
		}
		f.version(domainsOf(2, rack))
		if got := asks(1, 2, 4); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("use %d: held %v, want those of one more domain", u, got)
		}
	}
}

func TestAPlaceStaysInItsDomain(t *testing.T) {
	entries := []v1alpha1.Limit{limitOf("1", rack), limitOf("1", zone)}
	begin := func() *fleet {
		f := newFleet(t, racks("a/x", "a/y", "b/z"), entries...)
		f.asks(0)
		f.Delete(0, f.nodes[0], start)
		f.is(0, Node{})
		return f
	}
	t.Run("of a node that is deleted", func(t *testing.T) {
		f := begin()
		if got := f.asks(1, 2); !slices.Equal(got, []int{2}) {
			t.Errorf("held %v, want only the node of another rack", got)
		}
	})
	t.Run("and its domain stays in use", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "b"), domainsOf(1, rack))
		f.asks(0)
		f.Delete(0, f.nodes[0], start)
		f.is(0, Node{})
		if got := f.asks(1, 2); !slices.Equal(got, []int{1}) {
			t.Errorf("held %v, want only the node of the rack that is in use", got)
		}
	})
	t.Run("but opens it for no other use while as many domains are in use as the limit allows", func(t *testing.T) {
		f := newFleet(t, racks("a", "b", "b"), domainsOf(1, rack))
		f.marks(0)
		f.asks(1)
		f.Delete(1, f.nodes[1], start)
		f.is(1, Node{})
		if got := f.marks(2); got != nil {
			t.Errorf("the condition becomes False on %v, and is False in another rack", got)
		}
		f.is(0, Node{Counted: true})
		if w := f.next(Marks); w == nil || w.node != 2 {
			t.Errorf("%+v is next, want the node that waits", w)
		}
		if got := f.marks(2); !slices.Equal(got, []int{2}) {
			t.Errorf("the condition becomes False on %v when the other rack is ready, want node 2", got)
		}
	})
	t.Run("so that fewer others may be in use", func(t *testing.T) {
		f := newFleet(t, racks("a", "b", "b"), domainsOf(2, rack))
		f.asks(0, 1)
		f.Delete(0, f.nodes[0], start)
		f.is(0, Node{})
		f.version(domainsOf(1, rack))
		if got := f.asks(2); got != nil {
			t.Errorf("held %v, and nodes of two racks use the limit", got)
		}
	})
	t.Run("in another version of the rule", func(t *testing.T) {
		f := begin()
		f.version(entries[0], limitOf("5", ""))
		if got := f.asks(1, 2); !slices.Equal(got, []int{2}) {
			t.Errorf("held %v, want only the node of another rack", got)
		}
	})
	t.Run("without its domain, if an edit forgets that: no limit counts it", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), limitOf("1", rack))
		f.asks(0)
		f.Delete(0, f.nodes[0], start)
		f.is(0, Node{})
		f.version(limitOf("2", ""))
		if got := f.Status(); got.Deleted != 1 {
			t.Errorf("status %+v", got)
		}
		f.version(limitOf("1", rack))
		if got := f.Status(); got.Deleted != 0 || got.LastDeletionTime != nil {
			t.Errorf("status %+v", got)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		f := begin()
		status := f.Status()
		f.Limit = nil
		f.version(entries...)
		f.Restore(status, 0, nil, start)
		if diff := cmp.Diff(status, f.Status()); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if got := f.asks(1, 2); !slices.Equal(got, []int{2}) {
			t.Errorf("held %v, want only the node of another rack", got)
		}
	})
	t.Run("of a node that is deleted while no operator runs", func(t *testing.T) {
		f := newFleet(t, racks("a/x", "a/y", "b/z"), entries...)
		f.asks(0)
		status := f.Status()
		f.nodes[0] = Node{}
		f.Limit = nil
		f.version(entries...)
		f.Restore(status, 1, nil, start)
		if got := f.asks(1, 2); !slices.Equal(got, []int{2}) {
			t.Errorf("held %v, want only the node of another rack", got)
		}
	})
	t.Run("an hour, and while a node waits there", func(t *testing.T) {
		for name, c := range map[string]struct {
			entries []v1alpha1.Limit
			held    []int
			deleted int32
		}{
			"in its rack":       {[]v1alpha1.Limit{limitOf("1", rack)}, []int{1}, 0},
			"of all nodes":      {[]v1alpha1.Limit{limitOf("1", rack), limitOf("3", "")}, []int{1}, 1},
			"in too many racks": {[]v1alpha1.Limit{limitOf("1", rack), domainsOf(2, rack)}, nil, 1},
		} {
			f := newFleet(t, racks("a", "a", "b", "b"), c.entries...)
			f.asks(0, 2, 3)
			f.Delete(0, f.nodes[0], start)
			f.is(0, Node{})
			f.FreePlaces(start.Add(59 * time.Minute))
			if got := f.asks(1); got != nil {
				t.Errorf("%s: held %v before the hour is over", name, got)
			}
			f.settles(1, Fate{})
			freed, _ := f.FreePlaces(start.Add(time.Hour))
			if got := f.asks(1); !slices.Equal(got, c.held) || f.Status().Deleted != c.deleted || freed != (got != nil) {
				t.Errorf("%s: held %v, status %+v", name, got, f.Status())
			}
		}
	})
	t.Run("an hour, also if the rule is edited", func(t *testing.T) {
		f := begin()
		f.version(entries...)
		f.FreePlaces(start.Add(59 * time.Minute))
		if got := f.Status(); got.Deleted != 1 || got.LastDeletionTime == nil {
			t.Errorf("status %+v", got)
		}
	})
	t.Run("an hour, also if the clock was ahead when it was deleted", func(t *testing.T) {
		f := newFleet(t, racks("a"), limitOf("1", ""))
		f.asks(0)
		f.Delete(0, f.nodes[0], start.Add(24*time.Hour))
		f.is(0, Node{})
		if _, again := f.FreePlaces(start); again != time.Hour {
			t.Errorf("again after %s", again)
		}
		if freed, _ := f.FreePlaces(start.Add(time.Hour)); !freed {
			t.Error("the place is still in use after an hour")
		}
	})
	t.Run("until a new node is ready elsewhere", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "b"), limitOf("2", rack))
		f.asks(0, 1)
		for i := range 2 {
			f.Delete(int32(i), f.nodes[i], start)
			f.is(i, Node{})
		}
		f.Succeed(f.domains(2))
		if got := f.Status(); got.Deleted != 1 || got.Domains[0].Deleted != 1 {
			t.Errorf("status %+v", got)
		}
	})
	t.Run("until a new node is ready there", func(t *testing.T) {
		f := begin()
		f.Succeed(f.domains(0))
		if got := f.asks(1); !slices.Equal(got, []int{1}) || f.Status().Deleted != 0 {
			t.Errorf("held %v, status %+v", got, f.Status())
		}
	})
}

// TestAWriteWithoutAnAnswerKeepsItsPlace: it may have been carried out, and the cache does not show that yet.
func TestAWriteWithoutAnAnswerKeepsItsPlace(t *testing.T) {
	for _, use := range []Use{Claims, Marks} {
		for later, fate := range map[string]Fate{"refused by a webhook": {Unwritten: true}, "not needed": {},
			"refused by the limits": {Refused: true}} {
			f := newFleet(t, racks("a", "a"), limitOf("1", ""))
			asks := func(when string, i int, want bool) {
				t.Helper()
				r := f.request(i, i)
				r.Use = use
				if got := f.Reserve(int32(i), r, f.now) == ""; got != want {
					t.Errorf("use %d, %s, %s: node %d may use the limit: %t", use, later, when, i, got)
				}
			}
			begin := func() {
				f = newFleet(t, racks("a", "a"), limitOf("1", ""))
				asks("at first", 0, true)
				f.settles(0, Fate{Unknown: true})
				asks("at first", 1, false)
				f.settles(0, fate)
				asks("before the cache shows it", 1, false)
			}
			begin()
			f.versions[0]++
			f.settles(0, fate)
			if got := f.Wake(nil); !slices.Equal(got, []int32{1}) {
				t.Errorf("use %d, %s: woken %v", use, later, got)
			}
			asks("the cache shows that it was not", 1, true)

			begin()
			f.now = f.now.Add(time.Minute - time.Second)
			if freed, again := f.FreePlaces(f.now); freed || again != time.Second {
				t.Errorf("use %d, %s: freed %t, again %s", use, later, freed, again)
			}
			asks("another try", 0, true)
			f.now = f.now.Add(time.Second)
			if freed, _ := f.FreePlaces(f.now); freed {
				t.Errorf("use %d, %s: freed during another try", use, later)
			}
			f.settles(0, Fate{Unknown: true})
			f.now = f.now.Add(time.Minute)
			if freed, _ := f.FreePlaces(f.now); !freed {
				t.Errorf("use %d, %s: never freed", use, later)
			}
			asks("the cache cannot be that old", 1, true)

			begin()
			f.now = f.now.Add(-time.Hour)
			if freed, again := f.FreePlaces(f.now); freed || again != time.Minute {
				t.Errorf("use %d, %s: the clock was set back: freed %t, again %s", use, later, freed, again)
			}
			f.now = f.now.Add(time.Minute)
			if freed, _ := f.FreePlaces(f.now); !freed {
				t.Errorf("use %d, %s: the clock was set back: never freed", use, later)
			}

			begin()
			f.Delete(0, f.nodes[0], f.now)
			f.is(0, Node{})
			f.Settle(0, "", Fate{}, Fate{}, f.now)
			if got := f.Status().Deleted; got != 1 {
				t.Errorf("use %d, %s: %d places of deleted nodes", use, later, got)
			}
		}
	}
}

// firstOfAll looks at all waiting nodes for the one that was unready for longest and has room.
func (f *fleet) firstOfAll(u Use) (first *waiter) {
	for _, c := range f.cells {
		c.waiting[u].Ascend(func(w *waiter) bool {
			if e, _ := c.full(u); e == nil && (first == nil || f.order(w, first)) {
				first = w
			}
			return true
		})
	}
	return first
}

// TestCountsAreThoseOfAllNodes compares the counts after many random changes with a count from the beginning, and
// checks that no limit is ever exceeded.
func TestCountsAreThoseOfAllNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	entries, most := []v1alpha1.Limit{limitOf("5", ""), limitOf("40%", rack), limitOf("2", zone), domainsOf(2, zone)}, 2
	f := newFleet(t, racks(slices.Repeat([]string{"a/x", "b/x", "b/y", "c/z", "/x", ""}, 4)...), entries...)
	for range 5000 {
		i := random.IntN(len(f.nodes))
		var granted []int
		switch random.IntN(7) {
		case 0:
			granted = f.asks(i)
		case 1:
			f.marks(i)
		case 2:
			f.is(i, Node{Counted: random.IntN(4) > 0})
			f.settles(i, Fate{})
		case 3:
			granted = f.asks(func() (woken []int) {
				for _, n := range f.Wake(nil) {
					woken = append(woken, int(n))
				}
				return woken
			}()...)
		case 4:
			if f.nodes[i] == (Node{Counted: true}) {
				f.labels[i] = racks(fmt.Sprintf("%c/%c", 'a'+random.IntN(30), 'x'+random.IntN(3)))[0]
				f.is(i, f.nodes[i])
			}
		case 5:
			f.sweep()
		case 6: // the limit of the number of domains is edited
			most = random.IntN(4)
			entries[3] = domainsOf(int32(most), zone)
			f.version(entries...)
		}
		for u := range uses {
			if got, want := f.next(u), f.firstOfAll(u); got != want {
				t.Fatalf("use %d: the next waiting node is %+v, want %+v", u, got, want)
			}
		}
		fresh := newFleet(t, f.labels, entries...)
		for j, n := range f.nodes {
			fresh.is(j, n)
		}
		for g, group := range f.groups {
			for name, d := range group.domains {
				o := fresh.groups[g].domains[name]
				if o == nil {
					o = &domain{}
				}
				if d.inService != o.inService || d.inUse != o.inUse || d.taken[Claims] != o.taken[Claims] ||
					d.taken[Marks] != o.taken[Marks] {
					t.Fatalf("%s=%s: %+v, want %+v", group.key, name, d, o)
				}
			}
			open, want := group.open[Claims], fresh.groups[g].open[Claims]
			if open != want || granted != nil && open > most && group.key == zone {
				t.Fatalf("%s: %d domains are in use, want %d, at most %d", group.key, open, want, most)
			}
		}
	}
}
