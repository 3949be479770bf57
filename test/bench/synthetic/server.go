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
	"maps"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/request"
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
	utilruntime.Must(v1alpha1.AddToScheme(clientscheme.Scheme))
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

var requestInfos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if obj := s.discovery[strings.TrimSuffix(r.URL.Path, "/")]; obj != nil {
		reply(w, r, http.StatusOK, obj)
		return
	}
	info, err := requestInfos.NewRequestInfo(r)
	k := s.kinds[info.Resource]
	switch {
	case r.URL.Path == "/version":
		_ = json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"})
	case err != nil || k == nil:
		fail(w, r, apierrors.NewNotFound(schema.GroupResource{Resource: info.Resource}, r.URL.Path))
	case info.Verb == "list":
		s.list(w, r, k, info.Name)
	case info.Verb == "watch":
		s.watch(w, r, k)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		obj, err := s.do(k, info, body)
		if err != nil {
			fail(w, r, err)
			return
		}
		reply(w, r, http.StatusOK, obj)
	}
}

// do carries out a request about one object.
func (s *Server) do(k *kind, r *request.RequestInfo, body []byte) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Group: k.group.Group, Resource: r.Resource}
	if r.Verb == "create" && k.name == "Event" {
		s.counts.Events++
		e := &eventsv1.Event{TypeMeta: metav1.TypeMeta{APIVersion: k.group.String(), Kind: k.name}}
		e.Name, e.Namespace = "event", r.Namespace
		return e, nil
	}
	before := k.objects[r.Namespace+"/"+r.Name]
	if before == nil && r.Verb != "create" {
		return nil, apierrors.NewNotFound(resource, r.Name)
	}
	switch r.Verb {
	case "get":
		return before, nil
	case "patch":
		if node, ok := before.(*corev1.Node); ok {
			return s.patchNode(k, node, body)
		}
		raw, err := json.Marshal(before)
		if err == nil {
			body, err = jsonpatch.MergePatch(raw, body)
		}
		if err != nil {
			return nil, err
		}
	}
	decoded, err := runtime.Decode(clientscheme.Codecs.UniversalDeserializer(), body)
	obj, ok := decoded.(Object)
	if err != nil || !ok {
		return nil, fmt.Errorf("reading a %T: %w", decoded, err)
	}
	obj.SetNamespace(r.Namespace)
	if v := obj.GetResourceVersion(); r.Verb == "update" && v != "" && v != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, r.Name, errors.New("the object has been modified"))
	}
	if rule, ok := obj.(*v1alpha1.NodeReadinessRule); ok && before != nil {
		if old, ok := before.(*v1alpha1.NodeReadinessRule); ok && r.Subresource == "status" {
			s.counts.StatusWrites++
			old = old.DeepCopy()
			old.Status, obj = rule.Status, old
		} else {
			s.counts.RuleWrites++
		}
	}
	if before != nil {
		obj.SetUID(before.GetUID())
		obj.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	s.put(k, obj)
	return obj, nil
}

// serializer returns that for a client: protobuf if it takes that and the kind has it, or JSON.
func serializer(r *http.Request, obj any) runtime.SerializerInfo {
	media := runtime.ContentTypeJSON
	if _, has := obj.(interface{ Marshal() ([]byte, error) }); has &&
		strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		media = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(clientscheme.Codecs.SupportedMediaTypes(), media)
	return info
}

func reply(w http.ResponseWriter, r *http.Request, code int, obj runtime.Object) {
	info := serializer(r, obj)
	w.Header().Set("Content-Type", info.MediaType)
	w.WriteHeader(code)
	_ = info.Serializer.Encode(obj, w)
}

// fail answers with an error of the API, or with a bad request.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status := apierrors.NewBadRequest(err.Error())
	_ = errors.As(err, &status)
	status.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	reply(w, r, int(status.ErrStatus.Code), &status.ErrStatus)
}

// sorted returns the objects of a kind by name. The caller holds s.mu.
func (k *kind) sorted() (out []Object) {
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		out = append(out, k.objects[key])
	}
	return out
}
