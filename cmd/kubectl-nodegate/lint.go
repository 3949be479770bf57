// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/files"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/plugin/text"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

type lintOptions struct {
	files  genericclioptions.FileNameFlags
	live   bool
	strict bool
	out    *printing
}

func newLint(p *plugin) *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Check rules without a cluster",
		Long: "Check rules without a cluster: for what the API server would refuse, and for what is valid and still will not do what is\n" +
			"wanted. Other rules of the same files are taken into account, and so are DaemonSets and other workloads there. With --live\n" +
			"the present cluster is, too.\n\n" +
			"Exit code: 0 if no rule would be refused, 1 if one would or something is wrong, 2 with --strict if there is a warning.",
		Example: "  kubectl nodegate lint -f rules/\n  kubectl nodegate lint -f rule.yaml --live",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.lint(cmd.Context(), o) },
	}
	o.files = fileFlags(cmd, "The rules: files, directories, URLs, or - for standard input.")
	cmd.Flags().BoolVar(&o.live, "live", false, "Also look at the rules, nodes and workloads of the cluster.")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "Exit with 2 if there is a warning.")
	o.out = newPrinting(cmd)
	return cmd
}

func (p *plugin) lint(ctx context.Context, o *lintOptions) error {
	if err := o.out.validate(); err != nil {
		return err
	}
	rules, objects, err := p.readRules(&o.files)
	if err != nil {
		return err
	}
	others := cluster.Compile(asSlice(rules), p.now())
	facts := lint.Facts{Workloads: files.Workloads(objects)}
	if o.live {
		c, err := p.cluster()
		if err != nil {
			return err
		}
		if others, err = p.live(ctx, c, others, &facts); err != nil {
			return err
		}
	}
	result := &report.LintReport{TypeMeta: report.Type(report.KindLintReport), Rules: len(rules), Findings: []report.Finding{}}
	for i := range rules {
		found, err := p.findings(ctx, &rules[i], others, facts, o.live)
		if err != nil {
			return err
		}
		result.Findings = append(result.Findings, found...)
	}
	if err := o.out.print(p, result, func(s text.Style) string { return text.Findings(result, s) }); err != nil {
		return err
	}
	refused, warnings := 0, 0
	for _, f := range result.Findings {
		if f.Severity == report.SeverityError {
			refused++
		} else {
			warnings++
		}
	}
	switch {
	case refused > 0:
		return fmt.Errorf("%d faults for which rules would be refused", refused)
	case warnings > 0 && o.strict:
		return errFound
	}
	return nil
}

// live adds what is known of the cluster. What may not be read is left out, and said.
func (p *plugin) live(ctx context.Context, c *cluster.Cluster, set *ruleset.Set, facts *lint.Facts) (*ruleset.Set, error) {
	present, err := c.Rules(ctx)
	if err != nil {
		return nil, err
	}
	there := cluster.Compile(present, p.now())
	for _, r := range set.All() {
		there = there.With(r)
	}
	for _, problem := range c.Facts(ctx, there, facts) {
		fmt.Fprintln(p.streams.ErrOut, "note:", problem)
	}
	return there, nil
}

// findings are what there is to say about one rule.
func (p *plugin) findings(ctx context.Context, r *files.Rule, others *ruleset.Set, facts lint.Facts, live bool) ([]report.Finding, error) {
	var out []report.Finding
	add := func(severity, code, field, message string) {
		out = append(out, report.Finding{Source: r.Source, Rule: r.Content.GetName(), Severity: severity, Code: code, Field: field, Message: message})
	}
	faults, err := files.Check(ctx, r.Content)
	if err != nil {
		return nil, err
	}
	for _, f := range faults {
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
		for _, problem := range lint.Problems(rule, others) {
			add(report.SeverityError, problem.Reason, problem.Field, problem.Message)
		}
	}
	for _, w := range lint.Warnings(rule, others, facts) {
		if !live && (w.Code == lint.UnknownRule || w.Code == lint.NoEvidence) {
			continue // it may be in the cluster
		}
		add(report.SeverityWarning, string(w.Code), w.Field, w.Message)
	}
	return out, nil
}

// asSlice are the rules that can be read.
func asSlice(rules []files.Rule) []v1alpha1.NodeReadinessRule {
	out := make([]v1alpha1.NodeReadinessRule, 0, len(rules))
	for _, r := range rules {
		if r.Rule != nil {
			out = append(out, *r.Rule)
		}
	}
	return out
}
