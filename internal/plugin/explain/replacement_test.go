// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/test/build"
)

// TestReplacement: why tells whether a node was handed over for replacement, and when it may be.
func TestReplacement(t *testing.T) {
	expired := record(held(), "u1", nodeview.Record{Rule: "network", Taint: taint + "=pending:NoSchedule",
		Since: metav1.NewTime(ago(18 * time.Minute)), TimedOut: metav1.NewTime(ago(3 * time.Minute))})
	replaced := func(uids ...types.UID) *v1alpha1.ReplacementStatus {
		s := &v1alpha1.ReplacementStatus{}
		for _, uid := range uids {
			s.Last = append(s.Last, v1alpha1.Replacement{NodeUID: uid, HandoverTime: metav1.NewTime(ago(10 * time.Minute)),
				Method: v1alpha1.ReplaceMethodNodeClaim, Generation: 1})
		}
		return s
	}
	for name, c := range map[string]struct {
		node   *build.NodeWrapper
		rule   *build.RuleWrapper
		status *v1alpha1.ReplacementStatus
		says   string
	}{
		"its timeout has not ended":   {held(), network().Replace(1800, 1, ""), nil, ""},
		"may be now":                  {expired, network().Replace(900, 1, ""), nil, "handed over for replacement now"},
		"was handed over":             {expired, network().Replace(900, 1, ""), replaced("n"), "(NodeClaim) 10m ago"},
		"another was, in this hour":   {expired, network().Replace(900, 1, ""), replaced("o"), "in 50m (maxPerHour: 1)"},
		"three others were, in a row": {expired, network().Replace(900, 9, ""), replaced("a", "b", "c"), "Exhausted"},
		"in maintenance": {build.WrapNode(expired.Obj()).Annotation(v1alpha1.MaintenanceAnnotation, "disk"),
			network().Replace(900, 1, ""), nil, "in maintenance"},
		"with another action": {expired, network().Timeout(900, 0, v1alpha1.TimeoutActionKeep), replaced("n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := moment(c.node, c.rule.Generation(1))
			w.Stored[0].Status.Replacements = c.status
			got := w.Node(c.node.Obj()).Rules[0].Replacement
			if !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}
