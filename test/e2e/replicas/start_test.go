// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// TestAReplicaWaitsForTheAPIServer starts a replica before its API server answers.
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
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	e.Must(err)
	defer func() { _ = listener.Close() }()
	go forward(listener, server.Host)
	e.Eventually("it is ready once the API server answers", answers(t, "http://"+probes+"/readyz", http.StatusOK))
	e.Must(waiting.Stop())
}

// forward connects clients of a listener to a server until the listener closes.
func forward(listener net.Listener, server string) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", server)
		if err != nil {
			_ = in.Close()
			continue
		}
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		go pipe(in, out)
		go pipe(out, in)
	}
}
