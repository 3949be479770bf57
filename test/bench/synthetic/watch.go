// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	stop    context.CancelFunc
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

// list answers with all objects of a kind, with the one of a name, or with the first ones of a limit. It has no second
// page.
func (s *Server) list(w http.ResponseWriter, r *http.Request, k *kind, name string) {
	s.mu.Lock()
	objects, version := k.sorted(), strconv.FormatUint(s.version, 10)
	s.mu.Unlock()
	if name != "" {
		objects = slices.DeleteFunc(objects, func(obj Object) bool { return obj.GetName() != name })
	}
	meta := metav1.ListMeta{ResourceVersion: version}
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && 0 < limit && limit < len(objects) {
		objects, meta.Continue = objects[:limit], "unsupported"
	}
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
	_ = json.NewEncoder(w).Encode(struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []Object `json:"items"`
	}{kind, meta, objects})
}

// watch sends changes of a kind, after all objects if the client asks for that.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, k *kind) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	one := &watcher{more: make(chan struct{}, 1), stop: stop}
	s.mu.Lock()
	from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	if !initial && (err != nil || from < k.changed) {
		s.mu.Unlock()
		fail(w, r, apierrors.NewResourceExpired("too old resource version"))
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
	info := serializer(r, k.bookmark())
	w.Header().Set("Content-Type", info.MediaType+";stream=watch")
	stream := info.StreamSerializer
	frames := streaming.NewEncoder(stream.Framer.NewFrameWriter(w), stream.Serializer)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for {
		for _, c := range one.take() {
			raw, err := runtime.Encode(info.Serializer, c.obj)
			if err == nil {
				err = frames.Encode(&metav1.WatchEvent{Type: c.event, Object: runtime.RawExtension{Raw: raw}})
			}
			if err != nil {
				return
			}
		}
		_ = flush()
		select {
		case <-ctx.Done():
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

// patched is what a JSON Patch may change of a node, and the UID, which it may test.
type patched struct {
	Metadata struct {
		UID         types.UID         `json:"uid,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints,omitempty"`
	} `json:"spec"`
}

// patchNode carries out a JSON Patch of what the operator and the floor write. The caller holds s.mu.
func (s *Server) patchNode(k *kind, before *corev1.Node, body []byte) (Object, error) {
	var part patched
	part.Metadata.UID, part.Metadata.Annotations, part.Spec.Taints = before.UID, before.Annotations, before.Spec.Taints
	raw, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	if raw, err = operations.Apply(raw); err != nil {
		s.counts.Refused++
		return nil, apierrors.NewInvalid(k.group.WithKind(k.name).GroupKind(), before.Name,
			field.ErrorList{field.InternalError(nil, err)})
	}
	part = patched{}
	if err := json.Unmarshal(raw, &part); err != nil {
		return nil, err
	}
	node := *before
	node.Annotations, node.Spec.Taints = part.Metadata.Annotations, part.Spec.Taints
	s.counts.NodePatches++
	s.put(k, &node)
	if s.Patched != nil {
		s.Patched(&node)
	}
	return &node, nil
}
