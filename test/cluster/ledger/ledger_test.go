// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/cluster"
)

const cni corev1.NodeConditionType = "example.com/CNIReady"

var gate = corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: corev1.TaintEffectNoSchedule}

// nodeAt is a node's version; an empty status means that the condition is not reported.
func nodeAt(name string, rv int, status corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(rv)}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if status != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: cni, Status: status})
	}
	n.Spec.Taints = taints
	return n
}

func podAt(name string, rv int, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(rv)}}
	p.Spec.NodeName = node
	return p
}

func TestPodsThatAreBoundTooEarlyAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		bound int // the resource version of the binding to n
		want  string
	}{
		"a pod bound after the condition became True": {
			nodes: []*corev1.Node{nodeAt("n", 10, "", gate), nodeAt("n", 20, "False", gate), nodeAt("n", 30, "True", gate),
				nodeAt("n", 40, "True")},
			bound: 41,
		},
		"a pod bound right after the condition became True, the taint still there": {
			nodes: []*corev1.Node{nodeAt("n", 10, "", gate), nodeAt("n", 30, "True", gate)},
			bound: 31,
		},
		"a pod bound right before the condition became True": {
			nodes: []*corev1.Node{nodeAt("n", 10, "", gate), nodeAt("n", 20, "False", gate), nodeAt("n", 30, "True", gate)},
			bound: 29,
			want:  "whose condition had never been True",
		},
		"a pod bound while the condition was False and nothing tainted the node": {
			nodes: []*corev1.Node{nodeAt("n", 10, "False")},
			bound: 11,
			want:  "whose condition had never been True",
		},
		"a pod bound before a reporter reported anything": {
			nodes: []*corev1.Node{nodeAt("n", 10, "")},
			bound: 11,
			want:  "whose condition had never been True",
		},
		"a pod bound while the node was held again": {
			nodes: []*corev1.Node{nodeAt("n", 10, "True"), nodeAt("n", 20, "False"), nodeAt("n", 30, "False", gate)},
			bound: 31,
			want:  "which was held by its taint",
		},
		"a pod bound after the condition was lost, before the operator could act": {
			nodes: []*corev1.Node{nodeAt("n", 10, "True"), nodeAt("n", 20, "False"), nodeAt("n", 30, "False", gate)},
			bound: 21,
		},
		"a pod bound to a node before it existed": {
			nodes: []*corev1.Node{nodeAt("n", 10, "True")},
			bound: 9,
			want:  "which did not exist yet",
		},
		"a pod bound to an unknown node": {
			bound: 9,
			want:  "which is unknown",
		},
		"a taint of the same key and another effect holds nothing": {
			nodes: []*corev1.Node{nodeAt("n", 10, "True"),
				nodeAt("n", 20, "False", corev1.Taint{Key: gate.Key, Effect: corev1.TaintEffectPreferNoSchedule})},
			bound: 21,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range []string{"the pod's watch is first", "the nodes' watch is first"} {
				l := &Ledger{Condition: cni, Taint: gate}
				pod := func() {
					cluster.Must(t, l.Pod(podAt("p", test.bound-1, "")))
					cluster.Must(t, l.Pod(podAt("p", test.bound, "n")))
					cluster.Must(t, l.Pod(podAt("p", test.bound+50, "n"))) // it runs
				}
				if order == "the pod's watch is first" {
					pod()
				}
				for _, n := range test.nodes {
					cluster.Must(t, l.Node(n))
				}
				if order != "the pod's watch is first" {
					pod()
				}
				if settled, err := l.Settle("1000", nil); err != nil || !settled {
					t.Fatalf("%s: not settled: %v", order, err)
				}
				got := l.Snapshot().Violations
				switch {
				case test.want == "" && len(got) > 0:
					t.Errorf("%s: %q", order, got)
				case test.want != "" && (len(got) != 1 || !strings.HasSuffix(got[0], test.want)):
					t.Errorf("%s: %q, want one that ends with %q", order, got, test.want)
				}
			}
		})
	}
}

func TestABindingIsNotJudgedByWhatIsOutdated(t *testing.T) {
	l := &Ledger{Condition: cni, Taint: gate}
	cluster.Must(t, l.Node(nodeAt("n", 10, "False", gate)))
	cluster.Must(t, l.Pod(podAt("p", 31, "n"))) // the watch of nodes lags behind
	cluster.Must(t, l.Node(nodeAt("other", 29, "False")))
	if got := l.Snapshot().Violations; len(got) > 0 {
		t.Errorf("judged too early: %q", got)
	}
	newer := []corev1.Node{*nodeAt("n", 30, "True"), *nodeAt("other", 29, "False")}
	if settled, err := l.Settle("40", newer); err != nil || settled {
		t.Errorf("settled without having seen the node's newest version: %v", err)
	}
	cluster.Must(t, l.Node(nodeAt("n", 30, "True")))
	if settled, err := l.Settle("40", newer); err != nil || !settled {
		t.Errorf("not settled: %v", err)
	}
	if got := l.Snapshot().Violations; len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestAViolationIsToldWhileItHappens(t *testing.T) {
	l := &Ledger{Condition: cni, Taint: gate}
	cluster.Must(t, l.Node(nodeAt("n", 10, "", gate)))
	cluster.Must(t, l.Pod(podAt("p", 12, "n")))
	cluster.Must(t, l.Node(nodeAt("other", 13, "")))
	if got := l.Snapshot().Violations; len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestSnapshotCountsWhatThereIs(t *testing.T) {
	l := &Ledger{Condition: cni, Taint: gate}
	cluster.Must(t, l.Node(nodeAt("node-10", 1, "", gate, corev1.Taint{Key: "example.com/x",
		Effect: corev1.TaintEffectNoSchedule})))
	cluster.Must(t, l.Node(nodeAt("node-2", 2, "True")))
	cluster.Must(t, l.Node(nodeAt("gone-1", 3, "True")))
	l.NodeGone("gone-1")
	cluster.Must(t, l.Pod(podAt("a", 4, "")))
	running := podAt("b", 5, "node-2")
	running.Status.Phase = corev1.PodRunning
	cluster.Must(t, l.Pod(running))
	cluster.Must(t, l.Pod(podAt("c", 6, "node-2")))
	cluster.Must(t, l.Pod(podAt("d", 7, "node-2")))
	l.PodGone("d")
	cluster.Must(t, l.Node(nodeAt("node-2", 1, "False", gate))) // a list that is older than what the watch has told

	want := Snapshot{
		Rows: []Row{
			{Name: "node-2", Condition: corev1.ConditionTrue, Pods: 2},
			{Name: "node-10", Taint: gate.ToString(), OtherTaints: 1},
		},
		Pods: 3, Bound: 2, Running: 1,
	}
	got := l.Snapshot()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Held() != 1 || got.Row("node-10") == nil || got.Row("gone-1") != nil {
		t.Errorf("held %d, rows %+v", got.Held(), got.Rows)
	}
}

func TestAResourceVersionThatIsNoNumberIsAnError(t *testing.T) {
	l := &Ledger{Condition: cni, Taint: gate}
	n := nodeAt("n", 1, "")
	n.ResourceVersion = "x"
	if err := l.Node(n); err == nil {
		t.Error("node: no error")
	}
	p := podAt("p", 1, "")
	p.ResourceVersion = ""
	if err := l.Pod(p); err == nil {
		t.Error("pod: no error")
	}
}
