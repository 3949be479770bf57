// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Kind is the plural name of a kind.
type Kind string

// The kinds.
const (
	Nodes      Kind = "nodes"
	Pods       Kind = "pods"
	Rules      Kind = "nodereadinessrules"
	CRDs       Kind = "customresourcedefinitions"
	NodeClaims Kind = "nodeclaims"
	// AdmissionRules is the kind of the object that lists the rules for admission.
	AdmissionRules Kind = "admissionrules"

	// KeptEndpoints is the kind of the object that says on which nodes pods are kept ready. No process watches it.
	KeptEndpoints Kind = "keptendpoints"

	// OtherRules is the kind of the rules of another controller. Their API group is one that only replicas name.
	OtherRules Kind = "otherrules"

	DaemonSets     Kind = "daemonsets"
	CSINodes       Kind = "csinodes"
	ResourceSlices Kind = "resourceslices"
)

// Kinds are the kinds that processes watch.
var Kinds = []Kind{Nodes, Pods, Rules, AdmissionRules, CRDs, NodeClaims, DaemonSets, CSINodes, ResourceSlices}

// kinds are all kinds.
var kinds = append(slices.Clone(Kinds), KeptEndpoints, OtherRules)

// Resource is the kind's group and resource.
func (k Kind) Resource() schema.GroupResource {
	group := map[Kind]string{Rules: "readiness.node.x-k8s.io", AdmissionRules: "nodegate.io", KeptEndpoints: "nodegate.io",
		CRDs: apiextensionsv1.GroupName, NodeClaims: "karpenter.sh", DaemonSets: "apps", CSINodes: "storage.k8s.io",
		ResourceSlices: "resource.k8s.io"}[k]
	return schema.GroupResource{Group: group, Resource: string(k)}
}

// decode reads the object of a request. The custom resources stay untyped, as the server keeps them.
func (k Kind) decode(r *Request) (metav1.Object, error) {
	if r.Object != nil {
		return r.Object, nil
	}
	if r.Tree != nil {
		return &unstructured.Unstructured{Object: maps.Clone(r.Tree)}, nil
	}
	raw := r.Body
	var obj metav1.Object
	switch k {
	case Nodes:
		obj = &corev1.Node{}
	case Pods:
		obj = &corev1.Pod{}
	default:
		u := &unstructured.Unstructured{}
		return u, json.Unmarshal(raw, &u.Object)
	}
	return obj, json.Unmarshal(raw, obj)
}

// Event is one step of the history of a kind. Before is nil for a new object, After for one that is gone; then
// Version is that of the deletion.
type Event struct {
	Version       int64
	Before, After *Object
}

// Request is what a client asks for.
type Request struct {
	User            string
	Verb            string // create, update, patch, delete
	Kind            Kind
	Namespace, Name string
	Sub             string // status, or none
	Patch           types.PatchType
	Body            []byte
	Object          metav1.Object // in place of a body; it is the server's from then on
	// Tree is a status in place of a body, with metadata, as JSON would be decoded. It is not changed from then on.
	Tree    map[string]any
	UID     types.UID // a delete's precondition; of a new rule, that of the rule that it continues
	Version string    // another one
	Grace   *int64    // a delete's
}

// Digest tells what is written from what else may be written.
func (r *Request) Digest() uint64 { return text(r.Body) + digest(r.Tree) }

// digest is a hash of what was decoded without a type. The order of the fields of an object does not matter.
func digest(v any) uint64 {
	out := uint64(17)
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			out += (text(key) | 1) * digest(of)
		}
	case []any:
		for _, of := range v {
			out = out*31 + digest(of)
		}
	case string:
		out = text(v)
	case int64:
		out *= uint64(v) + 3
	case bool:
		if v {
			out++
		}
	}
	return out
}

// text is the hash FNV-1a.
func text[T string | []byte](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Server is the API server.
type Server struct {
	// Now is the time that it writes into objects.
	Now func() time.Time
	// Admit is asked about each write before it is stored, and may change after. An error refuses the write.
	Admit func(r *Request, before, after metav1.Object) error

	version int64
	uids    uint64
	objects map[Kind]map[string]*Object
	names   map[Kind][]string // of the objects, in order
	log     map[Kind][]Event
	schema  *structuralschema.Structural
	status  *choices
	served  int // counts the schemas
	cuts    int // the last one that cut watches
}

// New is an empty server, which serves rules by the given definition.
func New(now func() time.Time, d *Definition) *Server {
	s := &Server{Now: now, version: 100, objects: map[Kind]map[string]*Object{},
		names: map[Kind][]string{}, log: map[Kind][]Event{}}
	for _, k := range kinds {
		s.objects[k] = map[string]*Object{}
	}
	s.Serve(d, true)
	return s
}

// Version is the version of the last write.
func (s *Server) Version() int64 { return s.version }

// Get is an object, nil if there is none.
func (s *Server) Get(k Kind, key string) *Object { return s.shown(s.objects[k][key]) }

// List are all objects of a kind, by name, and the version of the list.
func (s *Server) List(k Kind) ([]*Object, int64) {
	out := make([]*Object, 0, len(s.objects[k]))
	for _, name := range s.names[k] {
		out = append(out, s.shown(s.objects[k][name]))
	}
	return out, s.version
}

// ListAt are the objects of a kind as they were at a version.
func (s *Server) ListAt(k Kind, version int64) []*Object {
	objects := maps.Clone(s.objects[k])
	for _, e := range slices.Backward(s.log[k]) {
		switch {
		case e.Version <= version:
		case e.Before != nil:
			objects[e.Before.Key()] = e.Before
		default:
			delete(objects, e.After.Key())
		}
	}
	out := make([]*Object, 0, len(objects))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		out = append(out, s.shown(objects[name]))
	}
	return out
}

// Since are the events of a kind after a version.
func (s *Server) Since(k Kind, version int64) []Event {
	at, _ := slices.BinarySearchFunc(s.log[k], version+1, func(e Event, v int64) int { return int(e.Version - v) })
	events := s.log[k][at:]
	if k != Rules {
		return events
	}
	out := make([]Event, len(events))
	for i, e := range events {
		out[i] = Event{Version: e.Version, Before: s.shown(e.Before), After: s.shown(e.After)}
	}
	return out
}

// Newer reports whether there are events of a kind after a version.
func (s *Server) Newer(k Kind, version int64) bool {
	n := len(s.log[k])
	return n > 0 && s.log[k][n-1].Version > version
}

// Cuts changes whenever the watches of rules are cut because rules are served by another schema.
func (s *Server) Cuts() int { return s.cuts }

// Do carries a request out.
func (s *Server) Do(r Request) (*Object, error) {
	before := s.objects[r.Kind][cache.NewObjectName(r.Namespace, r.Name).String()]
	if r.Verb != "create" && before == nil {
		return nil, apierrors.NewNotFound(r.Kind.Resource(), r.Name)
	}
	switch r.Verb {
	case "create":
		return s.create(&r)
	case "delete":
		return s.remove(&r, before)
	}
	after, err := s.changed(&r, s.shown(before))
	if err != nil {
		return nil, err
	}
	return s.update(&r, before, after)
}

func (s *Server) create(r *Request) (*Object, error) {
	obj, err := r.Kind.decode(r)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := s.accepts(r.Kind); err != nil {
		return nil, err
	}
	if s.objects[r.Kind][cache.MetaObjectToName(obj).String()] != nil {
		return nil, apierrors.NewAlreadyExists(r.Kind.Resource(), obj.GetName())
	}
	s.uids++
	if obj.SetUID(uid(s.uids)); r.UID != "" {
		obj.SetUID(next(r.UID))
	}
	obj.SetCreationTimestamp(metav1.NewTime(s.Now().UTC().Truncate(time.Second)))
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	prepareCreate(obj)
	s.prune(r.Kind, obj)
	if s.Admit != nil {
		if err := s.Admit(r, nil, obj); err != nil {
			return nil, err
		}
	}
	if err := s.validate(r, obj); err != nil {
		return nil, err
	}
	return s.shown(s.store(r.Kind, nil, obj)), nil
}

// uid is a UID that does not sort by creation.
func uid(n uint64) types.UID {
	h := fnv.New64a()
	fmt.Fprint(h, n)
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(h.Sum64()), n))
}

func (s *Server) update(r *Request, before *Object, after metav1.Object) (*Object, error) {
	if v := after.GetResourceVersion(); v != "" && v != strconv.FormatInt(before.Version, 10) {
		return nil, apierrors.NewConflict(r.Kind.Resource(), r.Name, fmt.Errorf("the object has been modified"))
	}
	if err := identified(r, after, before.Meta); err != nil {
		return nil, err
	}
	if u, ok := after.(*unstructured.Unstructured); ok && r.Sub == "status" {
		delete(u.Object, "spec") // it stays as it is
	}
	s.prune(r.Kind, after)
	prepareUpdate(r.Sub, after, s.shown(before).Meta)
	if s.Admit != nil {
		if err := s.Admit(r, before.Meta, after); err != nil {
			return nil, err
		}
	}
	if err := s.validate(r, after); err != nil {
		return nil, err
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 && (r.Kind != Pods ||
		*after.GetDeletionGracePeriodSeconds() == 0) {
		return s.shown(s.drop(before, after)), nil
	}
	out := s.store(r.Kind, before, after)
	if r.Kind == Rules && r.Sub == "status" && out != before {
		if out.first = s.shown(before); out.first.first != nil {
			out.first = out.first.first
		}
	}
	return s.shown(out), nil
}

// store makes an object the present one. One that is as before is not written.
func (s *Server) store(k Kind, before *Object, obj metav1.Object) *Object {
	after := &Object{Kind: k, Meta: obj, served: s.served}
	if before != nil && !after.changes(before) {
		return before
	}
	s.version++
	after.Version = s.version
	obj.SetResourceVersion(strconv.FormatInt(s.version, 10))
	name := after.Key()
	if at, there := slices.BinarySearch(s.names[k], name); !there {
		s.names[k] = slices.Insert(s.names[k], at, name)
	}
	s.objects[k][name] = after
	s.log[k] = append(s.log[k], Event{Version: s.version, Before: before, After: after})
	return after
}

func (s *Server) drop(before *Object, last metav1.Object) *Object {
	s.version++
	name := before.Key()
	if at, there := slices.BinarySearch(s.names[before.Kind], name); there {
		s.names[before.Kind] = slices.Delete(s.names[before.Kind], at, at+1)
	}
	delete(s.objects[before.Kind], name)
	s.log[before.Kind] = append(s.log[before.Kind], Event{Version: s.version, Before: before})
	last.SetResourceVersion(strconv.FormatInt(s.version, 10))
	out := &Object{Kind: before.Kind, Version: s.version, Meta: last}
	if before.Kind == Rules {
		s.retired()
	}
	return out
}

// remove deletes an object, or marks it where finalizers or a grace period hold it.
func (s *Server) remove(r *Request, before *Object) (*Object, error) {
	violated, version := "", before.Meta.GetResourceVersion()
	switch uid := before.Meta.GetUID(); {
	case r.UID != "" && r.UID != uid:
		violated = fmt.Sprintf("UID in precondition: %v, UID in object meta: %v", r.UID, uid)
	case r.Version != "" && r.Version != version:
		violated = fmt.Sprintf("ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", r.Version, version)
	}
	if violated != "" {
		//nolint:staticcheck // the API server's own words
		return nil, apierrors.NewConflict(r.Kind.Resource(), r.Name, fmt.Errorf("Precondition failed: %s", violated))
	}
	if s.Admit != nil {
		if err := s.Admit(r, before.Meta, nil); err != nil {
			return nil, err
		}
	}
	after := clone(before.Meta)
	grace := gracePeriod(r, after)
	if len(after.GetFinalizers()) == 0 && grace == 0 {
		return s.shown(s.drop(before, after)), nil
	}
	if have := after.GetDeletionGracePeriodSeconds(); after.GetDeletionTimestamp() != nil && have != nil &&
		*have <= grace {
		return s.shown(before), nil
	}
	if after.GetDeletionTimestamp() == nil && after.GetGeneration() > 0 {
		after.SetGeneration(after.GetGeneration() + 1)
	}
	at := metav1.NewTime(s.Now().UTC().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	after.SetDeletionTimestamp(&at)
	after.SetDeletionGracePeriodSeconds(&grace)
	return s.shown(s.store(r.Kind, before, after)), nil
}
