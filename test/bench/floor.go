// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/operator"
	"github.com/nodegate/nodegate/internal/text"
	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

// floor is the bare loop: it watches nodes with the operator's decoder, and sends one patch for each whose taints are
// not as its conditions have it. The equal floor also writes a record for each taint, as long as the operator's, and
// one event. It never reads a record; it could not be used for anything.
type floor struct {
	config   *rest.Config
	client   kubernetes.Interface
	sink     eventsclient.EventsV1Interface
	nodes    listers.NodeLister
	queue    workqueue.TypedInterface[string]
	pods     cache.Indexer // those to go by, by node; nil: by conditions
	pairs    int           // of evidence and a taint
	lean     bool          // no records and no events
	events   chan *eventsv1.Event
	enforced atomic.Bool
}

// retryDelay is when to look again at a node whose patch failed.
const retryDelay = 100 * time.Millisecond

func floorMain(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("floor", flag.ExitOnError)
	kubeconfig := fs.String("kubeconfig", "", "")
	pairs := fs.Int("rules", 1, "")
	address := fs.String("address", "", "where /readyz and /apply are served")
	evidence := fs.String("evidence", measure.ByConditions, "")
	lean := fs.Bool("lean", false, "write no records and no events")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	f, err := newFloor(config, *pairs, *lean)
	if err != nil {
		return err
	}
	if *evidence == measure.ByPods {
		if err := f.watchPods(ctx); err != nil {
			return err
		}
	}
	return f.run(ctx, *address)
}

// newFloor returns a floor whose requests are like the operator's: it asks for uncompressed answers, and its events
// have a client of their own with the operator's limits.
func newFloor(config *rest.Config, pairs int, lean bool) (*floor, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + ",application/json"
	config.QPS, config.DisableCompression = -1, true
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	limited := rest.CopyConfig(config)
	limited.QPS, limited.Burst = operator.EventsPerSecond, operator.EventsBurst
	sink, err := eventsclient.NewForConfig(limited)
	return &floor{config: config, client: client, sink: sink, pairs: pairs, lean: lean,
		queue: workqueue.NewTyped[string](), events: make(chan *eventsv1.Event, operator.QueuedEvents)}, err
}

// sendEvents sends one event after the other, as the operator does.
func (f *floor) sendEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.events:
			if _, err := f.sink.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "error:", err)
			}
		}
	}
}

// nodeIndex is the index of pods by their node.
const nodeIndex = "node"

// watchPods watches the pods to go by.
func (f *floor) watchPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0, informers.WithNamespace(evidenceNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = evidenceLabel + "=" + evidenceValue }))
	informer := factory.Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{nodeIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}}); err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && f.enforced.Load() {
			f.queue.Add(pod.Spec.NodeName)
		}
	}}); err != nil {
		return err
	}
	f.pods = informer.GetIndexer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

func (f *floor) run(ctx context.Context, address string) error {
	informer := watch.LeanNodes(f.config)(nil, &corev1.Node{}, 0, cache.Indexers{})
	f.nodes = listers.NewNodeLister(informer.GetIndexer())
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.look,
		UpdateFunc: func(_, obj any) { f.look(obj) },
	}); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}

	var all sync.WaitGroup
	for range workers {
		all.Go(func() { f.work(ctx) })
	}
	all.Go(func() { f.sendEvents(ctx) })
	server := &http.Server{Addr: address, Handler: f.handler(), ReadHeaderTimeout: time.Second}
	all.Go(func() {
		<-ctx.Done()
		f.queue.ShutDown()
		_ = server.Close()
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	all.Wait()
	return nil
}

func (f *floor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {}) // served only once the cache is synced
	mux.HandleFunc("GET /apply", func(w http.ResponseWriter, _ *http.Request) {
		f.enforced.Store(true)
		nodes, err := f.nodes.List(labels.Everything())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, node := range nodes {
			f.look(node)
		}
	})
	return mux
}

func (f *floor) look(obj any) {
	if node, ok := obj.(*corev1.Node); ok && f.enforced.Load() && f.wrong(node) {
		f.queue.Add(node.Name)
	}
}

// wrong is the decision.
func (f *floor) wrong(node *corev1.Node) bool {
	for i := range f.pairs {
		if f.holds(node, i) == cluster.HasTaint(node, taintKey(i)) {
			return true
		}
	}
	return false
}

func (f *floor) holds(node *corev1.Node, pair int) bool {
	if f.pods == nil {
		c := cluster.ConditionOf(node, corev1.NodeConditionType(conditionType(pair)))
		return c != nil && c.Status == corev1.ConditionTrue
	}
	pods, err := f.pods.ByIndex(nodeIndex, node.Name)
	return err == nil && slices.ContainsFunc(pods, func(obj any) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

func (f *floor) work(ctx context.Context) {
	for {
		name, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		if node, err := f.nodes.Get(name); err == nil && f.wrong(node) {
			if err := f.patch(ctx, node); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				time.AfterFunc(retryDelay, func() { f.queue.Add(name) })
			}
		}
		f.queue.Done(name)
	}
}

func (f *floor) patch(ctx context.Context, node *corev1.Node) error {
	var want []corev1.Taint
	for _, t := range node.Spec.Taints {
		if !strings.HasPrefix(t.Key, taintKeyStem) {
			want = append(want, t)
		}
	}
	annotations := maps.Clone(node.Annotations)
	var changes []string
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for i := range f.pairs {
		taint := corev1.Taint{Key: taintKey(i), Value: taintValue, Effect: corev1.TaintEffectNoSchedule}
		record := nodeview.Record{Rule: ruleName(i), Released: now, Found: true} // as the operator's of nodes in service
		held := !f.holds(node, i)
		if held {
			want = append(want, taint)
			record.Taint, record.Since = nodeview.FormatTaint(taint), now
		}
		if !f.lean && held != cluster.HasTaint(node, taint.Key) {
			annotations[floorRecordKey(i)] = record.Encode()
			changes = append(changes, fmt.Sprintf("Changed taint %s for rule %s", nodeview.FormatTaint(taint), ruleName(i)))
		}
	}
	operations := []map[string]any{{"op": "add", "path": "/spec/taints", "value": want}}
	if len(want) == 0 {
		operations[0] = map[string]any{"op": "remove", "path": "/spec/taints"}
	}
	if len(changes) > 0 { // one operation for all records: fifty cost the API server more
		operations = append(operations, map[string]any{"op": "add", "path": "/metadata/annotations", "value": annotations})
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	if _, err := f.client.CoreV1().Nodes().Patch(ctx, node.Name, types.JSONPatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	if !f.lean {
		f.announce(node, strings.Join(changes, "; "))
	}
	return nil
}

// announce queues an event that is about as long as the operator's. Like those, it is dropped if too many wait.
func (f *floor) announce(node *corev1.Node, note string) {
	now := time.Now()
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
			Name: util.GenerateEventName(node.Name, now.UnixNano())},
		EventTime: metav1.NewMicroTime(now), ReportingController: "floor", ReportingInstance: "nodegate-floor",
		Type: corev1.EventTypeNormal, Reason: "TaintChanged", Action: "ChangeTaint",
		Note:      text.Clip(note+": condition "+conditionType(0)+" has changed", operator.MaxNote),
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Related: &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion().String(), Kind: "NodeReadinessRule",
			Name: ruleName(0), UID: node.UID},
	}
	select {
	case f.events <- e:
	default:
	}
}

// floorRecordKey is the key of a record of the floor. It has the length of the operator's keys.
func floorRecordKey(i int) string { return fmt.Sprintf("example.com/rule-%036d", i) }
