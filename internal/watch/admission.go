// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Admission serves the rules that taint nodes at admission, on every replica, and tells Rules which rules are frozen:
// as the leader has written into the AdmissionRules. While there is no such object, because the CRD is missing or no
// leader of this version has written it yet, the status of the rules decides.
type Admission struct {
	// Rules are all rules.
	Rules *Rules
	// Changed is called after the object has changed, with whether it exists. It may be nil.
	Changed func(exists bool)
	// Served is called with whether the API server serves the CRD, each time that this is known. It may be nil.
	Served func(bool)

	stored   atomic.Pointer[[]ruleset.AdmissionRule]
	byStatus atomic.Pointer[byStatus]
}

// byStatus are the compiled rules of a snapshot.
type byStatus struct {
	of    *ruleset.Set
	rules []ruleset.AdmissionRule
}

// Current returns the rules that taint nodes at admission.
func (a *Admission) Current() []ruleset.AdmissionRule {
	if stored := a.stored.Load(); stored != nil {
		return *stored
	}
	set := a.Rules.Reported()
	if known := a.byStatus.Load(); known != nil && known.of == set {
		return known.rules
	}
	object, _ := set.ForAdmission(nil)
	compiled := &byStatus{of: set, rules: ruleset.CompileAdmission(object)}
	a.byStatus.Store(compiled)
	return compiled.rules
}

// Handler returns the handler of the object.
func (a *Admission) Handler() cache.ResourceEventHandler { return handler(a.put, a.drop) }

func (a *Admission) put(object *admissionv1alpha1.AdmissionRules) {
	rules := ruleset.CompileAdmission(object)
	a.stored.Store(&rules)
	a.Rules.freezeListed(sets.New(object.Frozen...))
	a.tell(true)
}

func (a *Admission) drop(*admissionv1alpha1.AdmissionRules) {
	a.stored.Store(nil)
	a.Rules.freezeListed(nil)
	a.tell(false)
}

func (a *Admission) tell(exists bool) {
	if a.Changed != nil {
		a.Changed(exists)
	}
}
