// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// anyNode returns a node with random values in all fields.
func anyNode(seed int64) *corev1.Node {
	node := &corev1.Node{}
	randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 4).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString("{}") },
	).Fill(node)
	node.TypeMeta = metav1.TypeMeta{}
	return node
}

// lean returns a copy of a node without what is not decoded.
func lean(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.ManagedFields, node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil, nil
	return node
}

func TestALeanNodeHasAllOtherFields(t *testing.T) {
	for seed := range int64(200) {
		node := anyNode(seed)
		raw, err := node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		full, got := &corev1.Node{}, &leanNode{}
		if err := full.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if err := got.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lean(full), &got.Node); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		for _, end := range []int{len(raw) - 1, len(raw) / 2, 1} {
			if got, want := (&leanNode{}).Unmarshal(raw[:end]), full.Unmarshal(raw[:end]); (got == nil) != (want == nil) {
				t.Fatalf("seed %d cut at %d: %v, want %v", seed, end, got, want)
			}
		}
	}
}

func TestALeanNodeKeepsNoEmptyRoom(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: make([]corev1.Taint, 50)},
		Status: corev1.NodeStatus{Conditions: make([]corev1.NodeCondition, 50)}}
	raw, err := node.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := &leanNode{}
	if err := got.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	if taints, conditions := cap(got.Spec.Taints), cap(got.Status.Conditions); max(taints, conditions) > 60 {
		t.Errorf("there is room for %d taints and %d conditions", taints, conditions)
	}
}

// TestCachedNodesShareTheirStrings measures what a hundred nodes under 50 rules cost, as they come from the API server.
func TestCachedNodesShareTheirStrings(t *testing.T) {
	raw := nodeUnder50Rules(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cached := make([]leanNode, 100)
	for i := range cached {
		if i%5 == 0 {
			runtime.GC() // nodes that come later must share the strings, too
		}
		if err := cached[i].Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(cached)
	const limit = 13 << 10
	if each := (after.HeapAlloc - before.HeapAlloc) / 100; each > limit {
		t.Errorf("a cached node takes %d bytes, want at most %d", each, limit)
	}
}

// nodeUnder50Rules returns an encoded node with 20 labels, and a condition and a record for each of 50 rules.
func nodeUnder50Rules(tb testing.TB) []byte {
	tb.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{},
		Annotations: map[string]string{}}}
	for i := range 20 {
		node.Labels[fmt.Sprintf("example.com/label-%d", i)] = "value"
	}
	for i := range 50 {
		node.Annotations[fmt.Sprintf("%s%036d", v1alpha1.RecordAnnotationPrefix, i)] = fmt.Sprintf(
			`{"rule":"rule-%d","released":"2026-01-02T03:04:05Z"}`, i)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Status: corev1.ConditionFalse,
			Type:   corev1.NodeConditionType(fmt.Sprintf("example.com/Ready-%d", i)),
			Reason: "NotReady", Message: fmt.Sprintf("what reporter %d says of the node", i),
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()})
	}
	raw, err := node.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestLongStringsAreNotKept(t *testing.T) {
	s := &sharedStrings{}
	for _, v := range []string{strings.Repeat("x", maxSharedBytes), strings.Repeat("x", maxSharedBytes+1)} {
		if s.get([]byte(v)) != v {
			t.Error("another string is returned")
		}
	}
	if len(s.young) != 1 {
		t.Errorf("%d strings are kept, want the shorter one", len(s.young))
	}
}

// TestTheCacheReadsLeanNodes lets an informer read nodes from a server: from a list, and then from a watch.
func TestTheCacheReadsLeanNodes(t *testing.T) {
	listed, watched := anyNode(1), anyNode(2)
	listed.Name, watched.Name, listed.Namespace, watched.Namespace = "listed", "watched", "", ""
	codec := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	frames := protobuf.NewRawSerializer(clientscheme.Scheme, clientscheme.Scheme)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
		query := r.URL.Query()
		switch {
		case query.Get("sendInitialEvents") != "":
			http.Error(w, "", http.StatusUnprocessableEntity) // an older server
		case query.Get("watch") == "":
			list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{*listed}}
			if err := codec.Encode(list, w); err != nil {
				t.Error(err)
			}
		default:
			watched.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
			raw, err := k8sruntime.Encode(codec, watched)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
			out := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
			event := &metav1.WatchEvent{Type: "ADDED", Object: k8sruntime.RawExtension{Raw: raw}}
			if err := frames.Encode(event, out); err != nil {
				t.Error(err)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	informer := LeanNodes(&rest.Config{Host: server.URL})(nil, &corev1.Node{}, 0, cache.Indexers{})
	go informer.Run(t.Context().Done())
	for _, want := range []*corev1.Node{listed, watched} {
		var got any
		var err error
		for range 1000 {
			if got, _, err = informer.GetStore().GetByKey(want.Name); got != nil || err != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		node, ok := got.(*corev1.Node)
		if !ok || err != nil {
			t.Fatalf("%s: %T, %v", want.Name, got, err)
		}
		node = node.DeepCopy()
		node.TypeMeta, want = metav1.TypeMeta{}, lean(want)
		want.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, node, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
}

func BenchmarkDecodeNode(b *testing.B) {
	raw := nodeUnder50Rules(b)
	for name, decode := range map[string]func() error{
		"full": func() error { return (&corev1.Node{}).Unmarshal(raw) },
		"lean": func() error { return (&leanNode{}).Unmarshal(raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
