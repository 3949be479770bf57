// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// MaxAnnotations is how many bytes the keys and values of all annotations of an object may have together. It is
// TotalAnnotationSizeLimitB of k8s.io/apimachinery/pkg/api/validation. Only tests change it.
var MaxAnnotations = 256 << 10

// ample is how many bytes are certainly enough for all records that one patch changes.
const ample = 16 << 10

func sizeOf(annotations map[string]string) int {
	n := 0
	for key, value := range annotations {
		n += len(key) + len(value)
	}
	return n
}

// Fit reports whether the API server accepts a node's annotations if others are added.
func Fit(annotations, added map[string]string) bool {
	all := map[string]string{}
	maps.Copy(all, annotations)
	maps.Copy(all, added)
	return sizeOf(all) <= MaxAnnotations
}

// takes reports whether the API server accepts the annotations with another one in the place of so many bytes.
func (a *annotations) takes(key, value string, freed int) bool {
	more := len(key) + len(value) - freed
	return more <= 0 || sizeOf(a.values)+more <= MaxAnnotations
}

// fit takes from the wanted annotations what the API server would not accept on this node. Otherwise it would refuse
// the whole patch, again and again, and with it the taints of all rules. In this order, until the rest fits: records
// become short; completion annotations and completion markers are not added; records do not grow, without the end of a
// guard if that is enough. A taint without a record is adopted later. Then the limit does not count it, so Decide does
// not add it to a node in service.
func (p *planner) fit(out *annotations, decisions []state.Decision) {
	if !out.copied { // nothing is added
		return
	}
	over := sizeOf(out.values) - MaxAnnotations
	steps := []func(*state.Decision) int{
		func(d *state.Decision) int {
			key, record := d.Rule.RecordKey(), d.Record.Short()
			before, wanted := out.values[key]
			if !wanted || record.Empty() {
				return 0
			}
			out.set(key, record.Encode())
			return len(before) - len(out.values[key])
		},
		func(d *state.Decision) int { return p.revert(out, d.Rule.Spec.CompletionAnnotation) },
		func(d *state.Decision) int { return p.lose(d, p.revert(out, d.Rule.MarkerKey())) },
		func(d *state.Decision) int {
			if freed := p.endless(out, d); freed > 0 {
				return freed
			}
			freed := p.lose(d, p.revert(out, d.Rule.RecordKey()))
			if freed > 0 && !d.Was.Claimed && (d.Record.Limited || d.Record.Forced) {
				put(&p.noRoom, d.Rule.UID)
			}
			if freed > 0 && d.Record.Published != "" && d.Was.Record.Published == "" {
				freed -= p.keepName(out, decisions, d.Record.Published)
			}
			return freed
		},
	}
	for _, step := range steps {
		for i := range decisions {
			d := &decisions[i]
			if over <= 0 {
				return
			}
			if d.Frozen {
				continue
			}
			if freed := step(d); freed != 0 {
				over -= freed
				put(&p.full, d.Rule.UID)
			}
		}
	}
}

// withoutRoom returns the rules for whose claim the node's annotations have no room, even if no other rule claims the
// node now. They must not ask: such a claim would wait for a turn under a rate, lose it, and wait again, for ever.
func withoutRoom(original *corev1.Node, swept Swept, now time.Time,
	decide func(noRoom map[types.UID]bool, reserve Reserve) []state.Decision) map[types.UID]bool {
	noRoom := map[types.UID]bool{}
	if sizeOf(swept.Node.Annotations)+ample <= MaxAnnotations {
		return noRoom
	}
	only := func(allowed types.UID) Reserve {
		return func(rule *ruleset.Rule, _ limit.Request) string {
			if rule.UID == allowed {
				return ""
			}
			return "no limit is asked"
		}
	}
	asking := decide(nil, only(""))
	for i := range asking {
		rule := asking[i].Rule.UID
		if asking[i].Limit != "" && Plan(original, swept, decide(nil, only(rule)), now).noRoom[rule] {
			noRoom[rule] = true
		}
	}
	return noRoom
}

// revert leaves an annotation of the node as it is, if it would grow, and returns how many bytes that saves.
func (p *planner) revert(out *annotations, key string) int {
	wanted, ok := out.values[key]
	before, had := p.node.Annotations[key]
	if !ok || len(wanted) <= len(before) && had {
		return 0
	}
	if had {
		out.set(key, before)
		return len(wanted) - len(before)
	}
	out.remove(key)
	return len(key) + len(wanted)
}

// endless drops the end of a guard from a record that then does not grow, and returns how many bytes that saves. If
// maxHoldSeconds have passed, the end follows from the rest of the record, but a timeout does not.
func (p *planner) endless(out *annotations, d *state.Decision) int {
	key, record := d.Rule.RecordKey(), d.Record.Short()
	wanted, ok := out.values[key]
	record.GuardEnded = metav1.Time{}
	value, before := record.Encode(), p.node.Annotations[key]
	if !ok || len(value) >= len(wanted) || len(value) > len(before) || value == before {
		return 0
	}
	out.set(key, value)
	return len(wanted) - len(value)
}

// keepName lets the rule that has published a condition name it until the record of the next publisher does, and
// returns how many bytes that takes. Otherwise the condition would stay on the node after both rules.
func (p *planner) keepName(out *annotations, decisions []state.Decision, conditionType string) int {
	for i := range decisions {
		d := &decisions[i]
		if d.Frozen || d.Was.Record.Published != conditionType || d.Rule.Mode == ruleset.Deleting {
			continue
		}
		key := d.Rule.RecordKey()
		has, there := out.values[key]
		record, _ := nodeview.ReadRecord(has)
		if record.Published == conditionType {
			return 0
		}
		record.Published = conditionType
		wanted := record.Encode()
		if len(wanted) > len(p.node.Annotations[key]) {
			continue
		}
		out.set(key, wanted)
		if !there {
			return len(key) + len(wanted)
		}
		return len(wanted) - len(has)
	}
	return 0
}

// lose notes that the node does not get what the operator needs to know of a decision later.
func (p *planner) lose(d *state.Decision, freed int) int {
	if freed > 0 {
		put(&p.lost, d.Rule.UID)
	}
	return freed
}

// put adds a rule to a set.
func put(set *map[types.UID]bool, rule types.UID) {
	if *set == nil {
		*set = map[types.UID]bool{}
	}
	(*set)[rule] = true
}
