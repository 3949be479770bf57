// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
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

// decoder returns a decoder with a cached node, or without one.
func decoder(cached *corev1.Node) *nodeDecoder {
	return &nodeDecoder{cached: func(string) *corev1.Node { return cached }}
}

// decoded decodes a node with a cached node, or without one.
func decoded(cached *corev1.Node, raw []byte, node *corev1.Node) error {
	return decoder(cached).decode(raw, nodeMessage, decoding{node: node})
}

// FuzzALeanNodeHasAllOtherFields compares random nodes with those of client-go's decoder, also where their bytes end
// too early.
func FuzzALeanNodeHasAllOtherFields(f *testing.F) {
	for seed := range int64(200) {
		f.Add(seed, uint16(1<<(seed%16)))
	}
	f.Fuzz(func(t *testing.T, seed int64, end uint16) {
		node := anyNode(seed)
		raw, err := node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		full := &corev1.Node{}
		if err := full.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		for name, cached := range map[string]*corev1.Node{"nothing": nil, "this version": lean(full),
			"a former version": edited(full), "another node": anyNode(seed + 1)} {
			before, got, buffer := cached.DeepCopy(), &corev1.Node{}, slices.Clone(raw)
			if err := decoded(cached, buffer, got); err != nil {
				t.Fatal(err)
			}
			clear(buffer) // the next event of a watch is read into it
			if diff := cmp.Diff(lean(full), got); diff != "" {
				t.Fatalf("with %s cached (-want +got):\n%s", name, diff)
			}
			if diff := cmp.Diff(before, cached); diff != "" {
				t.Fatalf("the cached node has changed (-before +after):\n%s", diff)
			}
		}
		for _, end := range []int{len(raw) - 1, len(raw) / 2, int(end) % len(raw)} {
			got, want := decoded(nil, raw[:end], &corev1.Node{}), full.Unmarshal(raw[:end])
			if (got == nil) != (want == nil) {
				t.Fatalf("cut at %d: %v, want %v", end, got, want)
			}
		}
	})
}

// edited returns a copy of a node with other labels, annotations, taints and conditions.
func edited(node *corev1.Node) *corev1.Node {
	node = lean(node)
	for key := range node.Labels {
		node.Labels[key] += "x"
		break
	}
	for key := range node.Annotations {
		delete(node.Annotations, key)
		node.Annotations[key+"x"] = ""
		break
	}
	if n := len(node.Spec.Taints); n > 0 {
		node.Spec.Taints = node.Spec.Taints[:n-1]
	}
	if n := len(node.Status.Conditions); n > 0 {
		node.Status.Conditions = node.Status.Conditions[1:]
	}
	return node
}

func TestAHeartbeatLeavesLabelsAndAnnotationsInTheirPlace(t *testing.T) {
	raw, cached := nodeUnder50Rules(t), &corev1.Node{}
	if err := decoded(nil, raw, cached); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Node{}
	if err := decoded(cached, raw, got); err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]map[string]string{
		"labels": {cached.Labels, got.Labels}, "annotations": {cached.Annotations, got.Annotations},
	} {
		if reflect.ValueOf(pair[0]).Pointer() != reflect.ValueOf(pair[1]).Pointer() {
			t.Errorf("the %s were decoded again", name)
		}
	}
}

func TestMetadataTwiceIsAnError(t *testing.T) {
	raw := nodeUnder50Rules(t)
	if err := decoded(nil, slices.Concat(raw, raw), &corev1.Node{}); !errors.Is(err, errTwice) {
		t.Errorf("%v, want %v", err, errTwice)
	}
}

func TestALeanNodeKeepsNoEmptyRoom(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: make([]corev1.Taint, 50)},
		Status: corev1.NodeStatus{Conditions: make([]corev1.NodeCondition, 50)}}
	raw, err := node.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Node{}
	if err := decoded(nil, raw, got); err != nil {
		t.Fatal(err)
	}
	if taints, conditions := cap(got.Spec.Taints), cap(got.Status.Conditions); max(taints, conditions) > 60 {
		t.Errorf("there is room for %d taints and %d conditions", taints, conditions)
	}
}

// TestCachedNodesShareTheirStrings measures what a hundred nodes under 50 rules cost, as they come from the API server.
func TestCachedNodesShareTheirStrings(t *testing.T) {
	raw, d := nodeUnder50Rules(t), decoder(nil)
	var before, after runtime.MemStats
	for range 3 { // a pool is emptied by the second one
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	cached := make([]corev1.Node, 100)
	for i := range cached {
		if i%5 == 0 {
			runtime.GC() // nodes that come later must share the strings, too
		}
		if err := d.decode(raw, nodeMessage, decoding{node: &cached[i]}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(cached)
	const limit = 13 << 10
	// Less than its strings take would mean that something else was freed meanwhile.
	const least = 1 << 10
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / 100; each < least || each > limit {
		t.Errorf("a cached node takes %d bytes, want %d to %d", each, least, limit)
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
	node := metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	listed.TypeMeta, watched.TypeMeta = node, node
	list := encoded(t, &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{*listed}})
	var events bytes.Buffer
	frames := protobuf.NewRawSerializer(clientscheme.Scheme, clientscheme.Scheme)
	out := protobuf.LengthDelimitedFramer.NewFrameWriter(&events)
	for _, e := range []metav1.WatchEvent{
		{Type: "ADDED", Object: k8sruntime.RawExtension{Raw: encoded(t, edited(watched))}},
		{Type: "BOOKMARK", Object: k8sruntime.RawExtension{Raw: encoded(t, &corev1.Node{TypeMeta: node})}},
		{Type: "MODIFIED", Object: k8sruntime.RawExtension{Raw: encoded(t, watched)}},
	} {
		if err := frames.Encode(&e, out); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
		query := r.URL.Query()
		switch {
		case query.Get("sendInitialEvents") != "":
			http.Error(w, "", http.StatusUnprocessableEntity) // an older server
		case query.Get("watch") == "":
			_, _ = w.Write(list)
		default:
			w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
			_, _ = w.Write(events.Bytes())
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	informer := LeanNodes(&rest.Config{Host: server.URL})(nil, &corev1.Node{}, 0, cache.Indexers{})
	go informer.Run(t.Context().Done())
	for _, node := range []*corev1.Node{listed, watched} {
		want, diff := lean(node), "nothing"
		want.TypeMeta = metav1.TypeMeta{}
		for end := time.Now().Add(2 * time.Minute); diff != "" && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			if got, _, _ := informer.GetStore().GetByKey(node.Name); got != nil {
				diff = cmp.Diff(k8sruntime.Object(want), got, cmpopts.EquateEmpty())
			}
		}
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", node.Name, diff)
		}
	}
}

// encoded returns an object as the API server sends it.
func encoded(tb testing.TB, object k8sruntime.Object) []byte {
	tb.Helper()
	raw, err := k8sruntime.Encode(protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme), object)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestNodesOfAnotherGroupAreNotLean(t *testing.T) {
	d := newLeanSerializer(func(string) *corev1.Node { return nil })
	info, _ := k8sruntime.SerializerInfoForMediaType(d.SupportedMediaTypes(), k8sruntime.ContentTypeProtobuf)
	foreign, err := (&k8sruntime.Unknown{TypeMeta: k8sruntime.TypeMeta{APIVersion: "example.com/v1", Kind: "Node"}}).
		Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := info.Serializer.Decode(slices.Concat(envelopePrefix, foreign), nil, nil); err == nil {
		t.Errorf("a node of another group is decoded as %v", got)
	}
}

func TestOnlyNodesOfThisClientAreLean(t *testing.T) {
	codecs := newLeanSerializer(func(string) *corev1.Node { return nil })
	for name, c := range map[string]struct {
		object, into k8sruntime.Object
		codecs       k8sruntime.NegotiatedSerializer
	}{
		"an error":      {&metav1.Status{Status: "Failure", Message: "gone"}, nil, codecs},
		"another kind":  {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, nil, codecs},
		"another group": {&eventsv1.Event{Note: "x"}, &eventsv1.Event{}, codecs},
		"another client": {&corev1.Node{Status: corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{"x"}}}, nil,
			clientscheme.Codecs.WithoutConversion()},
	} {
		t.Run(name, func(t *testing.T) {
			info, _ := k8sruntime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), k8sruntime.ContentTypeProtobuf)
			kinds, _, err := clientscheme.Scheme.ObjectKinds(c.object)
			if err != nil {
				t.Fatal(err)
			}
			c.object.GetObjectKind().SetGroupVersionKind(kinds[0])
			raw, err := k8sruntime.Encode(info.Serializer, c.object)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := info.Serializer.Decode(raw, nil, c.into)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.object, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// BenchmarkDecode decodes an event of a watch: a heartbeat of a node of real size under 50 rules.
func BenchmarkDecode(b *testing.B) {
	node := cluster.NewNode("node-1", cluster.NodeOptions{})
	rules := &corev1.Node{}
	if err := rules.Unmarshal(nodeUnder50Rules(b)); err != nil {
		b.Fatal(err)
	}
	maps.Copy(node.Annotations, rules.Annotations)
	node.Status.Conditions = append(node.Status.Conditions, rules.Status.Conditions...)
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	cached := node.DeepCopy()
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime.Time = node.Status.Conditions[i].LastHeartbeatTime.Add(time.Minute)
	}
	event, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: k8sruntime.RawExtension{Raw: encoded(b, node)}}).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for name, codecs := range map[string]k8sruntime.NegotiatedSerializer{
		"full": clientscheme.Codecs.WithoutConversion(),
		"lean": newLeanSerializer(func(string) *corev1.Node { return cached }),
	} {
		info, _ := k8sruntime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), k8sruntime.ContentTypeProtobuf)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got := metav1.WatchEvent{}
				if _, _, err := info.StreamSerializer.Decode(event, nil, &got); err != nil {
					b.Fatal(err)
				}
				if node, _, err := info.Serializer.Decode(got.Object.Raw, nil, nil); err != nil || node == nil {
					b.Fatal(err)
				}
			}
		})
	}
}
