// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	mark     = "example.com/replace"
	taintKey = "example.com/network"
	ofNode   = "spec.nodeName"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type deaf struct{}

func (deaf) RuleChanged(string) {}
func (deaf) Enqueue([]string)   {}

// pool is the nodes of a rule that replaces those that do not become ready in time.
type pool struct {
	*Handover
	t        *testing.T
	clock    *clocktesting.FakePassiveClock
	rule     *v1alpha1.NodeReadinessRule
	compiled *ruleset.Rule
	events   *events.FakeRecorder
	// stale changes what the cache has of a node. answer is that of the API server to what hands a node over.
	stale  func(*build.NodeWrapper)
	answer error
	// holds: the evidence holds by now. unknown: the state of the nodes is not known. old: the CRD has no replacements.
	holds, unknown, old bool
}

// replacing is a rule that marks nodes, or without a key deletes their NodeClaims.
func replacing(key string) *build.RuleWrapper {
	return build.MakeRule("r").UID("u").Generation(1).Created(noon.Add(-24*time.Hour)).Selector("pool", "a").
		Condition("example.com/Network").Taint(taintKey, "pending", corev1.TaintEffectNoSchedule).Replace(600, 1, key)
}

// expired is a node that was not ready in time.
func expired(name string) *build.NodeWrapper {
	record := nodeview.Record{Taint: taintKey + "=pending:NoSchedule",
		Since:    metav1.NewTime(noon.Add(-610 * time.Second)),
		TimedOut: metav1.NewTime(noon.Add(-10 * time.Second))}
	n := build.MakeNode(name).UID("uid-"+name).Label("pool", "a").Created(noon.Add(-620*time.Second)).
		Taint(taintKey, "pending", corev1.TaintEffectNoSchedule).
		Annotation(v1alpha1.RecordAnnotationPrefix+"u", record.Encode())
	n.Spec.ProviderID = "machine-" + name
	return n
}

// nodeClaim is a NodeClaim that has these fields in its status: name, value, and so on.
func nodeClaim(name string, status ...string) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{}}
	c.SetGroupVersionKind(nodeClaims)
	c.SetName(name)
	c.SetUID(types.UID("uid-" + name))
	for i := 0; i < len(status); i += 2 {
		_ = unstructured.SetNestedField(c.Object, status[i+1], "status", status[i])
	}
	return c
}

// owned makes a node one that names an owner.
func owned(apiVersion, kind, name, uid string) func(*build.NodeWrapper) {
	return func(n *build.NodeWrapper) {
		n.OwnerReferences = append(n.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name,
			UID: types.UID(uid)})
	}
}

func newPool(t *testing.T, r *build.RuleWrapper, objects ...client.Object) *pool {
	t.Helper()
	p := &pool{t: t, clock: clocktesting.NewFakePassiveClock(noon), rule: r.Obj(),
		events: events.NewFakeRecorder(100)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.AddKnownTypeWithName(nodeClaims, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(nodeClaims.GroupVersion().WithKind("NodeClaimList"), &unstructured.UnstructuredList{})
	live := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(p.rule).WithObjects(p.rule).
		WithObjects(objects...).WithIndex(&corev1.Pod{}, ofNode, func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName} //nolint:errcheck // the index is of pods
	}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if p.answer != nil {
				return p.answer
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if p.answer != nil {
				return p.answer
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			if r, ok := o.(*v1alpha1.NodeReadinessRule); ok && p.old {
				r.Status.Replacements = nil
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}).Build()
	cached := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if n, ok := o.(*corev1.Node); ok && err == nil && p.stale != nil {
				changed := build.WrapNode(n)
				p.stale(changed)
				changed.Obj().DeepCopyInto(n)
			}
			return err
		},
	})
	p.Handover = &Handover{Client: cached, Live: live, Fleet: fleet.New(deaf{}, p.clock.Now),
		Expired:  func(context.Context, *corev1.Node, *ruleset.Rule) bool { return !p.holds },
		Recorder: p.events, Clock: p.clock}
	p.read()
	p.compiled = ruleset.Compile(p.rule, nil, noon)
	p.Fleet.SetRules(ruleset.NewSet(p.compiled), nil, noon)
	p.wait()
	return p
}

// read reads the rule.
func (p *pool) read() {
	p.t.Helper()
	if err := p.Live.Get(p.t.Context(), client.ObjectKeyFromObject(p.rule), p.rule); err != nil {
		p.t.Fatal(err)
	}
}

// nodes are all nodes.
func (p *pool) nodes() []corev1.Node {
	p.t.Helper()
	list := &corev1.NodeList{}
	if err := p.Live.List(p.t.Context(), list); err != nil {
		p.t.Fatal(err)
	}
	return list.Items
}

// wait makes all nodes wait for their replacement.
func (p *pool) wait() {
	p.t.Helper()
	for _, n := range p.nodes() {
		s := nodeview.StateOf(p.compiled, &n, p.clock.Now())
		p.Fleet.Record(&n, []fleet.Entry{{Rule: p.compiled, Current: &s, Expired: true}}, p.clock.Now())
	}
}

// next is one search, so long after noon. It returns after what time to search again.
func (p *pool) next(at time.Duration) time.Duration {
	p.t.Helper()
	p.clock.SetTime(noon.Add(at))
	p.read()
	return p.Next(p.t.Context(), p.rule, p.compiled, !p.unknown)
}

// handed are the nodes that are marked, and those whose NodeClaim is gone. Each NodeClaim has the name of its node.
func (p *pool) handed() string {
	p.t.Helper()
	claims := &unstructured.UnstructuredList{}
	claims.SetGroupVersionKind(schema.GroupVersionKind{Group: nodeClaims.Group, Version: nodeClaims.Version,
		Kind: "NodeClaimList"})
	if err := p.Live.List(p.t.Context(), claims); err != nil {
		p.t.Fatal(err)
	}
	left := map[string]bool{}
	for i := range claims.Items {
		left[claims.Items[i].GetName()] = true
	}
	var names []string
	byClaim := p.rule.Spec.Timeout.Replaces() && p.rule.Spec.Timeout.Replace.Annotation == nil
	for _, n := range p.nodes() {
		if n.Annotations[mark] != "" || byClaim && !left[n.Name] {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, " ")
}

// told is the last event, or "" if there is none.
func (p *pool) told() string {
	select {
	case e := <-p.events.Events:
		return e
	default:
		return ""
	}
}

// counted are the names of the nodes that the rule's status counts.
func (p *pool) counted() string {
	p.read()
	var names []string
	if s := p.rule.Status.Replacements; s != nil {
		for i := range s.Last {
			names = append(names, s.Last[i].NodeName)
		}
	}
	return strings.Join(names, " ")
}

// pod is a pod that runs on a node.
func pod(node, namespace, owner string) *build.PodWrapper {
	p := build.MakePod(namespace, "of-"+node).Node(node).Phase(corev1.PodRunning)
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "o", UID: "o",
			Controller: new(true)}}
	}
	return p
}
