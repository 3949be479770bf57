// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "embed"
	"os"
	"path/filepath"
	"strconv"
)

//go:embed kwok.yaml
var kwokConfig []byte

const (
	// ManagedAnnotation with the value "fake" marks a node for which kwok plays the kubelet.
	ManagedAnnotation = "kwok.x-k8s.io/node"

	// KubeletAnnotation with the value "not-ready" on such a node makes its kubelet report Ready=False while it
	// goes on to renew its lease. Any other value, or none, makes it ready again. For kubelets that fall
	// silent pause kwok: the controller manager finds all its nodes Unknown after 50 seconds or so.
	KubeletAnnotation = "localcluster.test/kubelet"
)

func (c *Cluster) newKwok(port int) (*Component, error) {
	config := filepath.Join(c.dir, "kwok.yaml")
	if err := os.WriteFile(config, kwokConfig, 0o600); err != nil {
		return nil, err
	}
	// A kubelet's permissions are limited to its own node, and kwok acts as all kubelets.
	kubeconfig, err := c.KubeconfigFor("localcluster-kwok", adminGroup)
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	return c.component(Process{
		Name: "kwok",
		Path: c.binary("kwok"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + config,
			"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=" + ManagedAnnotation + "=fake",
			"--server-address=" + address,
			"--cidr=10.244.0.0/16",
		},
		// It reads a configuration from its home directory too, which is not to matter here.
		Env:   []string{"KWOK_WORKDIR=" + c.dir},
		Ready: Probe(nil, "http://"+address+"/healthz"),
	}), nil
}
