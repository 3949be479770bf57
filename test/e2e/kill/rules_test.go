// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

var (
	ruleNames = []string{"r-0", "r-1", "r-2", "r-3", "r-4", "r-5"}
	// Few, so that rules share taints.
	ruleKeys    = []string{ours + "k-0", ours + "k-1", ours + "k-2"}
	ruleValues  = []string{"", "v-1", "v-2"}
	ruleEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}
)

const mostRules = 4

// rulebook is what the test knows about the rules.
type rulebook struct {
	mu   sync.Mutex
	live map[string]*entry // by name; what is being deleted is not in it
}

// entry is a rule that was created and not deleted.
type entry struct {
	uid     types.UID
	spec    v1alpha1.NodeReadinessRuleSpec
	limited bool
}

func newRulebook() *rulebook { return &rulebook{live: map[string]*entry{}} }

// keep notes what a rule is now; nil: it is deleted.
func (b *rulebook) keep(name string, e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e == nil {
		delete(b.live, name)
		return
	}
	b.live[name] = e
}

func (b *rulebook) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.live))
}

func (b *rulebook) entry(name string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live[name]
}

// spec is what a rule asks for now, nil for a rule that is not known.
func (b *rulebook) spec(uid types.UID) *v1alpha1.NodeReadinessRuleSpec {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.live {
		if e.uid == uid {
			return &e.spec
		}
	}
	return nil
}

// limits holds each maxUnavailable that is a number: how many nodes a rule may hold, by its UID.
func (b *rulebook) limits() map[types.UID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[types.UID]int{}
	for _, e := range b.live {
		if e.limited && e.spec.MaxUnavailable.Type == intstr.Int {
			out[e.uid] = e.spec.MaxUnavailable.IntValue()
		}
	}
	return out
}

// ruleActor creates, edits and deletes rules. There is one of it at a time.
type ruleActor struct{ w *model }

func (a *ruleActor) act(ctx context.Context, rng *rand.Rand) {
	live := a.w.rules.names()
	switch {
	case len(live) == 0, len(live) < mostRules && chance(rng, 25):
		a.create(ctx, rng, oneOf(rng, ruleNames...))
	case chance(rng, 20):
		name := oneOf(rng, live...)
		a.remove(ctx, name)
		if chance(rng, 50) {
			a.create(ctx, rng, name) // under the same name; the old one may not be gone yet
		}
	default:
		a.edit(ctx, rng, oneOf(rng, live...))
	}
	pause(rng, 20*time.Millisecond, 100*time.Millisecond)
}

// start deletes most of the rules that there are, and creates others.
func (a *ruleActor) start(ctx context.Context, rng *rand.Rand) {
	for _, name := range a.w.rules.names() {
		if chance(rng, 75) {
			a.remove(ctx, name)
		}
	}
	for range 1 + rng.IntN(3) {
		if len(a.w.rules.names()) < mostRules {
			a.create(ctx, rng, oneOf(rng, ruleNames...))
		}
	}
}

func (a *ruleActor) create(ctx context.Context, rng *rand.Rand, name string) {
	if a.w.rules.entry(name) != nil {
		return
	}
	limited := chance(rng, 35)
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: a.spec(rng, name, limited)}
	err := a.w.Client.Create(ctx, rule)
	if apierrors.IsAlreadyExists(err) { // the one that was deleted is not gone yet
		return
	}
	if err != nil {
		a.w.fault("creating rule %s: %v", name, err)
		return
	}
	a.w.rules.keep(name, &entry{uid: rule.UID, spec: rule.Spec, limited: limited})
	a.w.note("created rule %s (%s): %s", name, rule.UID, inJSON(rule.Spec))
}

func (a *ruleActor) remove(ctx context.Context, name string) {
	a.w.rules.keep(name, nil)
	if err := a.w.Client.Delete(ctx, &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		a.w.fault("deleting rule %s: %v", name, err)
	}
	a.w.note("deleted rule %s", name)
}

// edit writes a rule again, in part or as a whole.
func (a *ruleActor) edit(ctx context.Context, rng *rand.Rand, name string) {
	e := a.w.rules.entry(name)
	spec := *e.spec.DeepCopy()
	switch n := rng.IntN(100); {
	case n < 20:
		spec.DryRun = !spec.DryRun
	case n < 40:
		spec.Suspend = !spec.Suspend
	case n < 60 && e.limited:
		if m := spec.MaxUnavailable; m.Type == intstr.Int {
			spec.MaxUnavailable = new(intstr.FromInt(m.IntValue() + 1)) // less would leave more claims than it allows for
		}
	case n < 60:
		spec.Taint = a.taint(rng)
	default:
		spec = a.spec(rng, name, e.limited)
		if e.limited { // what would change which claims are counted stays
			spec.Taint.Key, spec.Taint.Effect = e.spec.Taint.Key, e.spec.Taint.Effect
			spec.MaxUnavailable, spec.RearmOn, spec.EnforcementMode = e.spec.MaxUnavailable, e.spec.RearmOn,
				e.spec.EnforcementMode
			if spec.BootstrapOnly() {
				bootstrapCompatible(&spec)
			}
		}
	}
	if e.limited {
		a.w.rules.keep(name, &entry{uid: e.uid, spec: spec, limited: true}) // a higher limit is known before it is used
	}
	for {
		rule := &v1alpha1.NodeReadinessRule{}
		err := a.w.Client.Get(ctx, client.ObjectKey{Name: name}, rule)
		if err == nil {
			rule.Spec = *spec.DeepCopy()
			err = a.w.Client.Update(ctx, rule)
		}
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			a.w.fault("editing rule %s: %v", name, err)
		}
		break
	}
	a.w.rules.keep(name, &entry{uid: e.uid, spec: spec, limited: e.limited})
	a.w.note("edited rule %s: %s", name, inJSON(spec))
}

// spec is a random spec, for a limited rule one whose limit can be checked: a taint of its own, on steady nodes.
func (a *ruleActor) spec(rng *rand.Rand, name string, limited bool) v1alpha1.NodeReadinessRuleSpec {
	r := build.MakeRule(name)
	r.Spec.Taint = a.taint(rng)
	switch {
	case limited:
		r.Selector(steadyLabel, "yes")
		r.Spec.Taint.Key = fmt.Sprintf("%slimited-%d", ours, a.w.next())
		r.MaxUnavailable(oneOf(rng, "0", "1", "2", "3", "30%"))
	case chance(rng, 30):
		r.Selector(poolLabel, oneOf(rng, "a", "b", "c"))
	case chance(rng, 40):
		r.SelectorExpression(poolLabel, "Exists")
	default:
		r.SelectorExpression(poolLabel, oneOf(rng, "In", "NotIn"), "a", "b")
	}
	a.evidence(rng, r)
	if chance(rng, 30) {
		r.RearmOnReboot()
	}
	if chance(rng, 20) {
		r.ExistingNodes(v1alpha1.ExistingNodesNone)
	}
	if chance(rng, 25) {
		oneOf(rng, r.ReadySeconds, r.UnreadySeconds, r.MinimumHoldSeconds)(1)
	}
	if chance(rng, 20) {
		r.Timeout(1, int32(rng.IntN(2)), oneOf(rng, v1alpha1.TimeoutActionKeep, v1alpha1.TimeoutActionRelease))
	}
	if chance(rng, 20) {
		r.CompletionAnnotation(ours + "done-" + name)
	}
	r.DryRun(chance(rng, 8))
	r.Suspend(chance(rng, 8))
	if chance(rng, 40) {
		r.BootstrapOnly()
		bootstrapCompatible(&r.Spec)
	}
	return r.Obj().Spec
}

func (a *ruleActor) taint(rng *rand.Rand) *v1alpha1.Taint {
	return &v1alpha1.Taint{Key: oneOf(rng, ruleKeys...), Value: oneOf(rng, ruleValues...),
		Effect: v1alpha1.TaintEffect(oneOf(rng, ruleEffects...))}
}

func (a *ruleActor) evidence(rng *rand.Rand, r *build.RuleWrapper) {
	for _, i := range rng.Perm(len(conditionTypes))[:1+rng.IntN(2)] {
		c := v1alpha1.ConditionRequirement{
			Type: conditionTypes[i],
			RequiredStatus: oneOf(rng, v1alpha1.ConditionTrue, v1alpha1.ConditionTrue, v1alpha1.ConditionTrue,
				v1alpha1.ConditionFalse),
		}
		if chance(rng, 15) {
			c.DefaultStatus = oneOf(rng, v1alpha1.ConditionTrue, v1alpha1.ConditionFalse)
		}
		if chance(rng, 30) {
			c.MaxAgeSeconds = ptr.To[int32](maxAge)
		}
		r.Require(c)
	}
	if chance(rng, 30) {
		r.AnyOf()
	}
}

// bootstrapCompatible takes away what the API refuses together with bootstrap-only.
func bootstrapCompatible(spec *v1alpha1.NodeReadinessRuleSpec) {
	spec.ConditionPolicy = ""
	for i := range spec.Conditions {
		spec.Conditions[i].DefaultStatus = ""
	}
}

func inJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
