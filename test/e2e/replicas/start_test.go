// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/cluster"
)

// early starts a replica that cannot be ready yet, with a server and a user, and returns the address of its probes.
func early(t *testing.T, name string, config *rest.Config) (replica *cluster.Component, probes string) {
	t.Helper()
	c := clusters.Get(t)
	binary, err := c.Binary(t.Context(), "manager")
	cluster.Must(t, err)
	kubeconfig := t.TempDir() + "/kubeconfig"
	cluster.Must(t, cluster.WriteKubeconfig(kubeconfig, config))
	probes, err = cluster.FreeAddress()
	cluster.Must(t, err)
	replica, err = c.Run(t.Context(), cluster.Process{Name: name, Path: binary, Args: []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--agent-config=", "--metrics-bind-address=0",
		"--health-probe-bind-address=" + probes,
	}, Ready: cluster.Probe(nil, "http://"+probes+"/healthz")})
	cluster.Must(t, err)
	t.Cleanup(func() { _ = replica.Kill() })
	return replica, probes
}

// answers is a check: the URL answers with this status.
func answers(t *testing.T, address string, want int) func() error {
	return func() error {
		status, body, err := cluster.Get(t.Context(), address)
		if err == nil && status != want {
			err = fmt.Errorf("%s answers %d, want %d: %s", address, status, want, body)
		}
		return err
	}
}

// endsAtOnce ends the replica in order, and fails if that takes longer than an idle process needs.
func endsAtOnce(t *testing.T, replica *cluster.Component) {
	t.Helper()
	began := time.Now()
	cluster.Must(t, replica.Stop())
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the replica ended %s after SIGTERM", took)
	}
}

// TestAReplicaWithoutPermissionsEndsAtOnce sends SIGTERM to a replica whose caches never sync.
func TestAReplicaWithoutPermissionsEndsAtOnce(t *testing.T) {
	config, err := clusters.Get(t).ConfigFor("powerless", "system:authenticated")
	cluster.Must(t, err)
	replica, probes := early(t, "forbidden", config)
	cluster.Must(t, answers(t, "http://"+probes+"/readyz", http.StatusInternalServerError)())
	endsAtOnce(t, replica)
}

// TestAReplicaWaitsForTheAPIServer starts a replica before its API server answers, and one before an outage.
func TestAReplicaWaitsForTheAPIServer(t *testing.T) {
	e := newPool(t, 1)
	config, err := e.ConfigFor("admin", "system:masters")
	e.Must(err)
	server, err := url.Parse(config.Host)
	e.Must(err)
	address, err := cluster.FreeAddress()
	e.Must(err)
	config = rest.CopyConfig(config)
	config.Host = "https://" + address
	waiting, probes := early(t, "waiting", config)
	e.Must(answers(t, "http://"+probes+"/readyz", http.StatusInternalServerError)())
	endsAtOnce(t, waiting)

	waiting, probes = early(t, "waits", config)
	cut := forward(t, address, server.Host)
	e.Eventually("it is ready once the API server answers", answers(t, "http://"+probes+"/readyz", http.StatusOK))
	e.Must(waiting.Stop())
	cut()

	cut = forward(t, address, server.Host)
	replica, probes := early(t, "outage-"+strings.Split(address, ":")[1], config)
	e.Eventually("it is ready", answers(t, "http://"+probes+"/readyz", http.StatusOK))
	cut()
	says := func(text string) func() error {
		return func() error {
			if log := replica.LogTail(100); strings.Count(log, text) != 1 {
				return fmt.Errorf("not one line says %q:\n%s", text, log)
			}
			return nil
		}
	}
	e.Eventually("it says that the API server is unavailable", says("The API server is unavailable"))
	time.Sleep(3 * time.Second) // every informer tries again
	cut = forward(t, address, server.Host)
	defer cut()
	e.Eventually("and that it is back", says("The API server is available again"))
	e.Must(replica.Stop())
	_, after, _ := strings.Cut(replica.LogTail(100), "The API server is unavailable")
	if strings.Contains(after, `"level":"error"`) {
		t.Errorf("in an outage, the log repeats:\n%s", after)
	}
}

// forward connects clients of an address to a server until it is cut.
func forward(t *testing.T, address, server string) (cut func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	cluster.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = in.Close() })
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			go pipe(in, out)
			go pipe(out, in)
		}
	}()
	return func() {
		_ = listener.Close()
		cancel()
	}
}
