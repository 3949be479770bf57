// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

type object = map[string]any

// theirAPI is an API server with the rules of another controller.
type theirAPI struct {
	t  *testing.T
	mu sync.Mutex
	// status is the HTTP status of each answer. versions are those of the group. Only v2 has rules.
	status   int
	versions []string
	// listed are the keys of the taints of the rules, events those of a watch.
	listed []string
	events []object
	read   int // how many specs were read
	// noList makes lists of rules fail.
	noList bool
	// hangs selects requests that are never answered.
	hangs func(*url.URL) bool
	// again are the keys of rules that were deleted and created again, with other taints, and gone those of rules that
	// were deleted since they were listed.
	again, gone string
	// continues is the rule whose copies all rules are.
	continues string
}

// theirRule returns the metadata of a rule, and its spec.
func theirRule(key, generation string) object {
	return object{"kind": "NodeReadinessRule", "apiVersion": "readiness.node.x-k8s.io/v2",
		"metadata": object{"name": "of-" + key, "uid": "uid-" + key, "generation": json.Number(generation)},
		"spec":     object{"taint": object{"key": "example.com/" + key, "effect": "NoSchedule"}}}
}

// rule returns a rule, as it is on the API server.
func (a *theirAPI) rule(key string) object {
	if !strings.Contains(a.again, key) {
		out := theirRule(key, "1")
		if a.continues != "" {
			metadata, _ := out["metadata"].(object)
			metadata["annotations"] = object{v1alpha1.SuccessorAnnotation: a.continues}
		}
		return out
	}
	out := theirRule("again-"+key, "1")
	out["metadata"] = object{"name": "of-" + key, "uid": "again-" + key, "generation": json.Number("1")}
	return out
}

func partial(of object) object {
	return object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": of["metadata"]}
}

// RoundTrip implements http.RoundTripper.
func (a *theirAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	hangs := a.hangs != nil && a.hangs(r.URL)
	a.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer := httptest.NewRecorder()
	a.ServeHTTP(answer, r)
	return answer.Result(), nil
}

func (a *theirAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	const group = "readiness.node.x-k8s.io"
	versions := []object{}
	for _, v := range a.versions {
		versions = append(versions, object{"groupVersion": group + "/" + v, "version": v})
	}
	status, answer := a.status, []object{}
	path := strings.TrimPrefix(r.URL.Path, "/apis/"+group)
	switch name, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=of-"); {
	case a.status != http.StatusOK:
	case path == "" && len(a.versions) > 0:
		answer = append(answer, object{"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions,
			"preferredVersion": versions[0]})
	case path == "/v3":
		answer = append(answer, object{"kind": "APIResourceList", "apiVersion": "v1",
			"resources": []object{{"name": "nodereadinessreports"}}})
	case path == "/v2":
		answer = append(answer, object{"kind": "APIResourceList", "apiVersion": "v1",
			"resources": []object{{"name": "nodereadinessrules/status"}, {"name": "nodereadinessrules"}}})
	case path != "/v2/nodereadinessrules":
		status = max(status, http.StatusNotFound)
	case a.noList:
		status = http.StatusNotFound
	case r.URL.Query().Has("watch"):
		answer = a.events
	case one:
		a.read++
		items := []object{}
		if !strings.Contains(a.gone, name) {
			items = append(items, a.rule(name))
		}
		answer = append(answer, object{"kind": "NodeReadinessRuleList", "apiVersion": group + "/v2",
			"metadata": object{"resourceVersion": "1"}, "items": items})
	default:
		items := []object{}
		for _, key := range a.listed {
			items = append(items, partial(a.rule(key)))
		}
		answer = append(answer, object{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
			"metadata": object{"resourceVersion": "1"}, "items": items})
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
		answer = []object{{"kind": "Status", "apiVersion": "v1", "code": status,
			"reason": map[int]string{http.StatusNotFound: "NotFound"}[status]}}
	}
	for _, o := range answer {
		if err := json.NewEncoder(w).Encode(o); err != nil {
			a.t.Error(err)
		}
	}
}

// newForeign returns the watch of an API server's rules.
func newForeign(t *testing.T) (*theirAPI, *Foreign) {
	t.Helper()
	api := &theirAPI{t: t}
	config := &rest.Config{Host: "http://their.api", Transport: api}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dynamically, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	data, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	rules, _ := newRules()
	rules.synced = func() bool { return true }
	f := &Foreign{Discovery: discovered.RESTClient(), Metadata: data, Client: dynamically, Rules: rules}
	f.Setup()
	return api, f
}

// TestForeign reads another controller's rules in steps. test/integration/install has a real API server.
func TestForeign(t *testing.T) {
	api, f := newForeign(t)
	event := func(what, key, generation string) object {
		return object{"type": what, "object": partial(theirRule(key, generation))}
	}
	// of-b was created again before this event came.
	former := object{"type": "DELETED", "object": object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": object{"name": "of-b", "uid": "former"}}}
	both := []string{"v3", "v2"} // the preferred version has only another resource
	for _, s := range []struct {
		tells        string
		api          *theirAPI
		found, fails bool
		unsynced     bool
		foreign      []string
		read         int
	}{
		{tells: "refused", api: &theirAPI{status: http.StatusForbidden}, fails: true, unsynced: true},
		{tells: "no CRD", api: &theirAPI{status: http.StatusOK}},
		{tells: "listed", api: &theirAPI{status: http.StatusOK, versions: both, listed: []string{"a", "b"}},
			found: true, foreign: []string{"a", "b"}, read: 2},
		{tells: "changed", api: &theirAPI{status: http.StatusOK, versions: both, listed: []string{"a", "b"},
			events: []object{event("ADDED", "c", "1"), event("DELETED", "a", "1"), event("MODIFIED", "b", "1"),
				event("MODIFIED", "c", "1"), former}},
			found: true, foreign: []string{"b", "c"}, read: 1},
		{tells: "cannot be read", api: &theirAPI{status: http.StatusInternalServerError}, fails: true,
			foreign: []string{"b", "c"}},
		{tells: "no longer listed in this version", api: &theirAPI{status: http.StatusOK, versions: both, noList: true},
			fails: true, foreign: []string{"b", "c"}},
		{tells: "the watch is too old", api: &theirAPI{status: http.StatusOK, versions: both, listed: []string{"c"},
			events: []object{{"type": "ERROR", "object": object{"kind": "Status", "apiVersion": "v1", "status": "Failure",
				"code": 410}}}},
			found: true, fails: true, foreign: []string{"c"}},
		{tells: "the version is not served", api: &theirAPI{status: http.StatusOK, versions: []string{"v3"}}, fails: true,
			foreign: []string{"c"}},
		{tells: "nor is the group", api: &theirAPI{status: http.StatusOK}, fails: true, foreign: []string{"c"}},
		{tells: "served again", api: &theirAPI{status: http.StatusOK, versions: both, listed: []string{"c"}}, found: true,
			foreign: []string{"c"}},
		{tells: "created again meanwhile", api: &theirAPI{status: http.StatusOK, versions: both, listed: []string{"c"},
			again: "c"}, found: true, foreign: []string{"again-c"}, read: 1},
		{tells: "the CRD is gone", api: &theirAPI{status: http.StatusOK}, fails: true, foreign: []string{"again-c"}},
		{tells: "the CRD is gone", api: &theirAPI{status: http.StatusOK}, fails: true, foreign: []string{"again-c"}},
		{tells: "this is certain", api: &theirAPI{status: http.StatusOK}},
	} {
		api.mu.Lock()
		api.status, api.versions, api.noList, api.read = s.api.status, s.api.versions, s.api.noList, 0
		api.listed, api.events, api.again = s.api.listed, s.api.events, s.api.again
		api.mu.Unlock()
		found, err := f.follow(t.Context())
		var foreign []string
		for id := range f.Rules.Set().Foreign() {
			foreign = append(foreign, strings.TrimPrefix(id.Key, "example.com/"))
		}
		slices.Sort(foreign)
		if found != s.found || (err != nil) != s.fails || f.Rules.HasSynced() == s.unsynced ||
			!slices.Equal(foreign, s.foreign) || api.read != s.read ||
			testutil.ToFloat64(othersRead) == 0 != (s.fails && !s.found) {
			t.Errorf("%s: found %t, synced %t, foreign %q, read %d: %v", s.tells, found, f.Rules.HasSynced(), foreign, api.read,
				err)
		}
	}
}

// start starts to watch. The function that it returns ends that.
func start(t *testing.T, f *Foreign) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestReadsThatHang: each read ends, the metric of the alert tells of it, and the rules are read again afterwards.
func TestReadsThatHang(t *testing.T) {
	watches := func(u *url.URL) bool { return u.Query().Has("watch") }
	one := func(u *url.URL) bool { return u.Query().Has("fieldSelector") }
	for name, hangs := range map[string]func(*url.URL) bool{
		"the versions": func(u *url.URL) bool { return !strings.Contains(u.Path, "/v2/") },
		"the list": func(u *url.URL) bool {
			return strings.HasSuffix(u.Path, "/v2/nodereadinessrules") && !watches(u) && !one(u)
		},
		"the start of a watch": watches,
		"the rule of an event": one,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, f := newForeign(t)
				set := func(hangs func(*url.URL) bool, listed ...string) {
					api.mu.Lock()
					defer api.mu.Unlock()
					api.hangs, api.listed = hangs, listed
				}
				api.status, api.versions = http.StatusOK, []string{"v2"}
				api.events = []object{{"type": "ADDED", "object": partial(theirRule("b", "1"))}}
				set(hangs)
				defer start(t, f)()
				if err := f.Rules.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				set(hangs, "b")
				time.Sleep(time.Minute)
				for range 120 { // the alert fires only if the metric stays so
					if time.Sleep(time.Second); testutil.ToFloat64(othersRead) != 0 {
						t.Fatal("the metric says that the rules can be read")
					}
				}
				set(nil, "b")
				time.Sleep(time.Minute)
				if got := len(f.Rules.Set().Foreign()); got != 1 || testutil.ToFloat64(othersRead) != 1 {
					t.Errorf("%d taints of the other controller are known afterwards, want 1", got)
				}
			})
		})
	}
}

// TestALookThatTakesTooLongIsContinued by the next one: it reads only what has not been read.
func TestALookThatTakesTooLongIsContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, f := newForeign(t)
		api.status, api.versions = http.StatusOK, []string{"v2"}
		const most = 2 // reads in one look
		api.hangs = func(u *url.URL) bool { return u.Query().Has("fieldSelector") && api.read == most }
		for _, s := range []struct {
			tells, listed, again, gone string
			read                       int
			foreign                    string
		}{
			{tells: "the first look", listed: "abcde", read: most},
			{tells: "a is gone before it counted", listed: "bcde", read: most},
			{tells: "so is b, after the list", listed: "bcde", again: "b", gone: "b", read: most, foreign: "c d e"},
			{tells: "the former rules count", listed: "cdf", again: "cd", read: most, foreign: "c d e"},
			{tells: "the last one", listed: "cdf", again: "cd", read: 1, foreign: "again-c again-d f"},
		} {
			api.listed, api.again, api.gone, api.read = strings.Split(s.listed, ""), s.again, s.gone, 0
			_, _, err := f.Look(t.Context(), false)
			var foreign []string
			for id := range f.Rules.Set().Foreign() {
				foreign = append(foreign, strings.TrimPrefix(id.Key, "example.com/"))
			}
			slices.Sort(foreign)
			if got := strings.Join(foreign, " "); got != s.foreign || api.read != s.read {
				t.Errorf("%s: foreign %q, read %d: %v", s.tells, got, api.read, err)
			}
		}
	})
}

// TestChangesWhileReadsHang: many changes of rules do not each wait for a look of their own.
func TestChangesWhileReadsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, f := newForeign(t)
		api.status, api.versions = http.StatusOK, []string{"v2"}
		defer start(t, f)()
		if err := f.Rules.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		api.mu.Lock()
		api.hangs = func(*url.URL) bool { return true }
		api.mu.Unlock()
		began := time.Now()
		for generation := range int64(20) {
			f.Rules.put(network().Taint("example.com/a", "", corev1.TaintEffectNoSchedule).Generation(generation + 1).Obj())
		}
		if took := time.Since(began); took > (looks+2)*lookTimeout {
			t.Errorf("20 changes waited for %s", took)
		}
	})
}

// TestTheOtherControllerTakesATaintOver: the user creates its rule first, and then deletes this one. Their CRD is new,
// so that nothing watches it yet.
func TestTheOtherControllerTakesATaintOver(t *testing.T) {
	rule := func() *build.RuleWrapper {
		return network().Taint("example.com/a", "", corev1.TaintEffectNoSchedule)
	}
	for name, change := range map[string]func(*Rules){
		"deleted":   func(c *Rules) { c.put(rule().Generation(2).Deleted(now).Obj()) },
		"gone":      func(c *Rules) { c.drop(rule().Obj()) },
		"a dry-run": func(c *Rules) { c.put(rule().Generation(2).DryRun(true).Obj()) },
		"created": func(c *Rules) {
			c.put(rule().UID("u2").Named("another").Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, f := newForeign(t)
			api.status = http.StatusOK
			defer start(t, f)()
			if err := f.Rules.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.Rules.put(rule().Obj())
			api.mu.Lock()
			api.versions, api.listed = []string{"v2"}, []string{"a"}
			api.mu.Unlock()
			before := f.Rules.Set().Named("net")
			f.Rules.Subscribe(func(s *ruleset.Set) {
				if s.Named("net") != before && !s.Foreign().Has(before.Taint) {
					t.Error("the change counts before the other controller's rule")
				}
			})
			change(f.Rules)
			if !f.Rules.Set().Foreign().Has(before.Taint) {
				t.Error("the other controller's rule is not known after the change")
			}
		})
	}
}

// TestTheCopyOfARuleIsNotAnotherControllers: a rule that was copied to the other group, and is not handed over, is in
// force, and its taints are removed if it is deleted.
func TestTheCopyOfARuleIsNotAnotherControllers(t *testing.T) {
	api, f := newForeign(t)
	rule := network().Taint("example.com/a", "", corev1.TaintEffectNoSchedule)
	api.status, api.versions, api.listed = http.StatusOK, []string{"v2"}, []string{"a"}
	look := func() {
		t.Helper()
		if _, err := f.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is := func(tells string, foreign bool, mode ruleset.Mode) {
		t.Helper()
		r := f.Rules.Set().Named(rule.Name)
		if f.Rules.Set().Foreign().Has(new(rule.Obj().Spec.Taint.Core())) != foreign || r != nil && r.Mode != mode {
			t.Errorf("%s: %+v is %v, want %v", tells, r, f.Rules.Set().Foreign(), mode)
		}
	}
	go func() {
		for {
			select {
			case done := <-f.asks: // before a change of a rule counts
				close(done)
			case <-t.Context().Done():
				return
			}
		}
	}()
	look()
	f.Rules.put(rule.Obj())
	is("a rule that continues none", true, ruleset.Frozen)
	api.continues = string(rule.Obj().UID)
	look()
	is("a copy", false, ruleset.Enforced)
	f.Rules.put(rule.Generation(2).Deleted(now).Obj())
	is("a copy of a rule that is being deleted", false, ruleset.Deleting)
	f.Rules.drop(rule.Obj())
	is("a copy of a rule that is gone", true, ruleset.Frozen)
}

// TestRulesThatCannotBeReadAtTheStart: the rules that were in force stay so, and all others wait.
func TestRulesThatCannotBeReadAtTheStart(t *testing.T) {
	api, f := newForeign(t)
	rule := func(name string, generation int64) *build.RuleWrapper {
		return network().UID("u-"+name).Named(name).Generation(generation).Taint("example.com/"+name, "",
			corev1.TaintEffectNoSchedule)
	}
	reported := func(r *build.RuleWrapper, generation int64) *build.RuleWrapper {
		r.StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(now,
			ruleset.Compile(r.Obj(), nil, now).SelectorHash)
		r.Status.ObservedGeneration = generation
		return r
	}
	f.Rules.put(reported(rule("inforce", 1), 1).Obj())
	f.Rules.put(rule("sametaint", 1).Taint("example.com/inforce", "", corev1.TaintEffectNoSchedule).Obj())
	f.Rules.put(rule("foreign", 1).StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse).Obj())
	f.Rules.put(reported(rule("edited", 2), 1).Obj())
	f.Rules.put(rule("untainted", 1).Untainted().Health("rules").Obj())
	f.Rules.put(reported(rule("deleted", 2), 1).Deleted(now).Obj())
	// Edited while no operator ran: the taint may have been another one, and have been handed over.
	f.Rules.put(reported(rule("editedtodryrun", 2), 1).DryRun(true).Obj())
	f.Rules.put(reported(rule("editedanddeleted", 3), 1).Deleted(now).Obj())
	tried := rule("dryrun", 1).DryRun(true).StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse)
	tried.Status.DryRunResults, tried.Status.ObservedGeneration = &v1alpha1.DryRunResults{}, 1
	f.Rules.put(tried.Obj())
	api.status = http.StatusInternalServerError
	for range looks - 1 {
		if _, err := f.follow(t.Context()); err == nil || f.Rules.HasSynced() {
			t.Errorf("synced at once: %v", err)
		}
	}
	is := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, r := range f.Rules.Set().All() {
			got[r.Name] = r.Mode.String()
			if r.Yields() && strings.Contains(r.Problems[0].Message, "rule  of") {
				t.Errorf("%s: %s", r.Name, r.Problems[0].Message)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	_, err := f.follow(t.Context())
	if err == nil || !f.Rules.HasSynced() {
		t.Errorf("not synced: %v", err)
	}
	want := map[string]string{"inforce": "Enforced", "sametaint": "Enforced", "foreign": "Frozen", "edited": "Frozen",
		"untainted": "Enforced", "deleted": "Deleting", "editedtodryrun": "Frozen", "editedanddeleted": "Frozen",
		"dryrun": "DryRun"}
	is(want)
	began := time.Now()
	f.Rules.put(rule("new", 1).Obj())
	if took := time.Since(began); took > lookTimeout/2 {
		t.Errorf("a change waited %s for a look that fails", took)
	}
	want["new"] = "Frozen"
	is(want)
	f.Rules.put(reported(rule("inforce", 2), 1).DryRun(true).Obj())
	dry := rule("inforce", 2).DryRun(true).StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse)
	dry.Status.ObservedGeneration, dry.Status.Conditions[0].ObservedGeneration = 2, 2
	f.Rules.put(dry.Obj())
	want["inforce"] = "DryRun"
	is(want)
	for _, name := range []string{"inforce", "deleted"} {
		if f.Rules.Set().Foreign().Has(f.Rules.Set().Named(name).Taint) {
			t.Errorf("the taints of rule %s, which was in force, stay on nodes", name)
		}
	}
	for name, perhaps := range map[string]bool{"removed": true, "foreign": true, "inforce": false} {
		if f.Rules.Set().PerhapsForeign(new(rule(name, 1).Obj().Spec.Taint.Core())) != perhaps {
			t.Errorf("another controller may manage the taint of rule %s: %t", name, !perhaps)
		}
	}
	f.Rules.put(rule("dryrun", 2).Obj())
	want["dryrun"] = "Frozen"
	is(want)
	f.Rules.put(reported(rule("edited", 2), 2).Obj()) // by a leader that has read them
	want["edited"] = "Enforced"
	is(want)
	api.status, api.versions, api.listed = http.StatusOK, []string{"v2"}, []string{"foreign"}
	if _, err := f.follow(t.Context()); err != nil {
		t.Error(err)
	}
	want["new"], want["editedtodryrun"], want["editedanddeleted"] = "Enforced", "DryRun", "Deleting"
	want["dryrun"] = "Enforced"
	is(want)
	if f.Rules.Set().PerhapsForeign(new(rule("removed", 1).Obj().Spec.Taint.Core())) {
		t.Error("the other controller's rules are read, and yet it may manage the taint of a rule that was removed")
	}
}

// TestLooksOnRequest: many changes of rules at once do not make rules count as gone that an API server does not serve.
func TestLooksOnRequest(t *testing.T) {
	api, f := newForeign(t)
	api.status, api.versions, api.listed = http.StatusOK, []string{"v2"}, []string{"net"}
	if _, err := f.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	api.versions = nil
	for range looks + 1 {
		f.waiting = append(f.waiting, make(chan struct{}))
		if _, err := f.follow(t.Context()); !errors.Is(err, errNoCRD) {
			t.Errorf("got %v, want %v", err, errNoCRD)
		}
	}
}
