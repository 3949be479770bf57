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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// stopWithin is how long the operator waits for rules that stop to leave the object before it goes on without that.
const stopWithin = 2 * time.Second

// errLacking says that the API server has not stored all of the object. It is said of each rule, since it is not known
// which of them need what is missing.
var errLacking = errors.New("the API server has not stored all of the rules for admission: the CRD " +
	"admissionrules.nodegate.io in the cluster lacks fields of this version; apply the CRD of this version: see " +
	"config/crd")

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

	once    sync.Once
	wake    chan struct{}
	writing chan struct{} // full while the object is read and written

	mu      sync.Mutex
	set     *ruleset.Set                      // that is in force, or nil before there is one
	ahead   bool                              // rules in the object have stopped or were edited
	object  *admissionv1alpha1.AdmissionRules // as it is stored, or nil before that is known
	stored  map[string]ruleset.Listed         // its rules, by the UID
	left    sets.Set[string]                  // rules without room in the object
	problem string                            // why the object cannot be written
	lacking bool                              // the CRD lacks fields, which is the problem
}

func (w *Writer) setUp() {
	w.once.Do(func() { w.wake, w.writing = make(chan struct{}, 1), make(chan struct{}, 1) })
}

// Propose gives the rules to the writer, before they come into force. If one is deleted, the object is read before
// nodes change, even if it does not list that rule: an installation of another API group may continue it.
func (w *Writer) Propose(set *ruleset.Set) {
	w.mu.Lock()
	deleted := w.set != nil && slices.ContainsFunc(w.set.All(), func(before *ruleset.Rule) bool {
		now := set.Rule(before.UID)
		return now == nil || now.Mode == ruleset.Deleting && before.Mode != ruleset.Deleting
	})
	w.set = set
	w.ahead = w.ahead || w.object == nil || deleted || w.changes(set)
	w.mu.Unlock()
	w.Wake()
}

// errOtherGroup means that another installation, in another API group, has written the object. The rules of that one
// are unknown here: their taints would be removed.
var errOtherGroup = errors.New("another installation runs in this cluster")

// Settle returns when the rules that have stopped have left the object, and edited ones are written, or when that has
// failed: then it is tried again. It writes once for all of them. With an error, no node may be changed.
func (w *Writer) Settle(ctx context.Context) error {
	if !w.isAhead() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	err := w.alone(ctx, func() error {
		if !w.isAhead() {
			return nil
		}
		return w.write(ctx)
	})
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
	after, _ := set.ForAdmission(w.object)
	rules := ruleset.List(after)
	for uid, rule := range w.stored {
		if now, there := rules[uid]; !there || !equality.Semantic.DeepEqual(rule, now) {
			return true
		}
	}
	return false
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
	case w.lacking:
		return w.problem, false
	case listed && equality.Semantic.DeepEqual(stored, rule.Listed()):
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
	return w.alone(ctx, func() error { return w.write(ctx) })
}

// alone calls a function while no other write runs. It waits for one no longer than the context lasts.
func (w *Writer) alone(ctx context.Context, f func() error) error {
	w.setUp()
	select {
	case w.writing <- struct{}{}: // also after the end of the context, so that the same story goes the same way
	default:
		select {
		case w.writing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-w.writing }()
	return f()
}

// write writes the object, also if another client changes it at the same time. The caller writes alone.
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
		if !equality.Semantic.DeepEqual(stored, object) {
			stored, err = w.store(ctx, object)
		}
		return w.done(stored, left, err)
	})
}

// store writes an object, and returns what the API server has stored. The answer to the write does not tell: the client
// decodes it into the object that it has sent, so that fields seem to be there that the CRD lacks.
func (w *Writer) store(ctx context.Context, object *admissionv1alpha1.AdmissionRules) (
	*admissionv1alpha1.AdmissionRules, error) {
	written, stored := object.DeepCopy(), &admissionv1alpha1.AdmissionRules{}
	if err := w.Lease.Write(ctx, w.Client, written); err != nil {
		return nil, err
	}
	err := client.IgnoreNotFound(w.Client.Get(ctx, client.ObjectKeyFromObject(written), stored))
	switch {
	case err != nil:
		return nil, err
	case stored.ResourceVersion != written.ResourceVersion: // another client was as fast
		return nil, apierrors.NewConflict(schema.GroupResource{}, object.Name, errors.New("it was changed after this write"))
	case !equality.Semantic.DeepEqual(content(stored), content(object)):
		return stored, errLacking
	}
	return stored, nil
}

// content returns an object without its metadata.
func content(o *admissionv1alpha1.AdmissionRules) *admissionv1alpha1.AdmissionRules {
	out := *o
	out.TypeMeta, out.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	return &out
}

// done remembers what is stored, or the error.
func (w *Writer) done(object *admissionv1alpha1.AdmissionRules, left []string, err error) error {
	err = explain(err)
	w.mu.Lock()
	stored, before, problem := w.stored, w.left, w.problem
	switch {
	case err == nil:
		w.object, w.stored, w.left, w.problem, w.lacking = object, ruleset.List(object), sets.New(left...), "", false
		w.ahead = w.changes(w.set)
	case errors.Is(err, errLacking):
		w.object, w.stored, w.left, w.problem, w.lacking = object, ruleset.List(object), sets.New(left...), err.Error(), true
	case leader.Lasts(err):
		w.problem = err.Error()
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			w.object, w.stored = &admissionv1alpha1.AdmissionRules{}, nil
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
