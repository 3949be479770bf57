// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// maxGone bounds how many rules that are gone are remembered. UIDs are never used twice, so that forgetting one costs
// a list of rules, no more.
const maxGone = 10000

// deletedRules finds out which of the rules with records on nodes are really gone. A rule that the cache does not
// know may also be so new that only an admission policy has seen it: its taint must not be taken for a leftover.
type deletedRules struct {
	mu   sync.Mutex
	dead sets.Set[string]
}

// gone asks the API server about references, UIDs or names of rules, that are not known to be gone. The function that
// it returns says which are.
func (s *deletedRules) among(ctx context.Context, live client.Reader, refs []string) (func(string) bool, error) {
	if len(refs) == 0 {
		return func(string) bool { return false }, nil
	}
	s.mu.Lock() // held over the list: a sweep over a fleet asks once
	defer s.mu.Unlock()
	if !s.dead.HasAll(refs...) {
		rules := &v1alpha1.NodeReadinessRuleList{}
		if err := live.List(ctx, rules); err != nil {
			return nil, fmt.Errorf("listing rules: %w", err)
		}
		alive := sets.New[string]()
		for i := range rules.Items {
			alive.Insert(string(rules.Items[i].UID), rules.Items[i].Name)
		}
		if s.dead.Len() > maxGone {
			s.dead = nil
		}
		if s.dead == nil {
			s.dead = sets.New[string]()
		}
		s.dead.Insert(sets.New(refs...).Difference(alive).UnsortedList()...)
		s.dead.Delete(alive.UnsortedList()...) // a name, unlike a UID, can come back
	}
	dead := s.dead.Intersection(sets.New(refs...))
	return dead.Has, nil
}
