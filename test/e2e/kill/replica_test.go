// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodegate/nodegate/test/cluster"
)

const leaseNamespace = "kube-system"

// buildOperator builds the operator's binary, with the race detector if this test has it.
func buildOperator(t *testing.T) string {
	t.Helper()
	binary, args := filepath.Join(t.TempDir(), "manager"), []string{"./cmd/manager"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = []string{"-race", "./cmd/manager"}
			}
		}
	}
	cluster.Must(t, cluster.Build(t.Context(), binary, args...))
	return binary
}

// replica is one process of the operator behind a proxy of its own.
type replica struct {
	*cluster.Component
	name  string
	proxy *proxy
}

func startReplica(t *testing.T, c *cluster.Cluster, binary, name string, l *leadership) *replica {
	t.Helper()
	config := c.Config()
	transport, err := rest.TransportFor(config)
	cluster.Must(t, err)
	p, address := newProxy(t, config.Host, transport) // it has the credentials
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster.Must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "proxy",
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: address}},
	}, kubeconfig))
	r := &replica{name: name, proxy: p}
	t.Cleanup(func() { // before the proxy ends, which waits for its clients
		if r.Component != nil {
			_ = r.Kill()
		}
	})
	p.wrote = func(k kind, req *http.Request) { l.wrote(t, name, k, req) }
	p.kill = func() {
		if err := r.Kill(); err != nil {
			t.Error(err)
		}
	}
	r.Component, err = c.Run(t.Context(), cluster.Process{
		Name: "operator-" + name, Path: binary, Env: []string{"GORACE=halt_on_error=1"},
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=" + strconv.FormatBool(l != nil),
			"--leader-election-namespace=" + leaseNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		},
	})
	cluster.Must(t, err)
	return r
}

// end ends a replica in order, and reads in its log whether all was in order.
func (r *replica) end(t *testing.T) {
	t.Helper()
	cluster.Must(t, r.Stop())
	text, err := os.ReadFile(r.LogFile())
	cluster.Must(t, err)
	for _, bad := range []string{"DATA RACE", "panic"} {
		if i := bytes.Index(text, []byte(bad)); i >= 0 {
			t.Errorf("replica %s: %s", r.name, text[max(0, i-200):min(len(text), i+6000)])
		}
	}
}

// keep starts replicas again that end by themselves, as kubelet does, until it is stopped.
func keep(t *testing.T, replicas []*replica) (stop func()) {
	t.Helper()
	stopped := make(chan struct{})
	var all sync.WaitGroup
	for _, r := range replicas {
		all.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-r.Exited():
				}
				time.Sleep(time.Second)
				if err := r.Start(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(stopped)
		all.Wait()
	}
}

// leadership checks that only the leader writes. If it is nil, there is only one replica.
type leadership struct {
	mu     sync.Mutex
	leader string
}

func (l *leadership) wrote(t *testing.T, name string, k kind, r *http.Request) {
	if k == strange {
		t.Errorf("replica %s made a write that it should not make: %s %s", name, r.Method, r.URL.Path)
	}
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k == lease {
		l.leader = name
	} else if l.leader != name && k != event {
		t.Errorf("replica %s leads, and %s made a %s: %s", l.leader, name, k, r.URL.Path)
	}
}

func (l *leadership) is() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}
