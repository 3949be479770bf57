// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/cluster"
	simulated "github.com/nodegate/nodegate/test/simulation/api"
)

// request is one request to the real API server and to that of the simulation. In the body, the preconditions and the
// version, $NAME is the object's name; $UID and $VERSION are those of the object before the request, and $OLD is an
// earlier version. The body of a delete is its options.
type request struct{ verb, body string }

// Verbs. What follows a slash is the subresource.
const (
	post        = "create"
	put         = "update"
	jsonPatch   = "json-patch"
	mergePatch  = "merge-patch"
	strategic   = "strategic-merge-patch"
	del         = "delete"
	onStatus    = "/status"
	foreignKind = "foreign" // serves the kind by another schema, without its field existingNodes
	ownKind     = "own"     // serves it by ours again
)

const (
	node = `{"metadata":{"name":"$NAME","labels":{"a":"b"}},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},` +
		`"status":{"conditions":[{"type":"A","status":"True"}],"nodeInfo":{"bootID":"x"}}}`
	pod = `{"metadata":{"name":"$NAME","namespace":"default"},"spec":{"nodeName":"n",` +
		`"containers":[{"name":"c","image":"registry.example.com/c:1"}]}}`
	simulatedGroup = "simulated.example.com"
	simulatedRule  = `{"apiVersion":"` + simulatedGroup + `/v1alpha1","kind":"NodeReadinessRule",` +
		`"metadata":{"name":"$NAME"},"spec":{"nodeSelector":{"matchLabels":{"a":"b"}},` +
		`"conditions":[{"type":"A","requiredStatus":"True"}],"taint":{"key":"example.com/a","effect":"NoSchedule"},` +
		`"enforcementMode":"continuous","existingNodes":"None"}}`
	status = `{"status":{"observedGeneration":1}}`
)

// sequences are requests about one object each, by its kind. What the simulation never does is not here.
var sequences = map[simulated.Kind]map[string][]request{
	simulated.Nodes: {
		"created": {{post, node}, {post, node}, {del, ""}, {del, ""}, {post, node},
			{post, strings.Replace(node, `"metadata"`, `"kind":"Node","apiVersion":"v1","metadata"`, 1)}},
		"created with a taint twice": {{post, strings.Replace(node, `"taints":[`,
			`"taints":[{"key":"a","effect":"NoSchedule"},`, 1)}},
		"created with the taint of new nodes": {{post, strings.Replace(node, `"key":"a"`,
			`"key":"node.kubernetes.io/not-ready"`, 1)}},
		"JSON patch": {{post, node},
			{jsonPatch, `[{"op":"test","path":"/metadata/uid","value":"$UID"},` +
				`{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}]`},
			{jsonPatch, `[{"op":"test","path":"/metadata/uid","value":"other"},{"op":"remove","path":"/spec/taints"}]`},
			{jsonPatch, `[{"op":"test","path":"/metadata/annotations/z","value":null},` +
				`{"op":"add","path":"/metadata/annotations/z","value":"1"}]`},
			{jsonPatch, `[{"op":"test","path":"/metadata/annotations/z","value":null}]`},
			{jsonPatch, `[{"op":"test","path":"/spec/taints","value":[]},{"op":"remove","path":"/spec/taints"}]`},
			{jsonPatch, `[{"op":"remove","path":"/metadata/annotations/no"}]`},
			{jsonPatch, `[{"op":"replace","path":"/metadata/annotations/no","value":"x"}]`},
			{jsonPatch, `[{"op":"add","path":"/spec/no/such","value":"x"}]`},
			{jsonPatch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"a","effect":"NoSchedule"}}]`},
			{jsonPatch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"b","effect":"NoExecute"}}]`},
			{jsonPatch, `[{"op":"test","path":"/metadata/resourceVersion","value":"$VERSION"},` +
				`{"op":"remove","path":"/spec/taints"}]`},
			{jsonPatch, `[{"op":"test","path":"/spec/taints","value":null}]`},
			{jsonPatch, `[{"op":"add","path":"/spec/taints","value":"no"}]`}, {jsonPatch, `{"op":"add"}`}},
		"merge patch": {{post, node}, {mergePatch, `{"metadata":{"uid":"$UID","annotations":{"x":"y"}}}`},
			{mergePatch, `{"metadata":{"uid":"$UID","annotations":{"x":"y"}}}`},
			{mergePatch, `{"metadata":{"uid":"other","annotations":{"x":"z"}}}`},
			{mergePatch, `{"metadata":{"resourceVersion":"$OLD","annotations":{"x":"z"}}}`},
			{mergePatch, `{"metadata":{"resourceVersion":"$VERSION","annotations":{"x":null}}}`},
			{mergePatch, `{"metadata":{"labels":null},"spec":{"unschedulable":true},"status":{"nodeInfo":{"bootID":"y"}}}`},
			{mergePatch, `no`}},
		"strategic merge patch of the status": {{post, node},
			{strategic + onStatus, `{"metadata":{"uid":"$UID"},"status":{"conditions":[{"type":"B","status":"False"}]}}`},
			{strategic + onStatus, `{"status":{"conditions":[{"type":"A","status":"False"}]}}`},
			{strategic + onStatus, `{"status":{"conditions":[{"type":"A","status":"False"}]}}`},
			{strategic + onStatus, `{"metadata":{"uid":"other"},"status":{"conditions":[{"type":"B","status":"True"}]}}`},
			{strategic + onStatus, `{"metadata":{"resourceVersion":"$OLD"},` +
				`"status":{"conditions":[{"type":"B","status":"True"}]}}`},
			{strategic + onStatus, `{"metadata":{"uid":"$UID","resourceVersion":"$VERSION"},` +
				`"status":{"conditions":[{"$patch":"delete","type":"A"},{"type":"C","status":"True"}]}}`},
			{strategic + onStatus, `{"metadata":{"annotations":{"x":"y"},"labels":{"c":"d"}},` +
				`"spec":{"unschedulable":true,"taints":null}}`},
			{strategic, `{"metadata":{"annotations":{"x":"z"}},"status":{"conditions":[{"type":"D","status":"True"}]}}`},
			{strategic + onStatus, `no`}},
		"update": {{post, node}, {put, strings.Replace(node, `"a":"b"`, `"a":"c"`, 1)},
			{put, strings.Replace(node, `"name"`, `"resourceVersion":"$OLD","name"`, 1)},
			{put, strings.Replace(node, `"name"`, `"uid":"other","name"`, 1)},
			{put + onStatus, strings.Replace(node, `"bootID":"x"`, `"bootID":"y"`, 1)},
			{put + onStatus, strings.Replace(node, `"taints"`, `"unschedulable":true,"taints"`, 1)},
			{put, strings.Replace(node, `"name"`, `"resourceVersion":"$VERSION","uid":"$UID","name"`, 1)}},
		"deletion with preconditions": {{post, node}, {del, `{"preconditions":{"uid":"other"}}`},
			{mergePatch, `{"metadata":{"annotations":{"x":"y"}}}`},
			{del, `{"preconditions":{"uid":"$UID","resourceVersion":"$OLD"}}`},
			{del, `{"preconditions":{"uid":"$UID","resourceVersion":"$VERSION"}}`}},
		"deletion with a finalizer": {{post, strings.Replace(node, `"name"`, `"finalizers":["a/b"],"name"`, 1)}, {del, ""},
			{del, ""}, {mergePatch, `{"metadata":{"annotations":{"x":"y"}}}`},
			{mergePatch, `{"metadata":{"deletionTimestamp":null}}`}, {mergePatch, `{"metadata":{"finalizers":["c/d"]}}`},
			{mergePatch, `{"metadata":{"finalizers":null}}`}, {mergePatch, `{}`}},
		"absent": {{mergePatch, `{}`}, {jsonPatch, `[]`}, {strategic + onStatus, `{}`}, {del, ""},
			{del, `{"preconditions":{"uid":"other"}}`}},
	},
	simulated.Pods: {
		"graceful deletion": {{post, pod}, {del, `{"preconditions":{"uid":"other"}}`}, {del, ""}, {del, ""},
			{del, `{"gracePeriodSeconds":40}`}, {del, `{"gracePeriodSeconds":10}`},
			{strategic + onStatus, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`},
			{del, `{"gracePeriodSeconds":0}`}},
		"deletion at once":                 {{post, pod}, {del, `{"gracePeriodSeconds":0,"preconditions":{"uid":"$UID"}}`}},
		"deletion of a pod without a node": {{post, strings.Replace(pod, `"nodeName":"n",`, "", 1)}, {del, ""}},
		"deletion of a pod that has ended": {{post, pod},
			{mergePatch + onStatus, `{"status":{"phase":"Succeeded"}}`}, {del, ""}},
		"status": {{post, strings.Replace(pod, `"spec"`, `"status":{"phase":"Running"},"spec"`, 1)},
			{strategic + onStatus, `{"metadata":{"uid":"$UID"},` +
				`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`},
			{strategic + onStatus, `{"metadata":{"uid":"other"},"status":{"phase":"Failed"}}`},
			{strategic, `{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Failed"}}`},
			{strategic + onStatus, `{"metadata":{"annotations":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":1}}`}},
	},
	simulated.Rules: {
		"created": {{post, strings.Replace(simulatedRule, `"spec":{`,
			`"status":{"observedGeneration":9},"spec":{"unknown":1,`, 1)}, {post, simulatedRule}},
		"generations": {{post, simulatedRule}, {mergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
			{mergePatch, `{"spec":{"existingNodes":null}}`}, {mergePatch, `{"spec":{"existingNodes":null}}`},
			{mergePatch, `{"spec":{"unknown":1}}`}, {mergePatch, `{"status":{"observedGeneration":9}}`},
			{mergePatch + onStatus, status}, {mergePatch + onStatus, status},
			{mergePatch + onStatus, `{"metadata":{"labels":{"c":"d"}},"spec":{"existingNodes":"Idle"},"status":{"unknown":1}}`},
			{mergePatch + onStatus, `{"metadata":{"resourceVersion":"$OLD"},"status":{"observedGeneration":2}}`},
			{mergePatch + onStatus, `{"status":null}`}},
		"update": {{post, simulatedRule}, {put, simulatedRule},
			{put, strings.Replace(simulatedRule, `"name"`, `"resourceVersion":"$VERSION","name"`, 1)},
			{put, strings.Replace(strings.Replace(simulatedRule, `"name"`, `"resourceVersion":"$VERSION","name"`, 1),
				`"None"`, `"Idle"`, 1)},
			{put, strings.Replace(simulatedRule, `"name"`, `"resourceVersion":"$OLD","name"`, 1)},
			{put + onStatus, strings.Replace(simulatedRule, `"spec"`, `"status":{"observedGeneration":1},"spec"`, 1)},
			{put + onStatus, strings.Replace(strings.Replace(simulatedRule, `"spec"`,
				`"status":{"observedGeneration":1},"spec"`, 1), `"name"`, `"resourceVersion":"$VERSION","name"`, 1)},
			{put + onStatus, strings.Replace(simulatedRule, `"name"`, `"resourceVersion":"$OLD","uid":"$UID","name"`, 1)},
			{put, strings.Replace(simulatedRule, `"name"`, `"resourceVersion":"$VERSION","uid":"other","name"`, 1)}},
		"patches": {{post, simulatedRule}, {strategic, `{"spec":{"existingNodes":null}}`},
			{jsonPatch, `[{"op":"test","path":"/spec/existingNodes","value":"None"},` +
				`{"op":"remove","path":"/spec/existingNodes"}]`},
			{jsonPatch, `[{"op":"test","path":"/spec/existingNodes","value":"None"}]`},
			{mergePatch, `{"metadata":{"uid":"other"},"spec":{"existingNodes":"None"}}`}},
		"deletion with a finalizer": {{post, strings.Replace(simulatedRule, `"name"`, `"finalizers":["a/b"],"name"`, 1)},
			{del, `{"preconditions":{"uid":"$UID","resourceVersion":"1"}}`},
			{del, `{"preconditions":{"uid":"$UID","resourceVersion":"$VERSION"}}`}, {del, ""},
			{mergePatch, `{"spec":{"existingNodes":null}}`}, {mergePatch + onStatus, status},
			{mergePatch, `{"metadata":{"finalizers":["a/b","c/d"]}}`}, {mergePatch, `{"metadata":{"finalizers":null}}`},
			{mergePatch, `{}`}},
		"deletion": {{post, simulatedRule}, {del, `{"preconditions":{"uid":"other"}}`}, {del, ""}, {post, simulatedRule}},
		"another schema": {{post, simulatedRule}, {foreignKind, ""}, {mergePatch, `{"spec":{"existingNodes":"None"}}`},
			{ownKind, ""}, {foreignKind, ""}, {mergePatch, `{"metadata":{"labels":{"a":"b"}}}`}, {ownKind, ""},
			{mergePatch, `{"spec":{"existingNodes":"None"}}`}, {foreignKind, ""}, {mergePatch + onStatus, status}, {ownKind, ""},
			{mergePatch, `{}`}},
	},
}

// answer is what a server answers, and what the object is like afterwards.
type answer struct {
	Code   int32
	Reason metav1.StatusReason
	// Written is whether the object has another version than before, Object is nil if it is gone.
	Written bool
	Object  map[string]any
}

// TestTheSimulationsAPIServerAnswersLikeARealOne sends the same requests to both.
func TestTheSimulationsAPIServerAnswersLikeARealOne(t *testing.T) {
	server.Needs(t, cluster.SimulatedAnswers)
	ours := variant(t, simulatedGroup, asItIs)
	foreign := variant(t, simulatedGroup, func(root *apiextensionsv1.JSONSchemaProps) {
		spec := root.Properties["spec"]
		delete(spec.Properties, "existingNodes")
		spec.XValidations = nil
		root.Properties["spec"] = spec
	})
	installVariant(t, simulatedGroup, asItIs)
	n := 0
	for kind, named := range sequences {
		for name, requests := range named {
			n++
			same := &conversation{kind: kind, name: fmt.Sprintf("simulated-%d", n)}
			if kind == simulated.Pods {
				same.namespace = "default"
			}
			actual, imitated := *same, *same
			actual.ask = func(q *simulated.Request) error { return ask(t, q, ours, foreign) }
			actual.get = func() []byte {
				at := path(kind, same.namespace, same.name)
				raw, err := server.Clientset.CoreV1().RESTClient().Get().AbsPath(at).DoRaw(t.Context())
				if err != nil {
					return nil
				}
				return raw
			}
			imitation := simulated.New(time.Now, define(t, ours))
			imitated.ask = func(q *simulated.Request) error { return imitate(t, imitation, q, ours, foreign) }
			imitated.get = func() []byte {
				if o := imitation.Get(kind, strings.TrimPrefix(same.namespace+"/"+same.name, "/")); o != nil {
					return o.JSON()
				}
				return nil
			}
			for i, r := range requests {
				if diff := cmp.Diff(actual.send(t, r), imitated.send(t, r)); diff != "" {
					t.Errorf("%s, %s: request %d, %s %s: the simulation differs (-real +simulation):\n%s", kind, name, i+1, r.verb,
						r.body, diff)
					break
				}
			}
		}
	}
}

// conversation is with one server about one object.
type conversation struct {
	kind              simulated.Kind
	namespace, name   string
	uid, version, old string
	ask               func(*simulated.Request) error
	get               func() []byte
}

// send sends a request, and looks at the object afterwards.
func (c *conversation) send(t *testing.T, r request) answer {
	t.Helper()
	verb, sub, _ := strings.Cut(r.verb, "/")
	q := &simulated.Request{User: "admin", Verb: verb, Kind: c.kind, Namespace: c.namespace, Name: c.name, Sub: sub}
	q.Patch = map[string]types.PatchType{jsonPatch: types.JSONPatchType, mergePatch: types.MergePatchType,
		strategic: types.StrategicMergePatchType}[verb]
	if q.Patch != "" {
		q.Verb = "patch"
	}
	names := strings.NewReplacer("$NAME", c.name, "$UID", c.uid, "$VERSION", c.version, "$OLD", c.old)
	q.Body = []byte(names.Replace(r.body))
	a := answer{}
	var status apierrors.APIStatus
	if err := c.ask(q); errors.As(err, &status) {
		a.Code, a.Reason = status.Status().Code, status.Status().Reason
	} else if err != nil {
		t.Fatal(err)
	}
	raw, o := c.get(), &unstructured.Unstructured{}
	if raw == nil {
		return a
	}
	cluster.Must(t, json.Unmarshal(raw, &o.Object))
	if a.Written = o.GetResourceVersion() != c.version; a.Written {
		c.old = c.version
	}
	c.uid, c.version = string(o.GetUID()), o.GetResourceVersion()
	a.Object = shown(c.kind, o)
	return a
}

// shown is what is compared of an object: what actors and the operator write, without times.
func shown(kind simulated.Kind, o *unstructured.Unstructured) map[string]any {
	out := map[string]any{"deleted": o.GetDeletionTimestamp() != nil}
	take := func(fields ...string) {
		if v, ok, _ := unstructured.NestedFieldNoCopy(o.Object, fields...); ok {
			out[strings.Join(fields, ".")] = v
		}
	}
	for _, field := range []string{"name", "namespace", "labels", "annotations", "finalizers",
		"deletionGracePeriodSeconds"} {
		take("metadata", field)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		maps.DeleteFunc(fields, func(field string, _ any) bool { return field != "type" && field != "status" })
	}
	out["conditions"] = conditions
	switch kind {
	case simulated.Nodes:
		take("spec", "taints")
		take("spec", "unschedulable")
		take("status", "nodeInfo", "bootID")
	case simulated.Pods:
		take("spec", "nodeName")
		take("spec", "terminationGracePeriodSeconds")
		take("status", "phase")
	default:
		take("metadata", "generation")
		take("spec")
		take("status")
	}
	return out
}

func path(kind simulated.Kind, namespace, name string) string {
	switch kind {
	case simulated.Nodes:
		return "/api/v1/nodes/" + name
	case simulated.Pods:
		return "/api/v1/namespaces/" + namespace + "/pods/" + name
	}
	return "/apis/" + simulatedGroup + "/v1alpha1/nodereadinessrules/" + name
}

// ask sends a request to the real server.
func ask(t *testing.T, q *simulated.Request, ours, foreign *apiextensionsv1.CustomResourceDefinition) error {
	t.Helper()
	rest := server.Clientset.CoreV1().RESTClient()
	at := path(q.Kind, q.Namespace, q.Name)
	switch q.Verb {
	case foreignKind:
		return serve(t, foreign, false)
	case ownKind:
		return serve(t, ours, true)
	case post:
		return rest.Post().AbsPath(strings.TrimSuffix(at, "/"+q.Name)).SetHeader("Content-Type", "application/json").
			Body(q.Body).Do(t.Context()).Error()
	case put:
		return rest.Put().AbsPath(at, q.Sub).SetHeader("Content-Type", "application/json").Body(q.Body).
			Do(t.Context()).Error()
	case del:
		return rest.Delete().AbsPath(at).SetHeader("Content-Type", "application/json").Body(q.Body).Do(t.Context()).Error()
	}
	return rest.Patch(q.Patch).AbsPath(at, q.Sub).Body(q.Body).Do(t.Context()).Error()
}

// serve replaces the CRD, and waits until rules are served by it.
func serve(t *testing.T, by *apiextensionsv1.CustomResourceDefinition, whole bool) error {
	t.Helper()
	cluster.Must(t, server.InstallCRD(by))
	name := "served-" + map[bool]string{false: "foreign", true: "ours"}[whole]
	return cluster.Poll(t.Context(), cluster.Limit, func() error {
		rule := &unstructured.Unstructured{}
		cluster.Must(t, json.Unmarshal([]byte(strings.ReplaceAll(simulatedRule, "$NAME", name)), &rule.Object))
		_ = server.Client.Delete(t.Context(), rule.DeepCopy())
		if err := server.Client.Create(t.Context(), rule); err != nil {
			return err
		}
		if _, kept, _ := unstructured.NestedString(rule.Object, "spec", "existingNodes"); kept != whole {
			return errors.New("the CRD before is still served")
		}
		return nil
	})
}

// imitate sends a request to the server of the simulation.
func imitate(t *testing.T, s *simulated.Server, q *simulated.Request,
	ours, foreign *apiextensionsv1.CustomResourceDefinition) error {
	t.Helper()
	switch q.Verb {
	case foreignKind:
		s.Serve(define(t, foreign), true)
		return nil
	case ownKind:
		s.Serve(define(t, ours), true)
		return nil
	case del:
		options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}
		if len(q.Body) > 0 {
			cluster.Must(t, json.Unmarshal(q.Body, options))
		}
		q.Grace = options.GracePeriodSeconds
		if p := options.Preconditions; p.UID != nil {
			q.UID = *p.UID
		}
		if p := options.Preconditions; p.ResourceVersion != nil {
			q.Version = *p.ResourceVersion
		}
	}
	_, err := s.Do(*q)
	return err
}

func define(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) *simulated.Definition {
	t.Helper()
	d, err := simulated.Define(definition)
	cluster.Must(t, err)
	return d
}
