// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/text"
)

// Reasons of the condition Served.
const (
	ReasonAllRunning = "AllRunning"
	ReasonNotRunning = "NotRunning"
	ReasonKeptAway   = "KeptAway"
)

// servedEvery is the least time between two checks of what serves the same rules.
const servedEvery = time.Minute

// reportServed sets the condition Served, and returns when to check again. If the check fails, the condition stays.
func (r *Reconciler) reportServed(ctx context.Context, rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	status *v1alpha1.NodeReadinessRuleStatus, now time.Time) time.Duration {
	needs := lint.NeedsMore(compiled)
	if r.Served == nil || !needs && !lint.Provided(compiled) {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionServed)
		return 0
	}
	served, next, err := r.served(ctx, rule, now)
	if err != nil {
		log.FromContext(ctx).V(2).Info("Not known what serves a rule", "rule", rule.Name, "error", err.Error())
		return next
	}
	c := metav1.Condition{Type: v1alpha1.ConditionServed, Status: metav1.ConditionTrue, Reason: ReasonAllRunning,
		Message: "The cluster has all that the fields of the rule need", ObservedGeneration: rule.Generation,
		LastTransitionTime: metav1.NewTime(now)}
	unserved := lint.Unserved(compiled, served)
	keptAway := lint.KeptAway(compiled, served.DaemonSets)
	if accepted, _ := lint.ParseCodes(rule.Annotations[v1alpha1.AcceptAnnotation]); accepted.Has(lint.Deadlock) {
		keptAway = nil
	}
	switch {
	case len(unserved) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNotRunning
	case len(keptAway) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonKeptAway
	case !needs: // whether a provider that is not known tolerates the taint is unknown
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionServed)
		return next
	}
	var words []string
	for _, w := range append(unserved, keptAway...) {
		words = append(words, w.String())
	}
	if len(words) > 0 {
		c.Message = text.Clip(strings.Join(words, "; "), v1alpha1.MaxStatusMessage)
	}
	meta.SetStatusCondition(&status.Conditions, c)
	return next
}

// look is what a look at the cluster has found, for all rules that there were then.
type look struct {
	found lint.Served
	err   error
	at    time.Time
	// rules are the generations of the rules.
	rules map[types.UID]int64
}

// served returns what serves the rules, from memory for some time, and when that ends. A rule that is new or edited
// since the last look needs another one. All rules share a look, also one that failed: of a provider, it lists the
// DaemonSets of all namespaces, and rules wait for each other's looks.
func (r *Reconciler) served(ctx context.Context, rule *v1alpha1.NodeReadinessRule, now time.Time) (lint.Served,
	time.Duration, error) {
	r.looking.Lock() // over the requests: they serve the other rules, too
	defer r.looking.Unlock()
	since := now.Sub(r.looked.at)
	if since >= 0 && since < servedEvery && r.looked.rules[rule.UID] == rule.Generation {
		return r.looked.found, servedEvery - since, r.looked.err
	}
	all := r.Fleet.Rules().All()
	found, err := r.Served(ctx, all...)
	r.looked = look{found, err, now, make(map[types.UID]int64, len(all))}
	for _, rule := range all {
		r.looked.rules[rule.UID] = rule.Generation
	}
	return found, servedEvery, err
}
