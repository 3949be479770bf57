// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

type nothing struct{}

func (nothing) NodesChanged(...string) {}
func (nothing) AvailabilityChanged()   {}

func compiled(t *testing.T, requirement v1alpha1.Requirement) *ruleset.Rule {
	t.Helper()
	r := build.MakeRule("r").UID("u").Selector("a", "b").Taint("example.com/t", "", corev1.TaintEffectNoSchedule).Obj()
	r.Spec.Requirements = []v1alpha1.Requirement{requirement}
	return ruleset.Compile(r, nil, time.Now())
}

// TestAListDoesNotEndTheFailureOfAWatch: without the permission to watch, a reflector lists again and again, and what
// it has read is not kept up to date.
func TestAListDoesNotEndTheFailureOfAWatch(t *testing.T) {
	clients := fake.NewClientset()
	changes := 0
	f := &failures{changed: func() { changes++ }}
	lw := f.told(ClientInformers{clients}.listWatch(&Watch{Object: &corev1.Pod{}, Namespace: "kube-system"}),
		func(error) {})
	f.fail(apierrors.NewForbidden(corev1.Resource("pods"), "", nil), true)
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil || f.Failed() == "" {
		t.Errorf("after a list: %q, %v", f.Failed(), err)
	}
	if _, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil || f.Failed() != "" || changes != 2 {
		t.Errorf("after a watch: %q, %v, %d changes", f.Failed(), err, changes)
	}
}

func TestAPermissionThatIsTakenAwayIsAProblemUntilItIsBack(t *testing.T) {
	var forbidden atomic.Bool
	clients := fake.NewClientset()
	clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if forbidden.Load() {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
		}
		return true, &corev1.PodList{}, nil
	})
	watches := make(chan *apiwatch.FakeWatcher, 100)
	clients.PrependWatchReactor("pods", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		if forbidden.Load() {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
		}
		w := apiwatch.NewFakeWithOptions(apiwatch.FakeOptions{ChannelSize: 1})
		w.Action(apiwatch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
		watches <- w
		return true, w, nil
	})
	rule := compiled(t, v1alpha1.Requirement{Name: "init", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}}})
	s := New(ClientInformers{Clients: clients}, nothing{})
	s.SetRules(t.Context(), ruleset.NewSet(rule))
	until := func(what string, met func(*ruleset.Problem) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true,
			func(context.Context) (bool, error) {
				return met(s.Unavailable(rule)), nil
			}); err != nil {
			t.Fatalf("%s: %v", what, s.Unavailable(rule))
		}
	}
	until("it has been read", func(p *ruleset.Problem) bool { return p == nil })
	forbidden.Store(true)
	(<-watches).Stop()
	until("it is forbidden", func(p *ruleset.Problem) bool { return p != nil && p.Reason == ReasonUnavailable })
	forbidden.Store(false)
	until("it is allowed again", func(p *ruleset.Problem) bool { return p == nil })
}

func TestAnInvalidSelectorIsNotWatched(t *testing.T) {
	selector := v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}
	selector.MatchLabels = map[string]v1alpha1.LabelValue{"not a label": "b"}
	rule := compiled(t, v1alpha1.Requirement{Name: "init",
		Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system", Selector: selector}})
	if len(rule.Problems) == 0 {
		t.Fatal("the rule is valid")
	}
	if needed := neededBy(ruleset.NewSet(rule)); len(needed) > 0 {
		t.Errorf("watches %v", needed)
	}
}

// TestAnAPIServerThatIsTooOld: Kubernetes 1.33 answers like this, to a list and to a watch.
func TestAnAPIServerThatIsTooOld(t *testing.T) {
	lacks := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		Message: "the server could not find the requested resource"}}
	clients := fake.NewClientset()
	clients.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, lacks
	})
	clients.PrependWatchReactor("resourceslices", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		return true, nil, lacks
	})
	rule := compiled(t, v1alpha1.Requirement{Name: "gpus",
		Devices: &v1alpha1.DevicesRequirement{Driver: "gpu.example.com", Minimum: 1}})
	const why = "the API server does not serve ResourceSlices of resource.k8s.io/v1, which need Kubernetes 1.34"
	const want = "the evidence of requirement gpus cannot be read: " + why
	if got := Read(t.Context(), clients, ruleset.NewSet(rule)).Unread(&rule.Requirements[0]); got != why {
		t.Errorf("a snapshot says %q", got)
	}
	s := New(ClientInformers{Clients: clients}, nothing{})
	s.SetRules(t.Context(), ruleset.NewSet(rule))
	var last *ruleset.Problem
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			last = s.Unavailable(rule)
			return last != nil && last.Reason == ReasonUnavailable && last.Message == want, nil
		}); err != nil {
		t.Errorf("the sources say %v", last)
	}
}
