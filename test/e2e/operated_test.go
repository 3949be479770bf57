// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

const (
	gpuReady = "example.com/GPUReady"
	gpuTaint = "readiness.example.com/gpu"
	poolKey  = "example.com/pool"
)

// world is the shared cluster with a pool of nodes of this test's own.
type world struct {
	*stage.Stage
	t    *testing.T
	pool string
	down bool
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{Stage: sharedCluster(t), t: t, pool: strings.ToLower(t.Name())}
	w.do(w.AddNodes(t.Context(), w.pool, nodes, cluster.NodeOptions{Labels: map[string]string{poolKey: w.pool}}))
	t.Cleanup(func() {
		ctx := context.Background() // the test's own is over
		if w.down {
			w.do(w.Operator.Start(ctx))
		}
		for i := range nodes {
			_ = w.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name(i)}})
		}
		_ = w.Client.Delete(ctx, &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: w.pool}})
		w.eventually("the rule is gone", func() error {
			err := w.Client.Get(ctx, client.ObjectKey{Name: w.pool}, &v1alpha1.NodeReadinessRule{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	})
	return w
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// stopOperator stops the operator until startOperator, or the end of the test.
func (w *world) stopOperator() {
	w.t.Helper()
	w.do(w.Operator.Stop())
	w.down = true
}

func (w *world) startOperator() {
	w.t.Helper()
	w.do(w.Operator.Start(w.t.Context()))
	w.down = false
}

func (w *world) name(i int) string { return fmt.Sprintf("%s-%d", w.pool, i) }

// rule is a rule for the world's nodes.
func (w *world) rule() *build.RuleWrapper {
	return build.MakeRule(w.pool).Selector(poolKey, w.pool).Condition(gpuReady).Taint(gpuTaint, "pending", corev1.TaintEffectNoSchedule)
}

func (w *world) create(r *build.RuleWrapper) *v1alpha1.NodeReadinessRule {
	w.t.Helper()
	rule := r.Obj()
	w.do(w.Client.Create(w.t.Context(), rule))
	return rule
}

func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	cluster.Eventually(w.t, what, check)
}

// held checks whether all nodes of the world are held.
func (w *world) held(want bool) func() error {
	return func() error {
		nodes := &corev1.NodeList{}
		if err := w.Client.List(w.t.Context(), nodes, client.HasLabels{"kubernetes.io/hostname"}); err != nil {
			return err
		}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if !strings.HasPrefix(n.Name, w.pool+"-") {
				continue
			}
			if got := hasTaint(n, gpuTaint); got != want {
				return fmt.Errorf("node %s: held %t, want %t", n.Name, got, want)
			}
			if record := recorded(n); !want && record != "" {
				return fmt.Errorf("node %s bears %s", n.Name, record)
			}
		}
		return nil
	}
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// recorded is a claim that a node bears.
func recorded(n *corev1.Node) string {
	for k, v := range n.Annotations {
		if strings.HasPrefix(k, v1alpha1.RecordAnnotationPrefix) && strings.Contains(v, `"taint"`) {
			return v
		}
	}
	return ""
}

func (w *world) report(ready bool) {
	w.t.Helper()
	for i := range 2 {
		w.do(stage.Report(w.t.Context(), w.Clientset, w.name(i), gpuReady, ready, "Test", ""))
	}
}

func TestWhatHappenedWhileTheOperatorWasDown(t *testing.T) {
	w := newWorld(t, 2)
	rule := w.create(w.rule())
	w.eventually("the nodes are held", w.held(true))
	w.stopOperator()

	// A patch: others write the node, too.
	w.do(w.Client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name(0)}},
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, poolKey))))
	w.do(w.Client.Delete(t.Context(), rule))

	w.startOperator()
	w.eventually("the relabelled node and the deleted rule's node are released", w.held(false))
	w.eventually("the rule is gone", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func TestTheIncumbentIsTakenOverInPlace(t *testing.T) {
	w := newWorld(t, 3)
	w.stopOperator()
	taint := corev1.Taint{Key: gpuTaint, Value: "pending", Effect: corev1.TaintEffectNoSchedule}
	edit := func(i int, f func(*corev1.Node)) {
		w.eventually("the node is edited", func() error {
			node := &corev1.Node{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Name: w.name(i)}, node); err != nil {
				return err
			}
			f(node)
			return w.Client.Update(t.Context(), node)
		})
	}
	// As that controller leaves them: one node held, one that was held and then relabelled, one completed.
	rule := w.create(w.rule().BootstrapOnly())
	rule.Finalizers = []string{v1alpha1.Finalizer}
	w.do(w.Client.Update(t.Context(), rule))
	edit(0, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) })
	edit(1, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint); delete(n.Labels, poolKey) })
	edit(2, func(n *corev1.Node) {
		n.Annotations["readiness.k8s.io/bootstrap-completed-"+rule.Name] = fmt.Sprintf(`{"rule-name":%q}`, rule.Name)
	})
	rule.Status.ObservedGeneration = rule.Generation
	for i := range 2 {
		rule.Status.NodeEvaluations = append(rule.Status.NodeEvaluations, v1alpha1.NodeEvaluation{
			NodeName: w.name(i), TaintStatus: v1alpha1.TaintPresent, LastEvaluationTime: metav1.Now()})
	}
	w.do(w.Client.Status().Update(t.Context(), rule))

	w.startOperator()
	has := func(i int, want bool) func() error {
		return func() error {
			n := &corev1.Node{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Name: w.name(i)}, n); err != nil {
				return err
			}
			if hasTaint(n, gpuTaint) != want {
				return fmt.Errorf("taints %v", n.Spec.Taints)
			}
			return nil
		}
	}
	w.eventually("the relabelled node loses the taint that only the old status tells of", has(1, false))
	w.eventually("the status counts one held and one completed node", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if n := rule.Status.Nodes; n == nil || *n != (v1alpha1.NodeCounts{Matched: 2, Ready: 1, Held: 1}) {
			return fmt.Errorf("nodes %+v", n)
		}
		return nil
	})
	w.do(has(0, true)())
	w.do(has(2, false)())
	w.do(w.Client.Delete(t.Context(), rule))
	w.eventually("the held node is released with the rule", has(0, false))
}

func TestAForeignCRDFreezesEverythingUntilItIsMended(t *testing.T) {
	w := newWorld(t, 2)
	w.create(w.rule().MaxUnavailable("100%"))
	w.eventually("the nodes are held", w.held(true))
	ready := func() error { return stage.Get(t.Context(), w.ReadyURL) }
	w.eventually("the operator is ready", ready)

	served := &apiextensionsv1.CustomResourceDefinition{}
	swap := func(ctx context.Context, to apiextensionsv1.CustomResourceDefinitionSpec) {
		w.eventually("the definition is written", func() error { // the API server writes its status meanwhile
			if err := w.Client.Get(ctx, client.ObjectKey{Name: crd.Name}, served); err != nil {
				return err
			}
			served.Spec.Versions = to.Versions
			return w.Client.Update(ctx, served)
		})
	}
	ours, err := crd.Load()
	w.do(err)
	foreign := ours.DeepCopy()
	delete(foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "maxUnavailable")
	swap(t.Context(), foreign.Spec)
	t.Cleanup(func() { swap(context.Background(), ours.Spec) })
	w.eventually("readyz says why", func() error {
		if err := ready(); err == nil {
			return fmt.Errorf("it is ready")
		}
		return nil
	})
	w.report(true)
	time.Sleep(time.Second) // long enough for an operator that is not frozen
	w.do(w.held(true)())

	swap(t.Context(), ours.Spec)
	w.eventually("the operator is ready again", ready)
	w.eventually("and does what is due", func() error {
		for i := range 2 {
			n := &corev1.Node{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Name: w.name(i)}, n); err != nil {
				return err
			}
			if hasTaint(n, gpuTaint) {
				return fmt.Errorf("node %s is held", n.Name)
			}
		}
		return nil
	})
}

func TestWhatCanBeSeenOfARule(t *testing.T) {
	w := newWorld(t, 2)
	rule := w.create(w.rule())
	w.eventually("the nodes are held", w.held(true))
	w.report(true)
	w.eventually("the status says that all are ready", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionNodesReady) {
			return fmt.Errorf("conditions %+v", rule.Status.Conditions)
		}
		return nil
	})
	w.eventually("each node bears its events", func() error {
		list := &eventsv1.EventList{}
		if err := w.Client.List(t.Context(), list); err != nil {
			return err
		}
		for i := range 2 {
			for _, want := range [][2]string{{"TaintAdded", "AddTaint"}, {"TaintRemoved", "RemoveTaint"}} {
				if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
					return e.Regarding.Kind == "Node" && e.Regarding.Name == w.name(i) && e.Reason == want[0] && e.Action == want[1] &&
						e.Related != nil && e.Related.Name == rule.Name
				}) {
					return fmt.Errorf("node %s has no event %s", w.name(i), want[0])
				}
			}
		}
		return nil
	})
	wanted := []string{
		fmt.Sprintf(`node_readiness_taint_operations_total{operation="added",rule=%q} 2`, rule.Name),
		fmt.Sprintf(`node_readiness_taint_operations_total{operation="removed",rule=%q} 2`, rule.Name),
		fmt.Sprintf(`node_readiness_rule_nodes{rule=%q,state="ready"} 2`, rule.Name),
		"node_readiness_rules_total", "node_readiness_build_info", "node_readiness_evaluation_duration_seconds_count",
	}
	w.eventually("the metrics tell", func() error {
		metrics := w.metrics()
		for _, want := range wanted {
			if !strings.Contains(metrics, want) {
				return fmt.Errorf("no metric %s", want)
			}
		}
		return nil
	})
	w.do(w.Client.Delete(t.Context(), rule))
	w.eventually("the metrics of a deleted rule go", func() error {
		if strings.Contains(w.metrics(), fmt.Sprintf("rule=%q", rule.Name)) {
			return fmt.Errorf("there are some")
		}
		return nil
	})
}

func (w *world) metrics() string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.MetricsURL, http.NoBody)
	w.do(err)
	resp, err := http.DefaultClient.Do(req)
	w.do(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	w.do(err)
	return string(body)
}

func TestALeaderThatEndsHandsOverAtOnce(t *testing.T) {
	s := sharedCluster(t)
	ctx := t.Context()
	holder := func() string {
		lease := map[string]any{}
		raw, err := s.Clientset.CoordinationV1().RESTClient().Get().AbsPath("/apis/coordination.k8s.io/v1/namespaces/default/leases/nodegate.readiness.node.x-k8s.io").DoRaw(ctx)
		if err != nil {
			return ""
		}
		if err := json.Unmarshal(raw, &lease); err != nil {
			t.Fatal(err)
		}
		spec, _ := lease["spec"].(map[string]any)
		id, _ := spec["holderIdentity"].(string)
		return id
	}
	replica := func(name string) *cluster.Component {
		c, err := s.Run(ctx, cluster.Process{Name: name, Path: s.Binary, Args: []string{
			"--kubeconfig=" + s.Kubeconfig(), "--leader-elect", "--leader-election-namespace=default",
			"--metrics-bind-address=0", "--health-probe-bind-address=0",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := replica("leader")
	cluster.Eventually(t, "one leads", func() error {
		if holder() == "" {
			return fmt.Errorf("nobody holds the lease")
		}
		return nil
	})
	leader := holder()
	second := replica("follower")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if holder() == leader {
		t.Error("a leader that has ended holds the lease, which the next one has to wait out")
	}
	cluster.Eventually(t, "the next one takes over", func() error {
		if h := holder(); h == "" || h == leader {
			return fmt.Errorf("the lease is held by %q", h)
		}
		return nil
	})
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}
