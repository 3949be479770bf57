// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// deletes deletes nodes.
func (f *fleet) deletes(nodes ...int) {
	for _, i := range nodes {
		f.Delete(int32(i), f.nodes[i], f.now)
		f.is(i, Node{})
		f.Settle(int32(i), "", Fate{}, Fate{}, f.now)
	}
}

// restarts begins with the status of the rule, and other entries. gone and later are as for Restore.
func (f *fleet) restarts(status *v1alpha1.LimitStatus, gone int, later []int32, entries ...v1alpha1.Limit) {
	f.Limit = nil
	f.version(entries...)
	f.Restore(status, gone, later, f.now)
}

// suspends replaces the limit by that of a rule that is suspended, or in dry-run.
func (f *fleet) suspends() {
	f.Limit = New(f.rule, false, func(a, b int32) bool { return a < b })
	for i, n := range f.nodes {
		f.Recount(int32(i), Node{}, n, f.domains(i))
	}
}

// wants checks which places are those of deleted nodes: of all nodes, and in each domain.
func (f *fleet) wants(when string, deleted int32, domains map[string]int32) {
	f.Helper()
	got, status := map[string]int32{}, f.Status()
	for _, d := range status.Domains {
		if d.Deleted > 0 {
			got[d.Domain] = d.Deleted
		}
	}
	if diff := cmp.Diff(domains, got); diff != "" || status.Deleted != deleted {
		f.Errorf("%s: %d places, want %d (domains: -want +got):\n%s", when, status.Deleted, deleted, diff)
	}
}

func TestOnlyNodesInServiceUseTheLimit(t *testing.T) {
	f := newFleet(t, racks("a", "b"), limitOf("1", ""), limitOf("2", rack))
	f.is(0, Node{})
	if f.Recount(0, Node{}, Node{}, f.domains(1)) {
		t.Error("a node that does not count has moved to another domain")
	}
	f.is(0, Node{Claimed: true}) // it was never ready
	if got := f.asks(1); !slices.Equal(got, []int{1}) || f.Status().InUse != 1 {
		t.Errorf("held %v, status %+v", got, f.Status())
	}
	f.is(1, Node{Counted: true})
	f.deletes(0)
	if got := f.asks(1); !slices.Equal(got, []int{1}) || f.Status().Deleted != 0 {
		t.Errorf("held %v after a node was deleted that was never ready, status %+v", got, f.Status())
	}
}

// TestARuleThatIsNotEnforcedKeepsNoPlaces lets nodes be deleted while a rule is in dry-run.
func TestARuleThatIsNotEnforcedKeepsNoPlaces(t *testing.T) {
	f := newFleet(t, racks("a", "a"), limitOf("1", ""), rateOf(1, 60))
	f.suspends()
	f.Restore(&v1alpha1.LimitStatus{Deleted: 1}, 0, nil, f.now)
	if got := f.asks(0); len(got) != 1 {
		t.Error("the place of a deleted node is in use after a restart")
	}
	f.deletes(0)
	if got := f.asks(1); len(got) != 1 {
		t.Error("the place of a deleted node is in use")
	}
	if got := f.Status(); got != nil {
		t.Errorf("status %+v", got)
	}
	if got := newFleet(t, racks("a")).Status(); got != nil {
		t.Errorf("without limits: status %+v", got)
	}
	unlimited := newFleet(t, racks("a"))
	unlimited.asks(0)
	unlimited.deletes(0)
	unlimited.version(limitOf("1", ""))
	unlimited.wants("a rule gets its first limit", 0, map[string]int32{})
}

func TestANewNodeFreesOnePlace(t *testing.T) {
	many := racks("a", "z", "k", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m", "n", "o", "p")
	for range 5 { // domains have no order
		f := newFleet(t, many, limitOf("1", rack))
		f.asks(1, 2, 9, 10, 11)
		f.deletes(1, 2, 9, 10, 11)
		f.Succeed(f.domains(10))
		f.wants("in its own rack first", 4, map[string]int32{"z": 1, "k": 1, "h": 1, "j": 1})
		f.Succeed(f.domains(0))
		f.wants("in the first rack, from one before it", 3, map[string]int32{"z": 1, "k": 1, "j": 1})
		f.Succeed(f.domains(16))
		f.wants("in the first rack, from one between them", 2, map[string]int32{"z": 1, "k": 1})
	}

	f := newFleet(t, racks("a", "a", "a"), limitOf("1", rack))
	f.asks(0, 1)
	f.deletes(0)
	if got := f.Wake(nil); got != nil {
		t.Errorf("woken %v", got)
	}
	f.Succeed(f.domains(2))
	if got := f.Wake(nil); !slices.Equal(got, []int32{1}) {
		t.Errorf("woken %v, want the node that waits", got)
	}
	if got := f.Status(); got.LastDeletionTime != nil {
		t.Errorf("status %+v after the last place is free", got)
	}

	f = newFleet(t, racks("a", "a", "a"), limitOf("1", rack))
	f.asks(0)
	f.deletes(0)
	f.version(limitOf("5", ""))
	f.version(limitOf("5", ""), limitOf("1", rack)) // this forgets the rack of the deleted node
	f.Succeed(f.domains(1))
	f.wants("whose rack is not known", 0, map[string]int32{})
	if got := f.asks(1, 2); !slices.Equal(got, []int{1}) {
		t.Errorf("held %v in one rack", got)
	}
}

func TestPlacesAfterARestart(t *testing.T) {
	entries := []v1alpha1.Limit{limitOf("2", rack), limitOf("9", "")}
	begin := func() (*fleet, *v1alpha1.LimitStatus) {
		f := newFleet(t, racks("a", "b", "b", "b", "c", "c"), entries...)
		f.asks(0, 1, 2, 4)
		f.deletes(0)
		status := f.Status()
		f.now = f.now.Add(10 * time.Minute)
		return f, status
	}
	t.Run("are as old as before if no more nodes were deleted", func(t *testing.T) {
		f, status := begin()
		f.restarts(status, 5, nil, entries...)
		if diff := cmp.Diff(status, f.Status()); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
	t.Run("are those of nodes that were deleted meanwhile, too", func(t *testing.T) {
		f, status := begin()
		f.nodes[1] = Node{}
		f.restarts(status, 1, nil, entries...)
		f.wants("restarted", 2, map[string]int32{"a": 1, "b": 1})
		if got := f.Status().LastDeletionTime; !got.Time.Equal(f.now) {
			t.Errorf("the last deletion is at %s, want the restart", got)
		}
	})
	t.Run("are also those of deleted nodes while others began to use the limit", func(t *testing.T) {
		f, status := begin()
		held := Node{Counted: true, Claimed: true}
		f.nodes[1], f.nodes[3], f.nodes[5] = Node{}, held, held
		f.restarts(status, 1, []int32{3, 5}, entries...)
		f.wants("restarted", 2, map[string]int32{"a": 1, "b": 1})
	})
	t.Run("are not more than the nodes that can be gone", func(t *testing.T) {
		f, status := begin()
		f.nodes[1], f.nodes[2] = Node{Counted: true}, Node{}
		f.restarts(status, 1, nil, entries...)
		f.wants("restarted", 2, map[string]int32{"a": 1, "b": 1})
	})
	t.Run("forget domains that the rule no longer limits", func(t *testing.T) {
		f, status := begin()
		f.restarts(status, 0, nil, limitOf("9", ""))
		f.wants("restarted", 1, map[string]int32{})
	})
	t.Run("stay in a rack without nodes while labels change", func(t *testing.T) {
		f, status := begin()
		f.restarts(status, 0, nil, entries...)
		f.relabel(3, 200)
		f.wants("after many racks", 1, map[string]int32{"a": 1})
	})
}

// relabel gives many other racks to a node, one after another.
func (f *fleet) relabel(node, many int) {
	for i := range many {
		f.labels[node] = racks(fmt.Sprintf("other-%d", i))[0]
		f.is(node, f.nodes[node])
	}
}

func TestDomainsThatAreGoneAreForgotten(t *testing.T) {
	f := newFleet(t, racks("a", "b", "b"), limitOf("1", rack))
	f.is(1, Node{}) // in no rack is a node in service, and the condition may become False on one
	f.is(2, Node{})
	r := f.request(1, 0)
	r.Use = Marks
	f.version(limitOf("1", rack), domainsOf(9, rack))
	if why := f.Reserve(1, r, f.now); why != "" {
		t.Fatalf("node 1: %s", why)
	}
	f.relabel(0, 1000)
	if cells, domains := len(f.cells), len(f.groups[1].domains); cells > 100 || domains > 100 {
		t.Errorf("%d domains of 1000 are left after the labels of one node changed", max(cells, domains))
	}
	if why := f.Reserve(2, r, f.now); why == "" {
		t.Error("a limit of one allows two nodes of a rack")
	}
}

// TestFreePlaces is about what is free, and when to look again.
func TestFreePlaces(t *testing.T) {
	t.Run("nothing, while nodes wait for the only place", func(t *testing.T) {
		f := newFleet(t, racks("a", "a", "b", "b"), limitOf("1", rack))
		f.asks(0, 1)
		f.deletes(0)
		f.now = f.now.Add(2 * time.Hour)
		if freed, again := f.FreePlaces(f.now); freed || again != 0 {
			t.Errorf("freed %t, again %s", freed, again)
		}
	})
	t.Run("not what was granted a long time ago, before the node is written", func(t *testing.T) {
		f := newFleet(t, racks("a", "a"), limitOf("1", ""))
		f.Reserve(0, f.request(0, 0), f.now)
		if freed, again := f.FreePlaces(f.now.Add(time.Hour)); freed || again != 0 {
			t.Errorf("freed %t, again %s", freed, again)
		}
		if got := f.asks(1); got != nil {
			t.Errorf("held %v", got)
		}
	})
	t.Run("again when the first of several writes without an answer is too old", func(t *testing.T) {
		f := newFleet(t, racks(slices.Repeat([]string{"a"}, 20)...), limitOf("50", ""))
		for i := range f.nodes {
			f.Reserve(int32(i), f.request(i, i), f.now)
			f.settles(i, Fate{Unknown: true})
			f.now = f.now.Add(time.Second)
		}
		if freed, again := f.FreePlaces(f.now); freed || again != 40*time.Second {
			t.Errorf("freed %t, again %s", freed, again)
		}
	})
}

func TestStatusListsDomains(t *testing.T) {
	f := newFleet(t, racks("a", "a", "b", "c", "c", "", "d", "d"), limitOf("1", rack))
	f.asks(0, 1, 3, 4, 6, 7)
	f.deletes(3)
	f.is(6, Node{Counted: true})
	f.settles(7, Fate{})
	want := []v1alpha1.DomainStatus{
		{Per: rack, Domain: "c", InService: 1, Deleted: 1, Waiting: 1},
		{Per: rack, Domain: "a", InService: 2, InUse: 1, Waiting: 1},
		{Per: rack, InService: 1},
	}
	got := f.Status()
	if diff := cmp.Diff(want, got.Domains); diff != "" {
		t.Errorf("domains (-want +got):\n%s", diff)
	}
	if !got.LastDeletionTime.Equal(&metav1.Time{Time: start}) {
		t.Errorf("the last deletion is at %s", got.LastDeletionTime)
	}
	f.is(5, Node{})
	if got := f.Status().Domains; len(got) != 2 {
		t.Errorf("domains %+v, and all nodes have the label", got)
	}

	var many []string
	for i := range 150 {
		many = append(many, fmt.Sprintf("rack-%03d", i))
	}
	f = newFleet(t, racks(many...), limitOf("1", rack))
	for i := range many {
		f.asks(i)
	}
	f.deletes(149)
	list := f.Status().Domains
	if len(list) != v1alpha1.MaxDomainsListed || list[0].Domain != "rack-149" || list[1].Domain != "rack-000" {
		t.Errorf("%d domains, the first %+v", len(list), list[:2])
	}
}
