// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	leaf           = "kosmos.io/node"
	nodeController = "system:serviceaccount:kube-system:node-controller"
	// attempts is how often the node controller tries to delete a pod.
	attempts = 5
)

// Kyverno cannot run here. A policy of the API server's own, with the nodes as its parameters, denies the same deletions.
const (
	policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kosmos-node-not-ready}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: Node}
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}
  matchConditions:
  - {name: user, expression: "request.userInfo.username == 'system:serviceaccount:kube-system:node-controller'"}
  validations:
  - expression: |-
      !has(oldObject.spec.nodeName) || oldObject.spec.nodeName != params.metadata.name ||
      has(params.status.conditions) && params.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')
    message: by the old policy
    reason: Forbidden
`
	policyBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kosmos-node-not-ready}
spec:
  policyName: kosmos-node-not-ready
  validationActions: [Deny]
  paramRef:
    selector: {matchExpressions: [{key: kosmos.io/node, operator: Exists}]}
    parameterNotFoundAction: Allow
`
)

// fleet is some nodes with pods, and others, so that not all are lost: the node controller would evict nobody then.
type fleet struct {
	*world
	t *testing.T
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{sharedCluster(t), t}
	for i := range 6 {
		f.node(t, fmt.Sprintf("bystander-%d", i), nil)
	}
	return f
}

// host adds a node with pods that tolerate its loss for so many seconds, and waits until they run.
func (f *fleet) host(name string, labels map[string]string, seconds int64) []*corev1.Pod {
	f.t.Helper()
	f.node(f.t, name, labels)
	cluster.Eventually(f.t, name+" is ready", func() error { return f.isReady(name, corev1.ConditionTrue) })
	var pods []*corev1.Pod
	for i := range 3 {
		p := build.MakePod("default", fmt.Sprintf("%s-%d", name, i)).Node(name).
			Tolerate(corev1.TaintNodeNotReady, seconds).Tolerate(corev1.TaintNodeUnreachable, seconds).Obj()
		must(f.t, f.Client.Create(f.t.Context(), p))
		f.discard(f.t, p.DeepCopy())
		pods = append(pods, p)
	}
	cluster.Eventually(f.t, "the pods of "+name+" run", func() error {
		for _, p := range pods {
			if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
			}
		}
		return nil
	})
	return pods
}

// link breaks or mends a node: its kubelet reports that it is not ready, or that it is.
func (f *fleet) link(node string, up bool) {
	f.t.Helper()
	value := `"not-ready"`
	if up {
		value = "null"
	}
	f.patch(f.t, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, cluster.KubeletAnnotation, value))
}

func (f *fleet) isReady(node string, want corev1.ConditionStatus) error {
	n, err := f.get(f.t.Context(), node)
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("conditions %+v", n.Status.Conditions)
}

// evicting checks whether the node controller's taint is on a node.
func (f *fleet) evicting(node string, want bool) error {
	n, err := f.get(f.t.Context(), node)
	if err != nil {
		return err
	}
	on := tainted(n, corev1.TaintNodeNotReady) || tainted(n, corev1.TaintNodeUnreachable)
	if on != want {
		return fmt.Errorf("taints %v", n.Spec.Taints)
	}
	return nil
}

// tryAgain has the node controller evict anew: it does when its taints on a node change.
func (f *fleet) tryAgain(node string) {
	f.t.Helper()
	cluster.Eventually(f.t, "another taint is on "+node, func() error {
		n, err := f.get(f.t.Context(), node)
		if err != nil {
			return err
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
		return f.Client.Update(f.t.Context(), n)
	})
}

// gone checks that none of the pods is there any more.
func (f *fleet) gone(pods []*corev1.Pod) error {
	for _, p := range pods {
		now := &corev1.Pod{}
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(p), now); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is there (%w)", p.Name, err)
		}
	}
	return nil
}

// untouched watches pods from now on. The function that it returns says whether one of them was deleted, ever.
func (f *fleet) untouched(pods []*corev1.Pod) func() error {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	list, err := f.Clientset.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	must(f.t, err)
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return f.Clientset.CoreV1().Pods("default").Watch(ctx, o)
		},
	})
	must(f.t, err)
	deleted, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watcher.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && (e.Type == watch.Deleted || p.DeletionTimestamp != nil) {
				deleted <- p.Name
			}
		}
	}()
	stop := func() {
		cancel()
		<-ended
	}
	f.t.Cleanup(stop)
	return func() error {
		for _, p := range pods {
			now := &corev1.Pod{}
			if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(p), now); err != nil || now.UID != p.UID || now.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s was deleted (%w)", p.Name, err)
			}
		}
		stop()
		close(deleted)
		for name := range deleted {
			for _, p := range pods {
				if name == p.Name {
					return fmt.Errorf("pod %s was deleted", name)
				}
			}
		}
		return nil
	}
}

// denied is how often the node controller was refused each of the pods, at least.
func (f *fleet) denied(pods []*corev1.Pod) int {
	f.t.Helper()
	requests, err := cluster.ReadAudit[auditv1.Event](f.AuditLog())
	must(f.t, err)
	counts := map[string]int{}
	for i := range requests {
		e := &requests[i]
		if e.User.Username == nodeController && e.ImpersonatedUser == nil && e.ObjectRef != nil && e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			counts[e.ObjectRef.Name]++
		}
	}
	least := counts[pods[0].Name]
	for _, p := range pods {
		least = min(least, counts[p.Name])
	}
	return least
}

func (f *fleet) deniedAtLeast(pods []*corev1.Pod, n int) {
	f.t.Helper()
	cluster.Eventually(f.t, fmt.Sprintf("the node controller is refused each pod %d times", n), func() error {
		if got := f.denied(pods); got < n {
			return fmt.Errorf("%d times", got)
		}
		return nil
	})
}

// policed applies the old policy, and waits until it denies: pods of a node that is not ready.
func (f *fleet) policed() []*unstructured.Unstructured {
	f.t.Helper()
	objects := f.apply(f.t, policy, policyBinding)
	probe := f.host("probe-"+strings.ToLower(f.t.Name()), map[string]string{leaf: "probe"}, 2)
	f.link(probe[0].Spec.NodeName, false)
	config, err := f.ConfigFor(nodeController)
	must(f.t, err)
	c, err := client.New(config, client.Options{})
	must(f.t, err)
	cluster.Eventually(f.t, "the old policy denies", func() error {
		err := c.Delete(f.t.Context(), probe[0].DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "by the old policy") {
			return fmt.Errorf("it is answered: %w", err)
		}
		return nil
	})
	return objects
}

func TestFromAKyvernoPolicy(t *testing.T) {
	f := newFleet(t)
	p := open(t, f.world, "migrate-from-kyverno-policy.md")
	old := f.policed()
	kept, others := f.host("leaf", map[string]string{leaf: "leaf"}, 2), f.host("plain", nil, 2)
	alive := f.untouched(kept)

	f.link("leaf", false)
	f.link("plain", false)
	cluster.Eventually(t, "the pods that nobody guards are evicted", func() error { return f.gone(others) })
	f.deniedAtLeast(kept, attempts)

	// The rule comes while the node is lost, and then the policy goes.
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Name = "kosmos-link"
	f.discard(t, rule)
	p.must("kubectl apply -f kosmos-link.yaml")
	p.must("kubectl wait nrr/kosmos-link --for=condition=Guarding --timeout=60s")
	for _, o := range old {
		f.remove(t, o)
	}
	const ask = "kubectl -n NAMESPACE delete pod POD --dry-run=server --as=system:serviceaccount:kube-system:node-controller"
	cluster.Eventually(t, "only the rule denies", func() error {
		out, err := p.run(ask, "NAMESPACE", "default", "POD", kept[0].Name)
		if err == nil || !strings.Contains(out, "by rule kosmos-link") {
			return fmt.Errorf("it is answered %s (%w)", out, err)
		}
		return nil
	})
	before := f.denied(kept)
	f.tryAgain("leaf")
	f.deniedAtLeast(kept, before+attempts)
	if out := p.must(`kubectl get nrr kosmos-link -o jsonpath='{.status.conditions[?(@.type=="Guarding")].message}'`); out == "" {
		t.Error("the condition says nothing")
	}

	f.link("leaf", true)
	cluster.Eventually(t, "the node controller's taints go", func() error { return f.evicting("leaf", false) })
	cluster.Eventually(t, "the guard stands down", func() error {
		n, err := f.get(t.Context(), "leaf")
		if err != nil {
			return err
		}
		for key, value := range n.Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, "guardedSince") {
				return errors.New(value)
			}
		}
		return nil
	})

	// And back, while the node is lost again.
	before = f.denied(kept)
	f.link("leaf", false)
	f.deniedAtLeast(kept, before+attempts)
	f.apply(t, policy, policyBinding)
	cluster.Eventually(t, "the policy denies again", func() error {
		out, err := p.run(ask, "NAMESPACE", "default", "POD", kept[0].Name)
		if err == nil || !strings.Contains(out, "by the old policy") {
			return fmt.Errorf("it is answered %s (%w)", out, err)
		}
		return nil
	})
	p.must("kubectl delete nrr kosmos-link")
	before = f.denied(kept)
	f.tryAgain("leaf")
	f.deniedAtLeast(kept, before+attempts)
	must(t, alive())
	p.done("kubectl delete clusterpolicy kosmos-node-not-ready")
}

// TestWhatThePolicyLetsPass: the node is ready again, and the node controller is late.
func TestWhatThePolicyLetsPass(t *testing.T) {
	f := newFleet(t)
	f.policed()
	pods := f.host("late", map[string]string{leaf: "late"}, 0)
	f.link("late", false)
	f.deniedAtLeast(pods, attempts)

	must(t, f.ControllerManager.Pause())
	t.Cleanup(func() { _ = f.ControllerManager.Resume() })
	f.link("late", true)
	cluster.Eventually(t, "the node is ready again", func() error { return f.isReady("late", corev1.ConditionTrue) })
	f.tryAgain("late")
	must(t, f.ControllerManager.Resume())
	cluster.Eventually(t, "the pods are evicted from a node that is ready", func() error { return f.gone(pods) })
}
