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

// maxGone is the largest number of deleted rules that are remembered. UIDs are never used twice, so forgetting one only
// costs another list of the rules.
const maxGone = 10000

// deletedRules checks which of the rules with records on nodes are deleted. A rule that the cache does not know may
// also be so new that only the admission policy has seen it. Its taint must not count as a leftover.
type deletedRules struct {
	mu   sync.Mutex
	dead sets.Set[string]
}

// among asks the API server about the rules with the given UIDs or names, except those that it knows to be deleted. The
// function that it returns reports whether a rule is deleted.
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
		if s.dead == nil || s.dead.Len() > maxGone {
			s.dead = sets.New[string]()
		}
		s.dead.Insert(sets.New(refs...).Difference(alive).UnsortedList()...)
		s.dead.Delete(alive.UnsortedList()...) // a name, unlike a UID, can come back
	}
	dead := s.dead.Intersection(sets.New(refs...))
	return dead.Has, nil
}
