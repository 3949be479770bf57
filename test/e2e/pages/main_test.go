// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

// auditPolicy writes down who deletes which pod, and with what success.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [delete], resources: [{group: "", resources: [pods]}]}
- level: None
`

// world is the one cluster of all tests, with an operator that serves webhooks, and a hasty controller manager.
type world struct{ *stage.Stage }

var worlds = cluster.Shared(func(ctx context.Context) (*world, error) {
	s, err := stage.StartWith(ctx, io.Discard, stage.Options{
		Webhooks: true, AuditPolicy: auditPolicy,
		ControllerManagerArgs: []string{
			"--node-monitor-period=500ms", "--node-monitor-grace-period=20s",
			"--node-eviction-rate=100", "--secondary-node-eviction-rate=100", "--unhealthy-zone-threshold=1",
		},
	})
	return &world{s}, err
})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	worlds.Main(m)
}

func sharedCluster(t *testing.T) *world {
	t.Helper()
	w := worlds.Get(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", w.LogTail())
		}
	})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies objects, and takes them away at the end.
func (w *world) apply(t *testing.T, documents ...string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, text := range documents {
		o := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict([]byte(text), &o.Object))
		must(t, w.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("tests")))
		w.discard(t, o)
		objects = append(objects, o)
	}
	return objects
}

// discard deletes an object at the end of the test, and waits until it is gone.
func (w *world) discard(t *testing.T, o client.Object) {
	t.Cleanup(func() { w.remove(t, o) })
}

func (w *world) remove(t *testing.T, o client.Object) {
	t.Helper()
	ctx := context.Background() // the test's own may be over
	cluster.Eventually(t, o.GetName()+" is gone", func() error {
		if err := w.Client.Delete(ctx, o, client.GracePeriodSeconds(0)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// node adds a node.
func (w *world) node(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	n := cluster.NewNode(name, cluster.NodeOptions{Labels: labels, Images: -1})
	must(t, w.Client.Create(t.Context(), n))
	w.discard(t, n)
}

func (w *world) get(ctx context.Context, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	return n, w.Client.Get(ctx, client.ObjectKey{Name: name}, n)
}

// patch merges something into a node.
func (w *world) patch(t *testing.T, name, patch string) {
	t.Helper()
	n := &corev1.Node{}
	n.Name = name
	must(t, w.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
