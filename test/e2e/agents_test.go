// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

const (
	agentNamespace = "nodegate-system"
	agentName      = "nodegate-agent"
)

var agentBuilt = struct {
	sync.Mutex
	path string
}{}

// agentBinary builds the node agent, once.
func agentBinary(t *testing.T, s *stage.Stage) string {
	t.Helper()
	agentBuilt.Lock()
	defer agentBuilt.Unlock()
	if agentBuilt.path != "" {
		return agentBuilt.path
	}
	path := filepath.Join(s.Dir(), "agent")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/agent")
	cmd.Dir, cmd.Env = s.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
	agentBuilt.path = path
	return path
}

// agents are the node agents as config/agent installs them: the DaemonSet's pods, by the real controller manager, with the
// service account, its rights and the policies. kwok runs no containers: the test runs the agent for a node, with the
// arguments of its pod and a token that is bound to it, and does for the ConfigMap what kubelet does.
type agents struct {
	*stage.Stage
	t   *testing.T
	dir string
}

func installAgents(t *testing.T) *agents {
	t.Helper()
	a := &agents{Stage: sharedCluster(t), t: t, dir: t.TempDir()}
	ctx := t.Context()
	a.must(a.Client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))))
	for _, file := range []string{"service_account", "role", "policy", "daemonset"} {
		objects, err := a.Apply(ctx, filepath.Join(a.Root, "config", "agent", file+".yaml"))
		a.must(err)
		t.Cleanup(func() {
			for _, o := range objects {
				_ = a.Client.Delete(context.Background(), o, client.PropagationPolicy(metav1.DeletePropagationBackground))
			}
		})
	}
	return a
}

func (a *agents) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// pod waits for the agent's pod on a node.
func (a *agents) pod(node string) *corev1.Pod {
	a.t.Helper()
	var pod *corev1.Pod
	cluster.Eventually(a.t, "the DaemonSet has a pod on "+node, func() error {
		list := &corev1.PodList{}
		if err := a.Client.List(a.t.Context(), list, client.InNamespace(agentNamespace), client.MatchingLabels{"app.kubernetes.io/component": "agent"}); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Spec.NodeName == node {
				pod = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of them there", len(list.Items))
	})
	return pod
}

// kubeconfig is that of a pod: with a token that is bound to it.
func (a *agents) kubeconfig(pod *corev1.Pod) string {
	a.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: pod.Spec.ServiceAccountName}}
	a.must(a.Client.SubResource("token").Create(a.t.Context(), account, request))
	config := a.Config()
	path := filepath.Join(a.dir, pod.Name+".kubeconfig")
	a.must(clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: request.Status.Token}},
	}, path))
	return path
}

// mount follows the operator's ConfigMap into a directory, as kubelet does, until the test ends.
func (a *agents) mount() string {
	a.t.Helper()
	dir := filepath.Join(a.dir, "config")
	a.must(os.Mkdir(dir, 0o700))
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	a.t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	following.Go(func() {
		var before []byte
		for ctx.Err() == nil {
			cm := &corev1.ConfigMap{}
			if err := a.Client.Get(ctx, client.ObjectKey{Namespace: agentNamespace, Name: "nodegate-agent-config"}, cm); err == nil {
				if raw := []byte(cm.Data["rules.json"]); !bytes.Equal(raw, before) {
					next := filepath.Join(dir, "next")
					if os.WriteFile(next, raw, 0o600) == nil && os.Rename(next, filepath.Join(dir, "rules.json")) == nil {
						before = raw
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return filepath.Join(dir, "rules.json")
}

// run runs the agent of a node, and returns the address of its /health.
func (a *agents) run(node, config string) string {
	a.t.Helper()
	pod := a.pod(node)
	ds := &appsv1.DaemonSet{}
	a.must(a.Client.Get(a.t.Context(), client.ObjectKey{Namespace: agentNamespace, Name: agentName}, ds))
	address, err := cluster.FreeAddress()
	a.must(err)
	_, port, err := net.SplitHostPort(address)
	a.must(err)
	instead := map[string]string{"--config": config, "--host-root": "", "--listen-port": port, "--metrics-bind-address": "0", "--drain-time": "0s"}
	args := []string{"--kubeconfig=" + a.kubeconfig(pod), "--listen-address=127.0.0.1"}
	for _, arg := range ds.Spec.Template.Spec.Containers[0].Args {
		flag, _, _ := strings.Cut(arg, "=")
		value, ok := instead[flag]
		if !ok {
			a.t.Fatalf("the test does not know what to do with the argument %s", arg)
		}
		args = append(args, flag+"="+value)
	}
	c, err := a.Run(a.t.Context(), cluster.Process{Name: "agent-" + node, Path: agentBinary(a.t, a.Stage), Args: args, Env: []string{"NODE_NAME=" + node}})
	a.must(err)
	a.t.Cleanup(func() {
		if a.t.Failed() {
			log, _ := os.ReadFile(c.LogFile())
			a.t.Logf("the agent of %s:\n%s", node, log)
		}
		if err := c.Stop(); err != nil {
			a.t.Error(err)
		}
	})
	return "http://127.0.0.1:" + port + "/health"
}

// answers waits until /health answers with a status, and returns the body.
func (a *agents) answers(url string, status int) string {
	a.t.Helper()
	var body bytes.Buffer
	cluster.Eventually(a.t, fmt.Sprintf("%s answers %d", url, status), func() error {
		req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body.Reset()
		if _, err := body.ReadFrom(resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != status {
			return fmt.Errorf("%d %s", resp.StatusCode, body.String())
		}
		return nil
	})
	return body.String()
}

// TestExampleCNIProbe: the rule alone, and the agents. Operator, ConfigMap, agents, policies, conditions, taints.
func TestExampleCNIProbe(t *testing.T) {
	e := &example{Stage: sharedCluster(t), t: t}
	a := installAgents(t)
	calico := startEndpoint(t, calicoAddress)
	file := e.Example("cni-probe", "rule.yaml")
	if calico.address != calicoAddress {
		t.Logf("%s is taken: the example asks %s here", calicoAddress, calico.address)
		file = a.moved(file, calico.address)
	}
	const taint, condition = "readiness.k8s.io/NetworkReady", "projectcalico.org/CalicoReady"
	e.mustApply(file)
	e.join(map[string]string{"example.com/pool": "workers"}) // of nodes that were there before, the breaker would leave one open
	e.taints(0, taint)
	e.taints(1, taint)
	config := a.mount()
	for _, node := range e.nodes {
		a.run(node, config)
	}
	reported := func(i int, want string) {
		t.Helper()
		cluster.Eventually(t, fmt.Sprintf("node %d reports %s", i, want), func() error {
			for _, c := range e.node(i).Status.Conditions {
				if c.Type == condition {
					if string(c.Status)+" "+c.Reason == want {
						return nil
					}
					return fmt.Errorf("it reports %s %s: %s", c.Status, c.Reason, c.Message)
				}
			}
			return fmt.Errorf("nothing")
		})
	}
	reported(0, "False NodegateProbeFailed")
	reported(1, "False NodegateProbeFailed")
	calico.answer(t, http.StatusOK)
	for i := range e.nodes {
		reported(i, "True NodegateProbeSucceeded")
		e.taints(i)
	}
	a.policiesAreSound()

	// The rule goes, and with it what its probe has published: by the agent, which the policies let take it back.
	e.must(e.Client.Delete(t.Context(), &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "calico"}}))
	for i := range e.nodes {
		cluster.Eventually(t, "the condition goes", func() error {
			for _, c := range e.node(i).Status.Conditions {
				if c.Type == condition {
					return fmt.Errorf("%s is there", c.Type)
				}
			}
			return nil
		})
	}
}

// mustApply applies a rule that the test itself deletes.
func (e *example) mustApply(file string) {
	e.t.Helper()
	objects, err := e.Apply(e.t.Context(), file)
	e.must(err)
	e.t.Cleanup(func() {
		for _, o := range objects {
			_ = e.Client.Delete(context.Background(), o)
		}
	})
}

// moved is the example, asking another port.
func (a *agents) moved(file, address string) string {
	a.t.Helper()
	raw, err := os.ReadFile(file)
	a.must(err)
	_, port, err := net.SplitHostPort(address)
	a.must(err)
	out := filepath.Join(a.dir, "rule.yaml")
	a.must(os.WriteFile(out, bytes.Replace(raw, []byte("port: 9099"), []byte("port: "+port), 1), 0o600))
	return out
}

// policiesAreSound: the real controller manager has looked at the types in the policies' expressions.
func (a *agents) policiesAreSound() {
	a.t.Helper()
	for _, name := range []string{agentName, agentName + "-conditions"} {
		cluster.Eventually(a.t, "the types in policy "+name+" are checked", func() error {
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := a.Client.Get(a.t.Context(), client.ObjectKey{Name: name}, p); err != nil {
				return err
			}
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				return fmt.Errorf("not yet")
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				a.t.Errorf("%s: %s: %s", name, w.FieldRef, w.Warning)
			}
			return nil
		})
	}
}

// TestHealthWithoutATaint: a rule with health alone, and evidence that only the operator sees. Its verdict reaches the agent by
// the node's record.
func TestHealthWithoutATaint(t *testing.T) {
	e := newExample(t, map[string]string{"example.com/pool": "balanced"})
	a := installAgents(t)
	rule := &v1alpha1.NodeReadinessRule{}
	rule.Name = "balanced"
	rule.Spec.NodeSelector.MatchLabels = map[string]v1alpha1.LabelValue{"example.com/pool": "balanced"}
	rule.Spec.Requirements = []v1alpha1.Requirement{{Name: "driver", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "balanced.csi.example.com"}}}
	rule.Spec.Health = &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "rules"}}}
	e.must(e.Client.Create(t.Context(), rule))
	t.Cleanup(func() { _ = e.Client.Delete(context.Background(), rule) })
	url := a.run(e.nodes[0], a.mount())

	if body := a.answers(url, http.StatusServiceUnavailable); !strings.Contains(body, "the operator holds the node back") {
		t.Errorf("it says %s", body)
	}
	key := v1alpha1.RecordAnnotationPrefix + string(rule.UID)
	record := struct{ Health v1alpha1.HealthVerdict }{}
	e.must(json.Unmarshal([]byte(e.node(0).Annotations[key]), &record))
	if record.Health != v1alpha1.HealthNotReady {
		t.Errorf("the record says %q", record.Health)
	}
	csi := e.csiNode(0, "balanced.csi.example.com")
	a.answers(url, http.StatusOK)
	e.must(e.Client.Delete(t.Context(), csi))
	a.answers(url, http.StatusServiceUnavailable)
	e.must(e.Client.Delete(t.Context(), rule))
	cluster.Eventually(t, "without a rule it is node_ready that is asked", func() error {
		if body := a.answers(url, http.StatusOK); !strings.Contains(body, "node_ready") {
			return fmt.Errorf("it says %s", body)
		}
		return nil
	})
	cluster.Eventually(t, "the record goes with the rule", func() error {
		if _, there := e.node(0).Annotations[key]; there {
			return fmt.Errorf("it is there")
		}
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the rule is there: %w", err)
		}
		return nil
	})
}
