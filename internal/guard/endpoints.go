// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// # The states of the endpoints of a node under a rule
//
//	┌───────┐ not ready, in an outage ┌──────┐ maxHoldSeconds, override Release, or
//	│ Armed │ ──────────────────────► │ Kept │ the rule no longer keeps endpoints
//	└───────┘                         └──────┘ ───────────────┐
//	    │                                                     ▼
//	    │      not ready, and not in an outage            ┌───────┐ the pods are ┌────────┐
//	    └───────────────────────────────────────────────► │ Ended │ ───────────► │ Marked │
//	                                                      └───────┘    marked    └────────┘
//
// A ready node of a rule in force is in Armed. One that is not ready when the rule begins to select it is in Ended, and
// in Marked if kubelet says so itself. While the evidence of a rule is being read, nodes stay in Armed.
//
// The states are in the object KeptEndpoints, by which the admission policy decides, too: in Armed and Kept it keeps
// pods ready that the node controller would mark not ready. That happens before the operator knows of it, and the
// policy cannot count nodes. So the operator decides afterwards: it reads the leases of all nodes once, and in Ended it
// marks the pods of the node not ready, as the node controller would have. It does that once: kubelet may report them
// ready again. A node for which the object has no room does not enter it.
//
// A node that the rule no longer selects, or that a rule no longer in force selects, leaves the object from Marked. If
// the node is ready, it leaves from Ended, too, but never from Armed or Kept: the node may be lost after the operator
// read it and before the object is written. The policy would keep its pods, and nothing would mark them later.

const (
	// EndpointsArmed is the state of a node whose pods would be kept ready.
	EndpointsArmed = ""
	// EndpointsEnded is the state of a node whose pods are not kept ready until it is ready again. The state Kept is the
	// time at which it ends.
	EndpointsEnded = endpointsv1alpha1.Ended
	// EndpointsMarked is the state of such a node after its pods were marked not ready.
	EndpointsMarked = endpointsv1alpha1.Marked
)

// Lease is what the lease of a node says.
type Lease int

const (
	// LeaseRenewed: the node renews its lease.
	LeaseRenewed Lease = iota
	// LeaseSilent: it is not renewed for three quarters of its duration, so that three renewals are missing.
	LeaseSilent
	// LeaseExpired: it is not renewed for its duration, so that all nodes of an outage are at least silent.
	LeaseExpired
)

// unsure is how long a lost node waits at most for its lease to expire: the node controller may find it lost before.
const unsure, unsureAgain = 30 * time.Second, 2 * time.Second

// Endpoints is what the next states of a rule depend on.
type Endpoints struct {
	// Rule is the rule in force, or nil if it is gone. Stored is what the object has of it, or nil.
	Rule   *ruleset.Rule
	Stored *endpointsv1alpha1.EndpointRule
	// Nodes are all nodes. Unread are those that may have been lost meanwhile: they stay in their states.
	Nodes  []*corev1.Node
	Unread sets.Set[string]
	// Leases returns what the leases of nodes say. It returns nil if that is not known.
	Leases func() map[string]Lease
	// Done reports whether the pods of a node that has ended are marked, or kept by another rule.
	Done func(node string) bool
	Now  time.Time
	// Room is what the object has for rules and nodes that it does not have yet.
	Room *Room
}

// EndpointsPlan are the next states of a rule.
type EndpointsPlan struct {
	// Next is what the object must have, or nil if the rule leaves it.
	Next *endpointsv1alpha1.EndpointRule
	// Kept are the nodes whose pods stay ready now, since their nodes and others have just been lost. Silent and Total
	// say how many. Single are the nodes whose pods do not, because these are not enough for an outage.
	Kept          []*corev1.Node
	Single        sets.Set[string]
	Silent, Total int
	// Left is for how many nodes the object has no room.
	Left int
	// At is when the states change next if nothing else does. Zero means never.
	At time.Time
}

// KeepsEndpoints reports whether the rule keeps endpoints when it can.
func KeepsEndpoints(rule *ruleset.Rule) bool {
	return rule != nil && rule.Mode == ruleset.Enforced && rule.Spec.EvictionGuard.EndpointsHold() > 0
}

// PlanEndpoints returns the next states.
func PlanEndpoints(in *Endpoints) EndpointsPlan {
	p := planner{Endpoints: in, arms: KeepsEndpoints(in.Rule), out: EndpointsPlan{Single: sets.Set[string]{}}}
	if in.Stored != nil {
		p.before = in.Stored.Nodes
	} else if p.arms {
		p.full = !in.Room.addRule(in.Rule.Name)
	}
	next := &endpointsv1alpha1.EndpointRule{Nodes: map[string]string{}}
	switch {
	case p.arms:
		next.Name, next.UID = in.Rule.Name, string(in.Rule.UID)
		next.ArmedUntil = p.armedUntil()
	case in.Stored == nil:
		return EndpointsPlan{}
	default:
		next.Name, next.UID, next.ArmedUntil = in.Stored.Name, in.Stored.UID, in.Stored.ArmedUntil
	}
	for _, node := range in.Nodes {
		state, in := p.state(node)
		if !in {
			continue
		}
		next.Nodes[node.Name] = state
		if _, known := p.before[node.Name]; !known {
			p.added++
		}
	}
	if p.arms && !p.full || len(next.Nodes) > 0 {
		p.out.Next = next
	}
	return p.out
}

type planner struct {
	*Endpoints
	// arms reports whether the rule is in force and keeps endpoints.
	arms   bool
	before map[string]string
	out    EndpointsPlan

	counted bool
	added   int  // nodes that the object did not have
	full    bool // the object has no room for the rule
}

// armedUntil returns until when the policy keeps pods without the operator. It is renewed each quarter of
// maxHoldSeconds.
func (p *planner) armedUntil() metav1.Time {
	hold := p.Rule.Spec.EvictionGuard.EndpointsHold()
	if p.Stored != nil {
		if left := p.Stored.ArmedUntil.Sub(p.Now); left > hold*3/4 && left <= hold {
			p.again(p.Stored.ArmedUntil.Add(-hold * 3 / 4))
			return p.Stored.ArmedUntil
		}
	}
	p.again(p.Now.Add(hold / 4))
	return metav1.NewTime(p.Now.Add(hold).Truncate(time.Second))
}

func (p *planner) again(at time.Time) {
	if p.out.At.IsZero() || at.Before(p.out.At) {
		p.out.At = at
	}
}

// state returns the next state of a node, and whether it is in the object.
func (p *planner) state(node *corev1.Node) (string, bool) {
	before, known := p.before[node.Name]
	selected := p.arms && p.guards(node)
	stays := selected || p.pending(node)
	ready, since := readySince(node, p.Now)
	switch {
	case known && p.Unread.Has(node.Name):
		return before, true
	case !known && !selected:
		return "", false
	case !known && (p.full || !p.Room.addNode(node.Name, len(p.before)+p.added)):
		p.out.Left++
		return "", false
	case ready:
		return p.ready(before, stays)
	case !known && kubeletReports(node):
		return EndpointsMarked, true
	case !known: // if the object was deleted, the policy may have kept its pods
		return EndpointsEnded, true
	case before == EndpointsArmed && stays:
		return p.decide(node, since), true
	case before == EndpointsArmed:
		return EndpointsEnded, true
	case before == EndpointsEnded && !p.Done(node.Name):
		return EndpointsEnded, true
	case before == EndpointsEnded, before == EndpointsMarked:
		return EndpointsMarked, stays
	}
	return p.kept(node, since, before), true
}

// ready returns the next state of a node that is ready, and whether it is in the object.
func (p *planner) ready(before string, stays bool) (string, bool) {
	switch {
	case stays:
		return EndpointsArmed, true
	case before == EndpointsEnded || before == EndpointsMarked:
		return "", false
	}
	p.again(p.Now) // it leaves the object once the policy no longer keeps its pods
	return EndpointsEnded, true
}

// pending reports whether the evidence of the rule, which selects the node, is being read, as after each start of the
// operator. Then the node waits for the rule, unless the rule arms nothing anyway.
func (p *planner) pending(node *corev1.Node) bool {
	r := p.Rule
	return r != nil && r.Pending() && !r.Spec.Suspend && !r.Spec.DryRun && p.guards(node)
}

// guards reports whether the rule guards the node: it selects the node, and has not completed it.
func (p *planner) guards(node *corev1.Node) bool {
	return p.Rule.Matches(node.Labels) && !completed(p.Rule, node)
}

// completed reports whether a node has completed a bootstrap-only rule.
func completed(rule *ruleset.Rule, node *corev1.Node) bool {
	return rule.Spec.BootstrapOnly() && nodeview.Completed(rule, node)
}

// kubeletReports reports whether kubelet itself says that the node is not ready. Then it reports its pods, too.
func kubeletReports(node *corev1.Node) bool {
	c := condition.Find(node, string(corev1.NodeReady))
	return c != nil && c.Status == corev1.ConditionFalse
}

// readySince returns whether a node is ready, and since when it is or is not, at most since now.
func readySince(node *corev1.Node, now time.Time) (ready bool, since time.Time) {
	c := condition.Find(node, string(corev1.NodeReady))
	if c == nil {
		return false, node.CreationTimestamp.Time
	}
	since = c.LastTransitionTime.Time
	if since.After(now) {
		since = now
	}
	return c.Status == corev1.ConditionTrue, since.Truncate(time.Second)
}

// KeptReady reports whether a pod is ready although its node is not.
func KeptReady(node *corev1.Node, pod *corev1.Pod) bool {
	ofNode, ofPod := condition.Find(node, string(corev1.NodeReady)), condition.OfPod(pod, corev1.PodReady)
	return (ofNode == nil || ofNode.Status != corev1.ConditionTrue) && ofPod != nil && ofPod.Status == corev1.ConditionTrue
}

// EndpointsUntil returns until when a rule keeps the pods of a node ready at most, or false if it does not.
func EndpointsUntil(rule *ruleset.Rule, node *corev1.Node, now time.Time) (time.Time, bool) {
	ready, since := readySince(node, now)
	until := since.Add(rule.Spec.EvictionGuard.EndpointsHold())
	return until, KeepsEndpoints(rule) && !completed(rule, node) && !ready && now.Before(until)
}

// decide returns the state of a node that was armed and is not ready.
func (p *planner) decide(node *corev1.Node, since time.Time) string {
	until := since.Add(p.Rule.Spec.EvictionGuard.EndpointsHold())
	if !p.Now.Before(until) || p.released(node) {
		return EndpointsEnded
	}
	if !p.arms { // its evidence is being read
		p.again(until)
		return EndpointsArmed
	}
	leases := p.Leases()
	if leases == nil {
		return EndpointsArmed
	}
	p.count(leases)
	lease, leased := leases[node.Name]
	switch {
	case lease != LeaseRenewed && p.outage():
		p.out.Kept = append(p.out.Kept, node)
		p.again(until)
		return until.UTC().Format(time.RFC3339)
	case leased && lease != LeaseExpired && !kubeletReports(node) && p.Now.Before(since.Add(unsure)):
		p.again(p.Now.Add(unsureAgain))
		return EndpointsArmed
	}
	p.out.Single.Insert(node.Name)
	return EndpointsEnded
}

// outage reports whether so many nodes do not renew their leases that this is an outage. One node of several must be
// more than the share: with the default, one of two is no outage.
func (p *planner) outage() bool {
	least := p.Rule.Spec.EvictionGuard.Endpoints.Percent() * p.out.Total
	return p.out.Silent*100 > least || p.out.Silent*100 == least && (p.out.Silent > 1 || p.out.Total == 1)
}

// count counts the rule's nodes that have a lease, and of these the silent ones. A node that is not kept since it was
// lost counts neither as silent nor as one of the rule: it was lost before.
func (p *planner) count(leases map[string]Lease) {
	if p.counted {
		return
	}
	p.counted = true
	for _, node := range p.Nodes {
		lease, leased := leases[node.Name]
		before := p.before[node.Name]
		ready, _ := readySince(node, p.Now)
		lostBefore := !ready && (before == EndpointsEnded || before == EndpointsMarked)
		if !leased || lostBefore || !p.guards(node) {
			continue
		}
		p.out.Total++
		if lease != LeaseRenewed {
			p.out.Silent++
		}
	}
}

// kept returns the state of a node whose pods were kept ready. A suspended or frozen rule changes nothing until the
// time has passed, except by the override Release or dry-run.
func (p *planner) kept(node *corev1.Node, since time.Time, before string) string {
	until, err := time.Parse(time.RFC3339, before)
	inert := p.Rule != nil && p.Rule.Inert() && !p.Rule.Withdrawn()
	switch {
	case err != nil:
		return EndpointsEnded
	case inert && !p.released(node):
	case !p.arms || !p.Rule.Matches(node.Labels) || p.released(node):
		return EndpointsEnded
	default:
		if most := since.Add(p.Rule.Spec.EvictionGuard.EndpointsHold()); most.Before(until) {
			until = most
		}
	}
	if !p.Now.Before(until) {
		return EndpointsEnded
	}
	p.again(until)
	return until.UTC().Format(time.RFC3339)
}

// released reports whether the override Release ends the guard.
func (p *planner) released(node *corev1.Node) bool {
	override, _ := nodeview.OverrideOf(node, p.Now) // an invalid override is none
	return override.Action == nodeview.OverrideRelease
}
