// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// protectedLabel is on pods that a policy keeps from being deleted; skipLabel is on nodes that admission leaves alone.
const (
	protectedLabel = "example.com/protected"
	skipLabel      = "node-restriction.kubernetes.io/skip-admission"
)

// account returns the user of an actor. A kubelet's requests are about its own node.
func account(actor, node string) authenticationv1.UserInfo {
	switch actor {
	case "kubelet":
		return authenticationv1.UserInfo{Username: "system:node:" + node, Groups: []string{"system:nodes"}}
	case "operator":
		return authenticationv1.UserInfo{Username: "system:serviceaccount:nodegate-system:nodegate-manager"}
	case "node-controller":
		return authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:node-controller"}
	}
	return authenticationv1.UserInfo{Username: actor}
}

// admit does what the API server's admission does with a write.
func (w *World) admit(r *api.Request, before, after metav1.Object) error {
	switch r.Kind {
	case api.Rules:
		return admitRule(r, before, after)
	case api.Nodes:
		if after != nil {
			return w.admitNode(r, before, after.(*corev1.Node))
		}
	case api.Pods:
		switch {
		case after == nil:
			return w.admitDeletion(r, before.(*corev1.Pod))
		case before == nil:
			return w.review("/validate-bindings", account(r.User, ""), "", nil, after.(*corev1.Pod))
		case r.Sub == "status" && w.script.Endpoints:
			return w.keepReady(r, before.(*corev1.Pod), after.(*corev1.Pod))
		}
	}
	return nil
}

// admitRule refuses rules without evidence or effect, as the CRD does, unless they had none before.
func admitRule(r *api.Request, before, after metav1.Object) error {
	if after == nil || r.Sub != "" {
		return nil
	}
	for _, ok := range []func(spec map[string]any) bool{
		func(spec map[string]any) bool {
			conditions, _ := spec["conditions"].([]any)
			requirements, _ := spec["requirements"].([]any)
			return len(conditions)+len(requirements) > 0
		},
		func(spec map[string]any) bool {
			return spec["taint"] != nil || spec["evictionGuard"] != nil || spec["health"] != nil || spec["publish"] != nil
		},
		func(spec map[string]any) bool {
			taint, there := spec["taint"].(map[string]any)
			return !there || taint["key"] != nil && taint["effect"] != nil
		},
		func(spec map[string]any) bool {
			timeout, _ := spec["timeout"].(map[string]any)
			return spec["taint"] != nil || timeout["action"] != "Replace"
		},
		func(spec map[string]any) bool {
			taint, _ := spec["taint"].(map[string]any)
			raw, _ := json.Marshal(spec["requirements"])
			return !strings.Contains(string(raw), "daemonSets") || spec["enforcementMode"] == "bootstrap-only" ||
				(spec["maxUnavailable"] != nil || spec["limits"] != nil) && taint["effect"] != "NoExecute"
		},
		func(spec map[string]any) bool { return spec["maxUnavailable"] == nil || spec["limits"] == nil },
		keepsValidly, endsValidly,
	} {
		if !ok(specOf(after)) && (before == nil || ok(specOf(before))) {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "NodeReadinessRule"}, r.Name, nil)
		}
	}
	return nil
}

func specOf(rule metav1.Object) map[string]any {
	spec, _ := rule.(*unstructured.Unstructured).Object["spec"].(map[string]any)
	return spec
}

// admitNode runs the policy and the webhook that taint nodes, NodeRestriction, and the policy that protects records and
// overrides.
func (w *World) admitNode(r *api.Request, before metav1.Object, node *corev1.Node) error {
	old, _ := before.(*corev1.Node)
	if r.User == "operator" && w.refused[r.Name] {
		w.met(policyRefuses, string(r.Kind), r.Verb == "patch")
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, r.Name, nil)
	}
	user := account(r.User, node.Name)
	if r.Sub == "" {
		if err := w.taintNode(user, old, node); err != nil {
			return err
		}
	}
	if r.User == "kubelet" && r.Sub == "" && old != nil &&
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return apierrors.NewForbidden(api.Nodes.Resource(), r.Name,
			fmt.Errorf("node %q is not allowed to modify taints", r.Name))
	}
	had := map[string]string{}
	if old != nil {
		had = old.Annotations
	}
	if maps.Equal(had, node.Annotations) || r.User == "operator" || w.script.Unguarded {
		return nil // as the policy's conditions say; this is what the most requests are
	}
	was, now := object(old), object(node)
	if err := w.definitions.Records.Validate(user, r.Sub, was, now); err != nil {
		return err
	}
	return w.definitions.Annotations.Validate(user, r.Sub, was, now)
}

// taintNode runs the engines that taint nodes, and lets the model judge what becomes of the request.
func (w *World) taintNode(user authenticationv1.UserInfo, old, node *corev1.Node) error {
	policy, webhook := w.script.Policy, w.script.Webhooks && (old == nil || !maps.Equal(old.Labels, node.Labels))
	if !policy && !webhook {
		return nil
	}
	sent := node.DeepCopy()
	_, skipped := node.Labels[skipLabel]
	if old != nil && skipped {
		_, skipped = old.Labels[skipLabel]
	}
	if policy {
		w.told = max(w.told, w.server.Version()-int64(w.script.Lag))
		var was runtime.Object
		if old != nil {
			was = old
		}
		if err := w.definitions.Admission.Admit(w.server, w.told, user, "", was, node); err != nil {
			return err
		}
	}
	if webhook && !skipped {
		if err := w.review("/mutate-nodes", user, "", old, node); err != nil {
			return err
		}
	}
	if old != nil && maps.Equal(old.Labels, node.Labels) && bytes.Equal(wire(sent), wire(node)) {
		return nil // as are the most requests
	}
	request := &model.Request{Sent: &api.Object{Kind: api.Nodes, Meta: sent},
		Stored: &api.Object{Kind: api.Nodes, Meta: node.DeepCopy()}, Kubelet: slices.Contains(user.Groups, "system:nodes"),
		Skipped: skipped, Policy: policy, Seen: w.current()}
	if old != nil {
		request.Before = &api.Object{Kind: api.Nodes, Meta: old}
	}
	version := w.server.Version()
	if policy { // it sees the list itself
		version, request.Seen = w.told, true
	}
	if listed := w.server.ListAt(api.AdmissionRules, version); len(listed) > 0 {
		request.Listed = listed[0]
	}
	request.Settled = w.settled(request.Listed)
	w.Model.Admitted(request, w.present())
	return nil
}

// wire is a node in protobuf.
func wire(n *corev1.Node) []byte {
	out, err := n.Marshal()
	utilruntime.Must(err)
	return out
}

// settled reports whether all replicas know the present state, and a list of the rules for admission is as the leader
// wants it.
func (w *World) settled(listed model.Document) bool {
	leader := w.leader()
	return leader != nil && leader.Listed() && w.current() &&
		listed == document(w.server.Get(api.AdmissionRules, listName))
}

// admitDeletion lets a policy refuse the deletion of protected pods, and asks the eviction guard.
func (w *World) admitDeletion(r *api.Request, pod *corev1.Pod) error {
	if pod.Labels[protectedLabel] != "" && r.User != "kubelet" && r.User != "admin" {
		return apierrors.NewForbidden(api.Pods.Resource(), r.Name, fmt.Errorf("a policy refuses it"))
	}
	err := w.review("/guard-pods", account(r.User, pod.Spec.NodeName), "", pod, nil)
	if w.script.Webhooks && r.User != "node-controller" {
		w.Model.Deleting(document(w.server.Get(api.Pods, namespace+"/"+pod.Name)), err == nil, w.present())
	}
	return err
}

// review asks a webhook of one replica after the other, and patches the node. Without an answer, it allows the request.
func (w *World) review(path string, user authenticationv1.UserInfo, sub string, before, after runtime.Object) error {
	if !w.script.Webhooks {
		return nil
	}
	request := admissionv1.AdmissionRequest{UID: "review", UserInfo: user, SubResource: sub,
		Operation: admissionv1.Update, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	request.OldObject.Raw, request.Object.Raw = encoded(before), encoded(after)
	switch {
	case request.OldObject.Raw == nil:
		request.Operation = admissionv1.Create
		switch o := after.(type) {
		case *corev1.Pod:
			request.Kind, request.Namespace, request.Name = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
				o.Namespace, o.Name
		case *corev1.Binding:
			request.Kind, request.Namespace, request.Name = metav1.GroupVersionKind{Version: "v1", Kind: "Binding"},
				o.Namespace, o.Name
		}
	case request.Object.Raw == nil:
		request.Operation, request.Resource.Resource = admissionv1.Delete, "pods"
	}
	w.reviews++
	for i := range w.replicas {
		answer := w.replicas[(w.reviews+i)%len(w.replicas)].Review(path, request)
		switch {
		case answer == nil:
			continue
		case !answer.Allowed:
			return apierrors.NewForbidden(schema.GroupResource{Resource: request.Resource.Resource}, "", fmt.Errorf("%s",
				answer.Result.Message))
		case len(answer.Patch) > 0:
			patch, err := jsonpatch.DecodePatch(answer.Patch)
			utilruntime.Must(err)
			raw, err := patch.Apply(request.Object.Raw)
			utilruntime.Must(err)
			node := after.(*corev1.Node)
			*node = corev1.Node{}
			utilruntime.Must(json.Unmarshal(raw, node))
		}
		return nil
	}
	return nil
}

// encoded is an object as a review has it: nothing, if there is none.
func encoded(o runtime.Object) []byte {
	raw, err := json.Marshal(o)
	utilruntime.Must(err)
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// object returns a node as policies see it.
func object(n *corev1.Node) map[string]any {
	if n == nil {
		return nil
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	utilruntime.Must(err)
	return out
}

// tried is what the node controller has tried with a pod: for which taints, how often, and since when.
type tried struct {
	taints string
	times  int
	since  time.Time
}

// evict does what the node controller does: it announces and deletes each pod that does not tolerate a NoExecute taint
// of its node. For each set of such taints it tries five times at once, and gives up.
func (w *World) evict() {
	pods, _ := w.server.List(api.Pods)
	for _, o := range pods {
		pod := o.Meta.(*corev1.Pod)
		taints := ""
		if node := w.server.Get(api.Nodes, pod.Spec.NodeName); node != nil && pod.DeletionTimestamp == nil {
			taints = evicting(node.Meta.(*corev1.Node), pod, w.now)
		}
		t := w.evicted[pod.UID]
		if t.taints != taints {
			t = tried{taints: taints, since: w.now}
		}
		if taints == "" || t.times == 5 || w.now.Sub(t.since) > time.Second {
			w.evicted[pod.UID] = t
			continue
		}
		t.times++
		w.evicted[pod.UID] = t
		w.podStatus(pod, "node-controller", func(p *corev1.Pod) {
			p.Status.Conditions = append(without(p.Status.Conditions, corev1.DisruptionTarget), corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
				LastTransitionTime: metav1.NewTime(w.now.UTC().Truncate(1e9))})
		})
		known := w.script.Webhooks && pod.Labels[protectedLabel] == "" && w.current()
		before := w.server.Get(api.Pods, o.Key())
		w.send(api.Request{User: "node-controller", Verb: "delete", Kind: api.Pods, Namespace: pod.Namespace,
			Name: pod.Name})
		if known {
			w.Model.Evicting(document(before), document(w.server.Get(api.Pods, o.Key())), w.present())
		}
	}
}

// evicting lists the NoExecute taints by which a pod is to be evicted now.
func evicting(node *corev1.Node, pod *corev1.Pod, now time.Time) string {
	var all []string
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectNoExecute && !tolerates(pod, t, now) {
			all = append(all, t.Key)
		}
	}
	return strings.Join(all, ",")
}

// tolerates reports whether a pod tolerates a taint still: the time counts from when both are there.
func tolerates(pod *corev1.Pod, t *corev1.Taint, now time.Time) bool {
	from := pod.CreationTimestamp.Time
	if t.TimeAdded != nil && t.TimeAdded.After(from) {
		from = t.TimeAdded.Time
	}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.Key == "" || o.Key == t.Key && t.TimeAdded != nil && o.TolerationSeconds != nil &&
			now.Before(from.Add(time.Duration(*o.TolerationSeconds)*time.Second))
	})
}

// without removes the condition of a type.
func without(conditions []corev1.PodCondition, t corev1.PodConditionType) []corev1.PodCondition {
	return slices.DeleteFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == t })
}
