// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// TestWhatIsNeverDenied: while the guard stands, and the node controller is refused, everybody else does what they have to.
func TestWhatIsNeverDenied(t *testing.T) {
	c := newTest(t)
	c.rule(600)
	node := c.node("n", true)
	pods := c.pods(node, 5, 1)
	witness := pods[4:]
	victim := c.victim(node)
	c.link(node, false)
	c.deniedAtLeast(pods, attempts)
	c.do(c.alive(pods))

	kubectl := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(c.Assets(), "kubectl"), append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	t.Run("kubectl delete", func(t *testing.T) {
		kubectl("delete", "pod", pods[0].Name, "--wait=false")
		c.eventually("the pod goes", func() error { return c.gone(pods[:1]) })
	})
	t.Run("a kubelet", func(t *testing.T) {
		config, err := c.ConfigFor("system:node:"+node, "system:nodes")
		c.do(err)
		kubelet, err := kubernetes.NewForConfig(config)
		c.do(err)
		c.do(kubelet.CoreV1().Pods("default").Delete(t.Context(), pods[1].Name, *metav1.NewDeleteOptions(0)))
		c.eventually("the pod goes", func() error { return c.gone(pods[1:2]) })
	})
	t.Run("a pod that is let go", func(t *testing.T) {
		// As the node controller deletes it, which by itself does not try again.
		config, err := c.ConfigFor(nodeController, "system:serviceaccounts", "system:serviceaccounts:kube-system")
		c.do(err)
		controller, err := kubernetes.NewForConfig(config)
		c.do(err)
		if err := controller.CoreV1().Pods("default").Delete(t.Context(), pods[2].Name, metav1.DeleteOptions{}); err == nil {
			t.Error("its deletion is not denied")
		}
		kubectl("annotate", "pod", pods[2].Name, v1alpha1.OverrideAnnotation+"=Release")
		c.do(controller.CoreV1().Pods("default").Delete(t.Context(), pods[2].Name, metav1.DeleteOptions{}))
		c.eventually("the pod goes", func() error { return c.gone(pods[2:3]) })
	})
	t.Run("the scheduler, which makes room", func(t *testing.T) {
		c.preempt(node)
		c.eventually("the victim goes", func() error { return c.gone([]*corev1.Pod{victim}) })
		c.eventually("it was the scheduler that deleted it", func() error { // the log may be a moment behind
			if c.deletions()[deletion{"system:kube-scheduler", victim.Name, 200}] == 0 {
				return fmt.Errorf("the log does not say so")
			}
			return nil
		})
	})
	c.do(c.alive(witness))
	t.Run("kubectl drain", func(t *testing.T) {
		kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout=60s")
		c.eventually("all pods go", func() error { return c.gone(pods) })
	})
}

// victim is a pod of low priority that fills the node. It tolerates everything: the node controller leaves it alone.
func (c *test) victim(node string) *corev1.Pod {
	c.t.Helper()
	p := build.MakePod("default", c.name+"-victim").Node(node).Obj()
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30")}
	c.do(c.Client.Create(c.t.Context(), p))
	return p
}

// preempt has the scheduler make room on the node for a pod that matters more than others.
func (c *test) preempt(node string) {
	c.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Value: 1000}
	c.do(c.Client.Create(c.t.Context(), class))
	p := build.MakePod("default", c.name+"-urgent").Obj()
	p.Spec.PriorityClassName = class.Name
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
	c.eventually("the urgent pod is created", func() error { return client.IgnoreAlreadyExists(c.Client.Create(c.t.Context(), p)) })
}

func TestANodeIsLetGo(t *testing.T) {
	c := newTest(t)
	c.rule(600)
	node := c.node("n", true)
	pods := c.pods(node, 2, 1)
	c.link(node, false)
	c.deniedAtLeast(pods, attempts)
	c.annotate(node, v1alpha1.OverrideAnnotation, "Release")
	c.eventually("what was kept from eviction is evicted", func() error { return c.gone(pods) })
	c.eventually("the operator has evicted each pod once", func() error { // the log may be a moment behind
		all := c.deletions()
		for _, p := range pods {
			if n := all[deletion{operator, p.Name, 200}]; n != 1 {
				return fmt.Errorf("pod %s %d times", p.Name, n)
			}
		}
		return nil
	})
}

func TestADryRunDeniesNothingAndSaysWhatItWould(t *testing.T) {
	c := newTest(t)
	rule := c.rule(600, func(r *v1alpha1.NodeReadinessRule) { r.Spec.DryRun = true })
	node := c.node("n", true)
	pods := c.pods(node, 2, 1)
	c.link(node, false)
	c.eventually("the pods are evicted", func() error { return c.gone(pods) })
	c.told("NodeReadinessRule", rule.Name, "EvictionWouldBeDenied")
	c.told("Pod", pods[0].Name, "EvictionWouldBeDenied")
	c.guarding(rule, "DryRun")
	if n := c.denied(pods); n != 0 {
		t.Errorf("the node controller was refused %d times", n)
	}
}

// TestTheExample applies the third seed's case as it is shipped.
func TestTheExample(t *testing.T) {
	c := newTest(t)
	objects, err := c.Apply(t.Context(), c.Example("eviction-guard", "rule.yaml"))
	c.do(err)
	t.Cleanup(func() {
		for _, o := range objects {
			_ = c.Client.Delete(t.Context(), o)
		}
	})
	node := c.node("n", true)
	pods := c.pods(node, 2, 1)
	c.link(node, false)
	c.deniedAtLeast(pods, attempts)
	c.link(node, true)
	c.eventually("the node controller's taint goes", func() error { return c.tainted(node, false) })
	c.stoodDown(node)
	c.do(c.alive(pods))
	c.do(c.nobodyDeleted(pods))
	for _, o := range objects {
		c.do(c.Client.Delete(t.Context(), o))
		c.eventually("the rule is gone", func() error {
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), &v1alpha1.NodeReadinessRule{})
			if err == nil {
				return fmt.Errorf("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
}
