// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/binding"
	nodeadmission "github.com/nodegate/nodegate/internal/admission/node"
	ruleadmission "github.com/nodegate/nodegate/internal/admission/rule"
	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/controller/rule"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/guard/webhook"
	"github.com/nodegate/nodegate/internal/watch"
)

// Environment is what surrounds a replica.
type Environment struct {
	// Cache reads nodes and rules, and follows them and the CustomResourceDefinition.
	Cache cache.Cache
	// Client reads from Cache, which has seen this replica's own writes, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Direct reads and writes past the cache. It is needed for the eviction guard.
	Direct client.Client
	// Informers start the watches of evidence.
	Informers evidence.Informers
	// Recorder records events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// After runs a function when a time has passed, never before it returns.
	After watch.After
	// Admission returns the engine that taints nodes at admission.
	Admission func() nodeadmission.Kind
}

// Replica is one replica of the operator. The leader runs Nodes, Status, Evictions and Monitor; every replica serves
// Webhooks.
type Replica struct {
	// Rules are followed from New on. CRDSeen reports whether the CustomResourceDefinition has been looked at.
	Rules   *watch.Rules
	CRDSeen func() bool

	Fleet *fleet.Fleet
	// Nodes is the controller of nodes; NodeRules queues nodes for it when rules or evidence change.
	Nodes     *node.Reconciler
	NodeRules *controller.RulesSource
	// Status is the controller of rules; StatusQueue queues rules for it.
	Status      *rule.Reconciler
	StatusQueue *controller.Queue
	// Evictions finishes the evictions of guards that have ended; nil without webhooks, as nothing is guarded then.
	Evictions *eviction.Reconciler
	// Monitor finds out whether guards can be relied on.
	Monitor *webhook.Monitor
	Escapes *node.Escapes
	// nodesQueue queues nodes for Nodes.
	nodesQueue *controller.Queue
	// Webhooks are all admission webhooks.
	Webhooks []admission.Handler
}

// hub carries what the fleet reports to the controllers' queues.
type hub struct{ nodes, rules controller.Queue }

// RuleChanged implements fleet.Listener.
func (h *hub) RuleChanged(name string) { h.rules.Add(name) }

// Enqueue implements fleet.Listener.
func (h *hub) Enqueue(nodes []string) { h.nodes.Add(nodes...) }

// New wires a replica. Nothing of it acts until its controllers are run.
func New(ctx context.Context, env *Environment, o *Options) (*Replica, error) {
	rules := watch.NewRules(env.Clock)
	if err := rules.SetupWithCache(ctx, env.Cache); err != nil {
		return nil, fmt.Errorf("%w (is the CustomResourceDefinition %s installed? see config/crd)", err, crd.Name)
	}
	// Nodes are cached on every replica, so that the next leader need not read them first.
	nodes, err := env.Cache.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	r := &Replica{Rules: rules}
	if r.CRDSeen, err = watch.FollowCRD(ctx, env.Cache, env.Live, rules, env.After); err != nil {
		return nil, err
	}
	r.addControllers(env, o)
	r.addEvictionGuard(env, o, func() bool { return rules.HasSynced() && nodes.HasSynced() })
	cluster := &ruleadmission.Cluster{Nodes: env.Cache, Live: env.Live, Namespace: o.Namespace}
	r.Webhooks = append(r.Webhooks,
		&ruleadmission.Webhook{Rules: rules.Set, Facts: cluster.Facts, Clock: env.Clock},
		&binding.Webhook{Rules: rules.Set, Nodes: env.Cache, Pods: env.Live},
		&nodeadmission.Webhook{Rules: rules.Set, Acting: env.Admission, Clock: env.Clock},
	)
	return r, nil
}

func (r *Replica) addControllers(env *Environment, o *Options) {
	h := &hub{}
	r.StatusQueue, r.nodesQueue = &h.rules, &h.nodes
	r.Fleet = fleet.New(h)
	r.Monitor = &webhook.Monitor{Live: env.Live, Rules: r.Rules.Set, Changed: h.RuleChanged, Clock: env.Clock}
	if o.Webhooks != nil {
		r.Monitor.Configuration, r.Monitor.Users = o.Webhooks.Name, o.Webhooks.GuardUsers
	}
	r.Escapes = node.NewEscapes(env.Live, func() bool { return env.Admission() != nodeadmission.EngineNone })
	r.Nodes = &node.Reconciler{
		Client: env.Client, Live: env.Live, Fleet: r.Fleet, Recorder: env.Recorder, Clock: env.Clock,
		PolicyClaim: nodeadmission.CountPolicyTaint, Escapes: r.Escapes, UnguardedRecords: o.UnguardedRecords,
		StateMetrics: o.NodeStateMetrics, StartupObjective: o.StartupObjective,
		TransientTaintPrefixes: o.TransientTaintPrefixes,
	}
	r.NodeRules = &controller.RulesSource{Rules: r.Rules, Queue: &h.nodes, Nodes: env.Cache.WaitForCacheSync,
		SetRules: r.Nodes.SetRules, Go: func(f func()) { env.After(0, f) }}
	r.Nodes.Evidence = evidence.New(env.Informers, r.NodeRules)
	r.Status = &rule.Reconciler{
		Client: env.Client, Fleet: r.Fleet, Recorder: env.Recorder, Clock: env.Clock, GuardProblem: r.Monitor.Problem,
		StateMetrics: o.NodeStateMetrics,
		Forget: func(rule string) {
			node.ForgetRule(rule)
			webhook.ForgetRule(rule)
			eviction.ForgetRule(rule)
		},
	}
}

// addEvictionGuard adds what denies evictions, and what finishes those of guards that have ended.
func (r *Replica) addEvictionGuard(env *Environment, o *Options, synced func() bool) {
	if o.Webhooks == nil {
		return
	}
	r.Evictions = &eviction.Reconciler{
		Nodes: env.Cache, Live: env.Direct, Rules: r.Rules.Set, Namespace: o.Namespace,
		Bypassed: r.Monitor.Bypassed, Recorder: env.Recorder, Clock: env.Clock,
		Finished: func(node string) { r.nodesQueue.Add(node) },
	}
	r.Nodes.Evicted = r.Evictions.Evicted
	r.Webhooks = append(r.Webhooks, &webhook.Handler{
		Nodes: env.Cache, Rules: r.Rules.Set, Synced: synced, Users: o.Webhooks.GuardUsers, Namespace: o.Namespace,
		Recorder: env.Recorder, Clock: env.Clock,
	})
}
