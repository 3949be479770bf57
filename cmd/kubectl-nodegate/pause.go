// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

type pauseOptions struct {
	*changing
	resume bool
	force  bool
}

func newPause(p *plugin) *cobra.Command {
	o := &pauseOptions{}
	cmd := &cobra.Command{
		Use:   "pause [RULE...]",
		Short: "Suspend rules: nothing is added to any node, releases go on",
		Long: "Suspend the named rules, or all: they put nothing on any node, and what stands goes as soon as its node is ready. It sets\n" +
			"spec.suspend, and the annotation " + v1alpha1.PausedAnnotation + ", by which resume knows what it may resume.",
		Example:           "  kubectl nodegate pause\n  kubectl nodegate pause network --yes",
		ValidArgsFunction: p.completeRules,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.pause(cmd.Context(), args, o) },
	}
	o.changing = newChanging(cmd, "paused")
	return cmd
}

func newResume(p *plugin) *cobra.Command {
	o := &pauseOptions{resume: true}
	cmd := &cobra.Command{
		Use:   "resume [RULE...]",
		Short: "Put rules back in force that pause has suspended",
		Long: "Put the named rules, or all, back in force that pause has suspended. Rules that somebody has suspended in another way stay\n" +
			"so, unless they are named and --force is given.",
		Example:           "  kubectl nodegate resume\n  kubectl nodegate resume network --yes",
		ValidArgsFunction: p.completeRules,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.pause(cmd.Context(), args, o) },
	}
	o.changing = newChanging(cmd, "resumed")
	cmd.Flags().BoolVar(&o.force, "force", false, "Also resume rules that are named and that pause has not suspended.")
	return cmd
}

func (p *plugin) pause(ctx context.Context, names []string, o *pauseOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.force && len(names) == 0 {
		return fmt.Errorf("--force: name the rules; by itself resume takes only those that pause has suspended")
	}
	c, err := p.cluster()
	if err != nil {
		return err
	}
	all, err := c.Rules(ctx)
	if err != nil {
		return err
	}
	rules, err := named(all, names)
	if err != nil {
		return err
	}
	todo, notes := o.choose(rules)
	for _, note := range notes {
		fmt.Fprintln(p.streams.ErrOut, "note:", note)
	}
	if len(todo) == 0 {
		fmt.Fprintf(p.streams.ErrOut, "Nothing to do: no rule is to be %s.\n", o.done)
		return nil
	}
	if err := p.ask(ctx, o.changing, o.announce(todo)); err != nil {
		return err
	}
	for _, rule := range todo {
		if err := p.apply(ctx, c, o.changing, rule, o.patch(rule, p.now())); err != nil {
			return err
		}
		if o.dryRun != dryRunClient && rule.Spec.Suspend == o.resume {
			return fmt.Errorf("rule %s: the server did not keep spec.suspend: the definition of rules that it serves is not Nodegate's; apply the one that comes with it", rule.Name)
		}
	}
	return nil
}

// errNoRule is for a name that no rule has.
var errNoRule = errors.New("there is no rule")

// named are the rules with the given names, all without any.
func named(all []v1alpha1.NodeReadinessRule, names []string) ([]*v1alpha1.NodeReadinessRule, error) {
	var out []*v1alpha1.NodeReadinessRule
	for i := range all {
		if len(names) == 0 || slices.Contains(names, all[i].Name) {
			out = append(out, &all[i])
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(out, func(r *v1alpha1.NodeReadinessRule) bool { return r.Name == name }) {
			return nil, fmt.Errorf("%w %q: \"kubectl get nrr\" lists what there is", errNoRule, name)
		}
	}
	return out, nil
}

// choose are the rules that something is to be done to, and what people should know about the others.
func (o *pauseOptions) choose(rules []*v1alpha1.NodeReadinessRule) (todo []*v1alpha1.NodeReadinessRule, notes []string) {
	for _, r := range rules {
		_, ours := r.Annotations[v1alpha1.PausedAnnotation]
		switch {
		case !r.DeletionTimestamp.IsZero():
			notes = append(notes, fmt.Sprintf("rule %s is being deleted, and is left alone", r.Name))
		case !o.resume && r.Spec.Suspend:
			notes = append(notes, fmt.Sprintf("rule %s is suspended already, and is left as it is", r.Name))
		case o.resume && !r.Spec.Suspend:
		case o.resume && !ours && !o.force:
			notes = append(notes, fmt.Sprintf("rule %s was suspended by somebody, not by pause, and stays so: \"kubectl nodegate resume %s --force\" resumes it", r.Name, r.Name))
		default:
			todo = append(todo, r)
			if by := managedBy(r); by != "" {
				notes = append(notes, fmt.Sprintf("rule %s is managed by %s, which may undo this", r.Name, by))
			}
		}
	}
	return todo, notes
}

// managedBy is what else writes a rule, by the marks that it leaves.
func managedBy(r *v1alpha1.NodeReadinessRule) string {
	switch {
	case r.Annotations["argocd.argoproj.io/tracking-id"] != "" || r.Labels["argocd.argoproj.io/instance"] != "":
		return "Argo CD"
	case r.Labels["kustomize.toolkit.fluxcd.io/name"] != "" || r.Labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	}
	return ""
}

// announce says what will be done to how many rules and nodes.
func (o *pauseOptions) announce(rules []*v1alpha1.NodeReadinessRule) string {
	names := make([]string, 0, len(rules))
	var matched, held, exempt int32
	unreported := 0
	for _, r := range rules {
		names = append(names, r.Name)
		if r.Status.Nodes == nil {
			unreported++
			continue
		}
		matched += r.Status.Nodes.Matched
		held += r.Status.Nodes.Held
		exempt += r.Status.Nodes.Exempt
	}
	which := "rule " + names[0]
	if len(names) > 1 {
		which = fmt.Sprintf("%d rules (%s)", len(names), strings.Join(names, ", "))
	}
	var text string
	if o.resume {
		text = fmt.Sprintf("Resumes %s, about %d nodes: up to %d that are not ready and not held can be held again.", which, matched, exempt)
	} else {
		text = fmt.Sprintf("Pauses %s, about %d nodes: nothing is put on any of them; the %d that are held stay so until they are ready.", which, matched, held)
	}
	if unreported > 0 {
		text += fmt.Sprintf(" %d of the rules have no status yet, and are not counted.", unreported)
	}
	return text
}

// patch is what is to be sent for a rule. The version keeps it from undoing what somebody else has just written.
func (o *pauseOptions) patch(r *v1alpha1.NodeReadinessRule, now time.Time) map[string]any {
	var suspend, paused any // null takes it off
	if !o.resume {
		suspend, paused = true, now.UTC().Format(time.RFC3339)
	}
	return map[string]any{
		"metadata": map[string]any{
			"uid": r.UID, "resourceVersion": r.ResourceVersion,
			"annotations": map[string]any{v1alpha1.PausedAnnotation: paused},
		},
		"spec": map[string]any{"suspend": suspend},
	}
}
