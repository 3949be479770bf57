// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// init removes a handler of client-go that sleeps after an error, by the time of another test's bubble.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }

// settled returns how often availability has changed since the last time, once nothing happens any more.
func (h *heard) settled() (availability int) {
	time.Sleep(5 * time.Minute) // informers try again within one
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	availability, h.availability = h.availability, 0
	return availability
}

// api is an API server in memory that refuses all that is about some resources.
type api struct {
	*fake.Clientset
	mu      sync.Mutex
	refused map[string]error
	watches map[string]apiwatch.Interface
}

func newAPI(objects ...runtime.Object) *api {
	a := &api{Clientset: fake.NewClientset(objects...), refused: map[string]error{},
		watches: map[string]apiwatch.Interface{}}
	refusal := func(action clienttesting.Action) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.refused[action.GetResource().Resource]
	}
	a.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := refusal(action)
		return err != nil, nil, err
	})
	a.PrependWatchReactor("*", func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
		if err := refusal(action); err != nil {
			return true, nil, err
		}
		resource, options := action.GetResource(), metav1.ListOptions{}
		if w, ok := action.(clienttesting.WatchActionImpl); ok {
			options = w.ListOptions
		}
		if options.SendInitialEvents != nil {
			return true, nil, apierrors.NewBadRequest("an older server wants a list first")
		}
		w, err := a.Tracker().Watch(resource, action.GetNamespace(), options)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.watches[resource.Resource] = w
		return true, w, err
	})
	return a
}

// refuse refuses requests about a resource from now on, and ends its watch. Without an error it ends that.
func (a *api) refuse(resource string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[resource] = err
	if w := a.watches[resource]; w != nil && err != nil {
		w.Stop()
	}
}

// streamLists makes each watch of a resource that asks for a list first return the same stream.
func (a *api) streamLists(resource string) *apiwatch.FakeWatcher {
	stream := apiwatch.NewFake()
	a.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		w, ok := action.(clienttesting.WatchActionImpl)
		first := ok && w.ListOptions.SendInitialEvents != nil && a.refused[resource] == nil
		return first, stream, nil
	})
	return stream
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(corev1.Resource(resource), "", nil)
}

// compiled is a rule with one requirement, which is called a.
func compiled(requirement v1alpha1.Requirement) *ruleset.Rule {
	requirement.Name = "a"
	r := build.MakeRule("r").UID("u").Selector("a", "b").MaxUnavailable("1").
		Taint("example.com/t", "", corev1.TaintEffectNoSchedule).Evidence(requirement)
	return ruleset.Compile(r.Obj(), nil, time.Now())
}

func daemonSetsOf(namespace v1alpha1.NamespaceName) v1alpha1.Requirement {
	return v1alpha1.Requirement{DaemonSets: &v1alpha1.DaemonSetsRequirement{
		Namespaces: []v1alpha1.NamespaceName{namespace}}}
}

func TestEvidenceThatCannotBeReadIsAProblemUntilItCan(t *testing.T) {
	const cannot = "spec.requirements[0]: the evidence of requirement a cannot be read: "
	for name, tc := range map[string]struct {
		rule     *ruleset.Rule
		resource string
		err      error
		says     string
		lost     bool   // permissions may be taken away later
		how      string // what grants the permission
	}{
		"pods": {compiled(initPods("kube-system")), "pods", forbidden("pods"), "pods is forbidden", true, ""},
		"DaemonSets": {compiled(daemonSetsOf("kube-system")), "daemonsets", forbidden("daemonsets"),
			"daemonsets is forbidden", true, "kube-system must be in the chart value daemonSetNamespaces"},
		// Kubernetes 1.33 answers like this.
		"an API server that is too old": {compiled(v1alpha1.Requirement{
			Devices: &v1alpha1.DevicesRequirement{Driver: "gpu", Min: 1}}), "resourceslices",
			&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}},
			"the API server does not serve ResourceSlices of resource.k8s.io/v1, which need Kubernetes 1.34", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				a.refuse(tc.resource, tc.err)
				set := ruleset.NewSet(tc.rule)
				h := &heard{}
				s := New(ClientInformers{Clients: a}, h)
				s.SetRules(t.Context(), set)
				refused := func() {
					t.Helper()
					if why := Read(t.Context(), a, set).Unread(&tc.rule.Requirements[0]); !strings.HasPrefix(why, tc.says) {
						t.Errorf("a snapshot says %q", why)
					}
					told := h.settled()
					if p := s.Unavailable(tc.rule); told == 0 || p == nil || p.Reason != ruleset.ReasonUnavailable ||
						!strings.HasPrefix(p.String(), cannot) || !strings.Contains(p.Message, tc.says) ||
						!strings.Contains(p.Message, tc.how) {
						t.Errorf("told %d times, %v", told, p)
					}
				}
				allowed := func() {
					t.Helper()
					a.refuse(tc.resource, nil)
					if told := h.settled(); told == 0 || s.Unavailable(tc.rule) != nil {
						t.Errorf("told %d times, %v", told, s.Unavailable(tc.rule))
					}
				}
				refused()
				allowed()
				if tc.lost {
					a.refuse(tc.resource, tc.err)
					refused()
					allowed()
				}
			})
		})
	}
}

// TestAFailureEndsWhenANewListIsStored: without the permission to watch, a reflector lists again and again, and what it
// has read is not kept up to date. With it, a newer API server sends the list by the watch, after the watch is open.
func TestAFailureEndsWhenANewListIsStored(t *testing.T) {
	for name, rule := range map[string]*ruleset.Rule{
		"pods": compiled(initPods("kube-system")), "pods of DaemonSets": compiled(daemonSetsOf("kube-system")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, h := newAPI(), &heard{}
				s := New(ClientInformers{Clients: a}, h)
				s.SetRules(t.Context(), ruleset.NewSet(rule))
				if h.settled(); s.Unavailable(rule) != nil {
					t.Fatal(s.Unavailable(rule))
				}
				a.refuse("pods", forbidden("pods"))
				h.settled()
				list := a.streamLists("pods")
				a.refuse("pods", nil)
				if h.settled(); s.Unavailable(rule) == nil {
					t.Error("the watch is open, and the API server has sent nothing yet")
				}
				list.Action(apiwatch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9",
					Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
				if told := h.settled(); told == 0 || s.Unavailable(rule) != nil {
					t.Errorf("after the list: told %d times, %v", told, s.Unavailable(rule))
				}
			})
		})
	}
	changes := 0
	f := &failures{changed: func() { changes++ }, synced: true}
	f.fail(forbidden("pods"))
	if f.succeeded(&f.stored); f.Failed() == "" {
		t.Error("a list ends the failure of a watch")
	}
	if f.succeeded(&f.watching); f.Failed() != "" || changes != 2 {
		t.Errorf("after a watch: %q, %d changes", f.Failed(), changes)
	}
}

func TestAnInvalidSelectorIsNotWatched(t *testing.T) {
	requirement := initPods("kube-system")
	requirement.Pods.Selector.MatchLabels["not a label"] = "b"
	rule := compiled(requirement)
	if needed := neededBy(ruleset.NewSet(rule)); len(rule.Problems) == 0 || len(needed) > 0 {
		t.Errorf("watches %v", needed)
	}
}
