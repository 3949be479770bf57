// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/build"
)

func TestAdvice(t *testing.T) {
	nodes := func(selected, others int) Facts {
		var f Facts
		for i := range selected + others {
			n := build.MakeNode(fmt.Sprint(i))
			if i < selected {
				n.Label(pool, "workers")
			}
			f.Nodes = append(f.Nodes, n.Obj())
		}
		return f
	}
	keyed := func(key string) *build.RuleWrapper {
		return good().Taint(key, "", corev1.TaintEffectNoSchedule).MaxUnavailable("30%")
	}
	startup, limit := StartupTaint, AutoscalerLimit
	for name, c := range map[string]struct {
		rule  *build.RuleWrapper
		facts Facts
		want  []Code
		says  string
	}{
		"Karpenter knows the key": {rule: keyed("readiness.k8s.io/x"), want: []Code{startup},
			says: "with cluster-autoscaler, pass --startup-taint-prefix=readiness.k8s.io/"},
		"cluster-autoscaler knows the key": {rule: keyed("startup-taint.cluster-autoscaler.kubernetes.io/x"),
			want: []Code{startup}, says: "with Karpenter, name it in startupTaints"},
		"a status taint, which has no limit": {
			rule: good().Taint("status-taint.cluster-autoscaler.kubernetes.io/x", "", corev1.TaintEffectNoSchedule),
			want: []Code{startup}, says: "counts nodes with this key as ready"},
		"neither knows the key, which is a warning": {rule: keyed("example.com/x")},
		"no taint":                   {rule: build.MakeRule("r").Selector(pool, "workers").Condition("c")},
		"a taint that repels no pod": {rule: good().Taint(taint, "", corev1.TaintEffectPreferNoSchedule)},
		"bootstrap-only":             {rule: good().BootstrapOnly(), want: []Code{startup}},
		"no limit":                   {rule: good(), want: []Code{startup, limit}, says: "such as maxUnavailable: 30%"},
		"a rate": {rule: good().Rate(1, 60), want: []Code{startup, limit},
			says: "spec.limits: cluster-autoscaler counts"},
		"45 percent": {rule: good().MaxUnavailable("45%"), want: []Code{startup, limit}},
		"a number too large for the few": {
			rule: good().MaxUnavailable("5"), facts: nodes(10, 0), want: []Code{startup, limit},
		},
		"one of each rack":    {rule: good().LimitPer("example.com/rack", "1"), facts: nodes(10, 0), want: []Code{startup}},
		"three nodes of six":  {rule: good().MaxUnavailable("3"), facts: nodes(6, 0), want: []Code{startup}},
		"all of a small pool": {rule: good(), facts: nodes(10, 90), want: []Code{startup}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Code
			text := ""
			for _, w := range Advice(compile(c.rule), c.facts) {
				got = append(got, w.Code)
				text += w.String() + "\n"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s%s", diff, text)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("does not say %q:\n%s", c.says, text)
			}
		})
	}
}
