// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentcfg "github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/probes"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// boundToken is a token of the agents' service account, bound to a pod on a node, as kubelet asks for it.
func boundToken(t *testing.T, node string) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-", Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: agentAccount,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "agent", Image: "agent", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}
	create(t, pod)
	return token(t, namespace, agentAccount, pod)
}

func clientWith(t *testing.T, token string) client.Client {
	t.Helper()
	c := rest.AnonymousClientConfig(config)
	c.BearerToken, c.WarningHandler = token, rest.NoWarnings{}
	out, err := clientFor(c)
	cluster.Must(t, err)
	return out
}

const agentAccount = "nodegate-agent"

// withAgents renders config/with-agent, and applies the objects that it adds to config/default.
func withAgents(t *testing.T) []object {
	t.Helper()
	objects, err := kustomize(t.Context(), "config/with-agent")
	cluster.Must(t, err)
	cluster.Must(t, apply(t.Context(), slices.DeleteFunc(slices.Clone(objects), func(o object) bool {
		return !strings.Contains(o.GetName(), "agent")
	})))
	return objects
}

// confined are the agents' policy at work, and a node with as much about it as a real one.
type confined struct {
	t    *testing.T
	node *corev1.Node
}

func confine(t *testing.T, name string, conditions ...string) *confined {
	t.Helper()
	withAgents(t)
	publishes(t, append(conditions, current(name))...)
	n := build.MakeNode(name).Label("example.com/pool", "workers").Annotation("example.com/a", "b").BootID("b")
	for conditionType, reason := range map[string]string{"MemoryPressure": "KubeletHasSufficientMemory",
		"Ready": "KubeletReady", "example.com/Theirs": "Theirs", "example.com/Former": "NodegateProbeSucceeded"} {
		n.Condition(conditionType, corev1.ConditionTrue, time.Now()).Reason(conditionType, reason, "")
	}
	c := &confined{t: t, node: n.Obj()}
	c.node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	c.node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8")}
	c.node.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example.com/a:1"}, SizeBytes: 1}}
	c.node.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"}
	create(t, c.node)
	return c
}

// publishes makes these the conditions that rules' probes publish, and waits until the API server's policy knows.
func publishes(t *testing.T, conditions ...string) {
	t.Helper()
	account := &corev1.ServiceAccount{}
	cluster.Must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: agentAccount}, account))
	metav1.SetMetaDataAnnotation(&account.ObjectMeta, agentcfg.ConditionsAnnotation, strings.Join(conditions, "\n"))
	cluster.Must(t, kube.Update(t.Context(), account))
}

func (c *confined) stored() *corev1.Node {
	c.t.Helper()
	n := &corev1.Node{}
	cluster.Must(c.t, kube.Get(c.t.Context(), client.ObjectKeyFromObject(c.node), n))
	return n
}

// patch sends a strategic merge patch of the node's status, as the agent does.
func (c *confined) patch(as client.Client, patch string) error {
	return as.Status().Patch(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node.Name}},
		client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

func conditionPatch(name, reason string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"False","reason":%q,`+
		`"lastHeartbeatTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, name, reason)
}

func manyConditions(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("example.com/Many-%d", i))
	}
	return names
}

func conditionsPatch(names []string) string {
	var conditions []string
	for _, name := range names {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":"True"}`, name))
	}
	return `{"status":{"conditions":[` + strings.Join(conditions, ",") + `]}}`
}

// current is a condition that the rules of one test alone publish: another's configuration may still be known to the
// API server.
func current(name string) string { return "example.com/Current-" + name }

// ready waits until the policy is in force, and lets through what it is to let through.
func (c *confined) ready(as client.Client) {
	c.t.Helper()
	NewWithT(c.t).Eventually(func() error {
		// Another one each time, and none that an agent could have published: it might take that back.
		if err := c.patch(as, conditionPatch("example.com/Forbidden",
			fmt.Sprintf("Test%d", time.Now().UnixNano()))); err == nil {
			return errors.New("the policy about conditions is not in force")
		}
		if err := c.patch(as, fmt.Sprintf(`{"metadata":{"labels":{"ready":"at-%d"}}}`, time.Now().UnixNano())); err == nil {
			return errors.New("the policy about everything else is not in force")
		}
		return c.patch(as, conditionPatch(current(c.node.Name), "NodegateProbeFailed"))
	}).WithTimeout(cluster.Limit).Should(Succeed(), "the policy lets an agent publish what a rule's probe does")
	for _, name := range []string{"example.com/Forbidden", current(c.node.Name)} {
		cluster.Must(c.t, c.patch(kube, fmt.Sprintf(`{"status":{"conditions":[{"$patch":"delete","type":%q}]}}`, name)))
	}
}

// TestAgentPolicy: what an agent may write, seen at the stored object.
func TestAgentPolicy(t *testing.T) {
	// A rule may publish all of the many: else both policies refuse, and which of them the API server names is chance.
	many := manyConditions(101)
	kubernetes := []string{"Ready", "NetworkUnavailable", "GPUPressure", "GracefulNodeShutdownInProgress",
		"DrainInProgress", "Drained", "MaintenancePlanned", "MaintenanceInProgress"}
	c := confine(t, "confined", slices.Concat(many, kubernetes, []string{"example.com/Other", "example.com/Probed"})...)
	as := clientWith(t, boundToken(t, c.node.Name))
	c.ready(as)
	const own = "a node agent may write to its own node only"
	for name, attempt := range map[string]struct {
		patch string
		says  string
	}{
		"a condition that no rule names": {conditionPatch("example.com/Forbidden", "NodegateProbeFailed"),
			"no probe of a rule publishes the conditions that the node agent would change: example.com/Forbidden"},
		"two, of which a rule names one": {conditionsPatch([]string{"example.com/Probed", "example.com/Forbidden"}),
			"would change: example.com/Forbidden"},
		"a reporter's condition": {conditionPatch("example.com/Theirs", "NodegateProbeFailed"),
			"would change: example.com/Theirs"},
		"taking away a reporter's condition": {`{"status":{"conditions":[{"$patch":"delete","type":"example.com/Theirs"}]}}`,
			"would change: example.com/Theirs"},
		"those of Kubernetes, regardless of the rules": {conditionsPatch(kubernetes[1:]),
			"Kubernetes writes the conditions that the node agent would change: " + strings.Join(kubernetes[1:], ", ")},
		"kubelet's, regardless of the rules": {conditionPatch("Ready", "KubeletNotReady"),
			"Kubernetes writes the conditions that the node agent would change: Ready"},
		"taking away kubelet's": {`{"status":{"conditions":[{"$patch":"delete","type":"MemoryPressure"}]}}`,
			"would change: MemoryPressure"},
		"more conditions than it can have": {conditionsPatch(many), "at most 100 conditions at a time"},
		"a label": {`{"metadata":{"labels":{"example.com/pool":"others"}}}`,
			"may not change the metadata"},
		"a label of a node without one more": {`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
			"may not change the metadata"},
		"an annotation": {`{"metadata":{"annotations":{"example.com/x":"y"}}}`,
			"may not change the metadata"},
		"all annotations": {`{"metadata":{"annotations":null}}`, "may not change the metadata"},
		"a finalizer": {`{"metadata":{"finalizers":["example.com/x"]}}`,
			"may not change the metadata"},
		"an owner": {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`,
			"may not change the metadata"},
		"an address": {`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.2"}]}}`,
			"nothing of its node's status but conditions"},
		"capacity": {`{"status":{"capacity":{"cpu":"16"}}}`,
			"nothing of its node's status but conditions"},
		"allocatable, where there is none": {`{"status":{"allocatable":{"cpu":"16"}}}`,
			"nothing of its node's status but conditions"},
		"the boot ID": {`{"status":{"nodeInfo":{"bootID":"c"}}}`,
			"nothing of its node's status but conditions"},
		"the images": {`{"status":{"images":null}}`, "nothing of its node's status but conditions"},
		"the volumes in use": {`{"status":{"volumesInUse":null}}`,
			"nothing of its node's status but conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.stored()
			if err := c.patch(as, attempt.patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), attempt.says) {
				t.Errorf("should be forbidden with %q: %v", attempt.says, err)
			}
			if diff := cmp.Diff(before, c.stored()); diff != "" {
				t.Errorf("something was stored (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("a taint is answered as if it had been accepted, and is not", func(t *testing.T) {
		if err := c.patch(as, `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}],"unschedulable":true}}`); err != nil {
			t.Errorf("got %v", err)
		}
		if spec := c.stored().Spec; slices.ContainsFunc(spec.Taints, func(t corev1.Taint) bool { return t.Key == "a" }) ||
			spec.Unschedulable {
			t.Errorf("stored: %+v", spec)
		}
	})
	t.Run("what it is for", func(t *testing.T) {
		before := c.stored()
		cluster.Must(t, c.patch(as, `{"status":{"conditions":[
			{"type":"example.com/Probed","status":"True","reason":"NodegateProbeSucceeded"},
			{"type":"example.com/Other","status":"True","reason":"NodegateProbeSucceeded"},
			{"$patch":"delete","type":"example.com/Former"}]}}`))
		after := c.stored()
		got := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		for _, x := range after.Status.Conditions {
			got[x.Type] = x.Status
		}
		want := map[corev1.NodeConditionType]corev1.ConditionStatus{"MemoryPressure": "True", "example.com/Theirs": "True",
			"Ready": "True", "example.com/Probed": "True", "example.com/Other": "True"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		ignore := cmpopts.IgnoreFields(corev1.Node{}, "ResourceVersion", "ManagedFields", "Status.Conditions")
		if diff := cmp.Diff(before, after, ignore); diff != "" {
			t.Errorf("and something else (-before +after):\n%s", diff)
		}
		cluster.Must(t, c.patch(as, `{}`))
	})
	t.Run("only on its own node", func(t *testing.T) {
		for who, token := range map[string]string{
			"of another node":     boundToken(t, "another"),
			"bound to nothing":    token(t, namespace, agentAccount),
			"of a pod in no node": boundToken(t, ""),
		} {
			before := c.stored()
			if err := c.patch(clientWith(t, token), conditionPatch("example.com/Probed", who)); !apierrors.IsForbidden(err) ||
				!strings.Contains(err.Error(), own) {
				t.Errorf("a token %s: %v", who, err)
			}
			if diff := cmp.Diff(before, c.stored()); diff != "" {
				t.Errorf("a token %s: something was stored (-before +after):\n%s", who, diff)
			}
		}
	})
	t.Run("by no other way", func(t *testing.T) {
		node := c.stored()
		node.Labels["x"] = "y"
		for how, attempt := range map[string]func() error{
			"update":            func() error { return as.Update(t.Context(), node.DeepCopy()) },
			"update the status": func() error { return as.Status().Update(t.Context(), node.DeepCopy()) },
			"patch the node": func() error {
				return as.Patch(t.Context(), node.DeepCopy(),
					client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`)))
			},
			"delete": func() error { return as.Delete(t.Context(), node.DeepCopy()) },
		} {
			if err := attempt(); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", how, err)
			}
		}
	})
	t.Run("as many conditions as an agent changes in one patch", func(t *testing.T) {
		patch := conditionsPatch(many[:probes.MaxChanges])
		cluster.Must(t, c.patch(as, patch))
		cluster.Must(t, c.patch(as, strings.ReplaceAll(patch, "True", "False")))
	})
	t.Run("requests of other users are not checked", func(t *testing.T) {
		cluster.Must(t, c.patch(kube, conditionPatch("example.com/Forbidden", "Test")))
		cluster.Must(t, c.patch(kube,
			`{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"$patch":"delete","type":"example.com/Forbidden"}]}}`))
	})
}

// TestAgentPolicyWithoutItsParameter: where the agents' ServiceAccount is gone, kubelets go on, and agents can do
// nothing.
func TestAgentPolicyWithoutItsParameter(t *testing.T) {
	c := confine(t, "unparameterized", "example.com/Probed")
	as := clientWith(t, boundToken(t, c.node.Name))
	c.ready(as)
	cluster.Must(t, kube.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: agentAccount}}))
	defer withAgents(t)
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsUnauthorized(c.patch(as, conditionPatch("example.com/Probed", "Test")))
	}).
		WithTimeout(cluster.Limit).Should(BeTrue(), "the API server has seen that it is gone")
	cluster.Must(t, c.patch(kube, conditionPatch("Ready", "KubeletNotReady")))
}

// TestAgentPolicyOnLargeNodes: what the policy may cost is enough for the largest nodes and a great many rules.
func TestAgentPolicyOnLargeNodes(t *testing.T) {
	types := []string{"example.com/Probed"}
	for i := range 2800 {
		types = append(types, fmt.Sprintf("%s.example.com/Condition-%04d", strings.Repeat("a", 40), i))
	}
	c := confine(t, "large", types...)
	n := c.stored()
	for i := range 120 {
		n.Status.Conditions = append(n.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprintf("example.com/Theirs-%d", i)), Status: "True",
				Message: strings.Repeat("m", 1000)})
		n.Status.VolumesInUse = append(n.Status.VolumesInUse,
			corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/ebs.csi.aws.com^vol-%d", i)))
	}
	for i := range 500 {
		n.Status.Images = append(n.Status.Images,
			corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/%s/%d:1", strings.Repeat("n", 100), i)},
				SizeBytes: 1})
	}
	cluster.Must(t, kube.Status().Update(t.Context(), n))
	for i := range 300 {
		n.Labels[fmt.Sprintf("example.com/l-%d", i)], n.Annotations[fmt.Sprintf("example.com/a-%d", i)] = "x",
			strings.Repeat("y", 500)
	}
	cluster.Must(t, kube.Update(t.Context(), n))
	as := clientWith(t, boundToken(t, c.node.Name))
	c.ready(as)
	var conditions []map[string]string
	for _, name := range types[len(types)-17:] { // as many as a rule may have, the last ones of the list
		conditions = append(conditions, map[string]string{"type": name, "status": "True", "reason": "NodegateProbeSucceeded"})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	cluster.Must(t, err)
	if err := c.patch(as, conditionsPatch(manyConditions(100))); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "would change: example.com/Many-0, ") {
		t.Errorf("as many as there may be are not refused: %v", err)
	}
	NewWithT(t).Eventually(func() error {
		return c.patch(as,
			string(patch))
	}).WithTimeout(cluster.Limit).Should(Succeed())
	if got := c.stored().Status.Conditions; !slices.ContainsFunc(got,
		func(x corev1.NodeCondition) bool { return string(x.Type) == types[len(types)-1] }) {
		t.Error("the last one is not stored")
	}
}
