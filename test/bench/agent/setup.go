// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/agent/health"
	"github.com/nodegate/nodegate/test/cluster"
)

const node = "node-0"

// contestant is a process that answers /health.
type contestant struct {
	address string
	pid     int
}

// scene is all that runs: a control plane with a node, the agent of that node, and the constant.
type scene struct {
	cluster     *cluster.Cluster
	contestants map[string]*contestant
}

// setUp starts all processes. The cluster must be stopped even if there is an error.
func (s *scene) setUp(ctx context.Context) (err error) {
	if s.cluster, err = cluster.Start(ctx, cluster.Options{Log: os.Stderr}); err != nil {
		return err
	}
	if err := s.cluster.AddNodes(ctx, "node", 1, cluster.NodeOptions{Unmanaged: true}); err != nil {
		return err
	}
	agent, err := s.cluster.Binary(ctx, "agent")
	if err != nil {
		return err
	}
	rules, err := writeRules(s.cluster.Dir())
	if err != nil {
		return err
	}
	if err := s.start(ctx, agentName, agent, func(port string) []string {
		return []string{
			"--node-name=" + node, "--kubeconfig=" + s.cluster.Kubeconfig(), "--config=" + rules, "--drain-time=0",
			"--listen-address=127.0.0.1", "--listen-port=" + port, "--metrics-bind-address=127.0.0.1:0", "--log-level=error",
		}
	}); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return s.start(ctx, constantName, self, func(port string) []string { return []string{"constant", port} })
}

// writeRules writes a configuration with a rule for the node: its health is the condition Ready, judged three times
// over.
func writeRules(dir string) (string, error) {
	raw, err := config.New(config.Rule{
		Name: "bench", UID: "1",
		NodeSelector: v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"kubernetes.io/hostname": node}},
		Conditions:   []v1alpha1.ConditionRequirement{{Type: "Ready", RequiredStatus: v1alpha1.ConditionTrue}},
		Health: &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "node_ready"}, {Name: "custom_conditions"},
			{Name: "rules"}}},
	}).Encode()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "rules.json")
	return path, os.WriteFile(path, raw, 0o600)
}

// start starts a contestant, all of it on one core, and waits until it answers as it will.
func (s *scene) start(ctx context.Context, name, path string, args func(port string) []string) error {
	address, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	component, err := s.cluster.Run(ctx, cluster.Process{
		Name: name, Path: "taskset", Args: append([]string{"--cpu-list", "0", path}, args(port)...),
		Env:   []string{"GOMAXPROCS=1"},
		Ready: func(ctx context.Context) error { return answers(ctx, address) },
	})
	if err != nil {
		return err
	}
	s.contestants[name] = &contestant{address: address, pid: component.PID()}
	return nil
}

// answer is the constant, and what the agent answers when all is well.
const answer = `{"status":"ready","checks":[{"name":"node_ready","passed":true,"duration_ms":0},` +
	`{"name":"custom_conditions","passed":true,"duration_ms":0},{"name":"rules","passed":true,"duration_ms":0}],` +
	`"total_duration_ms":0}` + "\n"

// answers checks that the answer is that.
func answers(ctx context.Context, address string) error {
	_, body, err := cluster.Get(ctx, "http://"+address+"/health")
	if err == nil && body != answer {
		err = fmt.Errorf("it answers %s", body)
	}
	return err
}

// serveConstant is the floor.
func serveConstant(ctx context.Context) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Args[2]))
	if err != nil {
		return err
	}
	body := []byte(answer)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	limited := health.NewListener(l, nil, health.NewMetrics(prometheus.NewRegistry()))
	return health.Serve(ctx, limited, h, slog.New(slog.DiscardHandler))
}
