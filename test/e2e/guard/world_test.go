// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

const (
	// label is the third seed's.
	label = "kosmos.io/node"
	// namespace is the operator's.
	namespace      = "nodegate-system"
	nodeController = "system:serviceaccount:kube-system:node-controller"
	operator       = "system:serviceaccount:" + namespace + ":nodegate-manager"
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

// world is a control plane with a hasty controller manager, and healthy nodes beside those of each test: it evicts from nobody
// where all nodes are lost.
type world struct {
	*stage.Stage
	binary  string
	webhook string // the address of the one replica that the API server asks
}

// worlds is the one world of all tests.
var worlds = cluster.Shared(func(ctx context.Context) (*world, error) {
	cluster, err := cluster.Start(ctx, cluster.Options{
		Assets:            os.Getenv("KUBEBUILDER_ASSETS"),
		ControllerManager: true, Scheduler: true, Kwok: true, AuditPolicy: auditPolicy,
		ControllerManagerArgs: []string{
			"--node-monitor-period=500ms", "--node-monitor-grace-period=20s",
			"--node-eviction-rate=100", "--secondary-node-eviction-rate=100", "--unhealthy-zone-threshold=1",
		},
	})
	if err != nil {
		return nil, err
	}
	w := &world{Stage: &stage.Stage{Cluster: cluster, Root: filepath.Join("..", "..", "..")}}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return w, nil
})

func TestMain(m *testing.M) { worlds.Main(m) }

func (w *world) start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	var err error
	if w.Client, err = client.New(w.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if w.Clientset, err = kubernetes.NewForConfig(w.Config()); err != nil {
		return err
	}
	definition, err := crd.Load()
	if err != nil {
		return err
	}
	if err := w.Client.Create(ctx, definition); err != nil {
		return err
	}
	if err := cluster.Poll(context.Background(), cluster.Limit, func() error { return w.Client.List(ctx, &v1alpha1.NodeReadinessRuleList{}) }); err != nil {
		return fmt.Errorf("rules are not served: %w", err)
	}
	w.binary = filepath.Join(w.Dir(), "manager")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", w.binary, "./cmd/manager")
	cmd.Dir, cmd.Env = w.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	if err := w.install(ctx); err != nil {
		return err
	}
	// Each test's nodes are a minority.
	if err := w.AddNodes(ctx, "bystander", 8, cluster.NodeOptions{}); err != nil {
		return err
	}
	w.Operator, err = w.replica(ctx, "operator", w.webhook)
	return err
}

// replica starts an operator that serves webhooks on an address.
func (w *world) replica(ctx context.Context, name, address string) (*cluster.Component, error) {
	kubeconfig, err := w.KubeconfigFor(operator, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		return nil, err
	}
	probes, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	w.MetricsURL = "http://" + metrics + "/metrics"
	return w.Run(ctx, cluster.Process{
		Name: name, Path: w.binary,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect", "--leader-election-namespace=" + namespace,
			"--metrics-bind-address=" + metrics, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
			"--enable-webhook", "--webhook-bind-address=" + address, "--webhook-namespace=" + namespace,
		},
		Ready: func(ctx context.Context) error { return stage.Get(ctx, "http://"+probes+"/readyz") },
	})
}

// install applies the rights and the webhook configurations that come with the operator, the latter for an API server on the
// same machine.
func (w *world) install(ctx context.Context) error {
	if _, err := w.ApplyConfig(ctx, nil, "manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml"); err != nil {
		return err
	}
	return w.installWebhooks(ctx)
}

// test is one test's share of the world: nodes and a rule of its own.
type test struct {
	*world
	t     *testing.T
	name  string
	began time.Time
}

func newTest(t *testing.T) *test {
	t.Helper()
	w := worlds.Get(t)
	name := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test"))
	if len(name) > 40 {
		name = name[:40]
	}
	c := &test{world: w, t: t, name: name, began: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", w.LogTail())
		}
	})
	return c
}

func (c *test) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *test) eventually(what string, check func() error) {
	c.t.Helper()
	cluster.Eventually(c.t, what, check)
}

// throughout repeats a check for a while: for what must not happen there is nothing to wait for.
func (c *test) throughout(what string, seconds int, check func() error) {
	c.t.Helper()
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := check(); err != nil {
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}

// node adds a node, guarded by the test's rule or not, and waits until it is ready.
func (c *test) node(suffix string, guarded bool) string {
	c.t.Helper()
	name := c.name + "-" + suffix
	labels := map[string]string{}
	if guarded {
		labels[label] = c.name
	}
	n := cluster.NewNode(name, cluster.NodeOptions{Labels: labels, Images: -1})
	c.do(c.Client.Create(c.t.Context(), n))
	c.t.Cleanup(func() { _ = c.Client.Delete(context.Background(), n) })
	c.eventually("node "+name+" is ready", func() error { return c.ready(name, corev1.ConditionTrue) })
	c.eventually("node "+name+" is not tainted", func() error { return c.tainted(name, false) })
	return name
}

func (c *test) get(node string) (*corev1.Node, error) {
	n := &corev1.Node{}
	return n, c.Client.Get(c.t.Context(), client.ObjectKey{Name: node}, n)
}

func (c *test) ready(node string, want corev1.ConditionStatus) error {
	n, err := c.get(node)
	if err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == want {
			return nil
		}
	}
	return fmt.Errorf("conditions %+v", n.Status.Conditions)
}

// tainted checks whether the node controller evicts from the node.
func (c *test) tainted(node string, want bool) error {
	n, err := c.get(node)
	if err != nil {
		return err
	}
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			if want && t.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
			if !want {
				return fmt.Errorf("taints %v", n.Spec.Taints)
			}
		}
	}
	if want {
		return fmt.Errorf("taints %v", n.Spec.Taints)
	}
	return nil
}

// link breaks or mends a node: its kubelet reports that it is not ready, or that it is.
func (c *test) link(node string, up bool) {
	c.t.Helper()
	value := `"not-ready"`
	if up {
		value = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, cluster.KubeletAnnotation, value)
	c.do(c.Client.Patch(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// annotate sets an annotation of a node.
func (c *test) annotate(node, key, value string) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	c.do(c.Client.Patch(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// pods creates pods on a node that tolerate its being lost for so many seconds, and waits until they run.
func (c *test) pods(node string, n int, seconds int64) []*corev1.Pod {
	c.t.Helper()
	var pods []*corev1.Pod
	for i := range n {
		p := build.MakePod("default", fmt.Sprintf("%s-%d", node, i)).Node(node).
			Tolerate(corev1.TaintNodeNotReady, seconds).Tolerate(corev1.TaintNodeUnreachable, seconds).Obj()
		c.do(c.Client.Create(c.t.Context(), p))
		c.t.Cleanup(func() { _ = c.Client.Delete(context.Background(), p, client.GracePeriodSeconds(0)) })
		pods = append(pods, p)
	}
	c.eventually("the pods of "+node+" run", func() error {
		for _, p := range pods {
			if err := c.Client.Get(c.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
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

// alive checks that the very same pods are there, and not about to go.
func (c *test) alive(pods []*corev1.Pod) error {
	for _, p := range pods {
		now := &corev1.Pod{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKeyFromObject(p), now); err != nil {
			return err
		}
		if now.UID != p.UID || now.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s: UID %s, was %s; deleted at %s", p.Name, now.UID, p.UID, now.DeletionTimestamp)
		}
	}
	return nil
}

// gone checks that none of the pods is there any more.
func (c *test) gone(pods []*corev1.Pod) error {
	for _, p := range pods {
		now := &corev1.Pod{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKeyFromObject(p), now); !apierrors.IsNotFound(err) && now.UID == p.UID {
			return fmt.Errorf("pod %s is there (%w)", p.Name, err)
		}
	}
	return nil
}

// rule creates the test's rule: the third seed's, for the test's own nodes.
func (c *test) rule(maxHold int32, change ...func(*v1alpha1.NodeReadinessRule)) *v1alpha1.NodeReadinessRule {
	c.t.Helper()
	r := build.MakeRule(c.name).Selector(label, c.name).Condition("Ready").EvictionGuard(maxHold).Obj()
	r.Spec.EnforcementMode = ""
	for _, f := range change {
		f(r)
	}
	c.do(c.Client.Create(c.t.Context(), r))
	c.t.Cleanup(func() {
		_ = c.Client.Delete(context.Background(), r)
		if err := cluster.Poll(context.Background(), cluster.Limit, func() error {
			if err := c.Client.Get(context.Background(), client.ObjectKeyFromObject(r), &v1alpha1.NodeReadinessRule{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the rule is there (%w)", err)
			}
			return nil
		}); err != nil {
			c.t.Error(err)
		}
	})
	c.eventually("the rule is looked after", func() error {
		if err := c.Client.Get(c.t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	return r
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
