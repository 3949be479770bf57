// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/nodegate/nodegate/api/v1alpha1"
	ruleadmission "github.com/nodegate/nodegate/internal/admission/rule"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

type lintOptions struct {
	files  genericclioptions.FileNameFlags
	live   bool
	strict bool
	accept string
	advice bool
	out    *printing
}

func newLint(p *plugin) *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Validate rules without a cluster",
		Long: `Validate rules without a cluster: find what the API server would refuse, and rules that are valid
but may not do what their author wants. The other rules, DaemonSets and other workloads of the same
files are taken into account; with --live also those of the cluster. Advice is about the settings
of autoscalers, which lint does not know.

Exit code: 0 if all rules are valid, 1 if one is not or after an error, 2 with --strict if there is
a warning.`,
		Example: "  kubectl nodegate lint -f rules/ --strict\n  kubectl nodegate lint -f rule.yaml --live",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.lint(cmd.Context(), o) },
	}
	o.files = fileFlags(cmd)
	cmd.Flags().BoolVar(&o.live, "live", false, "Also use the rules, nodes and workloads of the cluster.")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "Exit with 2 if there is a warning.")
	cmd.Flags().StringVar(&o.accept, "accept", "", "The codes of warnings to leave out, separated by commas. On a rule, "+
		"the annotation "+v1alpha1.AcceptAnnotation+" has them.")
	cmd.Flags().BoolVar(&o.advice, "advice", true, "Also print advice about autoscalers.")
	o.out = newPrinting(cmd, outputName)
	return cmd
}

func (p *plugin) lint(ctx context.Context, o *lintOptions) error {
	accepted, unknown := lint.ParseCodes(o.accept)
	if len(unknown) > 0 {
		return fmt.Errorf("--accept: there is no warning %s", strings.Join(unknown, ", "))
	}
	rules, objects, unread := p.readRules(&o.files, input.IsWorkload)
	if len(rules) == 0 && unread != nil {
		return unread
	}
	var valid []v1alpha1.NodeReadinessRule
	for _, r := range rules {
		if r.Rule != nil {
			valid = append(valid, *r.Rule)
		}
	}
	set, facts := input.Compile(valid, p.now()), lint.Facts{Workloads: input.Workloads(objects)}
	if o.live {
		var err error
		if set, err = p.live(ctx, set, &facts); err != nil {
			return err
		}
	}
	result := &report.LintReport{TypeMeta: report.Type("LintReport"), Rules: len(rules), Findings: []report.Finding{}}
	for i := range rules {
		found, err := p.findings(ctx, &rules[i], set, facts, o.live)
		if err != nil {
			return err
		}
		result.Findings = append(result.Findings, slices.DeleteFunc(found, func(f report.Finding) bool {
			return f.Severity != report.SeverityError && accepted.Has(lint.Code(f.Code)) ||
				f.Severity == report.SeverityAdvice && !o.advice
		})...)
	}
	if err := o.out.print(p, result); err != nil {
		return err
	}
	found := map[string]int{}
	for _, f := range result.Findings {
		found[f.Severity]++
	}
	switch faults := found[report.SeverityError]; {
	case unread != nil:
		return unread
	case faults > 0:
		return fmt.Errorf("found %s", report.Plural(faults, "validation error", "validation errors"))
	case found[report.SeverityWarning] > 0 && o.strict:
		return errFound
	}
	return nil
}

// live adds the rules and the facts of the cluster. It prints a warning for what it cannot read.
func (p *plugin) live(ctx context.Context, files *ruleset.Set, facts *lint.Facts) (*ruleset.Set, error) {
	c, err := p.cluster(ctx)
	if err != nil {
		return nil, err
	}
	present, err := c.Rules(ctx)
	if err != nil {
		return nil, err
	}
	set := input.Compile(present, p.now())
	for _, r := range files.All() {
		set = set.With(r)
	}
	foreign, err := c.Foreign(ctx)
	if err != nil {
		fmt.Fprintln(p.streams.ErrOut, "warning:", err)
	}
	set = set.WithForeign(foreign)
	found, err := (&ruleadmission.Cluster{Nodes: c, Live: c, Access: c}).Facts(ctx, set.All()...)
	if err != nil {
		fmt.Fprintln(p.streams.ErrOut, "warning:", input.Explain(err, "reading facts about the cluster"))
	}
	facts.Nodes, facts.Operator, facts.Unwatched = found.Nodes, found.Operator, found.Unwatched
	facts.Served, facts.Drivers, facts.KeyPrefixes = found.Served, found.Drivers, c.RuleKeyPrefixes(ctx)
	switch {
	case found.Workloads != nil:
		facts.Workloads = append(found.Workloads, facts.Workloads...) // not nil: they are known
	case err != nil:
		facts.Workloads = nil // those of the files are not all
	}
	return set, nil
}

// findings returns the errors and warnings about one rule.
func (p *plugin) findings(ctx context.Context, r *input.Rule, set *ruleset.Set, facts lint.Facts,
	live bool) ([]report.Finding, error) {
	var out []report.Finding
	add := func(severity, code, field, message string) {
		out = append(out, report.Finding{Source: r.Source, Rule: r.Content.GetName(), Severity: severity, Code: code,
			Field: field, Message: message})
	}
	faults, err := input.Check(ctx, r.Content)
	if err != nil {
		return nil, err
	}
	if wrong := r.WrongGroup(); live && wrong != nil {
		faults = append(faults, *wrong)
	}
	for _, f := range input.Cured(faults) {
		add(report.SeverityError, "Refused", f.Field, f.Message)
	}
	if r.Rule == nil {
		if len(faults) == 0 {
			add(report.SeverityError, "Refused", "", r.Misfit.Error())
		}
		return out, nil
	}
	rule := ruleset.Compile(r.Rule, nil, p.now())
	if len(faults) == 0 {
		for _, problem := range lint.Problems(rule, set, facts) {
			add(report.SeverityError, problem.Reason, problem.Field, problem.Message)
		}
	}
	warnings := slices.Concat(lint.Warnings(rule, set, facts), lint.Advice(rule, facts))
	for _, w := range lint.Without(warnings, r.Content.GetAnnotations()) {
		severity := report.SeverityWarning
		if w.Code.Advice() {
			severity = report.SeverityAdvice
		}
		if live || w.Code != lint.UnknownRule && w.Code != lint.NoEvidence { // without --live, it may be in the cluster
			add(severity, string(w.Code), w.Field, w.Message)
		}
	}
	return out, nil
}
