// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

var start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// nodes are the nodes in the cache.
type nodes map[string]*corev1.Node

func (n nodes) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	node, ok := n[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	*obj.(*corev1.Node) = *node //nolint:errcheck,forcetypeassert // nothing else is read
	return nil
}

func (n nodes) List(context.Context, client.ObjectList, ...client.ListOption) error {
	panic("the webhook lists nothing")
}

// pods are the pods of the API server: so many guarded ones.
type pods int

func (p pods) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("the operator may not get pods")
}

func (p pods) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	for i := range int(p) {
		pod := guarded(i)
		has := fields.Set{"metadata.name": pod.Name, "spec.nodeName": pod.Spec.NodeName}
		if pod.Namespace == o.Namespace && o.FieldSelector.Matches(has) {
			found := list.(*corev1.PodList) //nolint:errcheck,forcetypeassert // nothing else is listed
			found.Items = append(found.Items, *pod)
		}
	}
	return nil
}

// world is the handler with one node, which is lost, and one rule, which guards it.
type world struct {
	*Handler
	recorder *events.FakeRecorder
	clock    *clocktesting.FakePassiveClock
	synced   bool
}

func newWorld(change ...func(*build.RuleWrapper)) *world {
	rule := build.MakeRule("link").UID("u-link").Created(start.Add(-time.Hour)).Selector("kosmos.io/node",
		"true").Condition("Ready").EvictionGuard(600)
	for _, f := range change {
		f(rule)
	}
	set := ruleset.NewSet(ruleset.Compile(rule.Obj(), nil, start))
	lost := cluster.NewNode("n1", cluster.NodeOptions{Labels: map[string]string{"kosmos.io/node": "true"}, Images: -1})
	lost.UID = "u-n1"
	lost = build.WrapNode(lost).Created(start.Add(-2*time.Hour)).Condition("Ready", "Unknown",
		start).Taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoExecute).Obj()
	w := &world{recorder: events.NewFakeRecorder(1000), clock: clocktesting.NewFakePassiveClock(start.Add(time.Second)),
		synced: true}
	w.Handler = &Handler{
		Nodes: nodes{"n1": lost}, Rules: func() *ruleset.Set { return set }, Synced: func() bool { return w.synced },
		Users:     guard.DefaultUsers(),
		Namespace: "nodegate-system", Reporter: NewReporter(pods(20), w.recorder, w.clock),
		Clock: w.clock,
	}
	return w
}

// reports waits until all denials are reported, and returns the events. Call it in a bubble, once.
func (w *world) reports(t *testing.T) (all []string) {
	t.Helper()
	go func() { _ = w.Reporter.Run(t.Context()) }()
	time.Sleep(time.Hour)
	for len(w.recorder.Events) > 0 {
		all = append(all, <-w.recorder.Events)
	}
	return all
}

func deletion(t testing.TB, pod *corev1.Pod, change ...func(*admissionv1.AdmissionRequest)) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	r := admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name,
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo:  authenticationv1.UserInfo{Username: guard.NodeController},
		OldObject: runtime.RawExtension{Raw: raw},
	}
	for _, f := range change {
		f(&r)
	}
	return admission.Request{AdmissionRequest: r}
}

func guarded(i int) *corev1.Pod {
	return build.MakePod("default", fmt.Sprintf("web-%d", i)).UID(fmt.Sprintf("u-%d", i)).Node("n1").Obj()
}

func by(user string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = user }
}

func TestHandle(t *testing.T) {
	for name, c := range map[string]struct {
		rule    func(*build.RuleWrapper)
		change  func(*admissionv1.AdmissionRequest)
		pod     *corev1.Pod
		users   []string // by default those of the flag
		back    bool     // the node is ready again
		unready bool
		taint   string // NoExecute, of a user
		denied  bool
		warns   string
		events  int
	}{
		"a guarded pod": {denied: true, events: 3},
		"a request that is not to be": {change: func(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) },
			denied: true},
		"a request that says that it is to be": {change: func(r *admissionv1.AdmissionRequest) { r.DryRun = new(false) },
			denied: true, events: 3},
		"another user":               {change: by("jane")},
		"the pod garbage collector":  {change: by("system:serviceaccount:kube-system:pod-garbage-collector")},
		"a user whom the flag names": {users: []string{"jane"}, change: by("jane"), denied: true, events: 3},
		"one whom it does not name":  {users: []string{"jane"}},
		"another operation":          {change: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }},
		"another resource": {change: func(r *admissionv1.AdmissionRequest) {
			r.Resource.Resource = "podtemplates"
		}},
		"a pod of another API group": {change: func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group = "metrics.k8s.io"
		}},
		"a subresource": {change: func(r *admissionv1.AdmissionRequest) { r.SubResource = "eviction" }},
		"no object":     {change: func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = nil }},
		"an object that is none": {change: func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte("{") },
			warns: "cannot be read"},
		"an object of another kind": {change: func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = []byte(`{"spec":[]}`)
		}, warns: "cannot be read"},
		"ten megabytes of annotations": {pod: build.WrapPod(guarded(0)).Annotation("x", strings.Repeat("x", 10<<20)).Obj(),
			denied: true, events: 3},
		"a pod that tolerates the taint of a user": {taint: "dedicated", denied: true, events: 3,
			pod: build.WrapPod(guarded(0)).Tolerate("dedicated", -1).Obj()},
		"a pod that a user evicts":     {taint: "dedicated"},
		"a pod that may go":            {pod: build.WrapPod(guarded(0)).Annotation("nodegate.io/override", "Release").Obj()},
		"a pod that has ended":         {pod: build.WrapPod(guarded(0)).Phase(corev1.PodSucceeded).Obj()},
		"a pod of no node":             {pod: build.MakePod("default", "p").Obj()},
		"a pod of an unknown node":     {pod: build.MakePod("default", "p").Node("n2").Obj()},
		"caches that are not complete": {unready: true},
		"a deletion that began before the node was ready again": {back: true, denied: true, events: 3,
			pod: build.WrapPod(guarded(0)).Condition(corev1.DisruptionTarget, "DeletionByTaintManager", start).Obj()},
		"a rule in dry-run": {rule: func(r *build.RuleWrapper) { r.DryRun(true) }, warns: "link is in dry-run",
			events: 2},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld()
			if c.rule != nil {
				w = newWorld(c.rule)
			}
			if c.back {
				lost := w.Nodes.(nodes)["n1"] //nolint:errcheck,forcetypeassert // newWorld made it
				lost = build.WrapNode(lost).Condition("Ready", "True", start).Untaint(corev1.TaintNodeUnreachable).Obj()
				w.Nodes = nodes{"n1": lost}
			}
			if c.taint != "" {
				lost := w.Nodes.(nodes)["n1"] //nolint:errcheck,forcetypeassert // newWorld made it
				w.Nodes = nodes{"n1": build.WrapNode(lost).Taint(c.taint, "", corev1.TaintEffectNoExecute).Obj()}
			}
			w.synced = !c.unready
			if c.users != nil {
				w.Users = c.users
			}
			pod := c.pod
			if pod == nil {
				pod = guarded(0)
			}
			req := deletion(t, pod)
			if c.change != nil {
				c.change(&req.AdmissionRequest)
			}
			response := w.Handle(t.Context(), req)
			if response.Allowed == c.denied {
				t.Fatalf("allowed: %t (%v)", response.Allowed, response.Result)
			}
			if c.denied && (response.Result.Code != http.StatusForbidden || !strings.Contains(response.Result.Message,
				"the eviction guard of rule link does not let")) {
				t.Errorf("says %+v", response.Result)
			}
			if got := strings.Join(response.Warnings, ""); !strings.Contains(got, c.warns) || (got != "") != (c.warns != "") {
				t.Errorf("warns %q, want %q", got, c.warns)
			}
			reports := w.reports(t)
			if got := len(reports); got != c.events {
				t.Errorf("%d events, want %d", got, c.events)
			}
			reason := map[bool]string{true: "EvictionDenied", false: "EvictionWouldBeDenied"}[c.denied]
			for _, got := range reports {
				if !strings.HasPrefix(got, "Warning "+reason+" ") {
					t.Errorf("the event is %q, want %s", got, reason)
				}
			}
		})
	}
}

// TestEventsAreNoFlood: the node controller tries each pod five times, and a node has many.
func TestEventsAreNoFlood(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		w := newWorld()
		for range 5 {
			for i := range 20 {
				if w.Handle(t.Context(), deletion(t, guarded(i))).Allowed {
					t.Fatal("allowed")
				}
			}
		}
		if got := len(w.reports(t)); got != 20+1+1 {
			t.Errorf("%d events: want one for each pod, one for the node and one for the rule", got)
		}
	})
}

// TestEachOutageIsReported: the same pod may be guarded on Monday, and on Tuesday again.
func TestEachOutageIsReported(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		w := newWorld()
		w.Handle(t.Context(), deletion(t, guarded(0)))
		lost := w.Nodes.(nodes)["n1"] //nolint:errcheck,forcetypeassert // newWorld made it
		w.Nodes = nodes{"n1": build.WrapNode(lost).Condition("Ready", "Unknown", start.Add(time.Hour)).Obj()}
		w.clock.SetTime(start.Add(time.Hour + time.Second))
		w.Handle(t.Context(), deletion(t, guarded(0)))
		if got := w.reports(t); len(got) != 2+1+2 {
			t.Errorf("reported: %q, want an event about the pod and the node, twice, and one about the rule", got)
		}
	})
}

// TestForgedReviewsAreNotReported: every client that reaches the port can send reviews.
func TestForgedReviewsAreNotReported(t *testing.T) {
	for name, forge := range map[string]func(*corev1.Pod){
		"of a pod that does not exist": func(p *corev1.Pod) { p.Name = "none" },
		"of another namespace":         func(p *corev1.Pod) { p.Namespace = "kube-system" },
		"of a pod that was replaced":   func(p *corev1.Pod) { p.UID = "u-before" },
		"with a name that fills the memory": func(p *corev1.Pod) {
			p.Name = strings.Repeat("x", maxNames)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld()
			pod := guarded(0)
			forge(pod)
			for range 2 * waiting {
				if w.Handle(t.Context(), deletion(t, pod)).Allowed {
					t.Fatal("allowed")
				}
			}
			if got := w.reports(t); len(got) > 0 {
				t.Errorf("reported: %q", got)
			}
			w.Handle(t.Context(), deletion(t, guarded(0)))
			time.Sleep(time.Minute)
			if got := len(w.recorder.Events); got != 3 {
				t.Errorf("%d events about a real one, after that", got)
			}
		})
	}
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// FuzzHandle sends requests of all kinds: nothing may crash, and nothing be denied but a deletion by a guarded user.
func FuzzHandle(f *testing.F) {
	good := deletion(f, guarded(0)).OldObject.Raw
	for _, raw := range []string{string(good), `{"metadata":{"deletionTimestamp":"x"}}`, "null", "{", ""} {
		f.Add("DELETE", guard.NodeController, []byte(raw))
	}
	f.Add("DELETE", "jane", good)
	f.Add("UPDATE", guard.NodeController, good)
	f.Fuzz(func(t *testing.T, operation, user string, raw []byte) {
		w := newWorld()
		w.recorder.Events = nil
		got := w.Handle(t.Context(), deletion(t, guarded(0), by(user), func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject.Raw = admissionv1.Operation(operation), raw
		}))
		if !got.Allowed && (operation != "DELETE" || !slices.Contains(guard.DefaultUsers(), user)) {
			t.Errorf("denied: %+v", got.Result)
		}
	})
}

// BenchmarkWebhook compares the handler, on a pod of a usual size and among a hundred rules, with one that always
// allows; both are asked over HTTPS, as the API server asks.
func BenchmarkWebhook(b *testing.B) {
	w := newWorld()
	set := w.Rules()
	for i := range 99 {
		set = set.With(ruleset.Compile(build.MakeRule(fmt.Sprintf("r%d", i)).UID(fmt.Sprintf("u%d", i)).Selector("pool",
			"x").Condition("Ready").
			Taint("a/b", "", corev1.TaintEffectNoSchedule).Obj(), nil, start))
	}
	w.Rules = func() *ruleset.Set { return set }
	allow := admission.HandlerFunc(func(context.Context,
		admission.Request) admission.Response {
		return admission.Allowed("")
	})
	pod := usualPod()
	req := deletion(b, pod)
	raw, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &req.AdmissionRequest})
	if err != nil {
		b.Fatal(err)
	}
	ask := func(h admission.Handler) func() time.Duration {
		server := httptest.NewTLSServer(&admission.Webhook{Handler: h})
		b.Cleanup(server.Close)
		return func() time.Duration {
			began := time.Now()
			answer, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(raw))
			if err != nil {
				b.Fatal(err)
			}
			_, err = io.Copy(io.Discard, answer.Body)
			if err := errors.Join(err, answer.Body.Close()); err != nil {
				b.Fatal(err)
			}
			return time.Since(began)
		}
	}
	allowing, guarding := ask(allow), ask(w.Handler)
	w.recorder.Events = nil // a pod is reported once
	// In turns, and by the medians: what else the machine does concerns both alike.
	var allows, guards []time.Duration
	for b.Loop() {
		allows, guards = append(allows, allowing()), append(guards, guarding())
	}
	slices.Sort(allows)
	slices.Sort(guards)
	of, base := guards[len(guards)/2], allows[len(allows)/2]
	b.ReportMetric(float64(base.Nanoseconds()), "ns/allowed")
	b.ReportMetric(float64(of.Nanoseconds()), "ns/guarded")
	b.ReportMetric(float64(of)/float64(base), "ratio")
}

// usualPod is a pod of the size that pods have.
func usualPod() *corev1.Pod {
	p := guarded(0)
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example.com/app:1",
			Args: []string{"--a=b", "--c=d"}}
		for j := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: strings.Repeat("v", 20)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			ImageID: strings.Repeat("0", 64), Ready: true})
	}
	p.Labels = map[string]string{"app": "web", "tier": "front"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web",
		UID: types.UID(strings.Repeat("u", 36))}}
	return p
}
