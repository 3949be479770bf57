// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// TestWhichNodesAreHandedOver: those that run only pods that are part of them, and whose evidence is still missing.
func TestWhichNodesAreHandedOver(t *testing.T) {
	const soon = replaceInterval
	karpenter := func(name, uid string) func(*build.NodeWrapper) {
		return owned("karpenter.sh/v1", "NodeClaim", name, uid)
	}
	other := nodeClaim("n1", "nodeName", "n1")
	other.SetDeletionTimestamp(new(metav1.NewTime(noon)))
	other.SetFinalizers([]string{"example.com/tests"})
	for name, c := range map[string]struct {
		claims  bool // by the NodeClaim
		rule    func(*build.RuleWrapper)
		node    func(*build.NodeWrapper)
		objects []client.Object
		pool    func(*pool)
		kept    bool          // not handed over
		next    time.Duration // 0: after 30 seconds; or -1: not by time
		problem string
	}{
		"a node that runs no pod": {},
		"a pod of a DaemonSet":    {objects: []client.Object{pod("n1", "kube-system", "DaemonSet").Obj()}},
		"a pod of a Deployment": {
			objects: []client.Object{pod("n1", "default", "ReplicaSet").Obj()}, kept: true},
		"a pod of a Deployment in kube-system": {
			objects: []client.Object{pod("n1", "kube-system", "ReplicaSet").Obj()}, kept: true},
		"a pod that nothing owns, in kube-public": {
			objects: []client.Object{pod("n1", "kube-public", "").Obj()}, kept: true},
		"a static pod": {objects: []client.Object{
			pod("n1", "kube-system", "").Annotation(corev1.MirrorPodAnnotationKey, "x").Obj()}},
		"a pod of a Job that has ended": {
			objects: []client.Object{pod("n1", "default", "Job").Phase(corev1.PodSucceeded).Obj()}},
		"a pod on another node":     {objects: []client.Object{pod("n2", "default", "Job").Obj()}},
		"the evidence holds by now": {pool: func(p *pool) { p.holds = true }, kept: true},
		"the node was written since it was read": {pool: func(p *pool) {
			p.stale = func(n *build.NodeWrapper) { n.ResourceVersion = "1" }
		}, kept: true},
		"another node of the same name": {pool: func(p *pool) {
			p.stale = func(n *build.NodeWrapper) { n.UID("former") }
		}, kept: true},
		"a node that is gone":                 {pool: func(p *pool) { p.Fleet.Forget("n1", noon) }, kept: true, next: -1},
		"the state of the nodes is not known": {pool: func(p *pool) { p.unknown = true }, kept: true, next: -1},
		"a node that has no room for an annotation": {node: func(n *build.NodeWrapper) {
			n.Annotation("example.com/large", strings.Repeat("x", 256<<10-200))
		}, kept: true, problem: "its annotations are full"},
		"a CRD of an older release": {pool: func(p *pool) { p.old = true }, kept: true,
			problem: "update the CustomResourceDefinition"},
		"a rule that no longer replaces nodes": {rule: func(r *build.RuleWrapper) { r.Spec.Timeout = nil }, kept: true,
			next: -1},
		"not timed out": {node: func(n *build.NodeWrapper) {
			n.Annotation(v1alpha1.RecordAnnotationPrefix+"u", `{"taint":"example.com/network=pending:NoSchedule",`+
				`"since":"2026-01-02T11:59:00Z"}`)
		}, kept: true},
		"rebooted after its timeout": {rule: func(r *build.RuleWrapper) { r.RearmOnReboot() },
			node: func(n *build.NodeWrapper) {
				n.BootID("b2").Annotation(v1alpha1.RecordAnnotationPrefix+"u", `{"since":"2026-01-02T11:49:50Z",`+
					`"taint":"example.com/network=pending:NoSchedule","timedOut":"2026-01-02T11:59:50Z","bootID":"b1"}`)
			}, kept: true},
		"in maintenance": {node: func(n *build.NodeWrapper) { n.Annotation(v1alpha1.MaintenanceAnnotation, "disk") },
			kept: true},
		"of the control plane": {node: func(n *build.NodeWrapper) { n.Label("node-role.kubernetes.io/control-plane", "") },
			kept: true},
		"marked already":               {node: func(n *build.NodeWrapper) { n.Annotation(mark, "true") }, kept: true},
		"marked otherwise":             {node: func(n *build.NodeWrapper) { n.Annotation(mark, "false") }},
		"a rule in dry-run":            {rule: func(r *build.RuleWrapper) { r.DryRun(true) }, kept: true},
		"a suspended rule":             {rule: func(r *build.RuleWrapper) { r.Suspend(true) }, kept: true, next: -1},
		"without a NodeClaim":          {claims: true, kept: true, problem: "0 NodeClaims are about node \"n1\""},
		"of a NodeClaim that names it": {claims: true, objects: []client.Object{nodeClaim("n1", "nodeName", "n1")}},
		"of a NodeClaim that names its machine": {claims: true,
			objects: []client.Object{nodeClaim("n1", "providerID", "machine-n1")}},
		"of a NodeClaim that names its machine, and another node": {claims: true,
			objects: []client.Object{nodeClaim("n1", "nodeName", "n2", "providerID", "machine-n1")}, kept: true,
			problem: "0 NodeClaims"},
		"without a machine, and a NodeClaim that has none either": {claims: true,
			node:    func(n *build.NodeWrapper) { n.Spec.ProviderID = "" },
			objects: []client.Object{nodeClaim("n1")}, kept: true, problem: "0 NodeClaims"},
		"two NodeClaims name it": {claims: true, objects: []client.Object{nodeClaim("n1", "nodeName", "n1"),
			nodeClaim("n2", "nodeName", "n1")}, kept: true, problem: "2 NodeClaims"},
		"owned by its NodeClaim": {claims: true, node: karpenter("n1", "uid-n1"),
			objects: []client.Object{nodeClaim("n1", "nodeName", "n1"), nodeClaim("n2", "nodeName", "n1")}},
		"owned by a former NodeClaim": {claims: true, node: karpenter("n1", "former"),
			objects: []client.Object{nodeClaim("n1", "nodeName", "n1")}, kept: true, problem: "which is not about this node"},
		"owned by the NodeClaim of another node": {claims: true, node: karpenter("n1", "uid-n1"),
			objects: []client.Object{nodeClaim("n1", "nodeName", "n2")}, kept: true, problem: "which is not about this node"},
		"owned by a NodeClaim of another group": {claims: true, node: owned("example.com/v1", "NodeClaim", "n2", "uid-n2"),
			objects: []client.Object{nodeClaim("n1", "nodeName", "n1"), nodeClaim("n2", "nodeName", "n2")}},
		"owned by another kind of Karpenter's": {claims: true, node: owned("karpenter.sh/v1", "NodePool", "n2", "uid-n2"),
			objects: []client.Object{nodeClaim("n1", "nodeName", "n1"), nodeClaim("n2", "nodeName", "n2")}},
		"of a NodeClaim that names another machine": {claims: true,
			objects: []client.Object{nodeClaim("n1", "providerID", "machine-n2")}, kept: true, problem: "0 NodeClaims"},
		"a NodeClaim that the operator may not delete": {claims: true,
			objects: []client.Object{nodeClaim("n1", "nodeName", "n1")}, pool: func(p *pool) {
				p.answer = apierrors.NewForbidden(schema.GroupResource{Resource: "nodeclaims"}, "n1", errors.New("x"))
			}, kept: true, problem: "nodeClaims.enabled"},
		"a NodeClaim that is being deleted": {claims: true, objects: []client.Object{other}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, n := replacing(map[bool]string{false: mark}[c.claims]), expired("n1")
			if c.rule != nil {
				c.rule(r)
			}
			if c.node != nil {
				c.node(n)
			}
			p := newPool(t, r, append(c.objects, n.Obj())...)
			if c.pool != nil {
				c.pool(p)
			}
			before := p.handed()
			want := map[bool]string{false: "n1"}[c.kept]
			if c.next == 0 {
				c.next = soon
			}
			next, handed, problem := p.next(0), p.handed(), p.Problem(p.rule)
			if next != max(c.next, 0) || handed != want && (!c.kept || handed != before) || p.counted() != want {
				t.Errorf("handed over are %q, counted are %q, want %q; the next search is in %s, want %s", handed, p.counted(),
					want, next, max(c.next, 0))
			}
			how := map[bool]string{true: "deleted its NodeClaim n1", false: "set the annotation"}[c.claims]
			if event := p.told(); (event == "") != c.kept || !c.kept && !strings.Contains(event, how) {
				t.Errorf("the event is %q", event)
			}
			if (problem != "") != (c.problem != "") || !strings.Contains(problem, c.problem) {
				t.Errorf("the problem is %q, want %q", problem, c.problem)
			}
		})
	}
}

// TestSearches: one node in 30 seconds, and within the limits.
func TestSearches(t *testing.T) {
	type search struct {
		at, next time.Duration
		handed   string
	}
	perHour := func(n int32) *build.RuleWrapper { return replacing(mark).Replace(600, n, mark) }
	former := func(minutes ...int) *build.RuleWrapper {
		r := replacing(mark)
		r.Status.Replacements = &v1alpha1.ReplacementStatus{}
		for _, m := range minutes {
			r.Status.Replacements.Last = append(r.Status.Replacements.Last, v1alpha1.Replacement{NodeName: "n0",
				NodeUID: "n0", Generation: 1, HandoverTime: metav1.NewTime(noon.Add(time.Duration(m) * time.Minute))})
		}
		return r
	}
	for name, c := range map[string]struct {
		rule     *build.RuleWrapper
		searches []search
	}{
		"one after the other": {perHour(20), []search{{0, replaceInterval, "n1"}, {time.Second, 29 * time.Second, "n1"},
			{30 * time.Second, replaceInterval, "n1 n2"}, {time.Minute, replaceInterval, "n1 n2 n3"}}},
		"three in a row": {perHour(20), []search{{0, replaceInterval, "n1"}, {30 * time.Second, replaceInterval, "n1 n2"},
			{time.Minute, replaceInterval, "n1 n2 n3"}, {2 * time.Minute, replaceInterval, "n1 n2 n3"},
			{9 * time.Hour, replaceInterval, "n1 n2 n3"}}},
		"one in an hour": {perHour(1), []search{{0, replaceInterval, "n1"}, {time.Minute, 59 * time.Minute, "n1"},
			{time.Hour - time.Second, time.Second, "n1"}, {time.Hour, replaceInterval, "n1 n2"}}},
		"one in an hour, and three in a row": {former(-9, -8, -7), []search{{0, replaceInterval, ""}}},
		"a clock that goes back": {perHour(20), []search{{0, replaceInterval, "n1"},
			{-time.Second, replaceInterval, "n1 n2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, c.rule, expired("n1").Obj(), expired("n2").Obj(), expired("n3").Obj(), expired("n4").Obj())
			for _, s := range c.searches {
				if next, handed := p.next(s.at), p.handed(); next != s.next || handed != s.handed {
					t.Fatalf("after %s: %q, and again after %s; want %q, %s", s.at, handed, next, s.handed, s.next)
				}
			}
		})
	}
}

// TestANodeThatIsNotHandedOver counts if it may have been handed over. It counts once, however often that is tried.
func TestANodeThatIsNotHandedOver(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, c := range map[string]struct {
		answer  error
		next    time.Duration
		counted string
		problem bool
	}{
		"forbidden":         {apierrors.NewForbidden(nodes, "n1", errors.New("x")), replaceInterval, "", true},
		"invalid":           {apierrors.NewBadRequest("x"), replaceInterval, "", true},
		"written meanwhile": {apierrors.NewConflict(nodes, "n1", errors.New("x")), replaceInterval, "", false},
		"no answer in time": {apierrors.NewTimeoutError("x", 1), replaceInterval, "n1", true},
		"a request that takes too long": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 408}}, replaceInterval,
			"n1", true},
		"a broken server":     {apierrors.NewInternalError(errors.New("x")), replaceInterval, "n1", true},
		"a broken connection": {errors.New("connection reset by peer"), replaceInterval, "n1", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, replacing(mark), expired("n1").Obj())
			p.answer = c.answer
			if next := p.next(0); next != c.next || p.counted() != c.counted || (p.Problem(p.rule) != "") != c.problem {
				t.Errorf("counted are %q, want %q; the next search is in %s, want %s; the problem is %q", p.counted(),
					c.counted, next, c.next, p.Problem(p.rule))
			}
			if next := p.next(time.Second); next != c.next-time.Second {
				t.Errorf("a second later, the next search is in %s", next)
			}
			p.answer = nil
			if p.next(time.Minute); p.handed() != "n1" || p.counted() != "n1" || p.Problem(p.rule) != "" {
				t.Errorf("then %q are handed over, and %q counted: %s", p.handed(), p.counted(), p.Problem(p.rule))
			}
		})
	}
}

// TestMarkingANodeAgainCounts: a remediator has removed the annotation.
func TestMarkingANodeAgainCounts(t *testing.T) {
	p := newPool(t, replacing(mark).Replace(600, 2, mark), expired("n1").Obj())
	for i, want := range []string{"n1", "n1 n1", "n1 n1"} {
		p.next(time.Duration(i) * time.Minute)
		n := p.nodes()[0]
		if got := p.counted(); got != want || (n.Annotations[mark] == "") != (i == 2) {
			t.Fatalf("handed over %d times: %q are counted, want %q", i+1, got, want)
		}
		delete(n.Annotations, mark)
		if err := p.Live.Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASearchGoesOnWhereTheLastOneEnded: it reads five nodes, of which none may be one that can be handed over.
func TestASearchGoesOnWhereTheLastOneEnded(t *testing.T) {
	var objects []client.Object
	for i := 1; i <= 10; i++ {
		name := fmt.Sprintf("n%02d", i)
		if objects = append(objects, expired(name).Obj()); i < 10 {
			objects = append(objects, pod(name, "default", "Job").Obj())
		}
	}
	p := newPool(t, replacing(mark), objects...)
	for i, want := range []string{"", "n10"} {
		if p.next(time.Duration(i) * time.Minute); p.handed() != want {
			t.Errorf("search %d: %q are handed over, want %q", i+1, p.handed(), want)
		}
	}
}

// TestOneProblemIsReported as long as it lasts, also if other nodes have it.
func TestOneProblemIsReported(t *testing.T) {
	var objects []client.Object
	for i := range 9 {
		objects = append(objects, expired(fmt.Sprintf("n%d", i+1)).Obj())
	}
	p := newPool(t, replacing(""), objects...)
	for i := range 3 {
		if p.next(time.Duration(i) * time.Minute); !strings.Contains(p.Problem(p.rule), `"n1"`) {
			t.Errorf("search %d reports %q", i+1, p.Problem(p.rule))
		}
	}
	for _, o := range objects {
		p.Fleet.Forget(o.GetName(), noon)
	}
	if p.next(time.Hour); p.Problem(p.rule) != "" {
		t.Errorf("all nodes are gone, and it reports %q", p.Problem(p.rule))
	}
}

// TestTheStatusListsTwentyNodes: the API server would refuse more.
func TestTheStatusListsTwentyNodes(t *testing.T) {
	r := replacing(mark)
	r.Status.Replacements = &v1alpha1.ReplacementStatus{Last: make([]v1alpha1.Replacement, 20)}
	p := newPool(t, r, expired("n1").Obj())
	p.next(0)
	if last := p.rule.Status.Replacements.Last; len(last) != 20 || last[19].NodeName != "n1" {
		t.Errorf("%d nodes: %v", len(last), last)
	}
}
