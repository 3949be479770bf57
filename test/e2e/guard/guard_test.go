// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// attempts is how often the node controller tries to delete a pod.
const attempts = 5

func (c *test) deniedAtLeast(pods []*corev1.Pod, n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("the node controller is refused each pod %d times", n), func() error {
		if got := c.denied(pods); got < n {
			return fmt.Errorf("%d times", got)
		}
		return nil
	})
}

// guarding waits for what the rule's status says about its guard.
func (c *test) guarding(rule *v1alpha1.NodeReadinessRule, reason string) {
	c.t.Helper()
	c.eventually("the rule says "+reason, func() error {
		if err := c.Client.Get(c.t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if got := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionGuarding); got == nil || got.Reason != reason {
			return fmt.Errorf("condition %+v", got)
		}
		return nil
	})
}

// stoodDown waits until the node bears no record of a hold.
func (c *test) stoodDown(node string) {
	c.t.Helper()
	c.eventually("the guard of "+node+" stands down", func() error {
		n, err := c.get(node)
		if err != nil {
			return err
		}
		for key, value := range n.Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, "guardedSince") {
				return fmt.Errorf("record %s", value)
			}
		}
		return nil
	})
}

// nobodyDeleted checks that no request to delete one of the pods has succeeded.
func (c *test) nobodyDeleted(pods []*corev1.Pod) error {
	all := c.deletions()
	for d, n := range all {
		for _, p := range pods {
			if d.pod == p.Name && d.code < 300 {
				return fmt.Errorf("%s deleted pod %s (%d times)", d.user, d.pod, n)
			}
		}
	}
	return nil
}

// told waits for an event about an object.
func (c *test) told(kind, name, reason string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%s %s has an event %s", kind, name, reason), func() error {
		list := &eventsv1.EventList{}
		if err := c.Client.List(c.t.Context(), list); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	})
}

func TestGuardedPodsLiveOnAndOthersGo(t *testing.T) {
	c := newTest(t)
	rule := c.rule(600)
	guarded, plain := c.node("guarded", true), c.node("plain", false)
	kept, others := c.pods(guarded, 3, 2), c.pods(plain, 3, 2)

	c.link(guarded, false)
	c.link(plain, false)
	c.eventually("the pods that nobody guards are evicted", func() error { return c.gone(others) })
	c.deniedAtLeast(kept, attempts)
	c.do(c.alive(kept))

	c.guarding(rule, "PodsGuarded")
	c.told("Node", guarded, "PodsGuarded")
	c.told("Node", guarded, "EvictionDenied")
	c.told("NodeReadinessRule", rule.Name, "EvictionDenied")
	for _, p := range kept {
		c.told("Pod", p.Name, "EvictionDenied")
	}

	c.link(guarded, true)
	c.eventually("the node controller's taint goes", func() error { return c.tainted(guarded, false) })
	c.stoodDown(guarded)
	c.guarding(rule, "NothingToGuard")
	c.throughout("the pods live on", 5, func() error { return c.alive(kept) })
	c.do(c.nobodyDeleted(kept))
}

func TestTheLinkComesBackInTheSecondInWhichATolerationEnds(t *testing.T) {
	c := newTest(t)
	c.rule(600)
	node := c.node("n", true)
	const tolerated = 5
	kept := c.pods(node, 10, tolerated)

	c.link(node, false)
	c.eventually("the node controller taints the node", func() error { return c.tainted(node, true) })
	n, err := c.get(node)
	c.do(err)
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			time.Sleep(time.Until(taint.TimeAdded.Add(tolerated * time.Second)))
		}
	}
	c.link(node, true)
	c.eventually("the node is ready again", func() error { return c.ready(node, corev1.ConditionTrue) })
	c.eventually("the node controller's taint goes", func() error { return c.tainted(node, false) })
	c.stoodDown(node)
	c.throughout("nothing is deleted", 10, func() error { return c.alive(kept) })
	c.do(c.nobodyDeleted(kept))
}

func TestTheHoldEndsAndWhatIsDueIsEvictedOnce(t *testing.T) {
	c := newTest(t)
	c.rule(20)
	node := c.node("n", true)
	due, early := c.pods(node, 4, 1), c.node("other", true)
	later := c.pods(early, 2, 3600)

	c.link(node, false)
	c.link(early, false)
	c.deniedAtLeast(due, attempts)
	c.do(c.alive(due))
	c.told("Node", node, "GuardEnded")
	c.eventually("what is due is evicted", func() error { return c.gone(due) })
	c.told("Node", early, "GuardEnded")
	c.throughout("what tolerates the taint for longer lives on", 5, func() error { return c.alive(later) })

	all := c.deletions()
	for _, p := range due {
		if n := all[deletion{operator, p.Name, 200}]; n != 1 {
			t.Errorf("pod %s was evicted %d times by the operator", p.Name, n)
		}
		if n := all[deletion{nodeController, p.Name, 200}]; n != 0 {
			t.Errorf("pod %s was evicted %d times by the node controller", p.Name, n)
		}
		c.told("Pod", p.Name, "Evicted")
	}
}

// TestTheNodeControllerIsLate: the node is ready again, and the node controller, which has been slow, evicts once more because
// its own taints change. A guard that ended with the node's being ready would let that pass.
func TestTheNodeControllerIsLate(t *testing.T) {
	c := newTest(t)
	c.rule(600)
	node := c.node("n", true)
	kept := c.pods(node, 4, 0)
	c.link(node, false)
	c.deniedAtLeast(kept, attempts)
	before := c.denied(kept)

	c.do(c.ControllerManager.Pause())
	resumed := false
	defer func() {
		if !resumed {
			_ = c.ControllerManager.Resume()
		}
	}()
	c.link(node, true)
	c.eventually("the node is ready again", func() error { return c.ready(node, corev1.ConditionTrue) })
	c.eventually("another taint is on it", func() error {
		n, err := c.get(node)
		if err != nil {
			return err
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
		return c.Client.Update(t.Context(), n)
	})
	c.do(c.ControllerManager.Resume())
	resumed = true
	c.deniedAtLeast(kept, before+attempts)
	c.eventually("the node controller's taints go", func() error { return c.tainted(node, false) })
	c.stoodDown(node)
	c.do(c.alive(kept))
	c.do(c.nobodyDeleted(kept))
}
