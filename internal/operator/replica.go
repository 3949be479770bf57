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

	"github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/admission/binding"
	nodeadmission "github.com/nodegate/nodegate/internal/admission/node"
	ruleadmission "github.com/nodegate/nodegate/internal/admission/rule"
	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/controller/admissionrules"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/controller/rule"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/guard/endpoints"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/guard/webhook"
	"github.com/nodegate/nodegate/internal/replace/handover"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/watch"
)

// Environment is what a replica needs from outside: caches, clients, a clock.
type Environment struct {
	// Cache reads and watches nodes, rules and the CRD.
	Cache cache.Cache
	// Client writes, and reads from Cache. A read after a write waits until Cache has that write.
	Client client.Client
	// Live reads from and writes to the API server, without a cache, such as pods and NodeClaims, which are not watched.
	Live client.Client
	// Informers starts the watches of evidence.
	Informers sources.Informers
	// Recorder records events.
	Recorder events.EventRecorder
	// Clock tells the time by the API server's clock, which all replicas share.
	Clock clock.PassiveClock
	// After runs a function later, never before After has returned.
	After watch.After
	// Admission returns the engine that taints nodes at admission.
	Admission func() nodeadmission.Kind
	// AdmissionRules writes the rules for admission. It is nil if they are not written.
	AdmissionRules *admissionrules.Writer
}

// Replica is one replica of the operator. The leader runs Nodes, Status, Evictions and Monitor; every replica serves
// Webhooks.
type Replica struct {
	env *Environment
	// Rules are watched as soon as New has returned. CRDSeen reports whether the served CRD has been compared with
	// ours.
	Rules   *watch.Rules
	CRDSeen func() bool
	// Admission are the rules that taint nodes at admission.
	Admission *watch.Admission

	Fleet *fleet.Fleet
	// Nodes reconciles nodes. NodeRules enqueues nodes for it when rules or evidence change.
	Nodes     *node.Reconciler
	NodeRules *controller.RulesSource
	// Status reconciles rules. StatusQueue is its queue.
	Status      *rule.Reconciler
	StatusQueue *controller.Queue
	// Evictions evicts pods that were due while a guard denied it, once the guard has ended. It is nil without
	// webhooks, because no guard acts then.
	Evictions *eviction.Reconciler
	// Endpoints keeps pods ready in an outage. It is nil without webhooks, too.
	Endpoints *endpoints.Keeper
	// Denials reports denials of the guard's webhook. It is nil without webhooks, too.
	Denials *webhook.Reporter
	// Monitor checks whether the API server calls the guard's webhook.
	Monitor *webhook.Monitor
	Escapes *node.Escapes
	// nodesQueue is the queue of Nodes. EndpointsQueue and EndpointPodsQueue are those of Endpoints and its Pods.
	nodesQueue                        *controller.Queue
	EndpointsQueue, EndpointPodsQueue controller.Queue
	// Webhooks are all admission webhooks.
	Webhooks []admission.Handler
}

// hub enqueues the rules and nodes that the fleet reports.
type hub struct{ nodes, rules controller.Queue }

// RuleChanged implements fleet.Listener.
func (h *hub) RuleChanged(name string) { h.rules.Add(name) }

// Enqueue implements fleet.Listener.
func (h *hub) Enqueue(nodes []string) { h.nodes.Add(nodes...) }

// New wires a replica. It acts on nothing until its controllers run.
func New(ctx context.Context, env *Environment, o *Options) (*Replica, error) {
	rules := watch.NewRules(env.Clock)
	rules.KeyPrefixes = o.RuleKeyPrefixes
	if err := rules.SetupWithCache(ctx, env.Cache); err != nil {
		return nil, err
	}
	// Every replica caches nodes, so that a new leader can act at once.
	nodes, err := env.Cache.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	r := &Replica{env: env, Rules: rules, Admission: &watch.Admission{Rules: rules}}
	if r.CRDSeen, err = watch.FollowCRD(ctx, env.Cache, env.Live, rules, env.After, env.frozen); err != nil {
		return nil, err
	}
	r.addControllers(o)
	r.addEvictionGuard(o, func() bool { return rules.HasSynced() && nodes.HasSynced() })
	cluster := &ruleadmission.Cluster{Nodes: env.Cache, Live: env.Live, Namespace: o.Namespace, Access: env.Client,
		Serving: r.serving(o)}
	r.Status.Served = cluster.Running
	r.Webhooks = append(r.Webhooks,
		&ruleadmission.Webhook{Rules: rules.Set, Facts: cluster.Facts, KeyPrefixes: o.RuleKeyPrefixes,
			Clock: env.Clock},
		&binding.Webhook{Rules: rules.Reported, Nodes: env.Cache, Pods: env.Live},
		&nodeadmission.Webhook{Rules: r.Admission.Current, Acting: env.Admission, Clock: env.Clock},
	)
	return r, nil
}

// serving returns what this operator knows about what serves rules.
func (r *Replica) serving(o *Options) *ruleadmission.Serving {
	out := &ruleadmission.Serving{Engine: func() bool { return r.env.Admission() != nodeadmission.EngineNone }}
	if o.AgentConfig != nil {
		out.AgentNamespace = o.AgentConfig.Namespace
	}
	if o.Webhooks != nil {
		out.Configuration = o.Webhooks.Name
	}
	return out
}

func (r *Replica) addControllers(o *Options) {
	env, h := r.env, &hub{}
	r.StatusQueue, r.nodesQueue = &h.rules, &h.nodes
	r.Fleet = fleet.New(h, env.Clock.Now)
	r.Monitor = &webhook.Monitor{Live: env.Live, Rules: r.Rules.Set, Changed: h.RuleChanged, Clock: env.Clock}
	if o.Webhooks != nil {
		r.Monitor.Configuration, r.Monitor.Users = o.Webhooks.Name, o.Webhooks.GuardUsers
	}
	r.Escapes = node.NewEscapes(env.Live, func() bool { return env.Admission() != nodeadmission.EngineNone })
	r.Nodes = &node.Reconciler{
		Client: env.Client, Live: env.Live, Fleet: r.Fleet, Recorder: env.Recorder, Clock: env.Clock,
		PolicyClaim: nodeadmission.CountPolicyTaint, Escapes: r.Escapes, UnprotectedRecords: o.UnprotectedRecords,
		KeyPrefixes:  o.RuleKeyPrefixes,
		StateMetrics: o.NodeStateMetrics, StartupObjective: o.StartupObjective,
		TransientTaintPrefixes: o.TransientTaintPrefixes, Enqueue: h.nodes.Add,
	}
	r.Rules.Subscribe(r.Nodes.Observe)
	r.NodeRules = &controller.RulesSource{Rules: r.Rules, Queue: &h.nodes, Nodes: env.Cache.WaitForCacheSync,
		SetRules: r.Nodes.SetRules, Current: r.Fleet.Rules, After: env.After}
	r.Nodes.Evidence = sources.New(env.Informers, r.NodeRules)
	r.Status = &rule.Reconciler{
		Client: env.Client, Fleet: r.Fleet, Recorder: env.Recorder, Clock: env.Clock,
		Handover: &handover.Handover{Client: env.Client, Live: env.Live, Fleet: r.Fleet, Expired: r.Nodes.Expired,
			Recorder: env.Recorder, Clock: env.Clock},
		GuardProblem: r.Monitor.Problem, StateMetrics: o.NodeStateMetrics,
	}
	if w := env.AdmissionRules; w != nil {
		r.Nodes.Propose, r.Nodes.Settle = w.Propose, w.Settle
		r.Status.AdmissionProblem, w.Observe = w.Problem, r.Nodes.ObserveListed
		w.Changed = func(rules []string) { h.rules.Add(rules...) }
	}
}

// addEvictionGuard adds the webhook that denies evictions, and the controller that evicts after a guard has ended.
func (r *Replica) addEvictionGuard(o *Options, synced func() bool) {
	if o.Webhooks == nil {
		return
	}
	env := r.env
	r.Evictions = &eviction.Reconciler{
		Nodes: env.Cache, Live: env.Live, Rules: r.NodeRules.InForce, Namespace: o.Namespace,
		Bypassed: r.Monitor.Bypassed, Recorder: env.Recorder, Clock: env.Clock,
		Finished: func(node string) { r.nodesQueue.Add(node) },
	}
	r.Nodes.Evicted = r.Evictions.Evicted
	r.addEndpoints(o)
	r.Denials = webhook.NewReporter(env.Live, env.Recorder, env.Clock)
	r.Webhooks = append(r.Webhooks, &webhook.Handler{
		Nodes: env.Cache, Rules: r.Rules.Reported, Synced: synced, Users: o.Webhooks.GuardUsers, Namespace: o.Namespace,
		Reporter: r.Denials, Clock: env.Clock,
	})
}

// addEndpoints adds what keeps pods ready in an outage.
func (r *Replica) addEndpoints(o *Options) {
	env := r.env
	r.Endpoints = &endpoints.Keeper{Nodes: env.Cache, Live: env.Live, Lease: o.Lease, Rules: r.NodeRules.InForce,
		Policy: o.Webhooks.EndpointPolicy, Recorder: env.Recorder, Changed: r.StatusQueue.Add, Clock: env.Clock,
		Look: func() { r.EndpointsQueue.Add(endpoints.Pass) }, Mark: r.EndpointPodsQueue.Add}
	setRules := r.NodeRules.SetRules
	r.NodeRules.SetRules = func(ctx context.Context, set *ruleset.Set) ([]string, error) {
		defer r.Endpoints.Look()
		return setRules(ctx, set)
	}
	r.Status.GuardProblem = func(rule *ruleset.Rule) *guard.Problem {
		if problem := r.Monitor.Problem(rule); problem != nil {
			return problem
		}
		return r.Endpoints.Problem(rule)
	}
	r.Status.KeptEndpoints = r.Endpoints.Kept
}
