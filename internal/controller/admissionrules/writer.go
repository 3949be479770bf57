// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// stopWithin is how long rules that stop may take to leave the object before the operator goes on without that.
	stopWithin = 2 * time.Second
	// deposed is how long the writer leaves an object alone that another process has written since this process wrote
	// it. A leader that has lost its lease ends earlier.
	deposed = 30 * time.Second
)

// Writer writes the AdmissionRules while this replica leads. A rule that stops leaves the object before the operator
// acts on that. A new rule is added a moment later. It is safe for concurrent use.
type Writer struct {
	// Client reads from and writes to the API server.
	Client client.Client
	// Clock tells the time.
	Clock clock.PassiveClock
	// Changed is called with the rules that have come into the object, or whose problem has changed. It may be nil.
	Changed func(rules []string)

	once sync.Once
	id   string
	wake chan struct{}

	writing sync.Mutex // held while the object is read and written

	mu      sync.Mutex
	set     *ruleset.Set // that is in force, or nil before there is one
	stored  sets.Set[string]
	left    sets.Set[string] // rules without room in the object
	problem string           // why the object cannot be written
	took    bool             // this process has written the object
	foreign time.Time        // since when another process has written it after that
}

func (w *Writer) setUp() {
	w.once.Do(func() {
		w.id, w.wake = string(uuid.NewUUID()), make(chan struct{}, 1)
	})
}

// Publish gives the rules to the writer, before they come into force. It returns when the rules that stop have left the
// object, or when that has failed: then it is tried again.
func (w *Writer) Publish(ctx context.Context, set *ruleset.Set) {
	w.setUp()
	w.mu.Lock()
	w.set = set
	stops := w.stored.Difference(wanted(set)).Len() > 0 || w.stored == nil
	w.mu.Unlock()
	if stops {
		ctx, cancel := context.WithTimeout(ctx, stopWithin)
		defer cancel()
		if w.Write(ctx) == nil {
			return
		}
	}
	w.Wake()
}

// wanted returns the UIDs of the rules that may be in the object.
func wanted(set *ruleset.Set) sets.Set[string] {
	out := sets.New[string]()
	for _, r := range set.All() {
		if r.AtAdmission() || r.Pending() {
			out.Insert(string(r.UID))
		}
	}
	return out
}

// Wake makes the writer compare the object with the rules.
func (w *Writer) Wake() {
	w.setUp()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Woken receives a value after each Wake.
func (w *Writer) Woken() <-chan struct{} {
	w.setUp()
	return w.wake
}

// Problem returns why a rule in force does not taint nodes at admission, and whether that may be decided in a moment.
func (w *Writer) Problem(rule *ruleset.Rule) (problem string, undecided bool) {
	if !rule.AtAdmission() {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stored.Has(string(rule.UID)):
		return "", false
	case w.problem != "":
		return w.problem, false
	case w.left.Has(string(rule.UID)):
		return "the rules for admission have no room for more rules: make the node selectors of rules shorter, or delete " +
			"rules", false
	}
	return "", true
}

var errDeposed = errors.New("another process has written the object since: this one may no longer lead")

// Write makes the object what the rules say.
func (w *Writer) Write(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	set := w.set
	w.mu.Unlock()
	if set == nil {
		return nil
	}
	object := &admissionv1alpha1.AdmissionRules{}
	err := w.Client.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, object)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return w.done(nil, nil, explain(err))
	}
	if !missing && w.overtaken(object.Writer) {
		return errDeposed
	}
	rules, left := merge(set, object.Rules)
	if missing || object.Writer != w.id || !equality.Semantic.DeepEqual(object.Rules, rules) {
		object.Name, object.Writer, object.Rules = admissionv1alpha1.Name, w.id, rules
		object.MarkerPrefix = v1alpha1.Served().MarkerPrefix
		if missing {
			err = w.Client.Create(ctx, object)
		} else {
			err = w.Client.Update(ctx, object) // of the version that was read
		}
		if err != nil {
			return w.done(nil, nil, explain(err))
		}
	}
	return w.done(rules, left, nil)
}

// overtaken reports whether another process has written the object after this one.
func (w *Writer) overtaken(writer string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.took || writer == w.id || writer == "" {
		w.foreign = time.Time{}
		return false
	}
	now := w.Clock.Now()
	if w.foreign.IsZero() {
		w.foreign = now
	}
	return now.Sub(w.foreign) < deposed
}

// merge returns the rules for the object, which has others now, and the UIDs of rules that have no room.
func merge(set *ruleset.Set, now []admissionv1alpha1.AdmissionRule) ([]admissionv1alpha1.AdmissionRule, []string) {
	rules, left := set.ForAdmission()
	for _, r := range now {
		if known := set.Rule(types.UID(r.UID)); known != nil && known.Pending() {
			rules = append(rules, r)
		}
	}
	slices.SortStableFunc(rules, ruleset.ByTaint)
	return rules, left
}

// done remembers what is stored, or the error.
func (w *Writer) done(rules []admissionv1alpha1.AdmissionRule, left []string, err error) error {
	w.mu.Lock()
	before := struct {
		stored, left sets.Set[string]
		problem      string
	}{w.stored, w.left, w.problem}
	switch {
	case err == nil:
		w.stored, w.left, w.problem, w.took = sets.New[string](), sets.New(left...), "", true
		for i := range rules {
			w.stored.Insert(rules[i].UID)
		}
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err): // someone has changed it: read it again
	default:
		w.problem = err.Error()
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			w.stored = sets.New[string]()
		}
	}
	var names []string
	for _, r := range w.set.All() {
		uid := string(r.UID)
		if r.AtAdmission() && (before.stored.Has(uid) != w.stored.Has(uid) || before.left.Has(uid) != w.left.Has(uid) ||
			before.problem != w.problem) {
			names = append(names, r.Name)
		}
	}
	w.mu.Unlock()
	if len(names) > 0 && w.Changed != nil {
		w.Changed(names)
	}
	return err
}

// explain says what to do if the CRD is missing, or the permission.
func explain(err error) error {
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("%w; install the CRD admissionrules.nodegate.io: see config/crd", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; install the operator's roles of this version", err)
	}
	return err
}
