// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/watch"
)

// Mode is the setting that selects an engine.
type Mode string

// The modes.
const (
	// ModeAuto: the policy if it is installed, otherwise the webhook.
	ModeAuto Mode = "auto"
	// ModePolicy: the policy only.
	ModePolicy Mode = "policy"
	// ModeWebhook: the webhook, even if the policy is installed.
	ModeWebhook Mode = "webhook"
	// ModeOff: not the webhook.
	ModeOff Mode = "off"
)

// Kind is an engine.
type Kind string

// The engines.
const (
	EnginePolicy  Kind = "policy"
	EngineWebhook Kind = "webhook"
	// EngineNone: only the controller taints nodes, shortly after their creation.
	EngineNone Kind = "none"
)

var (
	admittedTaints = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_admitted_taints_total",
		Help: "Taints that were added in the request that made a node match a rule, by engine: policy or webhook. The API " +
			"server may call the webhook more than once for a node.",
	}, []string{"engine"})
	engineInfo = promauto.With(metrics.Registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "node_readiness_node_admission_engine",
		Help: "1 for the engine that taints nodes in the request that makes them match a rule: policy, webhook or none.",
	}, []string{"engine"})
)

// CountPolicyTaint counts a taint that the policy has added to a node. The controller finds it and calls this function.
func CountPolicyTaint() { admittedTaints.WithLabelValues(string(EnginePolicy)).Inc() }

// Engine detects which engine is active. It is safe for concurrent use.
type Engine struct {
	mode Mode
	// webhook reports whether the operator serves webhooks.
	webhook bool
	// policy is the name of the policy and of its binding.
	policy string

	mu     sync.RWMutex
	served bool            // the API server knows such policies
	found  map[string]bool // of policy, binding, CRD and rules, which are there
}

// NewEngine returns an Engine for a mode. webhook reports whether the operator serves webhooks, and policy is the name
// of the policy and of its binding.
func NewEngine(mode Mode, webhook bool, policy string) *Engine {
	e := &Engine{mode: mode, webhook: webhook, policy: policy, found: map[string]bool{}}
	e.tell()
	return e
}

// Acting returns the active engine.
func (e *Engine) Acting() Kind {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.acting()
}

func (e *Engine) acting() Kind {
	policy := e.installed() && e.found["rules"]
	switch {
	case e.mode == ModeOff:
		return EngineNone
	case policy && e.mode != ModeWebhook:
		return EnginePolicy
	case e.webhook && e.mode != ModePolicy:
		return EngineWebhook
	}
	return EngineNone
}

// ByStatus reports whether the webhook taints nodes by the status of rules, because the object with the rules does not
// exist.
func (e *Engine) ByStatus() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.acting() == EngineWebhook && !e.found["rules"]
}

func (e *Engine) installed() bool { return e.found["policy"] && e.found["binding"] }

// SetRules tells whether the object exists from which the policy reads the rules. Until then, the policy taints no
// node.
func (e *Engine) SetRules(ctx context.Context, exist bool) { e.see(ctx, "rules", exist) }

// SetCRD tells whether the API server serves the CRD of this object.
func (e *Engine) SetCRD(ctx context.Context, served bool) { e.see(ctx, "crd", served) }

func (e *Engine) see(ctx context.Context, part string, there bool) {
	if before, after := e.set(part, there); before != after {
		log.FromContext(ctx).Info("Another engine taints nodes now", "was", before, "now", after)
	}
}

// Ready is a readiness check. It fails if the mode names an engine that is not available.
func (e *Engine) Ready(*http.Request) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.mode != ModePolicy || e.acting() == EnginePolicy:
		return nil
	case !e.served:
		return errors.New("--node-admission=policy: when the operator started, the API server did not serve " +
			"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy (Kubernetes 1.36): upgrade Kubernetes, and restart the " +
			"operator")
	case e.installed() && e.found["crd"]:
		return nil // the leader writes the object, also if this replica must be ready before another one stops to lead
	case e.installed():
		return errors.New("--node-admission=policy: the API server does not serve the CRD admissionrules.nodegate.io, from " +
			"which the policy reads the rules: see config/crd")
	}
	return fmt.Errorf("--node-admission=policy: no MutatingAdmissionPolicy %q with a binding of the same name found: "+
		"see config/node-admission-policy", e.policy)
}

func (e *Engine) tell() {
	now := e.acting()
	for _, k := range []Kind{EnginePolicy, EngineWebhook, EngineNone} {
		value := 0.0
		if k == now {
			value = 1
		}
		engineInfo.WithLabelValues(string(k)).Set(value)
	}
}

func (e *Engine) set(part string, there bool) (before, after Kind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before = e.acting()
	e.found[part] = there
	e.tell()
	return before, e.acting()
}

// SetupWithManager watches the policy and its binding, and no other objects of their kinds, if the API server has these
// kinds.
func (e *Engine) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if e.mode == ModeOff || e.mode == ModeWebhook {
		return nil
	}
	kind := admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			log.FromContext(ctx).Info("The API server does not serve MutatingAdmissionPolicies", "nodeAdmission", e.Acting())
			return nil
		}
		return fmt.Errorf("looking for %s: %w", kind, err)
	}
	e.served = true
	named := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", e.policy)}
	policies, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&admissionregistrationv1.MutatingAdmissionPolicy{}:        named,
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{}: named,
		},
	})
	if err != nil {
		return fmt.Errorf("creating a cache of policies: %w", err)
	}
	for part, object := range map[string]client.Object{
		"policy":  &admissionregistrationv1.MutatingAdmissionPolicy{},
		"binding": &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	} {
		see := func(there bool) func(client.Object) {
			return func(client.Object) { e.see(ctx, part, there) }
		}
		if _, err := watch.Follow(ctx, policies, object, see(true), see(false)); err != nil {
			return fmt.Errorf("looking for the policy %q: %w", e.policy, err)
		}
	}
	return mgr.Add(admission.EveryReplica(policies.Start))
}
