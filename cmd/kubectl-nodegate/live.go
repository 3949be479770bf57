// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// move moves the rules of an installation to another API group, while its operator is stopped. Each step can be
// repeated: a command that was interrupted is continued by running it again.
//
//	try       the server is asked whether it would create each rule in the other group, with all fields
//	copy      each rule is created in the other group, with the annotation SuccessorAnnotation, and gets the status of
//	          its predecessor
//	hand over AdmissionRules gets the UIDs of the new rules, and the other group. From then on, only an operator of that
//	          group starts, and the copies are not changed any more
//	delete    the finalizers of the predecessors are removed, and then the predecessors
//
// No step changes a node. The operator of the other group moves what the predecessors recorded there.
type move struct {
	*plugin
	c        *input.Cluster
	from, to v1alpha1.Group
	done     bool          // it was handed over
	rules    []predecessor // the oldest first
	others   []string      // rules of the other group that continue no rule
	left     []string      // rules of the former group that no rule continues, after the hand-over
}

// predecessor is a rule, and the one in the other group that continues it: nil if there is none yet.
type predecessor struct{ rule, successor *unstructured.Unstructured }

func (p *plugin) convertLive(ctx context.Context, to string, yes bool) error {
	groups := v1alpha1.Groups()
	target := slices.IndexFunc(groups, func(g v1alpha1.Group) bool { return g.Name == to })
	if target < 0 {
		return fmt.Errorf("--live needs --to=%s", strings.Join(v1alpha1.GroupNames(), " or --to="))
	}
	c, err := p.cluster(ctx)
	if err != nil {
		return err
	}
	if err := apigroup.CheckRules(ctx, c, c.GroupGiven, c.Now); err != nil {
		return err
	}
	m := &move{plugin: p, c: c, from: groups[1-target], to: groups[target]}
	if err := m.look(ctx); err != nil {
		return err
	}
	switch {
	case !m.done && v1alpha1.Served().Name == to:
		return fmt.Errorf("the object AdmissionRules, in which Nodegate records its API group, does not exist: set "+
			"--api-group=%s if the rules there are Nodegate's", m.from.Name)
	case m.done && len(m.rules) == 0:
		fmt.Fprintf(p.streams.ErrOut, "Nothing to do: Nodegate serves the API group %s.\n", to)
		m.warnLeft()
		return nil
	}
	if err := p.ask(ctx, &changing{yes: yes, dryRun: dryRunNone}, m.plan()); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		next := "Leave the operator stopped"
		if _, ok := errors.AsType[unfinished](err); ok {
			next = "Stop the operator when it has finished"
		}
		return fmt.Errorf("%w\nThe change of the API group has not ended. %s, and run the command again", err, next)
	}
	return nil
}

// run makes the steps. Users may edit rules, and start the operator, while the command asks and while it copies. So it
// looks again after each write, until all copies are as their predecessors.
func (m *move) run(ctx context.Context) error {
	for !m.done {
		if err := m.look(ctx); err != nil {
			return err
		}
		if m.done {
			break // by another user
		}
		switch wrote, err := m.copy(ctx); {
		case err != nil:
			return err
		case wrote:
			continue
		}
		if err := m.handOver(ctx); err != nil {
			return failure(err, "changing the rules for admission")
		}
		m.done = true
	}
	return m.delete(ctx)
}

// look reads the rules of both groups, and checks all that must be true before the next write.
func (m *move) look(ctx context.Context) error {
	former, err := m.list(ctx, m.from.Name)
	copies, missing := m.list(ctx, m.to.Name)
	// It is read after the rules: another user may make the change at the same time.
	recorded, unknown := apigroup.Recorded(ctx, m.c)
	if unknown != nil {
		return unknown
	}
	m.done = recorded != nil && recorded.MarkerPrefix == m.to.MarkerPrefix
	if m.done && meta.IsNoMatchError(err) { // it was deleted after the change
		err = nil
	}
	if !m.done {
		if err := m.stopped(ctx); err != nil {
			return err
		}
	}
	if err := cmp.Or(err, missing, m.pair(former, copies)); err != nil || m.done {
		return err
	}
	return errors.Join(m.unowned(ctx), m.moved(ctx), m.try(ctx))
}

// pair finds the copies of rules.
func (m *move) pair(former, copies []unstructured.Unstructured) error {
	m.rules, m.others, m.left = nil, nil, nil
	var failed []error
	for i := range former {
		rule, successor := &former[i], (*unstructured.Unstructured)(nil)
		n := slices.IndexFunc(copies, func(o unstructured.Unstructured) bool { return o.GetName() == rule.GetName() })
		if n >= 0 && predecessorOf(&copies[n]) == string(rule.GetUID()) {
			successor = &copies[n]
		}
		switch {
		case m.done && successor == nil: // another controller's, or created during the change
			m.left = append(m.left, rule.GetName())
			continue
		case n >= 0 && successor == nil:
			failed = append(failed, fmt.Errorf("rule %q exists in the API group %s, too, and is no copy: delete one of the two",
				rule.GetName(), m.to.Name))
		case successor != nil && successor.GetDeletionTimestamp() != nil && !m.done:
			failed = append(failed, fmt.Errorf("rule %q of the API group %s is being deleted: run the command again when it is "+
				"gone", rule.GetName(), m.to.Name))
		case rule.GetDeletionTimestamp() != nil && !m.done:
			failed = append(failed, deleting(rule.GetName()))
		}
		m.rules = append(m.rules, predecessor{rule, successor})
	}
	for i := range copies {
		name, uid := copies[i].GetName(), predecessorOf(&copies[i])
		switch {
		case slices.ContainsFunc(former, func(o unstructured.Unstructured) bool { return string(o.GetUID()) == uid }):
		case uid == "":
			m.others = append(m.others, name)
		case !m.done:
			failed = append(failed, fmt.Errorf("rule %q of the API group %s is a copy of a rule that was deleted: delete it",
				name, m.to.Name))
		}
	}
	slices.SortFunc(m.rules, func(a, b predecessor) int {
		return cmp.Or(a.rule.GetCreationTimestamp().Compare(b.rule.GetCreationTimestamp().Time),
			strings.Compare(a.rule.GetName(), b.rule.GetName()))
	})
	return errors.Join(failed...)
}

func (m *move) list(ctx context.Context, group string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: v1alpha1.Version,
		Kind: "NodeReadinessRuleList"})
	switch err := m.c.List(ctx, list); {
	case meta.IsNoMatchError(err) && group == m.to.Name:
		return nil, fmt.Errorf("the server has no CRD for rules of the API group %s: apply it first, as "+
			"docs/change-api-group.md says", group)
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the server has no CRD for rules of the API group %s, which Nodegate has served: if it is "+
			"not installed any more, run kubectl delete admissionrules --all, and install it as you like (%w)", group, err)
	default:
		return list.Items, input.Explain(err, "listing the rules of the API group "+group)
	}
}

// predecessorOf returns the UID of the rule that a rule continues, or "".
func predecessorOf(rule *unstructured.Unstructured) string {
	return rule.GetAnnotations()[v1alpha1.SuccessorAnnotation]
}

// plan says what the command will do.
func (m *move) plan() string {
	var names []string
	for _, of := range m.rules {
		names = append(names, of.rule.GetName())
	}
	rules := strings.TrimSuffix(report.Plural(len(names), "rule", "rules")+": "+strings.Join(names, ", "), ": ")
	var steps []string
	if !m.done {
		steps = append(steps,
			fmt.Sprintf("copy to the API group %s, with their status: %s", m.to.Name, rules),
			fmt.Sprintf("change the rules for admission: from then on, only an operator with --api-group=%s starts", m.to.Name))
	}
	steps = append(steps, fmt.Sprintf("delete from the API group %s, without any change on nodes: %s", m.from.Name, rules))
	for i, step := range steps {
		steps[i] = fmt.Sprintf("%d. %s", i+1, step)
	}
	if edited := m.edited(); len(edited) > 0 {
		steps = append(steps, fmt.Sprintf("Their copies in the API group %s differ, and stay as they are. If you have "+
			"edited these rules since they were copied, edit the copies first: %s", m.to.Name, strings.Join(edited, ", ")))
	}
	if len(m.others) > 0 {
		steps = append(steps, fmt.Sprintf("The operator will also apply the rules that the API group %s has already: %s",
			m.to.Name, strings.Join(m.others, ", ")))
	}
	return "Steps:\n" + strings.Join(steps, "\n")
}

// edited returns the names of the rules that differ from their copies after these have been handed over: a user has
// edited one of both.
func (m *move) edited() (names []string) {
	for _, of := range m.rules {
		if m.done && !isCopy(of.successor, m.copyOf(of.rule)) {
			names = append(names, of.rule.GetName())
		}
	}
	return names
}

// copy creates the rules in the other group, the oldest first: older rules take precedence. Rules of the same second
// are in the order of their names. It reports whether it has written anything.
func (m *move) copy(ctx context.Context) (wrote bool, err error) {
	last := ""
	for i := range m.rules {
		of := &m.rules[i]
		name := of.rule.GetName()
		if of.successor == nil && name < last {
			select {
			case <-ctx.Done():
				return wrote, failure(ctx.Err(), fmt.Sprintf("copying rule %q", name))
			case <-time.After(time.Second):
			}
		}
		last = name
		copied, err := m.copyRule(ctx, of)
		if err != nil {
			return wrote, failure(err, fmt.Sprintf("copying rule %q", name))
		}
		if copied {
			wrote = true
			fmt.Fprintf(m.streams.Out, "nodereadinessrule.%s/%s copied\n", m.to.Name, name)
		}
	}
	return wrote, nil
}

// copyRule makes the copy of a rule what the rule is, and reports whether it has written anything.
func (m *move) copyRule(ctx context.Context, of *predecessor) (wrote bool, err error) {
	want := m.copyOf(of.rule)
	switch {
	case of.successor == nil:
		of.successor, wrote = want.DeepCopy(), true
		err = m.c.Create(ctx, of.successor)
	case !isCopy(of.successor, want): // edited since
		of.successor.Object["spec"], wrote = want.Object["spec"], true
		of.successor.SetLabels(want.GetLabels())
		of.successor.SetAnnotations(want.GetAnnotations())
		of.successor.SetOwnerReferences(want.GetOwnerReferences())
		err = m.c.Update(ctx, of.successor)
	}
	if err != nil {
		return wrote, err
	}
	status := statusFor(of)
	same := func() bool {
		return status == nil || equality.Semantic.DeepEqual(of.successor.Object["status"], status)
	}
	if !same() {
		of.successor.Object["status"], wrote = status, true
		if err := m.c.Status().Update(ctx, of.successor); err != nil {
			return wrote, err
		}
	}
	if !isCopy(of.successor, want) || !same() {
		return wrote, errFields
	}
	if of.own() {
		err = m.c.Update(ctx, of.successor)
	}
	return wrote, err
}

// handOver gives AdmissionRules the UIDs of the copies, and the other group.
func (m *move) handOver(ctx context.Context) error {
	successors := map[string]string{}
	for _, of := range m.rules {
		successors[string(of.rule.GetUID())] = string(of.successor.GetUID())
	}
	successor := func(uid string) string { return cmp.Or(successors[uid], uid) }
	object := &admissionv1alpha1.AdmissionRules{}
	err := m.c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, object)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	object.Name, object.MarkerPrefix = admissionv1alpha1.Name, m.to.MarkerPrefix
	for i := range object.Groups {
		group, records := &object.Groups[i], map[string]admissionv1alpha1.Record{}
		for j, rule := range group.Rules {
			uid, rest, _ := strings.Cut(rule, ",")
			group.Rules[j] = successor(uid) + "," + rest
		}
		for key, record := range group.Records {
			records[v1alpha1.RecordAnnotationPrefix+successor(strings.TrimPrefix(key, v1alpha1.RecordAnnotationPrefix))] = record
		}
		group.Records = records
	}
	for i := range object.Frozen {
		object.Frozen[i] = successor(object.Frozen[i])
	}
	if missing {
		err = m.c.Create(ctx, object)
	} else {
		err = m.c.Update(ctx, object)
	}
	if err == nil {
		fmt.Fprintf(m.streams.Out, "admissionrules.nodegate.io/%s changed\n", object.Name)
	}
	return err
}

// delete deletes the predecessors. No operator serves their group, so the finalizer has to be removed. Those of others
// stay: the change has not ended before these are gone.
func (m *move) delete(ctx context.Context) error {
	var waiting []error
	for _, of := range m.rules {
		before := of.rule.DeepCopy()
		var err error
		if controllerutil.RemoveFinalizer(of.rule, m.from.Finalizer) {
			err = m.c.Patch(ctx, of.rule, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		if err == nil && of.rule.GetDeletionTimestamp() == nil {
			err = m.c.Delete(ctx, of.rule, client.Preconditions{UID: new(before.GetUID()),
				ResourceVersion: new(of.rule.GetResourceVersion())})
		}
		if apierrors.IsConflict(err) { // after the look, so it is not in the copy
			err = errors.New("it was edited meanwhile")
		}
		if client.IgnoreNotFound(err) != nil {
			return failure(err, fmt.Sprintf("deleting rule %q of the API group %s", before.GetName(), m.from.Name))
		}
		if others := of.rule.GetFinalizers(); len(others) > 0 && err == nil {
			waiting = append(waiting, fmt.Errorf("rule %q of the API group %s is being deleted, and waits for the owner of "+
				"its finalizer %s", before.GetName(), m.from.Name, strings.Join(others, ", ")))
			continue
		}
		fmt.Fprintf(m.streams.Out, "nodereadinessrule.%s/%s deleted\n", m.from.Name, before.GetName())
	}
	if len(waiting) > 0 {
		return errors.Join(waiting...)
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	m.warnLeft()
	fmt.Fprintf(m.streams.ErrOut, "Now start the operator with the API group %s.\n", m.to.Name)
	return nil
}

// warnLeft names the rules that were not moved. A user may have created a rule just before the hand-over.
func (m *move) warnLeft() {
	if len(m.left) > 0 {
		fmt.Fprintf(m.streams.ErrOut, "Nodegate does not apply the rules that are left in the API group %s: %s. If one was "+
			"created during the change, create it in the API group %s, and delete the former one.\n", m.from.Name,
			strings.Join(m.left, ", "), m.to.Name)
	}
}
