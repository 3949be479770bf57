// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/serverclock"
)

// deletePoll is how often the command looks whether the rules are gone.
const deletePoll = 500 * time.Millisecond

// newDeleteRulesCommand returns the command that the chart runs before an uninstallation: without the operator, rules
// keep their finalizer, and nodes keep their taints.
func newDeleteRulesCommand() *cobra.Command {
	all, timeout := false, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "delete-rules [RULE...]",
		Short: "Delete rules, and wait until the operator has removed their taints",
		Long: `Delete the named rules, or all with --all, and wait until they are gone. The operator must be running: it
removes the taints of a rule from all nodes before the rule is gone. It also removes their completion markers, which it
would otherwise keep for ten minutes. A rule that does not exist counts as deleted.

In the default API group the rules may be another controller's. The command then needs --api-group: if the installation
has not recorded its group in AdmissionRules, or while a Node Readiness Controller renews its lease.`,
		Args: func(_ *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return errors.New("one or more rule names, or --all, are required")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout: must be more than 0, not %s", timeout)
			}
			cfg, err := kubeconfig()
			if err != nil {
				return err
			}
			server := &serverclock.Clock{Own: clock.RealClock{}}
			cfg.Wrap(server.Wrap)
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), admissionv1alpha1.AddToScheme(scheme),
				coordinationv1.AddToScheme(scheme)); err != nil {
				return err
			}
			c, err := client.New(cfg, client.Options{Scheme: scheme})
			if err != nil {
				return fmt.Errorf("connecting to the cluster: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			err = apigroup.CheckRules(ctx, c, cmd.Flags().Changed("api-group"), server.Now)
			if err != nil && !withoutRules(c) {
				return err
			}
			return deleteRules(ctx, c, names, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "Delete all rules of the cluster.")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "How long to wait until the rules are gone.")
	return cmd
}

// deleteRules deletes the rules of these names, or all if there are none, and waits for them. It retries after
// every error until the context ends.
func deleteRules(ctx context.Context, c client.Client, names []string, out io.Writer) error {
	var left []string // the rules that the last look has found
	var last error
	err := wait.PollUntilContextCancel(ctx, deletePoll, true, func(ctx context.Context) (bool, error) {
		found, err := findRules(ctx, c, names)
		if err == nil {
			before := left
			left = nil
			for i := range found {
				left = append(left, found[i].Name)
				err = errors.Join(err, deleteRule(ctx, c, &found[i]))
			}
			for _, name := range before {
				if !slices.Contains(left, name) {
					fmt.Fprintf(out, "nodereadinessrule.%s/%s deleted\n", v1alpha1.Served().Name, name)
				}
			}
		}
		if ctx.Err() == nil { // else it says only that the time is over
			last = err
		}
		return err == nil && len(left) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case last != nil:
		return fmt.Errorf("deleting rules: %w", last)
	case len(left) == 0:
		return fmt.Errorf("deleting rules: %w", err)
	}
	return fmt.Errorf("timed out waiting for the deletion of %s: the operator must remove their taints first; is it "+
		"running?", strings.Join(left, ", "))
}

// deleteRule deletes a rule that was found, with its completion markers, unless it is being deleted. Another user may
// have created another rule of the same name since.
func deleteRule(ctx context.Context, c client.Client, rule *v1alpha1.NodeReadinessRule) error {
	var err error
	if rule.Annotations[v1alpha1.RemoveMarkersAnnotation] != "true" {
		err = c.Patch(ctx, rule, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, rule.UID, v1alpha1.RemoveMarkersAnnotation)))
	}
	if err == nil && rule.DeletionTimestamp.IsZero() {
		err = c.Delete(ctx, rule, client.Preconditions{UID: &rule.UID})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// findRules returns the rules to delete that exist. With names, it reads each of them, which needs no permission to
// list.
func findRules(ctx context.Context, c client.Client, names []string) ([]v1alpha1.NodeReadinessRule, error) {
	if len(names) == 0 {
		list := &v1alpha1.NodeReadinessRuleList{}
		err := c.List(ctx, list)
		return list.Items, ignoreGone(err)
	}
	var found []v1alpha1.NodeReadinessRule
	for _, name := range names {
		rule := v1alpha1.NodeReadinessRule{}
		switch err := c.Get(ctx, client.ObjectKey{Name: name}, &rule); {
		case err == nil:
			found = append(found, rule)
		case ignoreGone(err) != nil:
			return nil, err
		}
	}
	return found, nil
}

// withoutRules reports whether the cluster does not serve the rules' API group: there is nothing to delete.
func withoutRules(c client.Client) bool {
	_, err := c.RESTMapper().RESTMapping(v1alpha1.GroupVersion().WithKind("NodeReadinessRule").GroupKind())
	return meta.IsNoMatchError(err)
}

// ignoreGone ignores that a rule does not exist, or that the CRD and all rules are deleted.
func ignoreGone(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
