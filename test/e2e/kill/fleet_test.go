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
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// ours is the prefix of the taints of rules. All other taints are foreign.
	ours                    = "kill.example.com/"
	shared, boot, limited   = ours + "shared", ours + "boot", ours + "limited"
	condA, condB, condC     = ours + "a", ours + "b", ours + "c"
	steadyLabel             = ours + "steady"
	nodes, foreignTaints    = 20, 20
	limit                   = 2
	noSchedule, noExecute   = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	first, second           = "first", "second"
	bootstrap, withinLimits = "bootstrap", "limited"
)

// fleet is a control plane with nodes and these rules:
//
//	first      needs a; its taint is also the taint of the rule second
//	second     needs b; it is deleted and created again and again
//	bootstrap  needs a once
//	limited    needs c on the steady nodes, of which it may taint two; steady nodes are not replaced
type fleet struct {
	*cluster.Env
	nodes  []*node
	serial int
	random *rand.Rand
}

// node is what the test knows of a node.
type node struct {
	name    string
	steady  bool
	reports map[string]bool
	// foreign are the taints of other clients, as they were written last.
	foreign []corev1.Taint
}

func newFleet(t *testing.T, c *cluster.Cluster) *fleet {
	t.Helper()
	f := &fleet{Env: cluster.NewEnv(t, c), random: cluster.Random(t)}
	for i := range nodes {
		n := &node{name: fmt.Sprintf("n-%02d", i), steady: i%2 == 0}
		f.nodes = append(f.nodes, n)
		f.join(n)
	}
	f.Must(f.Client.Create(t.Context(), rule(first, condA, shared, noSchedule).Obj()))
	f.Must(f.Client.Create(t.Context(), rule(bootstrap, condA, boot, noExecute).BootstrapOnly().Obj()))
	f.Must(f.Client.Create(t.Context(), rule(withinLimits, condC, limited, noSchedule).Selector(steadyLabel, "true").
		MaxUnavailable(fmt.Sprint(limit)).Obj()))
	f.second()
	return f
}

func rule(name, condition, taint string, effect corev1.TaintEffect) *build.RuleWrapper {
	return build.MakeRule(name).SelectorExpression(steadyLabel, "Exists").Condition(condition).Taint(taint, name, effect)
}

// second creates the rule of that name, unless one is there, which may be about to go.
func (f *fleet) second() {
	err := f.Client.Create(f.T.Context(), rule(second, condB, shared, noSchedule).Obj())
	if !apierrors.IsAlreadyExists(err) {
		f.Must(err)
	}
}

// join creates a node, which has reported nothing. Its kubelet has set the taint of two rules.
func (f *fleet) join(n *node) {
	o := cluster.NodeOptions{Unmanaged: true, Images: -1, Labels: map[string]string{steadyLabel: fmt.Sprint(n.steady)},
		Taints: []corev1.Taint{{Key: shared, Value: "kubelet", Effect: noSchedule}}}
	for range foreignTaints {
		o.Taints = append(o.Taints, f.newTaint())
	}
	created := cluster.NewNode(n.name, o)
	f.Must(f.Client.Create(f.T.Context(), created))
	n.reports, n.foreign = map[string]bool{}, foreignOf(created) // with what admission has added
}

func (f *fleet) newTaint() corev1.Taint {
	f.serial++
	return corev1.Taint{Key: fmt.Sprintf("foreign.example.com/t-%d", f.serial),
		Effect: []corev1.TaintEffect{noSchedule, noExecute, corev1.TaintEffectPreferNoSchedule}[f.serial%3]}
}

// disturb does one thing that the operator must react to or leave alone.
func (f *fleet) disturb() {
	n := f.nodes[f.random.IntN(nodes)]
	switch d := f.random.IntN(100); {
	case d < 50:
		condition := []string{condA, condB, condC}[f.random.IntN(3)]
		f.report(n, condition, f.random.IntN(3) > 0)
		f.writeTaints(n) // while the operator writes them, too
	case d < 90:
		f.writeTaints(n)
	case d < 93 && !n.steady:
		f.Must(f.Client.Delete(f.T.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}))
		f.join(n)
	case d < 96:
		err := f.Client.Delete(f.T.Context(), &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: second}})
		f.Must(client.IgnoreNotFound(err))
	default:
		f.second()
	}
}

func (f *fleet) report(n *node, condition string, ready bool) {
	f.Report(n.name, condition, ready)
	n.reports[condition] = ready
}

func foreignOf(n *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, ours)
	})
}

// keeps ends the test if a node's foreign taints are not those that were written last.
func (f *fleet) keeps(n *node, now *corev1.Node) {
	f.T.Helper()
	if have := foreignOf(now); !equality.Semantic.DeepEqual(have, n.foreign) {
		f.T.Fatalf("node %s has lost foreign taints (-written +found):\n%s", n.name, cmp.Diff(n.foreign, have))
	}
}

func (f *fleet) writeTaints(n *node) {
	if f.random.IntN(3) > 0 {
		f.replaceTaints(n)
	} else {
		f.patchTaints(n)
	}
}

// replaceTaints writes a whole node: a foreign taint goes, and another one takes a random place.
func (f *fleet) replaceTaints(n *node) {
	var want []corev1.Taint
	f.EditNode(n.name, func(now *corev1.Node) {
		f.keeps(n, now)
		goes := n.foreign[f.random.IntN(len(n.foreign))]
		taints := slices.DeleteFunc(now.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&goes) })
		now.Spec.Taints = slices.Insert(taints, f.random.IntN(len(taints)+1), f.newTaint())
		want = foreignOf(now)
	})
	n.foreign = want
}

// patchTaints appends a taint in any case, or changes the value of one if it is still where it was.
func (f *fleet) patchTaints(n *node) {
	now, want := f.Node(n.name), slices.Clone(n.foreign)
	f.keeps(n, now)
	var ops []map[string]any
	if len(want) < foreignTaints+5 && f.random.IntN(2) == 0 {
		want = append(want, f.newTaint())
		ops = append(ops, map[string]any{"op": "add", "path": "/spec/taints/-", "value": want[len(want)-1]})
	} else {
		at := slices.IndexFunc(now.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want[0]) })
		path := fmt.Sprintf("/spec/taints/%d", at)
		ops = append(ops, map[string]any{"op": "test", "path": path, "value": want[0]})
		f.serial++
		want[0].Value = fmt.Sprintf("v-%d", f.serial)
		ops = append(ops, map[string]any{"op": "replace", "path": path, "value": want[0]})
	}
	raw, err := json.Marshal(ops)
	f.Must(err)
	err = f.Client.Patch(f.T.Context(), now, client.RawPatch(types.JSONPatchType, raw))
	if apierrors.IsInvalid(err) { // the operator was first, and the taint is somewhere else in the list now
		return
	}
	f.Must(err)
	n.foreign = want
	f.keeps(n, now)
}

// converges waits until everything is as it must be, and the operator writes nothing more.
func (f *fleet) converges(when string) {
	f.T.Helper()
	before := ""
	f.Eventually(when, func() error {
		f.second()
		wrong, state := f.wrong()
		if len(wrong) > 0 {
			return fmt.Errorf("%s", strings.Join(wrong, "\n"))
		}
		if state != before {
			before = state
			return fmt.Errorf("it is still being written: %s", state)
		}
		return nil
	})
}

// wrong lists what is not as the last reports say. state identifies the versions of all objects.
func (f *fleet) wrong() (wrong []string, state string) {
	list, rules := &corev1.NodeList{}, &v1alpha1.NodeReadinessRuleList{}
	f.Must(f.Client.List(f.T.Context(), list))
	f.Must(f.Client.List(f.T.Context(), rules))
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	uids, counts, tainted := map[string]string{}, map[string]*v1alpha1.NodeCounts{}, 0
	for i := range rules.Items {
		r := &rules.Items[i]
		uids[r.Name], counts[r.Name] = string(r.UID), &v1alpha1.NodeCounts{Matched: nodes}
		state += r.Name + "@" + r.ResourceVersion + " "
		if !r.DeletionTimestamp.IsZero() || !slices.Equal(r.Finalizers, []string{v1alpha1.Served().Finalizer}) {
			complain("rule %s is deleted at %v and has finalizers %v", r.Name, r.DeletionTimestamp, r.Finalizers)
		}
	}
	if len(uids) != 4 || len(list.Items) != nodes {
		return append(wrong, fmt.Sprintf("there are %d rules and %d nodes", len(uids), len(list.Items))), state
	}
	counts[withinLimits].Matched = nodes / 2
	for i := range list.Items {
		now := &list.Items[i]
		state += now.Name + "@" + now.ResourceVersion + " "
		n := f.nodes[slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == now.Name })]
		f.keeps(n, now)
		for key := range now.Annotations {
			uid := strings.TrimPrefix(key, v1alpha1.RecordAnnotationPrefix)
			uid = strings.TrimPrefix(uid, v1alpha1.Served().MarkerPrefix)
			if uid != key && !slices.Contains([]string{uids[first], uids[second], uids[bootstrap], uids[withinLimits]}, uid) {
				complain("node %s has the annotation %s of a rule that is gone", n.name, key)
			}
		}
		a, b, c := n.reports[condA], n.reports[condB], n.reports[condC]
		_, completed := now.Annotations[v1alpha1.Served().MarkerPrefix+uids[bootstrap]]
		has := func(key string) bool { return cluster.HasTaint(now, key) }
		if has(shared) != (!a || !b) || has(boot) == completed || a && !completed || has(limited) && (c || !n.steady) {
			complain("node %s reports %v, completed: %t, taints %v", n.name, n.reports, completed, now.Spec.Taints)
		}
		count(counts[first], a, true)
		count(counts[second], b, true)
		count(counts[bootstrap], completed, true)
		if n.steady {
			count(counts[withinLimits], c, has(limited))
		}
		if has(limited) {
			tainted++
		}
	}
	if failed := nodes/2 - int(counts[withinLimits].Ready); tainted != min(limit, failed) {
		complain("%d of %d nodes that are not ready are tainted within the limit", tainted, failed)
	}
	for i := range rules.Items {
		rule := &rules.Items[i]
		st, want := &rule.Status, counts[rule.Name]
		if st.ObservedGeneration != rule.Generation || st.Nodes == nil || *st.Nodes != *want {
			complain("rule %s: its status counts %+v, want %+v", rule.Name, st.Nodes, want)
		}
	}
	return wrong, state
}

// count counts a node for the status of a rule.
func count(n *v1alpha1.NodeCounts, ready, held bool) {
	switch {
	case ready:
		n.Ready++
	case held:
		n.Held++
	default:
		n.Exempt++
	}
}

// watchLimit sees every version of every steady node. It returns what ends the watch, and returns an error if the
// limit was exceeded.
func (f *fleet) watchLimit() (stop func() error) {
	f.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tainted := map[string]bool{}
	ended, err := f.Watch(ctx, &corev1.NodeList{}, func(e watch.Event) error {
		if n, ok := e.Object.(*corev1.Node); ok {
			tainted[n.Name] = cluster.HasTaint(n, limited)
		}
		held := 0
		for _, is := range tainted {
			if is {
				held++
			}
		}
		if held > limit {
			return fmt.Errorf("the limit is %d, and these nodes are tainted: %v", limit, tainted)
		}
		return nil
	}, client.MatchingLabels{steadyLabel: "true"})
	if err != nil {
		cancel()
		f.T.Fatal(err)
	}
	return func() error { cancel(); return <-ended }
}
