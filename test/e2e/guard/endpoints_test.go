// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// leaseSeconds is the duration of the leases. A node whose lease is older than three quarters of that is silent: as
// with kubelet's 40 seconds, that is before the node controller's patience ends.
const leaseSeconds = 16

// kubelets play the kubelets of nodes with which kwok has nothing to do. Each renews its lease, and reports that its
// node is ready, as long as it reaches the API server.
type kubelets struct {
	*env
	mu      sync.Mutex
	reaches map[string]bool
	pods    []*corev1.Pod
}

// nodes adds nodes of the test's rule, each with a ready pod behind the test's Service.
func (e *env) nodes(n int, tolerationSeconds int64) (*kubelets, []string) {
	e.T.Helper()
	e.Needs(e.T, cluster.MutatingAdmissionPolicies)
	e.Must(e.Cluster.ApplyEndpointPolicy(e.T.Context())) // it stays for the next test
	k := &kubelets{env: e, reaches: map[string]bool{}}
	e.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: e.name, Namespace: "default"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": e.name}, Ports: []corev1.ServicePort{{Port: 80}}}})
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("%s-%d", e.name, i)
		e.Create(cluster.NewNode(names[i], cluster.NodeOptions{Labels: map[string]string{label: e.name}, Images: -1,
			Unmanaged: true}))
		e.Create(&coordinationv1.Lease{ // one without a time would never be seen to be renewed
			ObjectMeta: metav1.ObjectMeta{Name: names[i], Namespace: corev1.NamespaceNodeLease},
			Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}})
		k.reaches[names[i]] = true
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.renew(ctx)
			time.Sleep(time.Second)
		}
	}()
	e.T.Cleanup(func() { cancel(); <-done })
	for i, name := range names {
		e.Eventually("node "+name+" is not tainted", e.evicting(name, false))
		k.pods = append(k.pods, k.pod("default", name, fmt.Sprintf("10.99.%d.%d", len(e.name), i+1), tolerationSeconds))
	}
	e.Eventually("the Service has all endpoints", k.serving(n))
	return k, names
}

func (k *kubelets) renew(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for node, reaches := range k.reaches {
		if !reaches {
			continue
		}
		patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d,"renewTime":%q}}`, node, leaseSeconds,
			metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
		_, _ = k.Clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, node, types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{}) // and again a second later
		if n := (&corev1.Node{}); k.Client.Get(ctx, client.ObjectKey{Name: node}, n) == nil {
			if c := cluster.ConditionOf(n, corev1.NodeReady); c != nil && c.Status != corev1.ConditionTrue {
				_, _ = k.Clientset.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
					[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`),
					metav1.PatchOptions{}, "status")
			}
		}
	}
}

func (k *kubelets) pod(namespace, node, ip string, seconds int64) *corev1.Pod {
	k.T.Helper()
	p := build.MakePod(namespace, node).Node(node).
		Tolerate(corev1.TaintNodeNotReady, seconds).Tolerate(corev1.TaintNodeUnreachable, seconds).Obj()
	p.Labels = map[string]string{"app": k.name}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), // the operator's namespace is restricted
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	k.Create(p)
	k.report(p, func() {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		p.Status.Conditions = nil
		for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.Now()})
		}
	})
	return p
}

// report changes the status of a pod.
func (k *kubelets) report(p *corev1.Pod, change func()) {
	k.T.Helper()
	k.Eventually("the status of "+p.Name+" is written", func() error {
		if err := k.Client.Get(k.T.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		change()
		return k.Client.Status().Update(k.T.Context(), p)
	})
}

// cut breaks the way from nodes to the API server.
func (k *kubelets) cut(nodes ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range nodes {
		k.reaches[n] = false
	}
}

// reconnect lets nodes reach the API server again.
func (k *kubelets) reconnect(nodes ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range nodes {
		k.reaches[n] = true
	}
}

// serving is a check: so many endpoints of the Service are ready.
func (k *kubelets) serving(want int) func() error {
	return func() error {
		list := &discoveryv1.EndpointSliceList{}
		if err := k.Client.List(context.Background(), list, client.InNamespace("default"),
			client.MatchingLabels{discoveryv1.LabelServiceName: k.name}); err != nil {
			return err
		}
		got := 0
		for i := range list.Items {
			for _, e := range list.Items[i].Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					got++
				}
			}
		}
		if got != want {
			return fmt.Errorf("%d endpoints are ready, want %d", got, want)
		}
		return nil
	}
}

// endpointsNeverLess fails the test if the Service has less ready endpoints in any version from now on.
func (k *kubelets) endpointsNeverLess(want int) (stop func()) {
	k.T.Helper()
	watch, err := k.Clientset.DiscoveryV1().EndpointSlices("default").Watch(context.Background(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + k.name})
	k.Must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			got := 0
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					got++
				}
			}
			if got < want {
				k.T.Errorf("%d endpoints are ready, want %d", got, want)
			}
		}
	}()
	return sync.OnceFunc(func() {
		watch.Stop()
		<-done
	})
}

// podsReady is a check of the condition Ready of the test's pods on nodes.
func (k *kubelets) podsReady(want bool, nodes ...string) func() error {
	return func() error {
		for _, n := range nodes {
			if err := k.podReady(want, "default", n)(); err != nil {
				return err
			}
		}
		return nil
	}
}

// podReady is a check of the condition Ready of a pod.
func (k *kubelets) podReady(want bool, namespace, name string) func() error {
	return func() error {
		p := &corev1.Pod{}
		if err := k.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
			return err
		}
		if c := condition.OfPod(p, corev1.PodReady); (c.Status == corev1.ConditionTrue) != want {
			return fmt.Errorf("pod %s/%s: %+v", namespace, name, p.Status.Conditions)
		}
		return nil
	}
}

// marked waits until the node controller has marked the pods of nodes, or has tried: it tells of that in an event
// afterwards.
func (k *kubelets) marked(nodes ...string) {
	k.T.Helper()
	for _, n := range nodes {
		k.event("Pod", n, "NodeNotReady")
	}
}

// keeping creates the test's rule with endpoints, and waits until the nodes are armed.
func (k *kubelets) keeping(percent, seconds int32, nodes ...string) *v1alpha1.NodeReadinessRule {
	k.T.Helper()
	r := build.MakeRule(k.name).Selector(label, k.name).Condition("Ready").EvictionGuard(3600).
		Endpoints(percent, seconds).Untainted().Obj()
	k.Create(r)
	for _, n := range nodes {
		k.state(n, "")
	}
	controller, err := k.As(nodeController)
	k.Must(err)
	k.Eventually("the policy keeps pods", func() error {
		p := k.pods[0].DeepCopy()
		body := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"` +
			metav1.Now().UTC().Format(time.RFC3339) + `"}]}}`)
		if err := controller.Status().Patch(k.T.Context(), p, client.RawPatch(types.StrategicMergePatchType, body),
			client.DryRunAll); err != nil {
			return err
		}
		if c := condition.OfPod(p, corev1.PodReady); c.Status != corev1.ConditionTrue {
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		}
		return nil
	})
	return r
}

// state waits for a node's state in the object; "kept" for any time.
func (k *kubelets) state(node, want string) {
	k.T.Helper()
	k.Eventually(fmt.Sprintf("node %s has the state %q", node, want), func() error {
		object := &endpointsv1alpha1.KeptEndpoints{}
		if err := k.Client.Get(k.T.Context(), client.ObjectKey{Name: endpointsv1alpha1.Name}, object); err != nil {
			return err
		}
		for _, r := range object.Rules {
			state, known := r.Nodes[node]
			_, err := time.Parse(time.RFC3339, state)
			if r.Name == k.name && known && (state == want || want == "kept" && err == nil) {
				return nil
			}
		}
		return fmt.Errorf("%+v", object.Rules)
	})
}

// TestEndpointsInAnOutage: all kubelets lose the API server. No endpoint goes away until the hold has ended, except
// those of the operator: the API server would call its webhooks on nodes that are lost.
func TestEndpointsInAnOutage(t *testing.T) {
	e := newEnv(t)
	k, nodes := e.nodes(4, 3600)
	k.pod(cluster.Namespace, nodes[0], "10.98.0.1", 3600)
	rule := k.keeping(50, 600, nodes...)
	stop := k.endpointsNeverLess(len(nodes))
	defer stop()

	k.cut(nodes...)
	k.marked(nodes...)
	for _, n := range nodes {
		e.event("Node", n, "EndpointsKept")
		k.state(n, "kept")
	}
	e.guarding(rule, "PodsGuarded")
	e.Eventually("the operator's pod is not kept", k.podReady(false, cluster.Namespace, nodes[0]))
	e.Must(k.podsReady(true, nodes...)())

	back, away := nodes[:1], nodes[1:]
	k.reconnect(back...)
	k.state(back[0], "")
	stop()
	e.Edit(rule, func() { rule.Spec.EvictionGuard.Endpoints.MaxHoldSeconds = new(int32(20)) })
	e.Eventually("the pods of the others are not ready", k.podsReady(false, away...))
	e.Must(k.podsReady(true, back...)())
	e.Eventually("their endpoints are gone", k.serving(len(back)))
	for _, n := range away {
		e.event("Node", n, "EndpointsEnded")
	}
}

// TestEndpointsOfOneNode: the fault is the node's. The operator marks its pods, which the policy has kept.
func TestEndpointsOfOneNode(t *testing.T) {
	e := newEnv(t)
	k, nodes := e.nodes(4, 3600)
	k.keeping(100, 600, nodes...)
	lost, others := nodes[:1], nodes[1:]
	k.cut(lost...)
	e.Eventually("the pods of the node are not ready", k.podsReady(false, lost...))
	k.state(lost[0], endpointsv1alpha1.Marked)
	e.event("Node", lost[0], "EndpointsEnded")
	pod := &corev1.Pod{}
	e.Must(e.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: lost[0]}, pod))
	node := cluster.ConditionOf(e.Node(lost[0]), corev1.NodeReady)
	t.Logf("%s after the node", condition.OfPod(pod, corev1.PodReady).LastTransitionTime.Sub(node.LastTransitionTime.Time))
	e.Must(k.podsReady(true, others...)())
	e.Eventually("its endpoint is gone", k.serving(len(others)))
	k.reconnect(lost...)
	k.state(lost[0], "")
}

// TestEndpointsWithoutAnOperator: what was armed is kept, and nothing else after the object has lapsed. Evictions are
// not denied.
func TestEndpointsWithoutAnOperator(t *testing.T) {
	e := newEnv(t)
	k, nodes := e.nodes(2, 2)
	k.keeping(50, 600, nodes...)
	e.Must(e.Operator.Kill())
	t.Cleanup(func() { e.Must(e.Operator.Start(context.Background())) })
	k.cut(nodes[0])
	k.marked(nodes[0])
	e.Must(k.podsReady(true, nodes[0])())
	e.Eventually("the pod is evicted", func() error {
		pod := &corev1.Pod{}
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(k.pods[0]), pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("conditions %+v", pod.Status.Conditions)
		}
		return nil
	})
	object := &endpointsv1alpha1.KeptEndpoints{ObjectMeta: metav1.ObjectMeta{Name: endpointsv1alpha1.Name}}
	e.Edit(object, func() {
		for i := range object.Rules {
			object.Rules[i].ArmedUntil = metav1.Now() // as after maxHoldSeconds
		}
	})
	k.cut(nodes[1])
	e.Eventually("the pod is not ready", k.podsReady(false, nodes[1]))
}
