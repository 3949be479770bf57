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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

type pauseOptions struct {
	*changing
	resume bool
	all    bool
	force  bool
}

func newPause(p *plugin) *cobra.Command {
	cmd, _ := p.pausing(false, "paused", &cobra.Command{
		Use:   "pause RULE...",
		Short: "Suspend rules: the operator changes nothing for them",
		Long: `Suspend the named rules, or all with --all: the operator changes nothing for them, nor for rules that
require them, until "kubectl nodegate resume". It sets spec.suspend, and the annotation
` + v1alpha1.PausedAnnotation + `, which tells resume what it may resume.`,
		Example: "  kubectl nodegate pause network\n  kubectl nodegate pause --all --yes",
	})
	return cmd
}

func newResume(p *plugin) *cobra.Command {
	cmd, o := p.pausing(true, "resumed", &cobra.Command{
		Use:   "resume RULE...",
		Short: "Resume rules that pause has suspended",
		Long: `Resume the named rules, or all with --all, that pause has suspended. Rules that were suspended in
another way stay suspended, unless you name them and pass --force. Nodes that exist then count as
existing nodes (existingNodes).`,
		Example: "  kubectl nodegate resume network\n  kubectl nodegate resume --all --yes",
	})
	cmd.Flags().BoolVar(&o.force, "force", false, "Also resume named rules that pause has not suspended.")
	cmd.MarkFlagsMutuallyExclusive("all", "force")
	return cmd
}

func (p *plugin) pausing(resume bool, done string, cmd *cobra.Command) (*cobra.Command, *pauseOptions) {
	o := &pauseOptions{resume: resume}
	cmd.ValidArgsFunction = p.complete(ruleList)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && o.all:
			return errors.New("rule names and --all cannot be combined")
		case len(args) == 0 && !o.all, slices.Contains(args, ""): // an empty variable must not mean every rule
			return errors.New("one or more rule names, or --all, are required")
		}
		return nil
	}
	cmd.RunE = p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
		return o.flush(p, p.pause(ctx, c, args, o))
	})
	o.changing = newChanging(cmd, done)
	cmd.Flags().BoolVar(&o.all, "all", false, "All rules, instead of names.")
	return cmd, o
}

func (p *plugin) pause(ctx context.Context, c *input.Cluster, names []string, o *pauseOptions) error {
	all, err := c.Rules(ctx)
	if err != nil {
		return err
	}
	rules, err := named(all, names)
	if err != nil {
		return err
	}
	todo, warnings := o.choose(rules)
	for _, w := range warnings {
		fmt.Fprintln(p.streams.ErrOut, "warning:", w)
	}
	if len(todo) == 0 {
		fmt.Fprintln(p.streams.ErrOut, "Nothing to do.")
		return nil
	}
	if err := p.ask(ctx, o.changing, o.announce(todo, dependents(all, todo, p.now()))); err != nil {
		return err
	}
	var suspend, paused any // null removes a field
	if !o.resume {
		suspend, paused = true, p.now().UTC().Format(time.RFC3339)
	}
	var failed []error
	for i := range todo { // in an incident, one rule that cannot be changed must not keep the others in force
		rule := &todo[i]
		metadata := map[string]any{"annotations": map[string]any{v1alpha1.PausedAnnotation: paused}}
		if err := p.apply(ctx, c, o.changing, rule, metadata, map[string]any{"suspend": suspend}); err != nil {
			failed = append(failed, err)
		} else if o.dryRun != dryRunClient && rule.Spec.Suspend == o.resume {
			failed = append(failed, fmt.Errorf("rule %s: the server did not keep spec.suspend, because its CRD is not "+
				"Nodegate's: apply Nodegate's CRD", rule.Name))
		}
	}
	return errors.Join(failed...)
}

// noRule is the error for a name that no rule has.
func noRule(name string) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion().WithResource("nodereadinessrules").GroupResource(), name)
}

// ruleKinds returns the words for rules that kubectl knows.
func ruleKinds() []string {
	return []string{"nodereadinessrule", "nodereadinessrules", v1alpha1.Served().ShortName}
}

// ruleName returns the name in NAME or TYPE/NAME, which "-o name" prints.
func ruleName(arg string) string {
	kind, name, slash := strings.Cut(arg, "/")
	if slash && slices.Contains(ruleKinds(), strings.TrimSuffix(kind, "."+v1alpha1.Served().Name)) {
		return name
	}
	return arg
}

// named returns the rules with the given names, or all if there are no names.
func named(all []v1alpha1.NodeReadinessRule, names []string) ([]v1alpha1.NodeReadinessRule, error) {
	if len(names) == 0 {
		return all, nil
	}
	given := sets.New[string]()
	for _, name := range names {
		given.Insert(ruleName(name))
	}
	var out []v1alpha1.NodeReadinessRule
	for _, name := range sets.List(given) {
		i := slices.IndexFunc(all, func(r v1alpha1.NodeReadinessRule) bool { return r.Name == name })
		if i < 0 {
			return nil, noRule(name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// choose returns the rules to change, and what people should know about the others.
func (o *pauseOptions) choose(rules []v1alpha1.NodeReadinessRule) (todo []v1alpha1.NodeReadinessRule,
	warnings []string) {
	for _, r := range rules {
		ours := suspendedByPause(&r)
		switch {
		case !r.DeletionTimestamp.IsZero():
			warnings = append(warnings, fmt.Sprintf("rule %s is being deleted and is not changed", r.Name))
		case !o.resume && r.Spec.Suspend:
			warnings = append(warnings, fmt.Sprintf("rule %s is already suspended and is not changed", r.Name))
		case o.resume && !r.Spec.Suspend:
		case o.resume && !ours && !o.force:
			warnings = append(warnings, fmt.Sprintf("rule %s was not suspended by pause and is not changed: \"kubectl "+
				"nodegate resume %s --force\" resumes it", r.Name, r.Name))
		default:
			todo = append(todo, r)
			if by := managedBy(&r); by != "" {
				warnings = append(warnings, fmt.Sprintf("rule %s is managed by %s, which may undo this", r.Name, by))
			}
		}
	}
	return todo, warnings
}

// suspendedByPause reports whether pause has suspended a rule. The annotation stays if another client resumes the rule,
// such as a GitOps tool. If a person suspends it after that, the API server has noted another writer of spec.suspend.
func suspendedByPause(r *v1alpha1.NodeReadinessRule) bool {
	if _, paused := r.Annotations[v1alpha1.PausedAnnotation]; !paused {
		return false
	}
	suspends := slices.DeleteFunc(slices.Clone(r.ManagedFields), func(e metav1.ManagedFieldsEntry) bool {
		return e.FieldsV1 == nil || !strings.Contains(e.FieldsV1.String(), `"f:suspend"`)
	})
	return len(suspends) == 0 || slices.ContainsFunc(suspends, func(e metav1.ManagedFieldsEntry) bool {
		return strings.Contains(e.FieldsV1.String(), `"f:`+v1alpha1.PausedAnnotation+`"`)
	})
}

// dependents returns the names of the other rules that are suspended while some rules are, and only then.
func dependents(all, rules []v1alpha1.NodeReadinessRule, now time.Time) []string {
	chosen := sets.New[string]()
	for i := range rules {
		chosen.Insert(rules[i].Name)
	}
	inert := func(suspend bool) sets.Set[string] {
		changed, names := slices.Clone(all), sets.New[string]()
		for i := range changed {
			if chosen.Has(changed[i].Name) {
				changed[i].Spec.Suspend = suspend
			}
		}
		for _, r := range input.Compile(changed, now).All() {
			if r.Inert() && !chosen.Has(r.Name) {
				names.Insert(r.Name)
			}
		}
		return names
	}
	return sets.List(inert(true).Difference(inert(false)))
}

// managedBy returns which GitOps tool writes a rule, by its labels and annotations.
func managedBy(r *v1alpha1.NodeReadinessRule) string {
	switch {
	case r.Annotations["argocd.argoproj.io/tracking-id"] != "" || r.Labels["argocd.argoproj.io/instance"] != "":
		return "Argo CD"
	case r.Labels["kustomize.toolkit.fluxcd.io/name"] != "" || r.Labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	}
	return ""
}

// announce tells what will happen to how many rules and nodes.
func (o *pauseOptions) announce(rules []v1alpha1.NodeReadinessRule, dependents []string) string {
	var names []string
	var matched, held, exempt int32
	unreported := 0
	for i := range rules {
		names = append(names, rules[i].Name)
		n := rules[i].Status.Nodes
		if n == nil {
			unreported++
			continue
		}
		matched, held, exempt = matched+n.Matched, held+n.Held, exempt+n.Exempt
	}
	which := "rule " + names[0]
	if len(names) > 1 {
		which = fmt.Sprintf("%d rules (%s)", len(names), strings.Join(names, ", "))
	}
	nodes := "about " + report.Plural(int(matched), "node", "nodes")
	if len(names) > 1 {
		nodes = "up to " + report.Plural(int(matched), "node", "nodes") // rules may select the same
	}
	text := fmt.Sprintf("Pauses %s, %s: no other node is tainted", which, nodes)
	if held > 0 {
		text += fmt.Sprintf("; %s held, even after becoming ready", report.Plural(int(held), "held node stays",
			"held nodes stay"))
	}
	text += "."
	verb, required := "frozen", "paused"
	if o.resume {
		text = fmt.Sprintf("Resumes %s, %s.", which, nodes)
		if exempt > 0 {
			text = fmt.Sprintf("Resumes %s, %s: up to %d of them, which are exempt now, can be held again.", which, nodes,
				exempt)
		}
		verb, required = "resumed", "resumed"
	}
	if len(dependents) > 0 {
		text += fmt.Sprintf(" Also %s, because they require a %s rule: %s.", verb, required, strings.Join(dependents, ", "))
	}
	if unreported > 0 {
		text += fmt.Sprintf(" Not counted: %s without a status yet.", report.Plural(unreported, "rule", "rules"))
	}
	return text
}
