// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// Others is the API of another controller. The replicas then run beside it, as in Nodegate's own API group. That group
// is not chosen here, because it is one for the whole program: rules and markers have the names of the default group,
// and the other controller's rules are read by another path.
type Others struct {
	// Versions are the versions of its API that are served, the preferred one first. Without any, its CRD is missing.
	Versions []string
	// Changes counts the changes of its CRD: each ends all watches.
	Changes int
	// Assumed is told when a process acts that could not read the rules.
	Assumed func()
}

// Reads is what becomes of a process's reads of another controller's rules.
type Reads string

// The states. A watch that is late brings nothing; an API server that is behind does not serve the CRD yet.
const (
	Readable   Reads = ""
	Failing    Reads = "fail"
	Specs      Reads = "fail for specs"
	LateEvents Reads = "late"
	Behind     Reads = "behind"
)

// After looks in a row without the CRD, rules count as gone: with the pause between them, after goneAfter.
const (
	looks     = 3
	lookPause = 5 * time.Second
	goneAfter = (looks - 1) * lookPause
)

// others reads another controller's rules by the operator's code, without the loop around it, which runs in real time.
type others struct {
	*watch.Foreign
	replica *Replica
	world   *Others

	// follows is the resource of which the watch has brought what there was until a version; nil: it does not run.
	follows *schema.GroupVersionResource
	until   int64
	changes int
	next    time.Time // when to look if no watch runs
	failed  bool      // a read of this look or event

	known   model.Others
	missed  int       // looks without the CRD, since they began to find none
	missing time.Time // the first of them; zero if the last look has found the CRD
}

// readOthers begins to read another controller's rules, if there is one.
func (r *Replica) readOthers() {
	r.heard.changed = func() {}
	if r.World.Others == nil {
		return
	}
	o := &others{replica: r, world: r.World.Others, next: r.World.Now()}
	o.known = model.Others{Unread: true, Rules: map[string]model.Document{}, Ended: map[string]model.Ended{}}
	discovered, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: "http://others", Transport: o, QPS: -1})
	utilruntime.Must(err)
	o.Foreign = &watch.Foreign{Discovery: discovered.RESTClient(), Metadata: theirMetadata{others: o},
		Client: theirRules{others: o}, Rules: r.operator.Rules}
	r.operator.Rules.AwaitForeign(func() {
		if !o.Failing() {
			o.look(true)
		}
	})
	r.others, r.heard.changed = o, o.changed
}

// serves reports whether the API server that this process asks serves the CRD.
func (o *others) serves() bool { return len(o.world.Versions) > 0 && o.replica.Reads != Behind }

// look reads the rules. What could be read counts from now on.
func (o *others) look(asked bool) {
	now, version := o.replica.World.Now(), o.replica.server.Version()
	o.failed, o.follows, o.next = false, nil, now.Add(lookPause)
	resource, _, err := o.Look(o.replica.ctx, asked)
	switch {
	case o.failed:
	case o.serves():
		o.missed, o.missing = 0, time.Time{}
		o.know(o.served())
		if err == nil {
			o.follows, o.until, o.changes = resource, version, o.world.Changes
		}
	case !asked:
		if o.missed++; o.missing.IsZero() {
			o.missing = now
		}
		if len(o.known.Rules) == 0 || o.missed >= looks {
			o.know(map[string]model.Document{})
		}
	}
	if o.known.Unread && o.replica.operator.Rules.HasSynced() {
		o.world.Assumed()
	}
	o.replica.progress()
}

// served are the rules that there are, by name.
func (o *others) served() map[string]model.Document {
	out := map[string]model.Document{}
	for _, rule := range o.list() {
		out[rule.Key()] = rule
	}
	return out
}

// know notes which rules count from now on.
func (o *others) know(rules map[string]model.Document) {
	before, after := model.Managed(o.known.Rules), model.Managed(rules)
	o.known.Rules, o.known.Unread = rules, false
	o.known.Ended = maps.Clone(o.known.Ended)
	maps.DeleteFunc(o.known.Ended, func(id string, _ model.Ended) bool { return after[id] })
	for id := range before {
		if !after[id] {
			o.known.Ended[id] = model.Ended{At: o.replica.World.Now(), Lacks: o.lacks(),
				Rules: maps.Clone(o.replica.heard.rules)}
		}
	}
}

// lacks are the UIDs of the nodes that do not have a taint of any rule, by the process's cache and by the API server.
func (o *others) lacks() map[string]bool {
	out := map[string]bool{}
	has := func(object *api.Object) bool {
		return object == nil || slices.ContainsFunc(object.Meta.(*corev1.Node).Spec.Taints, func(t corev1.Taint) bool {
			return strings.HasPrefix(t.Key, "example.com/t")
		})
	}
	for name, node := range o.replica.stores[api.Nodes].objects {
		if !has(node) && !has(o.replica.server.Get(api.Nodes, name)) {
			out[string(node.Meta.GetUID())] = true
		}
	}
	return out
}

// changed notes that the process hears of a change of a rule: it reads the other controller's rules again before.
func (o *others) changed() {
	if !o.known.Unread && !o.Failing() && o.serves() && o.replica.Reads != Failing && o.replica.Reads != Specs {
		o.know(o.served())
	}
}

func (o *others) list() []*api.Object {
	rules, _ := o.replica.server.List(api.OtherRules)
	return rules
}

// goOn does what is due: it looks, or brings the events of the watch.
func (o *others) goOn() {
	if o == nil {
		return
	}
	if o.follows == nil && !o.next.After(o.replica.World.Now()) {
		o.look(false)
	}
	for o.follows != nil && o.replica.Reads != LateEvents {
		events := o.replica.server.Since(api.OtherRules, o.until)
		if len(events) == 0 {
			break
		}
		o.event(events[0])
	}
	if o.follows != nil && o.ended() {
		o.follows, o.next = nil, o.replica.World.Now()
	}
}

// event brings an event of the watch. If it cannot be applied, the next look brings what has changed.
func (o *others) event(e api.Event) {
	o.until, o.failed = e.Version, false
	out := apiwatch.Event{Type: apiwatch.Modified, Object: partial(cmp.Or(e.After, e.Before))}
	if e.After == nil {
		out.Type = apiwatch.Deleted
	}
	err := o.Apply(o.replica.ctx, *o.follows, out)
	if err != nil && o.follows != nil {
		o.follows, o.next = nil, o.replica.World.Now().Add(lookPause)
	}
	if o.failed {
		return
	}
	rules := maps.Clone(o.known.Rules)
	if e.After == nil {
		if was := rules[e.Before.Key()]; was == nil || was.(*api.Object).Meta.GetUID() == e.Before.Meta.GetUID() {
			delete(rules, e.Before.Key()) // else it was created again, and read, before
		}
	} else if now := o.replica.server.Get(api.OtherRules, e.After.Key()); now != nil { // else it is deleted again
		rules[now.Key()] = now
	}
	o.know(rules)
}

// pends reports whether something is to be read now.
func (o *others) pends() bool {
	if o == nil {
		return false
	}
	if o.follows == nil {
		at := o.looksAt()
		return !at.IsZero() && !at.After(o.replica.World.Now())
	}
	return o.ended() || o.replica.Reads != LateEvents && o.replica.server.Newer(api.OtherRules, o.until)
}

// ended reports whether the API server has ended the watch, and the process has heard of it.
func (o *others) ended() bool { return o.replica.Reads != LateEvents && o.changes != o.world.Changes }

// looksAt is when the next look may find something else; zero if it finds what is known.
func (o *others) looksAt() time.Time {
	if o == nil || o.follows != nil {
		return time.Time{}
	}
	switch failing := o.replica.Reads == Failing || o.replica.Reads == Specs; {
	case failing && (!o.known.Unread || o.replica.operator.Rules.HasSynced()), // the last ones count
		!o.serves() && !o.known.Unread && len(o.known.Rules) == 0:
		return time.Time{}
	}
	return o.next
}

// current reports whether the process knows all rules as they are now.
func (o *others) current() bool {
	switch {
	case o == nil:
		return true
	case len(o.world.Versions) == 0:
		return !o.known.Unread && len(o.known.Rules) == 0 && !o.pends()
	}
	return o.follows != nil && !o.known.Unread && o.changes == o.world.Changes &&
		!o.replica.server.Newer(api.OtherRules, o.until)
}

// CutOthers ends the process's watch of another controller's rules.
func (r *Replica) CutOthers() {
	if r.others != nil && r.others.follows != nil {
		r.others.follows, r.others.next = nil, r.World.Now()
	}
}

// view is what the process knows now.
func (o *others) view() *model.Others {
	if o == nil {
		return nil
	}
	known := o.known
	known.Rules = maps.Clone(known.Rules)
	known.Gone = !o.missing.IsZero() && o.replica.World.Now().Sub(o.missing) >= goneAfter
	return &known
}

// refuses lets a read fail, if reads like that are to.
func (o *others) refuses(as ...Reads) error {
	if !slices.Contains(as, o.replica.Reads) {
		return nil
	}
	o.failed = true
	o.replica.World.Met("a read of another controller's rules fails", string(api.OtherRules))
	return apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
}

// RoundTrip answers requests for the versions of the API group, and for the resources of each.
func (o *others) RoundTrip(r *http.Request) (*http.Response, error) {
	type object = map[string]any
	group, code := v1alpha1.GroupNames()[0], http.StatusOK
	var answer object
	version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"+group), "/")
	switch err := o.refuses(Failing); {
	case err != nil:
		code, answer = http.StatusInternalServerError, object{"kind": "Status", "apiVersion": "v1", "code": 500}
	case !o.serves(), version != "" && !slices.Contains(o.world.Versions, version):
		code, answer = http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}
	case version == "":
		versions := []object{{"groupVersion": group + "/v9", "version": "v9"}} // it has only other resources
		for _, v := range o.world.Versions {
			versions = append(versions, object{"groupVersion": group + "/" + v, "version": v})
		}
		answer = object{"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions}
	default:
		answer = object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group + "/" + version,
			"resources": []object{{"name": "nodereadinessrules/status"}, {"name": "nodereadinessrules"}}}
	}
	body, err := json.Marshal(answer)
	utilruntime.Must(err)
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// partial returns the metadata of a rule.
func partial(o *api.Object) *metav1.PartialObjectMetadata {
	meta := o.Meta.(*unstructured.Unstructured)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: meta.GetName(), UID: meta.GetUID(),
		Generation: meta.GetGeneration(), ResourceVersion: meta.GetResourceVersion()}}
}

// theirMetadata lists the metadata of the rules.
type theirMetadata struct {
	metadata.Getter
	others *others
}

func (m theirMetadata) Resource(schema.GroupVersionResource) metadata.Getter { return m }

func (m theirMetadata) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if err := m.others.refuses(Failing); err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadataList{}
	out.ResourceVersion = strconv.FormatInt(m.others.replica.server.Version(), 10)
	for _, rule := range m.others.list() {
		out.Items = append(out.Items, *partial(rule))
	}
	return out, nil
}

// theirRules lists rules by their name.
type theirRules struct {
	dynamic.NamespaceableResourceInterface
	others *others
}

func (t theirRules) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return t
}

func (t theirRules) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := t.others.refuses(Failing, Specs); err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	for _, rule := range t.others.list() {
		if o.FieldSelector == metav1.ObjectNameField+"="+rule.Key() {
			out.Items = append(out.Items, *rule.Meta.(*unstructured.Unstructured).DeepCopy())
		}
	}
	return out, nil
}
