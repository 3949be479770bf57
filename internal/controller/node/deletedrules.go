// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// maxGone is the largest number of deleted rules that are remembered. UIDs are never used twice, so forgetting one only
// costs another list of the rules.
const maxGone = 10000

// deletedRules checks which of the rules with records on nodes are deleted. A rule that the cache does not know may
// also be so new that only the admission policy has seen it. Its taint must not count as a leftover.
type deletedRules struct {
	mu   sync.Mutex
	dead map[string]time.Time // when it was first missed

	observed sync.Mutex
	last     *ruleset.Set
	taints   map[string][]ruleset.TaintID // of the rules that this process has known, by UID
}

// observe remembers which taints the rules have.
func (s *deletedRules) observe(set *ruleset.Set) {
	s.observed.Lock()
	defer s.observed.Unlock()
	if set == s.last {
		return
	}
	if s.last = set; s.taints == nil || len(s.taints) > maxGone {
		s.taints = map[string][]ruleset.TaintID{}
	}
	for _, rule := range set.All() {
		if rule.Taint == nil {
			continue
		}
		uid, id := string(rule.UID), ruleset.TaintIDOf(*rule.Taint)
		if !slices.Contains(s.taints[uid], id) {
			s.taints[uid] = append(s.taints[uid], id)
		}
	}
}

// known implements taints.Known.
func (s *deletedRules) known(uid string, taint *corev1.Taint) bool {
	s.observed.Lock()
	defer s.observed.Unlock()
	return slices.Contains(s.taints[uid], ruleset.TaintIDOf(*taint))
}

// among asks the API server about the rules with the given UIDs or names, except those that it knows to be deleted.
func (s *deletedRules) among(ctx context.Context, live client.Reader, refs []string, now time.Time) (taints.Missing,
	error) {
	if len(refs) == 0 {
		return func(string) (time.Time, bool) { return time.Time{}, false }, nil
	}
	dead := make(map[string]time.Time, len(refs))
	s.mu.Lock() // held over the list: a sweep over a fleet asks once
	defer s.mu.Unlock()
	for _, ref := range refs {
		if _, known := s.dead[ref]; !known {
			if err := s.ask(ctx, live, refs, now); err != nil {
				return nil, err
			}
			break
		}
	}
	for _, ref := range refs {
		if since, gone := s.dead[ref]; gone {
			dead[ref] = since
		}
	}
	return func(ref string) (time.Time, bool) {
		since, gone := dead[ref]
		return since, gone
	}, nil
}

// ask lists the rules, and stores which of the given ones are missing.
func (s *deletedRules) ask(ctx context.Context, live client.Reader, refs []string, now time.Time) error {
	rules := &v1alpha1.NodeReadinessRuleList{}
	if err := live.List(ctx, rules); err != nil {
		return fmt.Errorf("listing rules: %w", err)
	}
	if s.dead == nil || len(s.dead) > maxGone {
		s.dead = map[string]time.Time{}
	}
	for _, ref := range refs {
		if _, known := s.dead[ref]; !known {
			s.dead[ref] = now
		}
	}
	for i := range rules.Items {
		delete(s.dead, string(rules.Items[i].UID))
		delete(s.dead, rules.Items[i].Name) // a name, unlike a UID, can come back
	}
	return nil
}
