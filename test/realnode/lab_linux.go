// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nodegate/nodegate/test/cluster"
)

// Lab is a control plane with real nodes.
type Lab struct {
	// Dir is where all files are.
	Dir string
	// Cluster is the control plane. It can be reached from the nodes.
	Cluster *cluster.Cluster

	// Nodes are the nodes, in the order in which they were added.
	Nodes []*Node

	images []string // the tars that each node imports
}

// Start starts the control plane with the binaries in a directory. Its controller manager notices within ten seconds
// that a kubelet is silent. The nodes end with the lab.
func Start(ctx context.Context, dir, assets string, images []string) (*Lab, error) {
	if err := setUpNetwork(); err != nil {
		return nil, err
	}
	cluster, err := cluster.Start(ctx, cluster.Options{
		Assets: assets, Address: Gateway, ControllerManager: true, Scheduler: true, Log: os.Stdout,
		// Webhooks behind a Service are called at their endpoints: no kube-proxy serves ClusterIPs where the API server is.
		APIServerArgs:         []string{"--enable-aggregator-routing=true"},
		ControllerManagerArgs: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=10s"},
	})
	if err != nil {
		return nil, err
	}
	l := &Lab{Dir: dir, Cluster: cluster, images: images}
	// A cluster's installer gives kube-proxy's user its permissions.
	_, err = l.Kubectl(ctx, "create", "clusterrolebinding", "kube-proxy", "--clusterrole=system:node-proxier",
		"--user=system:kube-proxy")
	return l, err
}

// Kubectl runs kubectl as an administrator, and returns what it prints.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	return l.Tool(ctx, filepath.Join(l.Cluster.Assets(), "kubectl"), args...)
}

// KubectlWith is Kubectl with a text on its standard input.
func (l *Lab) KubectlWith(ctx context.Context, text string, args ...string) (string, error) {
	return l.run(ctx, text, filepath.Join(l.Cluster.Assets(), "kubectl"), args...)
}

// Apply applies a text with kubectl.
func (l *Lab) Apply(ctx context.Context, text string) error {
	_, err := l.KubectlWith(ctx, text, "apply", "-f", "-")
	return err
}

// Tool runs a tool with the administrator's kubeconfig, and returns what it prints.
func (l *Lab) Tool(ctx context.Context, path string, args ...string) (string, error) {
	return l.run(ctx, "", path, args...)
}

func (l *Lab) run(ctx context.Context, text, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Cluster.Kubeconfig(), "HOME="+l.Dir)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err,
			strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
