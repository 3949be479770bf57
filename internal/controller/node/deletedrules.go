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

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
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
	taints   map[string]*history // of the rules that this process has known, by UID
}

// history is what this process knows of the taints of a rule.
type history struct {
	taints []ruleset.TaintID
	// since is when the process knew the rule first. Before that, it may have had another taint. Zero: it had not.
	since time.Time
}

// Observe remembers which taints rules have or had. It must see each set that a webhook of this process may decide by,
// also before this replica leads.
func (r *Reconciler) Observe(set *ruleset.Set) {
	s, now := &r.deleted, r.Clock.Now()
	s.observed.Lock()
	defer s.observed.Unlock()
	if len(s.taints) > maxGone {
		s.taints = nil
	}
	for _, rule := range set.All() {
		s.note(string(rule.UID), rule.Generation, rule.Taint, now)
	}
}

// ObserveListed does the same with the rules for admission. Admission goes by them until the leader has written them
// again, also for rules that were deleted while no operator was running.
func (r *Reconciler) ObserveListed(object *admissionv1alpha1.AdmissionRules) {
	s, now := &r.deleted, r.Clock.Now()
	s.observed.Lock()
	defer s.observed.Unlock()
	for _, rule := range ruleset.CompileAdmission(object) {
		s.note(rule.UID, 1, &rule.Taint, now)
	}
}

// note remembers the taint of a rule. The caller holds s.observed.
func (s *deletedRules) note(uid string, generation int64, taint *corev1.Taint, now time.Time) {
	if s.taints == nil {
		s.taints = map[string]*history{}
	}
	h := s.taints[uid]
	if h == nil {
		h = &history{}
		if s.taints[uid] = h; generation > 1 {
			h.since = now
		}
	}
	if taint != nil && !slices.Contains(h.taints, ruleset.TaintIDOf(*taint)) {
		h.taints = append(h.taints, ruleset.TaintIDOf(*taint))
	}
}

// known reports whether a rule may have had a taint when a node was created, or since.
func (s *deletedRules) known(node *corev1.Node, uid string, taint *corev1.Taint) bool {
	s.observed.Lock()
	defer s.observed.Unlock()
	h := s.taints[uid]
	return h != nil && (node.CreationTimestamp.Time.Before(h.since.Add(evidence.MaxClockSkew)) ||
		slices.Contains(h.taints, ruleset.TaintIDOf(*taint)))
}

// among asks the API server about the rules with the given UIDs or names, except those that it knows to be deleted. It
// observes the taints of all rules then: a webhook, or the admission policy, may know a rule's new taint earlier.
func (s *deletedRules) among(ctx context.Context, live client.Reader, refs []string, now time.Time) (taints.Missing,
	error) {
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

// ask lists the rules, and stores which of the given ones are missing, and the taints of the others.
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
	s.observed.Lock()
	defer s.observed.Unlock()
	for i := range rules.Items {
		var taint *corev1.Taint
		if t := rules.Items[i].Spec.Taint; t != nil {
			taint = new(t.Core())
		}
		s.note(string(rules.Items[i].UID), rules.Items[i].Generation, taint, now)
		delete(s.dead, string(rules.Items[i].UID))
		delete(s.dead, rules.Items[i].Name) // a name, unlike a UID, can come back
	}
	return nil
}
