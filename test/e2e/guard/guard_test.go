// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// guarding waits for what the rule's status says about its guard.
func (e *env) guarding(rule *v1alpha1.NodeReadinessRule, reason string) {
	e.T.Helper()
	e.Eventually("the rule says "+reason, func() error {
		if err := e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if got := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionGuarding); got == nil ||
			got.Reason != reason {
			return fmt.Errorf("condition %+v", got)
		}
		return nil
	})
}

// event waits for an event about an object.
func (e *env) event(kind, name, reason string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("%s %s has an event %s", kind, name, reason), func() error {
		list := &eventsv1.EventList{}
		if err := e.Client.List(e.T.Context(), list); err != nil {
			return err
		}
		for i := range list.Items {
			if v := &list.Items[i]; v.Regarding.Kind == kind && v.Regarding.Name == name && v.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	})
}

func TestGuardedPodsLiveOnAndOthersGo(t *testing.T) {
	e := parallel(t)
	rule := e.rule(600)
	guarded, plain := e.node("guarded", true), e.node("plain", false)
	kept, others := e.pods(guarded, 3, 2), e.pods(plain, 3, 2)

	e.SetKubelet(guarded, false)
	e.SetKubelet(plain, false)
	e.Eventually("the pods without a guard are evicted", e.gone(others))
	e.deniedAtLeast(kept, attempts)
	e.Must(e.alive(kept)())

	e.guarding(rule, "PodsGuarded")
	e.event("Node", guarded, "PodsGuarded")
	e.event("Node", guarded, "EvictionDenied")
	e.event("NodeReadinessRule", rule.Name, "EvictionDenied")
	for _, p := range kept {
		e.event("Pod", p.Name, "EvictionDenied")
	}

	e.SetKubelet(guarded, true)
	e.Eventually("the node controller's taint goes", e.evicting(guarded, false))
	e.guardEnded(guarded)
	e.guarding(rule, "NothingToGuard")
	e.outlives(kept, 2)
	e.noneDeleted(kept)
}

func TestTheLinkComesBackInTheSecondInWhichATolerationEnds(t *testing.T) {
	e := parallel(t)
	e.rule(600)
	node := e.node("n", true)
	const tolerated = 5
	kept := e.pods(node, 10, tolerated)

	e.SetKubelet(node, false)
	e.Eventually("the node controller taints the node", e.evicting(node, true))
	for _, taint := range e.Node(node).Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			time.Sleep(time.Until(taint.TimeAdded.Add(tolerated * time.Second)))
		}
	}
	e.SetKubelet(node, true)
	e.Eventually("the node is ready again", e.ready(node, corev1.ConditionTrue))
	e.Eventually("the node controller's taint goes", e.evicting(node, false))
	e.guardEnded(node)
	e.outlives(kept, tolerated)
	e.noneDeleted(kept)
}

func TestTheHoldEndsAndWhatIsDueIsEvictedOnce(t *testing.T) {
	e := parallel(t)
	rule := e.rule(600)
	node := e.node("n", true)
	due, early := e.pods(node, 4, 1), e.node("other", true)
	later := e.pods(early, 2, 3600)

	e.SetKubelet(node, false)
	e.SetKubelet(early, false)
	e.deniedAtLeast(due, attempts)
	e.Must(e.alive(due)())
	e.Eventually("the other node has the node controller's taint", e.evicting(early, true))
	e.holdEnds(rule, node)
	e.event("Node", node, "GuardEnded")
	e.Eventually("what is due is evicted", e.gone(due))
	e.event("Node", early, "GuardEnded")
	e.outlives(later, 1)

	all := e.deletions()
	for _, p := range due {
		if n := all[deletion{cluster.OperatorUser, p.Name, 200}]; n != 1 {
			t.Errorf("pod %s was evicted %d times by the operator", p.Name, n)
		}
		if n := all[deletion{nodeController, p.Name, 200}]; n != 0 {
			t.Errorf("pod %s was evicted %d times by the node controller", p.Name, n)
		}
		e.event("Pod", p.Name, "Evicted")
	}
}

// TestTheNodeControllerIsLate: the node is ready again, and the node controller, which has been slow, evicts once more
// because its own taints change. A guard that ended with the node's being ready would let that pass.
func TestTheNodeControllerIsLate(t *testing.T) {
	e := newEnv(t)
	e.rule(600)
	node := e.node("n", true)
	kept := e.pods(node, 4, 0)
	e.SetKubelet(node, false)
	e.deniedAtLeast(kept, attempts)
	before := e.denied(kept)

	e.Must(e.ControllerManager.Pause())
	t.Cleanup(func() { _ = e.ControllerManager.Resume() })
	e.SetKubelet(node, true)
	e.Eventually("the node is ready again", e.ready(node, corev1.ConditionTrue))
	e.tryAgain(node)
	e.Must(e.ControllerManager.Resume())
	e.deniedAtLeast(kept, before+attempts)
	e.Eventually("the node controller's taints go", e.evicting(node, false))
	e.guardEnded(node)
	e.Must(e.alive(kept)())
	e.noneDeleted(kept)
}
