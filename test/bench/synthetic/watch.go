// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

type change struct {
	event string
	obj   Object
}

// watcher has the changes that a watch has not sent yet.
type watcher struct {
	mu      sync.Mutex
	changes []change
	more    chan struct{}
	ended   chan struct{}
	once    sync.Once
}

func (w *watcher) add(c change) {
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.changes
	w.changes = nil
	return out
}

func (w *watcher) stop() { w.once.Do(func() { close(w.ended) }) }

// list answers with all objects of a kind, or with the one that a field selector names.
func (s *Server) list(w http.ResponseWriter, r *http.Request, k *kind) {
	s.mu.Lock()
	objects, version := k.sorted(), strconv.FormatUint(s.version, 10)
	s.mu.Unlock()
	if name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); ok {
		objects = slices.DeleteFunc(objects, func(obj Object) bool { return obj.GetName() != name })
	}
	meta := metav1.ListMeta{ResourceVersion: version}
	kind := metav1.TypeMeta{APIVersion: k.group.String(), Kind: k.list}
	if k.name == "Node" {
		list := &corev1.NodeList{TypeMeta: kind, ListMeta: meta}
		for _, obj := range objects {
			if node, ok := obj.(*corev1.Node); ok {
				list.Items = append(list.Items, *node)
			}
		}
		reply(w, r, http.StatusOK, list)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if err := json.NewEncoder(w).Encode(struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []Object `json:"items"`
	}{kind, meta, objects}); err != nil {
		return
	}
}

// watch sends changes of a kind, after all objects if the client asks for that.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, k *kind) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	one := &watcher{more: make(chan struct{}, 1), ended: make(chan struct{})}
	s.mu.Lock()
	from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	if !initial && (err != nil || from < k.changed) {
		s.mu.Unlock()
		fail(w, r, http.StatusGone, "too old resource version")
		return
	}
	if initial {
		for _, obj := range k.sorted() {
			one.changes = append(one.changes, change{"ADDED", obj})
		}
		end := k.bookmark()
		end.SetResourceVersion(strconv.FormatUint(s.version, 10))
		one.add(change{"BOOKMARK", end})
	}
	k.watchers[one] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(k.watchers, one)
		s.mu.Unlock()
	}()
	send := jsonFrames(w)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if inProtobuf(r, k.bookmark()) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		send = binaryFrames(w)
	}
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for {
		for _, c := range one.take() {
			raw, err := encode(r, c.obj)
			if err == nil {
				err = send(c.event, raw)
			}
			if err != nil {
				return
			}
		}
		_ = flush()
		select {
		case <-r.Context().Done():
			return
		case <-one.ended:
			return
		case <-one.more:
		}
	}
}

// bookmark returns an empty object that ends the initial events.
func (k *kind) bookmark() Object {
	var out Object = &corev1.Node{}
	if k.name != "Node" {
		out = &metav1.PartialObjectMetadata{}
	}
	out.GetObjectKind().SetGroupVersionKind(k.group.WithKind(k.name))
	out.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return out
}

func jsonFrames(w io.Writer) func(string, []byte) error {
	return func(event string, raw []byte) error {
		return json.NewEncoder(w).Encode(metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}})
	}
}

func binaryFrames(w io.Writer) func(string, []byte) error {
	out := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	frames := protobuf.NewRawSerializer(clientscheme.Scheme, clientscheme.Scheme)
	return func(event string, raw []byte) error {
		return frames.Encode(&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}}, out)
	}
}

var errTest = errors.New("the test failed")

// patchNode carries out the operations of JSON Patch that the operator and the floor send. The caller holds s.mu.
func (s *Server) patchNode(k *kind, before *corev1.Node, body []byte) (Object, int, error) {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, http.StatusBadRequest, err
	}
	node := *before
	annotations := map[string]string{}
	maps.Copy(annotations, before.Annotations)
	for _, o := range operations {
		var err error
		key, isKey := strings.CutPrefix(o.Path, "/metadata/annotations/")
		switch {
		case o.Path == "/metadata/uid":
			err = test(o.Value, string(node.UID))
		case o.Path == "/spec/taints" && o.Op == "test":
			err = test(o.Value, before.Spec.Taints)
		case o.Path == "/spec/taints":
			node.Spec.Taints = nil
			if o.Op != "remove" {
				err = json.Unmarshal(o.Value, &node.Spec.Taints)
			}
		case isKey:
			err = changeAnnotation(o.Op, strings.NewReplacer("~1", "/", "~0", "~").Replace(key), o.Value, annotations)
		case o.Path == "/metadata/annotations" && o.Op == "test":
			err = test(o.Value, annotations)
		case o.Path == "/metadata/annotations":
			clear(annotations)
			err = json.Unmarshal(o.Value, &annotations)
		default:
			err = errors.New("not served: " + o.Op + " " + o.Path)
		}
		if err != nil {
			s.counts.Refused++
			return nil, http.StatusUnprocessableEntity, err
		}
	}
	node.Annotations = annotations
	s.counts.NodePatches++
	s.put(k, &node)
	if s.Patched != nil {
		s.Patched(&node)
	}
	return &node, 0, nil
}

// changeAnnotation carries out an operation on one annotation.
func changeAnnotation(op, key string, raw json.RawMessage, annotations map[string]string) error {
	value, had := annotations[key]
	switch op {
	case "test":
		if !had && string(raw) == "null" {
			return nil
		}
		return test(raw, value)
	case "remove":
		delete(annotations, key)
		return nil
	}
	err := json.Unmarshal(raw, &value)
	annotations[key] = value
	return err
}

// test compares a value with the JSON of one; null is as good as an empty one.
func test[T any](raw json.RawMessage, have T) error {
	var want T
	if err := json.Unmarshal(raw, &want); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(want, have) {
		return errTest
	}
	return nil
}
