// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package synthetic is a small server that answers like an API server, for more nodes than a real one holds on a small
// machine. It keeps everything in memory: nodes that share their images, rules, leases and the CRD. It has no history:
// a watch that does not begin at the latest version is told to list again. It serves HTTP without TLS and without
// access control.
package synthetic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Object is anything that the server keeps.
type Object interface {
	runtime.Object
	metav1.Object
}

// Counts are the writes that were accepted, and the node patches that were refused.
type Counts struct{ NodePatches, Refused, Events, StatusWrites, RuleWrites int }

// Since returns what was counted after an earlier count.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{
		c.NodePatches - earlier.NodePatches, c.Refused - earlier.Refused, c.Events - earlier.Events,
		c.StatusWrites - earlier.StatusWrites, c.RuleWrites - earlier.RuleWrites,
	}
}

// Server keeps the objects. Objects are never changed, but replaced.
type Server struct {
	// Patched is called with each node that was patched. It must not call the server.
	Patched func(*corev1.Node)

	mu      sync.Mutex
	version uint64
	kinds   map[string]*kind
	counts  Counts

	discovery map[string]runtime.Object // by path
}

// kind is a resource that can be listed and watched.
type kind struct {
	group      schema.GroupVersion
	name, list string // of the Go type
	objects    map[string]Object
	changed    uint64 // the version of the latest change
	watchers   map[*watcher]struct{}
}

// New returns a server with a CRD.
func New(crd *apiextensionsv1.CustomResourceDefinition) *Server {
	groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	s := &Server{version: 1, kinds: map[string]*kind{}, discovery: map[string]runtime.Object{"/apis": groups,
		"/api": &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}}}
	add := func(resource string, group schema.GroupVersion, name string, namespaced bool) { // one resource for each group
		s.kinds[resource] = &kind{group: group, name: name, list: name + "List", objects: map[string]Object{},
			watchers: map[*watcher]struct{}{}}
		path := "/api/v1"
		if group.Group != "" {
			path = "/apis/" + group.String()
			v := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group.Group, PreferredVersion: v,
				Versions: []metav1.GroupVersionForDiscovery{v}})
		}
		s.discovery[path] = &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: group.String(), APIResources: []metav1.APIResource{{Name: resource, Kind: name,
				SingularName: strings.ToLower(name), Namespaced: namespaced,
				Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch"}}}}
	}
	add("nodes", corev1.SchemeGroupVersion, "Node", false)
	add("leases", coordinationv1.SchemeGroupVersion, "Lease", true)
	add("events", eventsv1.SchemeGroupVersion, "Event", true)
	add("nodereadinessrules", v1alpha1.GroupVersion(), "NodeReadinessRule", false)
	add("customresourcedefinitions", apiextensionsv1.SchemeGroupVersion, "CustomResourceDefinition", false)
	s.Put("customresourcedefinitions", crd)
	return s
}

// Serve answers on a port of the loopback interface until the function that it returns is called.
func (s *Server) Serve() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

// Put creates or replaces an object.
func (s *Server) Put(resource string, obj Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.kinds[resource], obj)
}

func (s *Server) put(k *kind, obj Object) {
	s.version++
	obj.SetResourceVersion(strconv.FormatUint(s.version, 10))
	event := "MODIFIED"
	key := obj.GetNamespace() + "/" + obj.GetName()
	if before := k.objects[key]; before == nil {
		event = "ADDED"
		if obj.GetUID() == "" {
			obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.version)))
		}
		if created := obj.GetCreationTimestamp(); created.IsZero() {
			obj.SetCreationTimestamp(metav1.Now())
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(k.group.WithKind(k.name))
	k.objects[key] = obj
	s.tell(k, event, obj)
}

func (s *Server) tell(k *kind, event string, obj Object) {
	k.changed = s.version
	for w := range k.watchers {
		w.add(change{event, obj})
	}
}

// Change replaces a node by a copy that the function has changed. The function must replace what it changes in depth.
func (s *Server) Change(name string, change func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds["nodes"]
	if before, ok := k.objects["/"+name].(*corev1.Node); ok {
		node := *before
		change(&node)
		s.put(k, &node)
	}
}

// Rules returns all rules.
func (s *Server) Rules() (out []*v1alpha1.NodeReadinessRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range s.kinds["nodereadinessrules"].objects {
		if rule, ok := obj.(*v1alpha1.NodeReadinessRule); ok {
			out = append(out, rule)
		}
	}
	return out
}

// Counts returns what was written since the start.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Relist ends all watches of nodes, and makes their clients list again.
func (s *Server) Relist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	k := s.kinds["nodes"]
	k.changed = s.version
	for w := range k.watchers {
		w.stop()
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if obj := s.discovery[path]; obj != nil {
		reply(w, r, http.StatusOK, obj)
		return
	}
	if path == "/version" {
		_ = json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"})
		return
	}
	parts := strings.Split(strings.Replace(path, "/api/", "/apis//", 1), "/") // as the other groups
	if len(parts) <= 4 {
		fail(w, r, http.StatusNotFound, "not served")
		return
	}
	parts = parts[4:]
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	k := s.kinds[parts[0]]
	if k == nil {
		fail(w, r, http.StatusNotFound, "no such resource")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if len(parts) == 1 && r.Method == http.MethodGet {
		if r.URL.Query().Get("watch") != "" {
			s.watch(w, r, k)
			return
		}
		s.list(w, r, k)
		return
	}
	name, sub := "", ""
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		sub = parts[2]
	}
	obj, code, err := s.do(k, r.Method, namespace, name, sub, body)
	if err != nil {
		fail(w, r, code, err.Error())
		return
	}
	reply(w, r, http.StatusOK, obj)
}

// do carries out a request about one object.
func (s *Server) do(k *kind, method, namespace, name, sub string, body []byte) (Object, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == http.MethodPost && k.name == "Event" {
		s.counts.Events++
		e := &eventsv1.Event{TypeMeta: metav1.TypeMeta{APIVersion: k.group.String(), Kind: k.name}}
		e.Name, e.Namespace = "event", namespace
		return e, 0, nil
	}
	before := k.objects[namespace+"/"+name]
	if before == nil && method != http.MethodPost {
		return nil, http.StatusNotFound, errors.New("not found")
	}
	switch method {
	case http.MethodGet:
		return before, 0, nil
	case http.MethodPatch:
		if node, ok := before.(*corev1.Node); ok {
			return s.patchNode(k, node, body)
		}
		raw, err := json.Marshal(before)
		if err == nil {
			body, err = jsonpatch.MergePatch(raw, body)
		}
		if err != nil {
			return nil, http.StatusBadRequest, err
		}
	}
	obj, err := decode(k, body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	obj.SetNamespace(namespace)
	if v := obj.GetResourceVersion(); before != nil && v != "" && method == http.MethodPut &&
		v != before.GetResourceVersion() {
		return nil, http.StatusConflict, errors.New("the object has been modified")
	}
	if rule, ok := before.(*v1alpha1.NodeReadinessRule); ok {
		obj = s.changedRule(rule, obj, sub)
	}
	if before != nil {
		obj.SetUID(before.GetUID())
		obj.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	s.put(k, obj)
	return obj, 0, nil
}

func (s *Server) changedRule(before *v1alpha1.NodeReadinessRule, obj Object, sub string) Object {
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if !ok {
		return obj
	}
	if sub == "status" {
		s.counts.StatusWrites++
		out := before.DeepCopy()
		out.Status = rule.Status
		return out
	}
	s.counts.RuleWrites++
	return rule
}

func decode(k *kind, body []byte) (Object, error) {
	if k.group == v1alpha1.GroupVersion() {
		rule := &v1alpha1.NodeReadinessRule{}
		return rule, json.Unmarshal(body, rule)
	}
	obj, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if out, ok := obj.(Object); ok {
		return out, nil
	}
	return nil, fmt.Errorf("reading the body: %w", err)
}

var binary = protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)

// inProtobuf reports whether a client takes protobuf, and the kind has it.
func inProtobuf(r *http.Request, obj any) bool {
	_, has := obj.(interface{ Marshal() ([]byte, error) })
	return has && strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf)
}

func encode(r *http.Request, obj runtime.Object) ([]byte, error) {
	if inProtobuf(r, obj) {
		return runtime.Encode(binary, obj)
	}
	return json.Marshal(obj)
}

func reply(w http.ResponseWriter, r *http.Request, code int, obj runtime.Object) {
	raw, err := encode(r, obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if inProtobuf(r, obj) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	}
	w.WriteHeader(code)
	_, _ = w.Write(raw)
}

func fail(w http.ResponseWriter, r *http.Request, code int, message string) {
	reasons := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusGone: metav1.StatusReasonExpired}
	reply(w, r, code, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code],
		Message: message})
}

// sorted returns the objects of a kind by name. The caller holds s.mu.
func (k *kind) sorted() []Object {
	keys := make([]string, 0, len(k.objects))
	for key := range k.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := make([]Object, len(keys))
	for i, key := range keys {
		out[i] = k.objects[key]
	}
	return out
}
