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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestWhatIsNeverDenied: while the guard stands, and the node controller is refused, all others do what they have
// to.
func TestWhatIsNeverDenied(t *testing.T) {
	e := parallel(t)
	e.rule(600)
	node := e.node("n", true)
	pods := e.pods(node, 5, 1)
	witness := pods[4:]
	victim := e.victim(node)
	e.SetKubelet(node, false)
	e.deniedAtLeast(pods, attempts)
	e.Must(e.alive(pods)())

	kubectl := func(args ...string) {
		t.Helper()
		args = append([]string{"--kubeconfig=" + e.Kubeconfig()}, args...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(e.Assets(), "kubectl"), args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	t.Run("kubectl delete", func(t *testing.T) {
		kubectl("delete", "pod", pods[0].Name, "--wait=false")
		e.Eventually("the pod goes", e.gone(pods[:1]))
	})
	t.Run("a kubelet", func(t *testing.T) {
		kubelet, err := e.As("system:node:"+node, "system:nodes")
		e.Must(err)
		e.Must(kubelet.Delete(t.Context(), pods[1].DeepCopy(), client.GracePeriodSeconds(0)))
		e.Eventually("the pod goes", e.gone(pods[1:2]))
	})
	t.Run("a pod that is let go", func(t *testing.T) {
		// As the node controller deletes it, which by itself does not try again.
		controller, err := e.As(nodeController, "system:serviceaccounts", "system:serviceaccounts:kube-system")
		e.Must(err)
		if err := controller.Delete(t.Context(), pods[2].DeepCopy()); err == nil {
			t.Error("its deletion is not denied")
		}
		kubectl("annotate", "pod", pods[2].Name, v1alpha1.OverrideAnnotation+"=Release")
		e.Must(controller.Delete(t.Context(), pods[2].DeepCopy()))
		e.Eventually("the pod goes", e.gone(pods[2:3]))
	})
	t.Run("the scheduler, which makes room", func(t *testing.T) {
		e.preempt(node)
		e.Eventually("the victim goes", e.gone([]*corev1.Pod{victim}))
		e.Eventually("it was the scheduler that deleted it", func() error { // the log may be a moment behind
			if e.deletions()[deletion{"system:kube-scheduler", victim.Name, 200}] == 0 {
				return fmt.Errorf("the log does not say so")
			}
			return nil
		})
	})
	e.Must(e.alive(witness)())
	t.Run("kubectl drain", func(t *testing.T) {
		kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout="+cluster.Limit.String())
		e.Eventually("all pods go", e.gone(pods))
	})
}

// victim is a pod of low priority that fills the node. It tolerates everything: the node controller leaves it alone.
func (e *env) victim(node string) *corev1.Pod {
	e.T.Helper()
	p := build.MakePod("default", e.name+"-victim").Node(node).Obj()
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30")}
	e.Create(p)
	return p
}

// preempt has the scheduler make room on the node for a pod that matters more than others.
func (e *env) preempt(node string) {
	e.T.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: e.name}, Value: 1000}
	e.Create(class)
	p := build.MakePod("default", e.name+"-urgent").Obj()
	p.Spec.PriorityClassName = class.Name
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
	e.Eventually("the urgent pod is created", func() error {
		return client.IgnoreAlreadyExists(e.Client.Create(e.T.Context(), p.DeepCopy()))
	})
	e.Discard(p)
}

func TestADryRunDeniesNothingAndSaysWhatItWould(t *testing.T) {
	e := parallel(t)
	rule := e.rule(600, func(r *v1alpha1.NodeReadinessRule) { r.Spec.DryRun = true })
	node := e.node("n", true)
	pods := e.pods(node, 2, 1)
	e.SetKubelet(node, false)
	e.Eventually("the pods are evicted", e.gone(pods))
	e.event("NodeReadinessRule", rule.Name, "EvictionWouldBeDenied")
	e.event("Pod", pods[0].Name, "EvictionWouldBeDenied")
	e.guarding(rule, "DryRun")
	if n := e.denied(pods); n != 0 {
		t.Errorf("the node controller was refused %d times", n)
	}
}

// TestTheExample applies the third seed's case as it is shipped. Its rule selects the nodes of other tests, too.
func TestTheExample(t *testing.T) {
	e := newEnv(t)
	objects := e.ApplyFile(cluster.Example("eviction-guard", "rule.yaml"))
	node := e.node("n", true)
	pods := e.pods(node, 2, 1)
	e.SetKubelet(node, false)
	e.deniedAtLeast(pods, attempts)
	e.SetKubelet(node, true)
	e.Eventually("the node controller's taint goes", e.evicting(node, false))
	e.guardEnded(node)
	e.Must(e.alive(pods)())
	e.noneDeleted(pods)
	for _, o := range objects {
		e.Remove(o)
	}
}
