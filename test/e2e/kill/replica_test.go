// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodegate/nodegate/test/cluster"
)

const leaseNamespace = "kube-system"

// buildOperator builds the operator's binary, with the race detector if this test has it.
func buildOperator(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "manager")
	args := []string{"./cmd/manager"}
	if raceDetector() {
		args = []string{"-race", "./cmd/manager"}
	}
	cluster.Must(t, cluster.Build(t.Context(), binary, args...))
	return binary
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			on, err := strconv.ParseBool(s.Value)
			return on && err == nil
		}
	}
	return false
}

// replica is one process of the operator, which can be killed and started again.
type replica struct {
	name string
	// proxy is nil where the replica speaks to the API server itself.
	proxy   *proxy
	process *cluster.Component
	// kept: it is started again when it ends.
	kept bool
}

// startReplica starts a replica of the operator behind a proxy of its own. It ends with the cluster.
func startReplica(t *testing.T, w *model, binary, name string, elect bool) *replica {
	t.Helper()
	config := w.Cluster.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p, address := newProxy(t, config.Host, transport)
	r := &replica{name: name, proxy: p}
	r.run(t, w, binary, kubeconfig(t, address), elect)
	p.kill = func() {
		if err := r.process.Kill(); err != nil {
			w.fault("killing replica %s: %v", name, err)
		}
	}
	p.wrote = func(k kind, req *http.Request) { w.leadership.wrote(w, name, k, req) }
	return r
}

func (r *replica) run(t *testing.T, w *model, binary, kubeconfig string, elect bool) {
	t.Helper()
	var err error
	r.process, err = w.Cluster.Run(t.Context(), cluster.Process{
		Name: "operator-" + r.name,
		Path: binary,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=" + strconv.FormatBool(elect),
			"--leader-election-namespace=" + leaseNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		},
		Env: []string{"GORACE=halt_on_error=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubeconfig is a file that leads to a proxy, which has the credentials.
func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "proxy",
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: address}},
	}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *replica) alive() bool { return r.process.PID() != 0 }

// restart starts a replica that is dead.
func (r *replica) restart(t *testing.T) {
	t.Helper()
	if err := r.process.Start(t.Context()); err != nil {
		t.Fatalf("starting replica %s again: %v", r.name, err)
	}
}

// sound reports what in the replica's log must not be there.
func (r *replica) sound(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(r.process.LogFile())
	if err != nil {
		t.Error(err)
		return
	}
	for _, bad := range []string{"DATA RACE", "panic"} {
		if i := bytes.Index(text, []byte(bad)); i >= 0 {
			t.Errorf("replica %s: %s", r.name, text[max(0, i-200):min(len(text), i+6000)])
		}
	}
}

// leadership checks that only the leader writes.
type leadership struct {
	mu     sync.Mutex
	leader string // empty: no leader election
}

func (l *leadership) wrote(w *model, name string, k kind, r *http.Request) {
	if k == strange {
		w.fault("replica %s made a write that it should not make: %s %s", name, r.Method, r.URL.Path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case k == lease:
		if l.leader != name {
			w.note("replica %s leads", name)
		}
		l.leader = name
	case l.leader != "" && l.leader != name && k != event:
		w.fault("replica %s leads, and %s made a %s: %s", l.leader, name, k, r.URL.Path)
	}
}

func (l *leadership) is() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

func (p *proxy) summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("accepted %v, refused %v", p.writes, p.failed)
}
