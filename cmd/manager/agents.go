// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/controller/agentconfig"
	"github.com/nodegate/nodegate/internal/watch"
)

// agentOptions are about the node agents.
type agentOptions struct{ config, account string }

func (o *agentOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.config, "agent-config", "nodegate-agent-config",
		"ConfigMap that the node agents' configuration is written to: a name in the operator's own namespace, or namespace/name. Empty turns it off.")
	fs.StringVar(&o.account, "agent-service-account", "nodegate-agent",
		"ServiceAccount of the node agents, in the namespace of their ConfigMap. An annotation on it says which conditions they may publish.")
}

// configMap is where the agents' configuration goes; nil for nowhere. Outside of a cluster the operator has no namespace of
// its own but that of its lease.
func (o *agentOptions) configMap(own string) (*types.NamespacedName, error) {
	if o.config == "" {
		return nil, nil
	}
	namespace, name, given := strings.Cut(o.config, "/")
	if !given {
		namespace, name = own, o.config
		if raw, err := os.ReadFile(namespaceFile); namespace == "" && err == nil {
			namespace = strings.TrimSpace(string(raw))
		}
		if namespace == "" {
			return nil, nil
		}
	}
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return nil, fmt.Errorf("--agent-config: %q is not the name of a namespace: %s", namespace, strings.Join(msgs, "; "))
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return nil, fmt.Errorf("--agent-config: %q is not the name of a ConfigMap: %s", name, strings.Join(msgs, "; "))
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// addAgentConfig adds what writes the node agents' configuration, unless nobody knows where to.
func addAgentConfig(mgr manager.Manager, rules *watch.Rules, recorder events.EventRecorder, o *options) error {
	key, err := o.agents.configMap(o.election.namespace)
	if err != nil {
		return err
	}
	if key == nil {
		ctrl.Log.Info("The node agents' configuration is not written: --agent-config is empty, or the operator runs outside of a cluster, and has no namespace")
		return nil
	}
	if msgs := validation.IsDNS1123Subdomain(o.agents.account); len(msgs) > 0 {
		return fmt.Errorf("--agent-service-account: %q is not the name of a ServiceAccount: %s", o.agents.account, strings.Join(msgs, "; "))
	}
	r := &agentconfig.Reconciler{Recorder: recorder, Key: *key, Account: types.NamespacedName{Namespace: key.Namespace, Name: o.agents.account}}
	return r.SetupWithManager(mgr, rules)
}
