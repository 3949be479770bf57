// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// stopWithin is how long the operator waits for rules that stop to leave the object before it goes on without that.
const stopWithin = 2 * time.Second

// Writer writes the AdmissionRules while this replica leads. A rule that stops leaves the object before the operator
// changes a node because of that, and an edited one is written again. A new rule is added a moment later. It is safe
// for concurrent use.
type Writer struct {
	// Client reads from and writes to the API server.
	Client client.Client
	// Lease is what a leader holds. It is nil without an election.
	Lease *leader.Lease
	// Observe is called with the object as it was, before it is written. It may be nil.
	Observe func(*admissionv1alpha1.AdmissionRules)
	// Changed is called with the rules that have come into the object, or whose problem has changed. It may be nil.
	Changed func(rules []string)

	once sync.Once
	wake chan struct{}

	writing sync.Mutex // held while the object is read and written

	mu      sync.Mutex
	set     *ruleset.Set                               // that is in force, or nil before there is one
	ahead   bool                                       // rules in the object have stopped or were edited
	stored  map[string]admissionv1alpha1.AdmissionRule // by the UID, or nil before the object is known
	left    sets.Set[string]                           // rules without room in the object
	problem string                                     // why the object cannot be written
}

func (w *Writer) setUp() {
	w.once.Do(func() { w.wake = make(chan struct{}, 1) })
}

// Propose gives the rules to the writer, before they come into force.
func (w *Writer) Propose(set *ruleset.Set) {
	w.mu.Lock()
	w.set = set
	w.ahead = w.ahead || w.stored == nil || w.changes(set)
	w.mu.Unlock()
	w.Wake()
}

// errOtherGroup means that another installation, in another API group, has written the object. The rules of that one are
// unknown here: their taints would be removed.
var errOtherGroup = errors.New("another installation runs in this cluster")

// Settle returns when the rules that have stopped have left the object, and edited ones are written, or when that has
// failed: then it is tried again. It writes once for all of them. With an error, no node may be changed.
func (w *Writer) Settle(ctx context.Context) error {
	if !w.isAhead() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	w.writing.Lock()
	defer w.writing.Unlock()
	if !w.isAhead() {
		return nil
	}
	err := w.write(ctx)
	if errors.Is(err, errOtherGroup) {
		return err
	}
	if err != nil {
		w.mu.Lock()
		w.ahead = false // do not wait again for the same rules
		w.mu.Unlock()
	}
	return nil
}

func (w *Writer) isAhead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ahead
}

// changes reports whether a rule in the object is another one, or not there, in a set. The caller holds w.mu.
func (w *Writer) changes(set *ruleset.Set) bool {
	before := &admissionv1alpha1.AdmissionRules{Rules: slices.Collect(maps.Values(w.stored))}
	after, _ := set.ForAdmission(before)
	rules := byUID(after.Rules)
	for uid, rule := range w.stored {
		if now, there := rules[uid]; !there || !equality.Semantic.DeepEqual(rule, now) {
			return true
		}
	}
	return false
}

func byUID(rules []admissionv1alpha1.AdmissionRule) map[string]admissionv1alpha1.AdmissionRule {
	out := make(map[string]admissionv1alpha1.AdmissionRule, len(rules))
	for _, r := range rules {
		out[r.UID] = r
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
	stored, listed := w.stored[string(rule.UID)]
	switch {
	case listed && equality.Semantic.DeepEqual(stored, rule.ForAdmission()):
		return "", false
	case w.problem != "":
		return w.problem, false
	case w.left.Has(string(rule.UID)):
		return "the rules for admission have no room for more rules: make the node selectors of rules shorter, or delete " +
			"rules", false
	}
	return "", true
}

// Write makes the object what the rules say.
func (w *Writer) Write(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.write(ctx)
}

// write writes the object, also if another client changes it at the same time. The caller holds w.writing.
func (w *Writer) write(ctx context.Context) error {
	return leader.Retry(func() error {
		w.mu.Lock()
		set := w.set
		w.mu.Unlock()
		if set == nil {
			return nil
		}
		stored := &admissionv1alpha1.AdmissionRules{}
		err := client.IgnoreNotFound(w.Client.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, stored))
		if err != nil {
			return w.done(nil, nil, err)
		}
		if stored.MarkerPrefix != "" {
			if err := ruleset.CheckGroup(stored); err != nil {
				return w.done(nil, nil, fmt.Errorf("%w: %w", errOtherGroup, err))
			}
		}
		if w.Observe != nil {
			w.Observe(stored)
		}
		object, left := set.ForAdmission(stored)
		rules := object.Rules
		if !equality.Semantic.DeepEqual(stored, object) {
			rules, err = w.store(ctx, object)
		}
		return w.done(rules, left, err)
	})
}

// errPruned: the policy fails for each node if it reads a field that is not stored.
var errPruned = errors.New("the CRD admissionrules.nodegate.io lacks fields: install that of this version")

// store writes the object, and returns the rules that are stored. It reads them: the API server drops fields that an
// older CRD lacks, and its answer is decoded into the object, which keeps them.
func (w *Writer) store(ctx context.Context, object *admissionv1alpha1.AdmissionRules) (
	[]admissionv1alpha1.AdmissionRule, error) {
	if err := w.Lease.Write(ctx, w.Client, object); err != nil {
		return nil, err
	}
	stored := &admissionv1alpha1.AdmissionRules{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
		return nil, err
	}
	sent, err := json.Marshal(object.Rules) // times have whole seconds there
	if err != nil {
		return nil, err
	}
	read, err := json.Marshal(stored.Rules)
	if stored.ResourceVersion == object.ResourceVersion && !bytes.Equal(sent, read) {
		return stored.Rules, errPruned
	}
	return object.Rules, err
}

// done remembers what is stored, or the error.
func (w *Writer) done(rules []admissionv1alpha1.AdmissionRule, left []string, err error) error {
	err = explain(err)
	w.mu.Lock()
	stored, before, problem := w.stored, w.left, w.problem
	switch {
	case err == nil:
		w.stored, w.left, w.problem = byUID(rules), sets.New(left...), ""
		w.ahead = w.changes(w.set)
	case errors.Is(err, errPruned):
		w.stored, w.left, w.problem = byUID(rules), sets.New(left...), err.Error()
	case leader.Lasts(err):
		w.problem = err.Error()
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			w.stored = byUID(nil)
		}
	}
	var names []string
	for _, r := range w.set.All() {
		uid := string(r.UID)
		_, was := stored[uid]
		_, is := w.stored[uid]
		if r.AtAdmission() && (was != is || before.Has(uid) != w.left.Has(uid) || problem != w.problem) {
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
