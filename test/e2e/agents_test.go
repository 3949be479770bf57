// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

const agentName = "nodegate-agent"

// agents are the node agents as config/components/agent installs them: the DaemonSet's pods, by the real controller
// manager, with the service account, its permissions and the policies. kwok runs no containers: the test runs the agent
// for a node, with the arguments of its pod and a token that is bound to it, and does for the ConfigMap what kubelet
// does.
type agents struct {
	*env
	dir string
}

func (e *env) installAgents() *agents {
	e.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Namespace}}
	const privileged = `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`
	e.Must(e.Client.Patch(e.T.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(privileged))))
	for _, file := range []string{"service_account", "role", "policy", "daemonset"} {
		e.ApplyFile(filepath.Join(cluster.Root(), "config", "components", "agent", file+".yaml"))
	}
	return &agents{env: e, dir: e.T.TempDir()}
}

// pod waits for the agent's pod on a node.
func (a *agents) pod(node string) *corev1.Pod {
	a.T.Helper()
	var pod *corev1.Pod
	a.Eventually("the DaemonSet has a pod on "+node, func() error {
		list := &corev1.PodList{}
		labels := client.MatchingLabels{"app.kubernetes.io/component": "agent"}
		if err := a.Client.List(a.T.Context(), list, client.InNamespace(cluster.Namespace), labels); err != nil {
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
	a.T.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace,
		Name: pod.Spec.ServiceAccountName}}
	a.Must(a.Client.SubResource("token").Create(a.T.Context(), account, request))
	config := a.Config()
	return cluster.Kubeconfig(a.T, config.Host, config.CAData, request.Status.Token)
}

// mount follows the operator's ConfigMap into a directory, as kubelet does, until the test ends.
func (a *agents) mount() string {
	a.T.Helper()
	dir := filepath.Join(a.dir, "config")
	a.Must(os.Mkdir(dir, 0o700))
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	a.T.Cleanup(func() {
		cancel()
		following.Wait()
	})
	following.Go(func() {
		var before []byte
		for ctx.Err() == nil {
			cm := &corev1.ConfigMap{}
			if err := a.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "nodegate-agent-config"},
				cm); err == nil {
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

// run runs the agent of a node until the test ends.
func (a *agents) run(node, config string) {
	a.T.Helper()
	pod := a.pod(node)
	ds := &appsv1.DaemonSet{}
	a.Must(a.Client.Get(a.T.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: agentName}, ds))
	instead := map[string]string{
		"--config": config, "--host-root": "", "--listen-port": "0", "--metrics-bind-address": "0", "--drain-time": "0s",
		"--health-probe-bind-address": "0",
		"--state-file":                filepath.Join(a.dir, node+".json"),
	}
	args := []string{"--kubeconfig=" + a.kubeconfig(pod), "--listen-address=127.0.0.1"}
	for _, arg := range ds.Spec.Template.Spec.Containers[0].Args {
		flag, _, _ := strings.Cut(arg, "=")
		value, ok := instead[flag]
		if !ok {
			a.T.Fatalf("the test does not know what to do with the argument %s", arg)
		}
		args = append(args, flag+"="+value)
	}
	binary, err := a.Binary(a.T.Context(), "agent")
	a.Must(err)
	c, err := a.Run(a.T.Context(), cluster.Process{Name: "agent-" + node, Path: binary, Args: args,
		Env: []string{"NODE_NAME=" + node}})
	a.Must(err)
	a.T.Cleanup(func() {
		if a.T.Failed() {
			a.T.Logf("the log of the agent of %s:\n%s", node, c.LogTail(100))
		}
		a.Must(c.Stop())
	})
}

// TestExampleCNIProbe: the rule alone, and the agents. Operator, ConfigMap, agents, policies, conditions, taints.
func TestExampleCNIProbe(t *testing.T) {
	e := newPool(t, 0)
	a := e.installAgents()
	var calico atomic.Int64 // what its endpoint answers
	calico.Store(http.StatusServiceUnavailable)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(calico.Load()))
	}))
	t.Cleanup(endpoint.Close)
	_, port, err := net.SplitHostPort(endpoint.Listener.Addr().String())
	e.Must(err)
	text, err := os.ReadFile(cluster.Example("cni-probe", "rule.yaml"))
	e.Must(err)
	text = bytes.Replace(text, []byte("port: 9099"), []byte("port: "+port), 1)
	const taint, condition = "readiness.k8s.io/NetworkReady", "projectcalico.org/CalicoReady"
	rule := e.ApplyText(string(text))[0]
	// Of nodes that were there before, the limit would leave one open.
	e.Join(2, map[string]string{cluster.PoolKey: "workers"})
	e.taints(0, taint)
	e.taints(1, taint)
	config := a.mount()
	for _, node := range e.Nodes {
		a.run(node, config)
	}
	reported := func(node, want string) {
		t.Helper()
		e.Eventually(fmt.Sprintf("%s reports %q", node, want), func() error {
			got := ""
			if c := cluster.ConditionOf(e.Node(node), condition); c != nil {
				got = string(c.Status) + " " + c.Reason
			}
			if got != want {
				return fmt.Errorf("it reports %q", got)
			}
			return nil
		})
	}
	for _, node := range e.Nodes {
		reported(node, "False NodegateProbeFailed")
	}
	calico.Store(http.StatusOK)
	for i, node := range e.Nodes {
		reported(node, "True NodegateProbeSucceeded")
		e.taints(i)
	}
	a.policiesAreSound()

	// When the rule is deleted, the agents remove the conditions that its probe has published, which the policies allow.
	e.Must(e.Client.Delete(t.Context(), rule))
	for _, node := range e.Nodes {
		reported(node, "")
	}
}

// policiesAreSound waits until the real controller manager has checked the types in the policies' expressions.
func (a *agents) policiesAreSound() {
	a.T.Helper()
	for _, name := range []string{agentName, agentName + "-conditions"} {
		a.Eventually("the types in policy "+name+" are checked", func() error {
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := a.Client.Get(a.T.Context(), client.ObjectKey{Name: name}, p); err != nil {
				return err
			}
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				return errors.New("not yet")
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				a.T.Errorf("%s: %s: %s", name, w.FieldRef, w.Warning)
			}
			return nil
		})
	}
}
