// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// bytesPerPod is what a pod of a DaemonSet may cost.
const bytesPerPod = 200

// The fleet is one of 15,000 nodes with 20 agents each.
func TestAPodOfADaemonSetCostsFewBytes(t *testing.T) {
	const nodes, agents = 1500, 20
	var nodesChanged int
	s := &PodStore{failures: failures{changed: func() {}}, nodesChanged: func(...any) { nodesChanged++ },
		byNode: map[string][]evidence.DaemonPod{}}
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var templates []*corev1.Pod
	for a := range agents {
		templates = append(templates, build.MakeDaemonSet("kube-system", fmt.Sprintf("agent-%02d", a)).Pod("", born).Obj())
	}
	pod := func(n, a int) *corev1.Pod { // the store keeps nothing of it but copies
		p := templates[a]
		p.Spec.NodeName = fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", n>>16, n>>8&255, n&255)
		p.Name = fmt.Sprintf("agent-of-some-kind-%02d-x%04x", a, n)
		return p
	}
	for name, fill := range map[string]func() error{
		"by a list": func() error {
			list := make([]any, 0, nodes*agents)
			for n := range nodes {
				for a := range agents {
					slim, err := s.Transformer()(pod(n, a))
					if err != nil {
						return err
					}
					list = append(list, slim)
				}
			}
			return s.Replace(list, "1")
		},
		"one after another": func() error {
			for a := range agents {
				for n := range nodes {
					if err := s.Add(pod(n, a)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	} {
		s.byNode = map[string][]evidence.DaemonPod{}
		before := heap()
		if err := fill(); err != nil {
			t.Fatal(err)
		}
		per := (heap() - before) / (nodes * agents)
		t.Logf("%s: %d bytes a pod", name, per)
		if per > bytesPerPod {
			t.Errorf("%s: a pod costs %d bytes, want at most %d", name, per, bytesPerPod)
		}
		if len(s.byNode) != nodes || nodesChanged < nodes {
			t.Errorf("%s: %d nodes, %d told", name, len(s.byNode), nodesChanged)
		}
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestTheStoreOfPodsTellsOfWhatItKeeps(t *testing.T) {
	var told []string
	s := &PodStore{failures: failures{changed: func() {}}, byNode: map[string][]evidence.DaemonPod{},
		nodesChanged: func(objects ...any) { told = append(told, NodesOf(objects[0])...) }}
	agent, born := build.MakeDaemonSet("kube-system", "agent"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := agent.Pod("a", born).Obj(), agent.Pod("b", born).Obj()
	foreign := build.MakePod("kube-system", "foreign").Node("a").Obj()
	relabelled := a.DeepCopy()
	relabelled.Labels = map[string]string{"x": "y"}
	unready := build.WrapPod(a).Unready().Obj()
	for _, step := range []struct {
		name string
		do   func() error
		told []string
		keep string // the nodes that have a pod
	}{
		{"a list", func() error { return s.Replace([]any{a, foreign}, "1") }, []string{"a"}, "a"},
		{"the same list", func() error { return s.Replace([]any{a, foreign}, "2") }, nil, "a"},
		{"one more", func() error { return s.Add(b) }, []string{"b"}, "a b"},
		{"a label", func() error { return s.Update(relabelled) }, nil, "a b"},
		{"a readiness", func() error { return s.Update(unready) }, []string{"a"}, "a b"},
		{"a pod of no owner", func() error { return s.Update(foreign) }, nil, "a b"},
		{"a deletion", func() error { return s.Delete(b) }, []string{"b"}, "a"},
		{"a deletion again", func() error { return s.Delete(b) }, nil, "a"},
		{"a list with another readiness", func() error { return s.Replace([]any{a}, "3") }, []string{"a"}, "a"},
		{"a list without it", func() error { return s.Replace(nil, "4") }, []string{"a"}, ""},
	} {
		told = nil
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var kept []string
		for _, node := range []string{"a", "b"} {
			if len(s.ByNode(node)) > 0 {
				kept = append(kept, node)
			}
		}
		if !slices.Equal(told, step.told) || strings.Join(kept, " ") != step.keep {
			t.Errorf("after %s: told of %v, kept %v", step.name, told, kept)
		}
	}
}

func TestGathersDaemonSetsAndTheirPods(t *testing.T) {
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	agent := build.MakeDaemonSet("kube-system", "agent")
	objects := []apiruntime.Object{agent.Obj(), agent.Pod("n", born).Obj(), build.MakeDaemonSet("default", "other").Obj(),
		build.MakePod("kube-system", "foreign").Node("n").Obj()}
	rule := compiled(daemonSetsOf("kube-system"))
	set := ruleset.NewSet(rule)
	check := func(t *testing.T, from interface {
		Gather(*ruleset.Set, string, *evidence.Gathered)
		DaemonSets(string) []*evidence.DaemonSet
	}) {
		t.Helper()
		e, sets := &evidence.Gathered{}, from.DaemonSets("kube-system")
		from.Gather(set, "n", e)
		if pods := e.DaemonPods["kube-system"]; len(pods) != 1 || pods[0].Name != "agent-n" || len(sets) != 1 ||
			sets[0].Name != "agent" {
			t.Errorf("pods %v, DaemonSets %v", pods, sets)
		}
	}
	t.Run("read once", func(t *testing.T) { check(t, Read(t.Context(), newAPI(objects...), set)) })
	t.Run("from a file", func(t *testing.T) {
		check(t, Of(objects, set))
		if why := Of(objects[:1], set).Unread(&rule.Requirements[0]); why != "the file has no Pods" {
			t.Error(why)
		}
	})
	t.Run("watched", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := &heard{}
			api := newAPI(objects...)
			s := New(ClientInformers{Clients: api}, h)
			s.SetRules(t.Context(), set)
			if h.settled(); s.Unavailable(rule) != nil {
				t.Error(s.Unavailable(rule))
			}
			check(t, s)
			labelled, sets := agent.Obj(), api.AppsV1().DaemonSets("kube-system")
			labelled.Labels, labelled.ResourceVersion = map[string]string{"a": "b"}, "2"
			_, err := sets.Update(t.Context(), labelled, metav1.UpdateOptions{})
			if told := h.settled(); err != nil || told == 0 {
				t.Errorf("a label: told %d times, %v", told, err)
			}
			err = sets.Delete(t.Context(), labelled.Name, metav1.DeleteOptions{})
			if told := h.settled(); err != nil || told == 0 {
				t.Errorf("a deletion: told %d times, %v", told, err)
			}
			if s.StopUnused(ruleset.NewSet()); len(s.running) != 0 {
				t.Error("watches go on that no rule needs")
			}
		})
	})
}

func TestRemembersSinceWhenADaemonSetHasNoPod(t *testing.T) {
	s := New(nil, &heard{})
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pass := func(at time.Time, asks ...types.UID) (since []time.Time) {
		absent := s.AbsentSince("n")
		for _, uid := range asks {
			since = append(since, absent(uid, at))
		}
		return since
	}
	pass(noon, "a")
	got := pass(noon.Add(time.Minute), "a", "b")
	if !got[0].Equal(noon) || !got[1].Equal(noon.Add(time.Minute)) {
		t.Error(got)
	}
	pass(noon.Add(2*time.Minute), "b")
	got = pass(noon.Add(3*time.Minute), "a", "b")
	if !got[0].Equal(noon.Add(3*time.Minute)) || !got[1].Equal(noon.Add(time.Minute)) {
		t.Error("one that was there in between", got)
	}
	pass(noon.Add(210 * time.Second))
	if got = pass(noon.Add(220*time.Second), "b"); !got[0].Equal(noon.Add(220 * time.Second)) {
		t.Error("all were there in between", got)
	}
	s.Forget("n")
	if got = pass(noon.Add(4*time.Minute), "b"); !got[0].Equal(noon.Add(4 * time.Minute)) {
		t.Error("of a node that was gone", got)
	}
	s.devices["n"] = map[pool]int64{{}: 1}
	if s.StopUnused(ruleset.NewSet()); len(s.absent)+len(s.devices) != 0 {
		t.Error("what no rule asks for is kept")
	}
	pass(noon)
	if len(s.absent) != 0 {
		t.Error("nodes that miss nothing are kept")
	}
}
