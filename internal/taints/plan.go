// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// Outcome is the result of a plan.
type Outcome struct {
	// Patch is a JSON Patch (RFC 6902) for the node, or nil if there is nothing to write.
	Patch []byte
	// Changes are the operations of the patch.
	Changes []Change
	// Left are the doubtful taints that stay on the node and that no rule claims.
	Left []corev1.Taint
	// Shared holds the rules whose taint an older claim decides about.
	Shared map[types.UID]bool
	// Full holds the rules whose record, or completion, is not on the node as it should be, because the annotations have
	// no room.
	Full map[types.UID]bool

	// noRoom holds those of them whose record would say that the limit counts the node from now on.
	noRoom map[types.UID]bool
}

// Reserve asks the limits whether a rule may claim its taint on the node. It returns why not, or "".
type Reserve = func(*ruleset.Rule, limit.Request) (why string)

// Decide decides about a node, and builds the patch for that. decide is called with the rules that do not hold the node
// because its annotations have no room for their record. It is called again if there are more of them. While it looks
// for them, it asks no limit.
func Decide(original *corev1.Node, swept Swept, now time.Time, reserve Reserve,
	decide func(noRoom map[types.UID]bool, reserve Reserve) []state.Decision) Outcome {
	noRoom := withoutRoom(original, swept, now, decide)
	for {
		known := len(noRoom)
		out := Plan(original, swept, decide(noRoom, reserve), now)
		if maps.Copy(noRoom, out.noRoom); len(noRoom) > known {
			continue
		}
		for rule := range noRoom {
			put(&out.Full, rule)
		}
		return out
	}
}

// Plan builds the one patch for a node from the decisions of all rules. original is the node as it was read, and swept
// is the same node without what deleted rules left. Plan does not change other taints and annotations.
func Plan(original *corev1.Node, swept Swept, decisions []state.Decision, now time.Time) Outcome {
	p := &planner{node: swept.Node, now: now, swept: swept.Claims, foreign: swept.Foreign}
	for _, t := range swept.Claims {
		p.manage(t)
	}
	for i := range decisions {
		p.collect(&decisions[i])
	}
	p.unknownRules(decisions)
	for _, claims := range p.after {
		slices.SortStableFunc(claims, (*claim).older)
	}
	annotations := p.annotations(decisions)
	taints := p.taints()

	out := Outcome{Shared: p.shared(), Full: p.full, noRoom: p.noRoom}
	for i := range swept.Doubtful {
		if t := &swept.Doubtful[i]; has(taints, t) && len(p.after[ruleset.TaintIDOf(*t)]) == 0 {
			out.Left = append(out.Left, *t)
		}
	}
	out.Patch = patch(original, taints, annotations, p.added)
	if out.Patch != nil {
		out.Changes = p.changes(decisions, taints)
	}
	return out
}

// claim is one rule's wish for a taint on the node.
type claim struct {
	d     *state.Decision // nil: of a rule that is not known
	taint corev1.Taint
	since time.Time // zero: made by an admission policy, in the node's first request
}

// older orders claims. The oldest claim decides the value of the taint.
func (c *claim) older(o *claim) int {
	if n := c.since.Compare(o.since); n != 0 {
		return n
	}
	if c.d == nil || o.d == nil {
		return 0
	}
	return ruleset.Older(c.d.Rule, o.d.Rule)
}

type planner struct {
	node *corev1.Node
	now  time.Time

	after   map[ruleset.TaintID][]*claim // who wants which taint from now on
	managed []corev1.Taint               // which taints to remove if no rule claims them
	before  []*claim                     // who wanted which taint until now
	swept   []corev1.Taint               // what rules wanted that are gone
	foreign ruleset.Foreign              // what another controller manages
	added   []string                     // the keys of the records that claim the taints to add
	buffer  []byte                       // for records

	// full and noRoom are those of the Outcome. lost are those that are full and that the operator does not remember as
	// decided.
	full, noRoom, lost map[types.UID]bool
}

// manage makes the plan remove a taint of the node if no rule wants it. It leaves a taint that another controller
// manages, also if a rule had it before.
func (p *planner) manage(t corev1.Taint) {
	// No allocation for a taint that is not there.
	if has(p.node.Spec.Taints, &t) && !has(p.managed, &t) && !p.foreign.Has(&t) {
		p.managed = append(p.managed, t)
	}
}

// has reports whether a list has a taint with the same key and effect.
func has(taints []corev1.Taint, t *corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(o corev1.Taint) bool { return o.MatchTaint(t) })
}

// want notes a claim. A taint that another controller manages stays as it is, or missing.
func (p *planner) want(c *claim) {
	if p.foreign.Has(&c.taint) {
		return
	}
	if p.after == nil {
		p.after = map[ruleset.TaintID][]*claim{}
	}
	id := ruleset.TaintIDOf(c.taint)
	p.after[id] = append(p.after[id], c)
}

// brings reports whether a claim may add a taint that is not on the node. An unknown or frozen rule only keeps what is
// there.
func (c *claim) brings() bool { return c.d != nil && !c.d.Frozen }

func (p *planner) collect(d *state.Decision) {
	if was := claimOf(d, &d.Was.Record); was != nil {
		p.manage(was.taint)
		p.before = append(p.before, was)
	}
	if d.Manages() {
		p.manage(*d.Rule.Taint)
	}
	if !d.Claim {
		return
	}
	record := &d.Was.Record
	if !d.Frozen {
		record = &d.Record
	}
	if c := claimOf(d, record); c != nil {
		p.want(c)
	}
}

// claimOf returns the claim of a record, or nil if it has no valid one.
func claimOf(d *state.Decision, r *nodeview.Record) *claim {
	t, claims := r.Claim()
	if !claims {
		return nil
	}
	return &claim{d: d, taint: t, since: r.Since.Time}
}

// unknownRules keeps the claims of rules that this process does not know and that may exist.
func (p *planner) unknownRules(decisions []state.Decision) {
	known := func(key string) bool {
		for i := range decisions {
			if decisions[i].Rule.RecordKey() == key {
				return true
			}
		}
		return false
	}
	for key, value := range p.node.Annotations {
		if !strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || known(key) {
			continue
		}
		if t, claims := nodeview.ClaimIn(value); claims {
			p.want(&claim{taint: t, since: p.now})
		}
	}
}

func (p *planner) shared() map[types.UID]bool {
	var out map[types.UID]bool
	for _, claims := range p.after {
		for _, c := range claims[1:] {
			if c.d != nil {
				if out == nil {
					out = map[types.UID]bool{}
				}
				out[c.d.Rule.UID] = true
			}
		}
	}
	return out
}

// taints returns the wanted list of taints: in the current order, with new ones at the end.
func (p *planner) taints() []corev1.Taint {
	out := make([]corev1.Taint, 0, len(p.node.Spec.Taints)+len(p.after))
	for _, t := range p.node.Spec.Taints {
		claims := p.after[ruleset.TaintIDOf(t)]
		if len(claims) == 0 && has(p.managed, &t) {
			continue
		}
		if len(claims) > 0 {
			t.Value = p.value(t, claims)
		}
		out = append(out, t)
	}
	var fresh []*claim
	for _, claims := range p.after {
		if n := slices.IndexFunc(claims, (*claim).brings); n >= 0 && !has(out, &claims[n].taint) {
			fresh = append(fresh, claims[n])
		}
	}
	slices.SortFunc(fresh, func(a, b *claim) int {
		return strings.Compare(nodeview.FormatTaint(a.taint), nodeview.FormatTaint(b.taint))
	})
	for _, c := range fresh {
		p.added = append(p.added, c.d.Rule.RecordKey())
		t := c.taint
		if t.Effect == corev1.TaintEffectNoExecute { // as the API says: only written for these
			t.TimeAdded = &metav1.Time{Time: p.now}
		}
		out = append(out, t)
	}
	return out
}

// value returns the wanted value of a taint that is on the node. The taint keeps its value, no matter who wrote it,
// until the oldest claim's rule is edited, or until the claim that gave the value ends and another one is the oldest.
func (p *planner) value(t corev1.Taint, claims []*claim) string {
	oldest := claims[0]
	if !oldest.brings() {
		return t.Value
	}
	if slices.ContainsFunc(p.swept, func(s corev1.Taint) bool { return s.MatchTaint(&t) && s.Value == t.Value }) {
		return oldest.taint.Value
	}
	for _, b := range p.before {
		if !b.taint.MatchTaint(&t) {
			continue
		}
		edited := b.d == oldest.d && b.taint.Value != oldest.taint.Value
		stays := slices.ContainsFunc(claims, func(c *claim) bool { return c.d == b.d })
		succeeded := !stays && b.taint.Value == t.Value
		if edited || succeeded {
			return oldest.taint.Value
		}
	}
	return t.Value
}

// annotations returns the wanted annotations of the node.
func (p *planner) annotations(decisions []state.Decision) map[string]string {
	out := &annotations{values: p.node.Annotations}
	for i := range decisions {
		if d := &decisions[i]; !d.Frozen {
			p.remember(out, d)
			p.complete(out, d)
		}
	}
	if nodeview.OverrideEnded(p.node, p.now) {
		out.remove(v1alpha1.OverrideAnnotation)
	}
	p.fit(out, decisions)
	return out.values
}

func (p *planner) remember(out *annotations, d *state.Decision) {
	key := d.Rule.RecordKey()
	if mark := d.Was.Record.Mark; mark != d.Record.Mark {
		if annotation, ok := marks(out.values, key, mark); ok {
			out.remove(annotation)
		}
	}
	if d.Record.Empty() {
		out.remove(key)
		return
	}
	if have, ok := out.values[key]; ok {
		if d.Record.EncodedAs(have, &p.buffer) {
			return
		}
		if r, ok := nodeview.ReadRecord(have); ok {
			r.Rule = d.Record.Rule // a record without the name, from an admission policy, says the same
			if r.Encode() == string(p.buffer) {
				return
			}
		}
	}
	record := d.Record
	record.Own = record.Own || record.Admitted()
	out.set(key, record.Encode())
}

// marks returns the annotation that a record under a key names as its mark, if only that record names it, and the
// annotation is as the record says. A forged record cannot name an annotation that no rule may set.
func marks(annotations map[string]string, key, mark string) (annotation string, ok bool) {
	annotation, value, _ := strings.Cut(mark, "=")
	if have, found := annotations[annotation]; !found || have != value || !ruleset.AnnotationKey(annotation) {
		return "", false
	}
	for other, v := range annotations {
		if other != key && strings.HasPrefix(other, v1alpha1.RecordAnnotationPrefix) {
			if r, _ := nodeview.ReadRecord(v); r.Mark == mark {
				return "", false
			}
		}
	}
	return annotation, true
}

func (p *planner) complete(out *annotations, d *state.Decision) {
	switch {
	case d.Completed && !d.Was.Completed:
		out.set(d.Rule.MarkerKey(), marker(d.Rule))
	case !d.Completed && d.Was.Completed:
		out.remove(d.Rule.MarkerKey())
		out.remove(d.Rule.OldMarkerKey())
	}
	key := d.Rule.Spec.CompletionAnnotation
	if key == "" {
		return
	}
	if d.Rearmed {
		out.remove(key)
	}
	if _, done := out.values[key]; d.Opened && !done {
		out.set(key, strconv.FormatInt(p.now.Unix(), 10))
	}
}
