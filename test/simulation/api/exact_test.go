// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/simulation/api"
)

const requests = 400

// side is one of the two servers, with the objects as it has them.
type side struct {
	do func(r api.Request) (map[string]any, error)
	// now are the objects that it answered last, by path.
	now map[string]map[string]any
}

func (s *side) field(path, name string) string {
	m, _ := s.now[path]["metadata"].(map[string]any)
	v, _ := m[name].(string)
	return v
}

// TestAnswersAsARealServer sends the same random requests to both servers and compares what they answer.
func TestAnswersAsARealServer(t *testing.T) {
	server := cluster.ForTest(t, cluster.Options{CRD: true})
	raw, err := crd.Load()
	cluster.Must(t, err)
	definition, err := api.Define(raw)
	cluster.Must(t, err)
	memory := api.New(time.Now, definition)
	ours := &side{now: map[string]map[string]any{}, do: func(r api.Request) (map[string]any, error) {
		o, err := memory.Do(r)
		if err != nil {
			return nil, err
		}
		out := map[string]any{}
		o.Parse(&out)
		return out, nil
	}}
	real := &side{now: map[string]map[string]any{}, do: func(r api.Request) (map[string]any, error) {
		return send(t.Context(), server.Clientset.Discovery().RESTClient(), r)
	}}
	g := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // requests, no secret
	for i := range requests {
		draw := request(g)
		want, wantErr := perform(real, draw)
		got, gotErr := perform(ours, draw)
		r := draw(ours)
		text := fmt.Sprintf("request %d: %s %s %s/%s %s %s", i, r.Verb, r.Patch, r.Kind, r.Name, r.Sub, r.Body)
		if code(wantErr) != code(gotErr) {
			t.Fatalf("%s\nanswer %d (%v), want %d (%v)", text, code(gotErr), gotErr, code(wantErr), wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", text, diff)
		}
	}
}

// draws makes a request, with the UIDs and versions of a side.
type draws func(*side) api.Request

func perform(s *side, draw draws) (map[string]any, error) {
	r := draw(s)
	path := string(r.Kind) + "/" + r.Name
	out, err := s.do(r)
	if err != nil {
		return nil, err
	}
	s.now[path] = out
	return normal(r.Kind, out), nil
}

func code(err error) int32 {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.Status().Code
	}
	return -1
}

func send(ctx context.Context, c rest.Interface, r api.Request) (map[string]any, error) {
	base := map[api.Kind]string{api.Nodes: "/api/v1/nodes", api.Pods: "/api/v1/namespaces/default/pods",
		api.Rules: "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules"}[r.Kind]
	verb := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}[r.Verb]
	parts := []string{base}
	if verb != "POST" {
		parts = append(parts, r.Name)
	}
	if r.Sub != "" {
		parts = append(parts, r.Sub)
	}
	request := c.Verb(verb).AbsPath(strings.Join(parts, "/")).SetHeader("Content-Type", "application/json")
	body := r.Body
	switch {
	case verb == "PATCH":
		request = request.SetHeader("Content-Type", string(r.Patch))
	case verb == "DELETE":
		options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
		if r.UID != "" {
			options["preconditions"] = map[string]any{"uid": r.UID}
		}
		if r.Grace != nil {
			options["gracePeriodSeconds"] = *r.Grace
		}
		body, _ = json.Marshal(options)
	}
	raw, err := request.Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}

// normal leaves out of an object what must differ, and of a pod what the simulation does not imitate.
func normal(k api.Kind, o map[string]any) map[string]any {
	if o["kind"] == "Status" { // the answer to a deletion
		return nil
	}
	m, _ := o["metadata"].(map[string]any)
	for _, f := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp", "selfLink"} {
		delete(m, f)
	}
	if _, ok := m["deletionTimestamp"]; ok {
		m["deletionTimestamp"] = "set"
	}
	out := map[string]any{"metadata": m, "spec": o["spec"], "status": o["status"]}
	if k == api.Pods {
		return map[string]any{"deleted": m["deletionTimestamp"], "grace": m["deletionGracePeriodSeconds"],
			"labels": m["labels"]}
	}
	if status, ok := out["status"].(map[string]any); ok && k == api.Nodes {
		for _, f := range []string{"daemonEndpoints", "nodeInfo"} {
			delete(status, f)
		}
		if len(status) == 0 {
			out["status"] = nil
		}
	}
	return out
}

func one[T any](g *rand.Rand, of ...T) T { return of[g.IntN(len(of))] }

// request draws a request about a node, a rule or a pod.
func request(g *rand.Rand) draws {
	switch g.IntN(5) {
	case 0, 1:
		return nodeRequest(g)
	case 2, 3:
		return ruleRequest(g)
	}
	return podRequest(g)
}

func nodeRequest(g *rand.Rand) draws {
	name := one(g, "a", "b")
	path := "nodes/" + name
	taints := one(g, `null`, `[{"key":"k","effect":"NoSchedule"}]`,
		`[{"key":"k","effect":"NoSchedule"},{"key":"k","effect":"NoSchedule"}]`,
		`[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]`)
	label, uid, version, value := one(g, "x", "y"), g.IntN(4), g.IntN(3), one(g, "1", "2")
	base := api.Request{Kind: api.Nodes, Name: name}
	switch g.IntN(8) {
	case 0, 1:
		return body(base, "create", "", "", func(*side) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"l":%q},"generation":7},"spec":{"taints":%s}}`, name, label,
				taints)
		})
	case 2, 3:
		return body(base, "patch", types.JSONPatchType, "", func(s *side) string {
			return fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},`+
				`{"op":"test","path":"/spec/taints","value":%s},`+
				`{"op":%q,"path":%q,"value":%q}]`, pick(uid, s.field(path, "uid")), taints, one(g, "add"),
				one(g, "/metadata/annotations/q", "/metadata/labels/q"), value)
		})
	case 4:
		op := one(g, `{"op":"remove","path":"/spec/taints"}`,
			`{"op":"test","path":"/metadata/annotations/none","value":null}`,
			`{"op":"add","path":"/metadata/annotations","value":{"q":"1"}}`, `{"op":"replace","path":"/spec/none","value":1}`)
		return body(base, "patch", types.JSONPatchType, "", func(*side) string { return "[" + op + "]" })
	case 5:
		return body(base, "patch", types.MergePatchType, one(g, "", "status"), func(s *side) string {
			m := fmt.Sprintf(`"labels":{"m":%q}`, value)
			if version > 0 {
				m += fmt.Sprintf(`,"resourceVersion":%q`, pick(version, s.field(path, "resourceVersion")))
			}
			if uid > 1 {
				m += fmt.Sprintf(`,"uid":%q`, pick(uid-1, s.field(path, "uid")))
			}
			return fmt.Sprintf(`{"metadata":{%s},"spec":{"unschedulable":true},"status":{"phase":"Running"}}`, m)
		})
	case 6:
		return body(base, "patch", types.StrategicMergePatchType, "status", func(*side) string {
			return fmt.Sprintf(`{"metadata":{"annotations":{"s":%q}},"status":{"conditions":[{"type":"C","status":%q}]}}`,
				value, one(g, "True"))
		})
	}
	return deletion(base, path, uid, nil)
}

// pick is the right value, or with 1 another one.
func pick(n int, right string) string {
	if n == 1 {
		return "12345678"
	}
	return right
}

func body(r api.Request, verb string, patch types.PatchType, sub string, text func(*side) string) draws {
	return func(s *side) api.Request {
		r.Verb, r.Patch, r.Sub, r.Body = verb, patch, sub, []byte(text(s))
		return r
	}
}

func deletion(r api.Request, path string, uid int, grace *int64) draws {
	return func(s *side) api.Request {
		r.Verb, r.Grace = "delete", grace
		if uid > 0 {
			r.UID = types.UID(pick(uid, s.field(path, "uid")))
		}
		return r
	}
}

func ruleRequest(g *rand.Rand) draws {
	name := one(g, "a", "b")
	path := "nodereadinessrules/" + name
	uid, version, value := g.IntN(4), g.IntN(3), one(g, "1", "2")
	base := api.Request{Kind: api.Rules, Name: name}
	meta := func(s *side) string {
		m := fmt.Sprintf(`"finalizers":%s`, one(g, `["example.com/f"]`))
		if version == 2 {
			m = `"finalizers":null`
		}
		if version > 0 {
			m += fmt.Sprintf(`,"resourceVersion":%q`, pick(version, s.field(path, "resourceVersion")))
		}
		return m
	}
	switch g.IntN(6) {
	case 0, 1:
		return body(base, "create", "", "", func(*side) string {
			return fmt.Sprintf(`{"apiVersion":"readiness.node.x-k8s.io/v1alpha1","kind":"NodeReadinessRule",`+
				`"metadata":{"name":%q},"spec":{`+
				`"nodeSelector":{"matchLabels":{"a":%q}},"conditions":[{"type":"C","requiredStatus":"True","unknown":1}],`+
				`"enforcementMode":"continuous",`+
				`"taint":{"key":"example.com/t","effect":"NoSchedule"}},"status":{"observedGeneration":5}}`, name, value)
		})
	case 2, 3:
		return body(base, "patch", types.MergePatchType, "", func(s *side) string {
			return fmt.Sprintf(`{"metadata":{%s},"spec":{"nodeSelector":{"matchLabels":{"a":%q}},"nothing":1},`+
				`"status":{"observedGeneration":6}}`, meta(s), value)
		})
	case 4:
		return body(base, "patch", types.MergePatchType, "status", func(s *side) string {
			return fmt.Sprintf(`{"metadata":{%s,"labels":{"no":"no"}},"spec":{"suspend":true},`+
				`"status":{"observedGeneration":%s}}`, meta(s), value)
		})
	}
	return deletion(base, path, uid, nil)
}

func podRequest(g *rand.Rand) draws {
	name := one(g, "a", "b")
	uid, node, value := g.IntN(4), one(g, "", "somewhere"), one(g, "1", "2")
	base := api.Request{Kind: api.Pods, Namespace: "default", Name: name}
	switch g.IntN(4) {
	case 0, 1:
		return body(base, "create", "", "", func(*side) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default"},"spec":{"nodeName":%q,`+
				`"containers":[{"name":"c","image":"i"}]}}`, name, node)
		})
	case 2:
		return body(base, "patch", types.MergePatchType, one(g, "", "status"), func(*side) string {
			return fmt.Sprintf(`{"metadata":{"labels":{"m":%q}}}`, value)
		})
	}
	return deletion(base, "pods/"+name, uid, one(g, nil, new(int64), new(int64(5))))
}
