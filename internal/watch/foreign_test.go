// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestForeign reads another controller's rules in steps. test/integration/install has a real API server.
func TestForeign(t *testing.T) {
	type object = map[string]any
	rule := func(key string) object {
		return object{"kind": "NodeReadinessRule", "apiVersion": "readiness.node.x-k8s.io/v2",
			"metadata": object{"name": "of-" + key},
			"spec":     object{"taint": object{"key": "example.com/" + key, "effect": "NoSchedule"}}}
	}
	var status int
	var listed, events []object
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := []object{{"kind": "APIGroup", "apiVersion": "v1", "name": "readiness.node.x-k8s.io",
			"preferredVersion": object{"groupVersion": "readiness.node.x-k8s.io/v2", "version": "v2"}}}
		switch {
		case status != http.StatusOK:
			w.WriteHeader(status)
			answer[0] = object{"kind": "Status", "apiVersion": "v1", "code": status,
				"reason": map[int]string{http.StatusNotFound: "NotFound"}[status]}
		case r.URL.Query().Has("watch"):
			answer = events
		case strings.HasSuffix(r.URL.Path, "/v2/nodereadinessrules"):
			answer[0] = object{"kind": "NodeReadinessRuleList", "apiVersion": "readiness.node.x-k8s.io/v2",
				"metadata": object{"resourceVersion": "1"}, "items": listed}
		}
		for _, o := range answer {
			if err := json.NewEncoder(w).Encode(o); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dynamically, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	rules, _ := newRules()
	rules.synced = func() bool { return true }
	f := &Foreign{Discovery: discovered.RESTClient(), Client: dynamically, Rules: rules}
	f.Setup()
	for _, s := range []struct {
		tells          string
		status         int
		listed, events []object
		found, fails   bool
		synced         bool
		foreign        []string
	}{
		{tells: "refused", status: http.StatusForbidden, fails: true},
		{tells: "no CRD", status: http.StatusNotFound, synced: true},
		{tells: "listed", status: http.StatusOK, listed: []object{rule("a"), rule("b")}, found: true, synced: true,
			foreign: []string{"a", "b"}},
		{tells: "changed", status: http.StatusOK, listed: []object{rule("a"), rule("b")}, events: []object{
			{"type": "ADDED", "object": rule("c")}, {"type": "DELETED", "object": rule("a")}},
			found: true, synced: true, foreign: []string{"b", "c"}},
		{tells: "cannot be read", status: http.StatusInternalServerError, fails: true, synced: true,
			foreign: []string{"b", "c"}},
		{tells: "the watch is too old", status: http.StatusOK, listed: []object{rule("c")}, events: []object{
			{"type": "ERROR", "object": object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410}}},
			found: true, fails: true, synced: true, foreign: []string{"c"}},
		{tells: "the CRD is gone", status: http.StatusNotFound, synced: true},
	} {
		status, listed, events = s.status, s.listed, s.events
		found, err := f.follow(t.Context())
		var foreign []string
		for id := range rules.Set().Foreign() {
			foreign = append(foreign, strings.TrimPrefix(id.Key, "example.com/"))
		}
		slices.Sort(foreign)
		if found != s.found || (err != nil) != s.fails || rules.HasSynced() != s.synced || !slices.Equal(foreign, s.foreign) {
			t.Errorf("%s: found %t, synced %t, foreign %q: %v", s.tells, found, rules.HasSynced(), foreign, err)
		}
	}
}
