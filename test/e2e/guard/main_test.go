// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// label is the third seed's.
	label          = "kosmos.io/node"
	nodeController = "system:serviceaccount:kube-system:node-controller"
	// attempts is how often the node controller tries to delete a pod.
	attempts = 5
)

// auditPolicy writes down who deletes which pod, and with what success.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [delete, create]
  resources: [{group: "", resources: [pods, pods/eviction]}]
- level: None
`

// clusters is the one cluster of all tests. Its controller manager is quick, and there are healthy nodes beside those
// of each test: the node controller evicts no pod if all nodes are lost.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.StartWithOperator(ctx, cluster.Options{
		ControllerManager: true, Scheduler: true, Kwok: true, AuditPolicy: auditPolicy,
		ControllerManagerArgs: []string{
			"--node-monitor-period=500ms", "--node-monitor-grace-period=20s",
			"--node-eviction-rate=100", "--secondary-node-eviction-rate=100", "--unhealthy-zone-threshold=1",
		},
	}, cluster.OperatorOptions{Webhooks: true})
	if err != nil {
		return nil, err
	}
	return c, c.AddNodes(ctx, "bystander", 8, cluster.NodeOptions{})
})

func TestMain(m *testing.M) { clusters.Main(m) }

// env is the shared cluster with nodes and a rule of a test's own.
type env struct {
	*cluster.Env
	name string
}

// newEnv returns the environment of a test that shares the cluster with no other at the time.
func newEnv(t *testing.T) *env {
	t.Helper()
	name := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test"))
	return &env{Env: cluster.NewEnv(t, clusters.Get(t)), name: name[:min(len(name), 40)]}
}

// parallel is newEnv for a test that touches nothing but its own nodes.
func parallel(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	return newEnv(t)
}

// node adds a node, guarded by the test's rule or not, and waits until it is ready.
func (e *env) node(suffix string, guarded bool) string {
	e.T.Helper()
	labels := map[string]string{}
	if guarded {
		labels[label] = e.name
	}
	name := e.name + "-" + suffix
	e.AddNode(name, labels)
	e.Eventually("node "+name+" is ready", e.ready(name, corev1.ConditionTrue))
	e.Eventually("node "+name+" is not tainted", e.evicting(name, false))
	return name
}

// ready is a check of a node's condition Ready.
func (e *env) ready(node string, want corev1.ConditionStatus) func() error {
	return func() error {
		n := e.Node(node)
		if c := cluster.ConditionOf(n, corev1.NodeReady); c == nil || c.Status != want {
			return fmt.Errorf("conditions %+v", n.Status.Conditions)
		}
		return nil
	}
}

// evicting is a check: the node has a taint with which the node controller evicts pods, or none of its taints at all.
func (e *env) evicting(node string, want bool) func() error {
	return func() error {
		taints := e.Node(node).Spec.Taints
		tainted, evicting := false, false
		for _, t := range taints {
			if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
				tainted, evicting = true, evicting || t.Effect == corev1.TaintEffectNoExecute
			}
		}
		if want && !evicting || !want && tainted {
			return fmt.Errorf("taints %v", taints)
		}
		return nil
	}
}

// tryAgain makes the node controller evict once more: it does when its taints on a node change.
func (e *env) tryAgain(node string) {
	e.T.Helper()
	e.EditNode(node, func(n *corev1.Node) {
		taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
		n.Spec.Taints = append(n.Spec.Taints, taint)
	})
}

// pods creates pods on a node that tolerate its loss for so many seconds, and waits until they run.
func (e *env) pods(node string, n int, seconds int64) []*corev1.Pod {
	e.T.Helper()
	var pods []*corev1.Pod
	for i := range n {
		p := build.MakePod("default", fmt.Sprintf("%s-%d", node, i)).Node(node).
			Tolerate(corev1.TaintNodeNotReady, seconds).Tolerate(corev1.TaintNodeUnreachable, seconds).Obj()
		e.Create(p)
		pods = append(pods, p)
	}
	e.Eventually("the pods of "+node+" run", func() error {
		for _, p := range pods {
			if err := e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(p), p); err != nil {
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

// alive is a check: the same pods are there, and none of them is being deleted.
func (e *env) alive(pods []*corev1.Pod) func() error {
	return func() error {
		for _, p := range pods {
			now := &corev1.Pod{}
			if err := e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(p), now); err != nil {
				return err
			}
			if now.UID != p.UID || now.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s: UID %s, was %s; deleted at %s", p.Name, now.UID, p.UID, now.DeletionTimestamp)
			}
		}
		return nil
	}
}

// outlives waits until the node controller has evicted a pod from a further node without a guard, after so many
// seconds: what it would have done to these pods has been done by then.
func (e *env) outlives(pods []*corev1.Pod, seconds int64) {
	e.T.Helper()
	node := e.node("last", false)
	last := e.pods(node, 1, seconds)
	e.SetKubelet(node, false)
	e.Eventually("a pod without a guard is evicted", e.gone(last))
	e.Must(e.alive(pods)())
}

// gone is a check: none of the pods is there any more.
func (e *env) gone(pods []*corev1.Pod) func() error {
	return func() error {
		for _, p := range pods {
			if err := e.Gone(p)(); err != nil {
				return err
			}
		}
		return nil
	}
}

// rule creates the test's rule: the third seed's, for the test's own nodes.
func (e *env) rule(maxHold int32) *v1alpha1.NodeReadinessRule {
	e.T.Helper()
	r := build.MakeRule(e.name).Selector(label, e.name).Condition("Ready").EvictionGuard(maxHold).Untainted().Obj()
	e.Create(r)
	e.Eventually("the rule is observed", func() error {
		if err := e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	return r
}

// holdEnds lets a rule's guard on a node end in two seconds. Until then a test waits for what must happen before, as
// long as that takes.
func (e *env) holdEnds(rule *v1alpha1.NodeReadinessRule, node string) {
	e.T.Helper()
	since := cluster.ConditionOf(e.Node(node), corev1.NodeReady).LastTransitionTime
	seconds := int32(time.Since(since.Time)/time.Second) + 2
	e.Edit(rule, func() { rule.Spec.EvictionGuard.MaxHoldSeconds = &seconds })
}

// deletion is one request to delete a pod, by its name: no two pods here have the same.
type deletion struct {
	user, pod string
	code      int32
}

// deletions counts all requests to delete pods, as the API server has written them down.
func (e *env) deletions() map[deletion]int {
	e.T.Helper()
	events, err := cluster.ReadAudit[auditv1.Event](e.AuditLog())
	e.Must(err)
	counts := map[deletion]int{}
	for i := range events {
		v := &events[i]
		if v.Verb == "delete" && v.ObjectRef != nil && v.ObjectRef.Resource == "pods" && v.ObjectRef.Subresource == "" &&
			v.ResponseStatus != nil && v.ImpersonatedUser == nil {
			counts[deletion{v.User.Username, v.ObjectRef.Name, v.ResponseStatus.Code}]++
		}
	}
	return counts
}

// denied is how often the node controller was refused a pod, at least.
func (e *env) denied(pods []*corev1.Pod) int {
	e.T.Helper()
	all := e.deletions()
	least := all[deletion{nodeController, pods[0].Name, 403}]
	for _, p := range pods {
		least = min(least, all[deletion{nodeController, p.Name, 403}])
	}
	return least
}

// deniedAtLeast waits until the node controller was refused each pod n times.
func (e *env) deniedAtLeast(pods []*corev1.Pod, n int) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("the node controller is refused each pod %d times", n), func() error {
		if got := e.denied(pods); got < n {
			return fmt.Errorf("%d times", got)
		}
		return nil
	})
}

// noneDeleted checks that no request to delete one of the pods has succeeded.
func (e *env) noneDeleted(pods []*corev1.Pod) {
	e.T.Helper()
	for d, n := range e.deletions() {
		for _, p := range pods {
			if d.pod == p.Name && d.code < 300 {
				e.T.Errorf("%s deleted pod %s (%d times)", d.user, d.pod, n)
			}
		}
	}
}

// guardEnded waits until the node has no record of an active eviction guard.
func (e *env) guardEnded(node string) {
	e.T.Helper()
	e.Eventually("the guard of "+node+" ends", func() error {
		for key, value := range e.Node(node).Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, "guardedSince") {
				return fmt.Errorf("record %s", value)
			}
		}
		return nil
	})
}
