// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

const (
	nodes = 200
	pods  = 600 // three fill a node

	poolKey   = "example.com/pool"
	pool      = "burst"
	condition = "example.com/CNIReady"
	taintKey  = "readiness.example.com/cni"

	limit = 4 * time.Minute
)

// burst is 200 nodes that join while 600 pods wait for them.
type burst struct {
	*stage.Stage
	t *testing.T

	mu       sync.Mutex
	reported map[string]int64 // the revision at which a node's evidence was stored
	bound    map[string]bind  // pods, by name
}

// bind is a pod's binding.
type bind struct {
	node     string
	revision int64
}

func TestNoPodIsFasterThanTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		options stage.Options
		engine  string
		kill    bool
	}{
		"policy":                          {options: stage.Options{Webhooks: true, Policies: true}, engine: "policy"},
		"policy, with an operator killed": {options: stage.Options{Webhooks: true, Policies: true}, engine: "policy", kill: true},
		"webhook":                         {options: stage.Options{Webhooks: true}, engine: "webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBurst(t, c.options)
			b.rule(v1alpha1.NodeAdmissionTaint)
			b.deploy()
			b.join(c.kill)
			if early := b.early(); len(early) > 0 {
				t.Errorf("%d pods were bound before the rule held: %v", len(early), early)
			}
			if c.kill { // what was counted before is gone with the operator
				return
			}
			b.eventually("all taints are counted", func() error {
				// The API server asks a webhook again where a request meets another one.
				if got := b.admitted(c.engine); got < nodes || c.engine == "policy" && got > nodes {
					return fmt.Errorf("%s has put %d taints on nodes, not %d", c.engine, got, nodes)
				}
				return nil
			})
			for _, other := range []string{"policy", "webhook"} {
				if got := b.admitted(other); other != c.engine && got != 0 {
					t.Errorf("%s has put %d taints on nodes", other, got)
				}
			}
			if got := b.metric(fmt.Sprintf("node_readiness_escaped_pods_total{rule=%q}", pool)); got != 0 {
				t.Errorf("%d pods have escaped, says the metric", got)
			}
			if got := b.metric(fmt.Sprintf("node_readiness_taint_operations_total{operation=\"added\",rule=%q}", pool)); got != 0 {
				t.Errorf("the controller had to gate %d nodes itself", got)
			}
		})
	}
}

// TestTheProofCanFail: the same burst without admission, and with a controller that is slow.
func TestTheProofCanFail(t *testing.T) {
	b := newBurst(t, stage.Options{Args: []string{"--kube-api-qps=5", "--kube-api-burst=5"}})
	b.rule(v1alpha1.NodeAdmissionNone)
	b.deploy()
	b.join(false)
	if early := b.early(); len(early) == 0 {
		t.Error("no pod was bound before the rule held: the proof proves nothing")
	}
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func newBurst(t *testing.T, o stage.Options) *burst {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s, err := stage.StartWith(ctx, io.Discard, o)
	if err != nil {
		t.Fatal(err)
	}
	b := &burst{Stage: s, t: t, reported: map[string]int64{}, bound: map[string]bind{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", s.LogTail())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *burst) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *burst) eventually(what string, check func() error) {
	b.t.Helper()
	if err := cluster.Poll(context.Background(), limit, check); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// rule creates the rule, and waits until whatever is to gate nodes knows it.
func (b *burst) rule(admission v1alpha1.NodeAdmissionPolicy) {
	b.t.Helper()
	r := build.MakeRule(pool).Selector(poolKey, pool).Condition(condition).Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
	r.Spec.Admission = admission
	b.must(b.Client.Create(b.t.Context(), r.Obj()))
	b.eventually("the rule is in force", func() error {
		rule := &v1alpha1.NodeReadinessRule{}
		if err := b.Client.Get(b.t.Context(), client.ObjectKey{Name: pool}, rule); err != nil {
			return err
		}
		if rule.Status.InForce == nil {
			return fmt.Errorf("its status is %+v", rule.Status)
		}
		return nil
	})
	if admission == v1alpha1.NodeAdmissionNone {
		return
	}
	b.eventually("nodes are gated", func() error {
		probe := build.MakeNode("probe").Label(poolKey, pool).Obj()
		if err := b.Client.Create(b.t.Context(), probe, client.DryRunAll); err != nil {
			return err
		}
		for _, t := range probe.Spec.Taints {
			if t.Key == taintKey {
				return nil
			}
		}
		return fmt.Errorf("its taints are %v", probe.Spec.Taints)
	})
}

// deploy makes the pods, and waits until all of them are pending.
func (b *burst) deploy() {
	b.t.Helper()
	labels := map[string]string{"app": pool}
	b.must(b.Client.Create(b.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{poolKey: pool},
					Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}}}},
				},
			},
		},
	}))
	b.eventually("the pods are there", func() error {
		list, err := b.Clientset.CoreV1().Pods("default").List(b.t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != pods {
			err = fmt.Errorf("%d of %d are", len(list.Items), pods)
		}
		return err
	})
}

// join lets the nodes join, each as its kubelet, half of them labelled by an administrator a moment later; lets each be
// ready some time after; and returns when all pods are bound. kill ends the operator half way, and brings it back.
func (b *burst) join(kill bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	watching := b.watchPods(ctx)
	gone := make(chan struct{})
	joined, ready := errgroup.Group{}, errgroup.Group{}
	joined.SetLimit(16)
	for i := range nodes {
		if kill && i == nodes/2 {
			b.must(b.Operator.Kill())
			close(gone)
		}
		joined.Go(func() error {
			name := fmt.Sprintf("%s-%d", pool, i)
			if err := b.register(ctx, name, i%2 == 0); err != nil {
				return err
			}
			ready.Go(func() error {
				time.Sleep(time.Second + rand.N(4*time.Second))
				return b.report(ctx, name)
			})
			return nil
		})
	}
	b.must(joined.Wait())
	b.must(ready.Wait())
	if kill {
		<-gone
		b.must(b.Operator.Start(ctx))
	}
	b.must(<-watching)
}

// register creates a node as its kubelet.
func (b *burst) register(ctx context.Context, name string, labelled bool) error {
	config, err := b.ConfigFor("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	o := cluster.NodeOptions{Images: -1}
	if labelled {
		o.Labels = map[string]string{poolKey: pool}
	}
	if _, err := kubelet.CoreV1().Nodes().Create(ctx, cluster.NewNode(name, o), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("registering node %q: %w", name, err)
	}
	if labelled {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, poolKey, pool)
	if _, err := b.Clientset.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling node %q: %w", name, err)
	}
	return nil
}

// report says that a node is ready, and remembers from which revision on.
func (b *burst) report(ctx context.Context, name string) error {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, condition, now, now)
	node, err := b.Clientset.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("reporting for node %q: %w", name, err)
	}
	revision, err := strconv.ParseInt(node.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reported[name] = revision
	return nil
}

// watchPods remembers when each pod was bound: all revisions are of one etcd, so that they can be compared. It ends when
// all pods are bound.
func (b *burst) watchPods(ctx context.Context) <-chan error {
	b.t.Helper()
	list, err := b.Clientset.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	b.must(err)
	// It goes on where it was when the API server ends a watch that is too slow for it.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return b.Clientset.CoreV1().Pods("default").Watch(ctx, o)
		},
	})
	b.must(err)
	done := make(chan error, 1)
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName == "" {
				continue
			}
			if _, known := b.bound[pod.Name]; known {
				continue
			}
			revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
			if err != nil {
				done <- err
				return
			}
			b.bound[pod.Name] = bind{node: pod.Spec.NodeName, revision: revision}
			if len(b.bound) == pods {
				done <- nil
				return
			}
		}
		done <- fmt.Errorf("the watch has ended when %d of %d pods were bound", len(b.bound), pods)
	}()
	return done
}

// early are the pods that were bound before their node's evidence was there.
func (b *burst) early() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for name, at := range b.bound {
		if ready, ok := b.reported[at.node]; !ok || at.revision <= ready {
			out = append(out, fmt.Sprintf("%s on %s at %d, ready at %d", name, at.node, at.revision, ready))
		}
	}
	return out
}

// admitted is how many taints an engine has put on nodes.
func (b *burst) admitted(engine string) int {
	b.t.Helper()
	return b.metric(fmt.Sprintf("node_readiness_admitted_taints_total{engine=%q}", engine))
}

// metric is the value of one of the operator's metrics, 0 if it has none.
func (b *burst) metric(name string) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.MetricsURL, http.NoBody)
	b.must(err)
	resp, err := http.DefaultClient.Do(req)
	b.must(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	b.must(err)
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			b.must(err)
			return int(f)
		}
	}
	return 0
}
