// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// agentOptions are about the node agents.
type agentOptions struct{ config, account string }

func (o *agentOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.config, "agent-config", "nodegate-agent-config",
		"ConfigMap for the node agents' configuration: a name in the operator's namespace, or namespace/name. Empty: the "+
			"operator writes no configuration.")
	fs.StringVar(&o.account, "agent-service-account", "nodegate-agent",
		"ServiceAccount of the node agents, in the namespace of their ConfigMap. The operator writes an annotation on it "+
			"that lists the conditions that they may publish.")
}

// configMap returns where the agents' configuration goes, or nil if it is not written. own is the namespace of a name
// without one.
func (o *agentOptions) configMap(own string) (*types.NamespacedName, error) {
	if o.config == "" {
		return nil, nil
	}
	namespace, name, given := strings.Cut(o.config, "/")
	if !given {
		namespace, name = own, o.config
		if namespace == "" {
			return nil, nil
		}
	}
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return nil, fmt.Errorf("--agent-config: invalid namespace %q: %s", namespace, strings.Join(msgs, "; "))
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return nil, fmt.Errorf("--agent-config: invalid name %q of a ConfigMap: %s", name, strings.Join(msgs, "; "))
	}
	if msgs := validation.IsDNS1123Subdomain(o.account); len(msgs) > 0 {
		return nil, fmt.Errorf("--agent-service-account: invalid name %q: %s", o.account,
			strings.Join(msgs, "; "))
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}, nil
}
