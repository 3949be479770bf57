// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	replaceKey = ours + "replace"
	poolLabel  = ours + "pool"
	// perHour is how many nodes the rule may hand over, and spare is how many more never become ready.
	perHour, spare = 7, 3
)

// replacements kills the operator at writes while it hands over nodes that never become ready. It hands over three for
// each version of the rule, and perHour in all, and never one more.
func replacements(t *testing.T, w *cluster.Cluster, binary string) {
	t.Helper()
	ctx := t.Context()
	solo := startReplica(t, w, binary, "replaces", nil)
	rule := build.MakeRule("replaces").Selector(poolLabel, "replaced").Condition(condA).Taint(shared, "", noSchedule).
		Replace(1, perHour, replaceKey).Obj()
	cluster.Must(t, w.Client.Create(ctx, rule))
	read := func() *v1alpha1.NodeReadinessRule {
		cluster.Must(t, w.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule))
		return rule
	}
	current := func() error {
		if s := read().Status; s.InForce == nil || s.ObservedGeneration != rule.Generation {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	}
	cluster.Eventually(t, "the rule is in force", current)
	time.Sleep(time.Second) // nodes of the same second count as older
	for i := range perHour + spare {
		cluster.Must(t, w.Client.Create(ctx, cluster.NewNode(fmt.Sprintf("replaced-%d", i), cluster.NodeOptions{
			Unmanaged: true, Images: -1, Labels: map[string]string{poolLabel: "replaced"}})))
	}
	handedOver, former := 0, 0 // former: by former versions of the rule
	check := func() error {
		nodes := &corev1.NodeList{}
		if err := w.Client.List(ctx, nodes, client.MatchingLabels{poolLabel: "replaced"}); err != nil {
			return err
		}
		handedOver = 0
		for i := range nodes.Items {
			if nodes.Items[i].Annotations[replaceKey] != "" {
				handedOver++
			}
		}
		if row := handedOver - former; row > v1alpha1.MaxReplacementsInARow || handedOver > perHour {
			return fmt.Errorf("%d nodes are handed over, %d of them in a row", handedOver, row)
		}
		return nil
	}
	edit := func() {
		cluster.Eventually(t, "the rule is edited", func() error {
			read().Spec.Timeout.Seconds = new(*rule.Spec.Timeout.Seconds + 1)
			return w.Client.Update(ctx, rule)
		})
		former = handedOver
	}
	cluster.Eventually(t, "the first node is handed over", func() error {
		if cluster.Must(t, check()); handedOver == 0 {
			return fmt.Errorf("the condition is %+v", meta.FindStatusCondition(read().Status.Conditions,
				v1alpha1.ConditionReplacing))
		}
		return nil
	})
	traps := []trap{{status, false, 1}, {status, true, 1}, {nodePatch, false, 1}, {nodePatch, true, 1},
		{event, false, 1}, {event, true, 1}, {status, false, 2}, {status, true, 2}}
	killed := map[string]bool{}
	for life := 0; handedOver < perHour; life++ {
		if life > 10*len(traps) {
			t.Fatalf("%d nodes are handed over, killed at %v\n%s", handedOver, killed, solo.LogTail(60))
		}
		if handedOver-former == v1alpha1.MaxReplacementsInARow {
			edit()
		}
		solo.proxy.kill()
		solo.proxy.arm(&traps[life%len(traps)])
		cluster.Must(t, solo.Start(ctx))
		select {
		case <-solo.Exited():
		case <-time.After(3 * time.Second):
		}
		if solo.proxy.sprung() {
			killed[fmt.Sprint(traps[life%len(traps)])] = true
			<-solo.Exited() // the trap springs before it kills
		}
		solo.proxy.arm(nil)
		cluster.Must(t, check())
	}
	if t.Logf("killed %v", killed); len(killed) < 6 {
		t.Errorf("killed only %v", killed)
	}
	edit()
	solo.proxy.kill()
	cluster.Must(t, solo.Start(ctx))
	cluster.Eventually(t, "the rule is in force again", current)
	cluster.Consistently(t, "no node is handed over", 2*time.Second, check)

	cluster.Must(t, w.Client.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolLabel: "replaced"}))
	cluster.Must(t, w.Client.Delete(ctx, rule))
	cluster.Eventually(t, "the rule is deleted", func() error {
		return client.IgnoreNotFound(w.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule))
	})
	solo.end(t)
}
