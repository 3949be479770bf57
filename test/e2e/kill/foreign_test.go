// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isForeign tells taints that no rule may ever touch from those of the rules.
func isForeign(t corev1.Taint) bool {
	return !strings.HasPrefix(t.Key, ours) || t.Effect == corev1.TaintEffectPreferNoSchedule
}

func foreignOf(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return !isForeign(t) })
}

// lost says how a node's foreign taints differ from what was written last; empty if they do not.
func (s *slot) lost(node *corev1.Node) string {
	if have := foreignOf(node.Spec.Taints); !equality.Semantic.DeepEqual(have, s.foreign) {
		return cmp.Diff(s.foreign, have)
	}
	return ""
}

// newForeign is a foreign taint that was never there before. Some have the key of a rule's taint, with another effect.
func (w *model) newForeign(rng *rand.Rand) corev1.Taint {
	t := corev1.Taint{
		Key:    fmt.Sprintf("foreign.example.com/t-%d", w.next()),
		Value:  oneOf(rng, "", "x", "y"),
		Effect: oneOf(rng, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
	return t
}

// foreignWriter writes the nodes' taints as others do: by read, modify and write, and by JSON Patches.
type foreignWriter struct{ w *model }

func (f *foreignWriter) act(ctx context.Context, rng *rand.Rand) {
	s := f.w.slots[rng.IntN(slots)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.there {
		return
	}
	if chance(rng, 30) {
		f.patch(ctx, rng, s)
	} else {
		f.replace(ctx, rng, s)
	}
	pause(rng, time.Millisecond, 4*time.Millisecond)
}

// read reads the node, and sees that what was written last is there.
func (f *foreignWriter) read(ctx context.Context, s *slot) *corev1.Node {
	node := &corev1.Node{}
	if err := f.w.Client.Get(ctx, client.ObjectKey{Name: s.name}, node); err != nil {
		f.w.fault("reading node %s: %v", s.name, err)
		return nil
	}
	if diff := s.lost(node); diff != "" {
		f.w.fault("node %s has lost foreign taints (-written +found):\n%s", s.name, diff)
		s.foreign = foreignOf(node.Spec.Taints)
	}
	return node
}

// replace writes the whole node, at the version that was read.
func (f *foreignWriter) replace(ctx context.Context, rng *rand.Rand, s *slot) {
	for range 20 {
		node := f.read(ctx, s)
		if node == nil {
			return
		}
		node.Spec.Taints = f.change(rng, node.Spec.Taints)
		want := foreignOf(node.Spec.Taints)
		err := f.w.Client.Update(ctx, node)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			f.w.fault("writing node %s: %v", s.name, err)
			return
		}
		s.foreign = want
		return
	}
}

// change adds, removes, changes or moves a foreign taint.
func (f *foreignWriter) change(rng *rand.Rand, taints []corev1.Taint) []corev1.Taint {
	taints = slices.Clone(taints)
	var foreign []int
	for i := range taints {
		if isForeign(taints[i]) {
			foreign = append(foreign, i)
		}
	}
	at := foreign[rng.IntN(len(foreign))]
	switch {
	case len(foreign) < mostForeign && chance(rng, 40):
		t := f.w.newForeign(rng)
		if key := oneOf(rng, ruleKeys...); chance(rng, 20) && !has(taints, key, corev1.TaintEffectPreferNoSchedule) {
			t.Key, t.Effect = key, corev1.TaintEffectPreferNoSchedule
		}
		return slices.Insert(taints, rng.IntN(len(taints)+1), t)
	case len(foreign) > leastForeign && chance(rng, 60):
		return slices.Delete(taints, at, at+1)
	case chance(rng, 20):
		t := taints[at]
		taints = slices.Delete(taints, at, at+1)
		return slices.Insert(taints, rng.IntN(len(taints)+1), t)
	}
	taints[at].Value = fmt.Sprintf("v-%d", f.w.next())
	return taints
}

// patch appends a taint in any case, or changes the value of one, where it was when it was read.
func (f *foreignWriter) patch(ctx context.Context, rng *rand.Rand, s *slot) {
	node := f.read(ctx, s)
	if node == nil {
		return
	}
	want := slices.Clone(s.foreign)
	var ops []map[string]any
	if len(want) < mostForeign && chance(rng, 50) {
		t := f.w.newForeign(rng)
		want = append(want, t)
		ops = append(ops, map[string]any{"op": "add", "path": "/spec/taints/-", "value": t})
	} else {
		at := slices.IndexFunc(node.Spec.Taints, isForeign)
		t := node.Spec.Taints[at]
		ops = append(ops, map[string]any{"op": "test", "path": fmt.Sprintf("/spec/taints/%d", at), "value": t})
		t.Value = fmt.Sprintf("p-%d", f.w.next())
		want[0] = t
		ops = append(ops, map[string]any{"op": "replace", "path": fmt.Sprintf("/spec/taints/%d", at), "value": t})
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		f.w.fault("%v", err)
		return
	}
	written := &corev1.Node{}
	written.Name = s.name
	err = f.w.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, raw))
	if apierrors.IsInvalid(err) { // the operator was first, and the taint is somewhere else in the list now
		return
	}
	if err != nil {
		f.w.fault("patching node %s: %v", s.name, err)
		return
	}
	s.foreign = want
	if diff := s.lost(written); diff != "" {
		f.w.fault("a patch of node %s did not lead to its taints (-wanted +got):\n%s", s.name, diff)
	}
}

func has(taints []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}
