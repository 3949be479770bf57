// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package script makes the stories of the simulation. A script is data: a seed makes a list of steps before anything
// runs, and a run draws nothing, so that steps can be left out.
package script

import (
	"fmt"
	"strings"
)

// Step is one thing that happens. A step that is not applicable does nothing.
type Step struct {
	// Do says what happens.
	Do string `json:"do"`
	// Node, Rule and Pod are numbers, from 1, or Concerned. Pod numbers the pods of a node.
	Node int `json:"node,omitempty"`
	Rule int `json:"rule,omitempty"`
	Pod  int `json:"pod,omitempty"`
	// Replica is its number, from 0.
	Replica int `json:"replica,omitempty"`
	// Of names a kind, a condition, or a fate, by the step.
	Of string `json:"of,omitempty"`
	// Value is a status, a label's value, or a patch of a rule.
	Value string `json:"value,omitempty"`
	// N is a number of things, or of seconds.
	N int `json:"n,omitempty"`
}

// Concerned is the node that a write is about which the last step "brink" has left under way, if any has.
const Concerned = -1

// Amid says of reconciles that pause that they go on while other rules are being put in force.
const Amid = "these go on while other rules are being put in force"

// Script is a story.
type Script struct {
	// Why says, of a script that is kept, what it showed.
	Why string `json:"why,omitempty"`
	// Replicas is how many replicas run.
	Replicas int `json:"replicas"`
	// Skew is for how many seconds each node's clock is ahead; 0 for those that are not named.
	Skew []int `json:"skew,omitempty"`
	// Webhooks is whether the webhooks are installed.
	Webhooks bool `json:"webhooks,omitempty"`
	// Policy is whether the policy that taints nodes is installed; what it sees lags by so many versions.
	Policy bool `json:"policy,omitempty"`
	Lag    int  `json:"lag,omitempty"`
	// Unguarded is whether no policy protects records, and the operator knows that.
	Unguarded bool `json:"unguarded,omitempty"`
	// Beside is whether another controller runs, whose rules the operator reads.
	Beside bool `json:"beside,omitempty"`
	// Endpoints is whether the policy that keeps endpoints is installed.
	Endpoints bool `json:"endpoints,omitempty"`
	// Steps are what happens.
	Steps []Step `json:"steps"`
}

// String is the script in words, one line for each step.
func (s *Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d replicas, webhooks: %t, policy: %t, %d versions behind, records unguarded: %t, endpoints: %t, "+
		"beside another controller: %t, clocks of nodes ahead by %v seconds\n", s.Replicas, s.Webhooks,
		s.Policy, s.Lag, s.Unguarded, s.Endpoints, s.Beside, s.Skew)
	for i := range s.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s.Steps[i].String())
	}
	return b.String()
}

// words are the steps in words. The verbs of fmt stand for, in order: node, rule, pod, replica, of, value, n.
var words = map[string]string{
	"deliver":  "replica %[4]d: the watch of %[5]s brings %[7]d events into its store",
	"notify":   "replica %[4]d: a handler of %[5]s hears of %[7]d events",
	"work":     "replica %[4]d starts on request %[7]d",
	"answer":   "write %[7]d of replica %[4]d: %[5]s",
	"begin":    "replica %[4]d hears of everything, and starts on all requests; their writes are under way",
	"settle":   "replica %[4]d finishes everything",
	"brink":    "replica %[4]d does everything but writes of %[5]s, which are under way; n-1 is the node of one",
	"land":     "write %[7]d of a process that is gone lands",
	"unread":   "replica %[4]d: the next %[7]d reads past the cache fail",
	"pause":    "replica %[4]d: the next %[7]d reconciles of nodes pause before they read evidence; %[5]s",
	"pass":     "%[7]d seconds pass",
	"live":     "%[7]d seconds pass, and everything happens when it is due",
	"slow":     "replica %[4]d: the next list of leases takes %[7]d seconds",
	"calm":     "everything settles",
	"quiet":    "everything settles, and all that is due has happened",
	"cut":      "replica %[4]d: the watch of %[5]s is cut, and lists again %[6]s",
	"kill":     "replica %[4]d is killed and starts again; the cache of the API server is %[7]d versions behind",
	"down":     "replica %[4]d is killed and stays down",
	"up":       "replica %[4]d starts, if it is down",
	"upgrade":  "all replicas are killed and start again; an %[5]s version has written the records in the meantime",
	"handover": "replica %[4]d becomes the leader; the old one has not noticed yet",
	"node.create": "node n%[1]d registers in pool %[6]s with the record %[5]q; its taint: %[7]d; " +
		"a record of r%[2]d; a taint of rules (1), the label skip-admission (2), or the taint of r%[2]d (3): %[3]d",
	"node.adorn":    "node n%[1]d registers in pool %[6]s with %[7]d annotations",
	"list.edit":     "the rules for admission are edited to what they were %[7]d versions ago, or with 0 to nothing",
	"list.delete":   "the rules for admission are deleted",
	"node.delete":   "node n%[1]d is deleted",
	"node.label":    "node n%[1]d gets into pool %[6]q %[5]s",
	"node.rack":     "node n%[1]d is moved to rack %[6]q",
	"node.zone":     "node n%[1]d is moved to zone %[6]q",
	"node.refuse":   "a policy refuses all writes of the operator to n%[1]d: %[6]q",
	"node.release":  "the account %[5]q writes the annotation %[6]s of n%[1]d; status: %[7]d",
	"node.lost":     "the link of node n%[1]d is cut, and the node controller finds it lost at once",
	"node.back":     "the link of node n%[1]d is repaired",
	"link.cut":      "the link of node n%[1]d is cut: its lease is not renewed",
	"link.back":     "the link of node n%[1]d is repaired",
	"kept.delete":   "the object of the kept endpoints is deleted",
	"node.replace":  "a remediator replaces node n%[1]d if a rule has handed it over, by one in pool %[6]s",
	"claim.launch":  "Karpenter launches node n%[1]d in pool %[6]s %[5]s %[7]d",
	"claim.update":  "Karpenter updates the status of the NodeClaim of n%[1]d",
	"claim.delete":  "an administrator deletes the NodeClaim of n%[1]d",
	"claim.finish":  "Karpenter terminates n%[1]d if its NodeClaim is deleted, and launches another one in pool %[6]s",
	"node.remedy":   "a remediator does this to node n%[1]d, if a rule holds it: %[5]q; the next one is in pool %[6]s",
	"node.finish":   "node n%[1]d, which terminates, is gone",
	"node.fill":     "the annotations of node n%[1]d are filled but for %[7]d bytes",
	"node.tamper":   "an administrator sets the %[5]s of r%[2]d on n%[1]d to %[6]q; empty: deletes it",
	"node.role":     "node n%[1]d gets the role of the control plane",
	"node.maintain": "node n%[1]d is in maintenance: %[6]q",
	"node.cordon":   "node n%[1]d is cordoned: %[6]s",
	"node.override": "an administrator sets the override of n%[1]d to %[6]q; it ends after %[7]d seconds",
	"node.taint":    "someone puts the taint %[6]s on n%[1]d",
	"node.untaint":  "someone removes the taint %[6]s from n%[1]d",
	"node.report":   "a reporter on n%[1]d says %[5]s=%[6]s, %[7]d seconds ahead; without a heartbeat (1): %[3]d",
	"node.resource": "node n%[1]d has %[7]d GPUs",
	"node.clock":    "the clock of node n%[1]d is set forward by %[7]d seconds",
	"node.beat":     "kubelet and the reporters of n%[1]d repeat what they said",
	"node.reboot":   "node n%[1]d reboots; kubelet reports the new boot ID, with %[7]d bytes more",
	"pod.create":    "pod %[3]d of n%[1]d is created with app=%[6]s %[5]s, and bound later (1): %[7]d",
	"pod.ready":     "pod %[3]d of n%[1]d becomes ready: %[6]s",
	"pod.annotate":  "pod %[3]d of n%[1]d says example.com/ready=%[6]s",
	"pod.delete":    "pod %[3]d of n%[1]d is deleted",
	"node.driver":   "the CSI driver of n%[1]d registers with %[7]d volumes; 0: unregisters",
	"node.devices":  "the DRA driver of n%[1]d publishes %[7]d devices %[5]s",
	"daemon.create": "DaemonSet d%[3]d is created: pool %[6]q, it tolerates %[5]q, and has minReadySeconds %[7]d",
	"daemon.edit":   "DaemonSet d%[3]d gets minReadySeconds %[7]d, or another label if it has them",
	"daemon.delete": "DaemonSet d%[3]d is deleted",
	"daemon.sync":   "the DaemonSet controller creates and deletes pods of d%[3]d, not on n%[7]d: %[5]s",
	"rule.create":   "rule r%[2]d is created: %[6]s",
	"rule.edit":     "rule r%[2]d is edited: %[6]s",
	"rule.delete":   "rule r%[2]d is deleted",
	"crd":           "the CRD is replaced by %[6]s (gone: is deleted with all rules); watches of rules go on: %[7]d",
	"evidence":      "reading pods is %[6]s",
}

// String is the step in words.
func (s *Step) String() string {
	format, ok := words[s.Do]
	if !ok {
		return s.Do
	}
	text := fmt.Sprintf(format, s.Node, s.Rule, s.Pod, s.Replica, s.Of, s.Value, s.N)
	text, _, _ = strings.Cut(text, "%!(EXTRA")
	return text
}

// Shrink leaves steps out while the script still fails, until none can be left out, or tries are used up.
func Shrink(s *Script, tries int, fails func(*Script) bool) *Script {
	best := s
	for size := len(best.Steps) / 2; size > 0; {
		smaller := false
		for at := 0; at < len(best.Steps) && tries > 0; tries-- {
			end := min(at+size, len(best.Steps))
			less := *best
			less.Steps = append(append([]Step{}, best.Steps[:at]...), best.Steps[end:]...)
			if fails(&less) {
				best, smaller = &less, true
			} else {
				at = end
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
		if tries <= 0 {
			break
		}
	}
	return best
}
