// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/admission"
	nodeadmission "github.com/nodegate/nodegate/internal/admission/node"
	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/controller/admissionrules"
	"github.com/nodegate/nodegate/internal/controller/agentconfig"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/controller/rule"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard/endpoints"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/leader"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/watch"
)

// Options are the settings of a replica.
type Options struct {
	// Namespace is the operator's own namespace.
	Namespace string
	// Lease is what the leader holds. nil means that there is no election.
	Lease *leader.Lease
	// Clock tells the time by the API server's clock.
	Clock clock.PassiveClock
	// NodeStateMetrics turns on the metrics of --enable-node-state-metrics.
	NodeStateMetrics bool
	// StartupObjective is the time within which a node should be released for the first time. 0 means no objective.
	StartupObjective time.Duration
	// TransientTaintPrefixes are the prefixes of taints that are removed while a node starts. They do not decide which
	// DaemonSets belong on the node.
	TransientTaintPrefixes []string
	// RuleKeyPrefixes are the prefixes of the keys that rules may have for taints and annotations. If empty, all are
	// allowed.
	RuleKeyPrefixes []string
	// NodeWorkers and RuleWorkers are the numbers of nodes and rules that are reconciled at the same time.
	NodeWorkers, RuleWorkers int
	// NodeAdmission is the engine that taints nodes at admission. NodePolicy is the name of the admission policy.
	NodeAdmission nodeadmission.Mode
	NodePolicy    string
	// Webhooks are the settings of the admission webhooks. nil means that no webhook is served.
	Webhooks *WebhookOptions
	// UnprotectedRecords says that no admission policy protects the operator's records on nodes.
	UnprotectedRecords bool
	// AgentConfig is the ConfigMap with the node agents' configuration. nil means that the operator does not write it.
	// AgentAccount is the name of the agents' ServiceAccount in the same namespace.
	AgentConfig  *types.NamespacedName
	AgentAccount string
}

// Scheme returns a scheme with the kinds that the operator reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(admissionv1alpha1.AddToScheme(scheme))
	utilruntime.Must(endpointsv1alpha1.AddToScheme(scheme))
	return scheme
}

// CacheOptions returns the cache's options: nodes are cached without the fields that no rule reads, and of all CRDs
// only ours.
func CacheOptions(config *rest.Config) cache.Options {
	return cache.Options{
		NewInformer:      watch.LeanNodes(config),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                              {Transform: node.Strip, UnsafeDisableDeepCopy: new(true)},
			&v1alpha1.NodeReadinessRule{}:               {Transform: watch.LeanRules()},
			&apiextensionsv1.CustomResourceDefinition{}: {Field: fields.OneTermEqualSelector("metadata.name", crd.Name())},
		},
	}
}

// Run runs a replica until the context ends. The manager must use Scheme and CacheOptions.
func Run(ctx context.Context, mgr manager.Manager, o *Options) error {
	recorder, err := newRecorder(mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return err
	}
	if err := mgr.Add(recorder); err != nil {
		return fmt.Errorf("adding the recorder of events: %w", err)
	}
	clients, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a client for evidence: %w", err)
	}
	live, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("creating a client without a cache: %w", err)
	}
	engine, err := addNodeAdmission(ctx, mgr, o)
	if err != nil {
		return err
	}
	env := &Environment{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: live,
		Informers: sources.ClientInformers{Clients: clients}, Recorder: recorder, Clock: o.Clock,
		After: func(d time.Duration, f func()) { time.AfterFunc(d, f) }, Admission: engine.Acting,
		AdmissionRules: &admissionrules.Writer{Client: live, Lease: o.Lease},
	}
	r, err := New(ctx, env, o)
	if err != nil {
		return err
	}
	r.Rules.Subscribe(ruleMetrics(env.After, r.Rules.Set))
	if err := r.addAdmissionRules(ctx, mgr, engine); err != nil {
		return err
	}
	if err := mgr.Add(&watch.Restored{Live: env.Live}); err != nil {
		return fmt.Errorf("adding the detection of a restored etcd: %w", err)
	}
	for _, add := range []func(context.Context, manager.Manager, *Options) error{
		r.addToManager, r.addAgentConfig, r.addChecks, r.addWebhooks, r.addIncumbents,
	} {
		if err := add(ctx, mgr, o); err != nil {
			return err
		}
	}
	if err := start(ctx, mgr); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// addAdmissionRules adds the watch of the rules for admission, on every replica, and their writer, on the leader. The
// writer repairs an object that another client has changed.
func (r *Replica) addAdmissionRules(ctx context.Context, mgr manager.Manager, engine *nodeadmission.Engine) error {
	r.Admission.Changed = func(exists bool) {
		engine.SetRules(ctx, exists)
		r.env.AdmissionRules.Wake()
	}
	r.Admission.Served = func(served bool) { engine.SetCRD(ctx, served) }
	r.Status.AdmittedByStatus = engine.ByStatus
	if err := mgr.Add(admission.EveryReplica(func(ctx context.Context) error {
		return r.Admission.Run(ctx, mgr.GetConfig())
	})); err != nil {
		return fmt.Errorf("adding the watch of the rules for admission: %w", err)
	}
	if err := mgr.Add(r.env.AdmissionRules); err != nil {
		return fmt.Errorf("adding the writer of the rules for admission: %w", err)
	}
	return nil
}

// start runs the manager until the context ends. If the context ends before all caches have synced, start does not wait
// for the manager: until then it has no lease and has written nothing, but it would wait for its caches for ever, such
// as for one whose permission is missing.
func start(ctx context.Context, mgr manager.Manager) error {
	var synced atomic.Bool // the manager starts runnables when the caches are synced
	if err := mgr.Add(admission.EveryReplica(func(ctx context.Context) error {
		synced.Store(true)
		<-ctx.Done()
		return nil
	})); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if !synced.Load() {
		return nil
	}
	return <-ended
}

// metricsKept is how long the metrics of a deleted rule are kept: nodes may still be reconciled with the rule.
const metricsKept = time.Minute

// ruleMetrics returns a subscriber of the rules that creates the counters and histograms of new rules, and drops the
// metrics of deleted ones. Every replica does so: webhooks of every replica count by rule, and a new leader's series
// must be known to Prometheus before they increase.
func ruleMetrics(after watch.After, rules func() *ruleset.Set) func(*ruleset.Set) {
	before := ruleset.NewSet()
	return func(set *ruleset.Set) {
		for _, rule := range before.All() {
			if set.Named(rule.Name) != nil {
				continue
			}
			after(metricsKept, func() {
				if rules().Named(rule.Name) == nil {
					fleet.ForgetRule(rule.Name)
				}
			})
		}
		for _, rule := range set.All() {
			if before.Named(rule.Name) == nil {
				fleet.ExportRule(rule.Name)
			}
		}
		node.ExportEvidence(before, set)
		before = set
	}
}

// addToManager adds the controllers, which run while this replica leads.
func (r *Replica) addToManager(_ context.Context, mgr manager.Manager, o *Options) error {
	for _, c := range r.controllers(mgr.GetCache(), o) {
		if err := c.AddTo(mgr); err != nil {
			return err
		}
	}
	metrics.Registry.MustRegister(rule.Collector{Fleet: r.Fleet, NodeStates: o.NodeStateMetrics, Clock: o.Clock})
	if err := mgr.Add(r.Escapes); err != nil {
		return fmt.Errorf("adding the counter of escaped pods: %w", err)
	}
	if r.Evictions == nil {
		return nil
	}
	if err := mgr.Add(r.Monitor); err != nil {
		return fmt.Errorf("adding the monitor of the eviction guard's webhook: %w", err)
	}
	if err := mgr.Add(admission.EveryReplica(r.Denials.Run)); err != nil {
		return fmt.Errorf("adding the reporter of the eviction guard's denials: %w", err)
	}
	return nil
}

// controllers returns the controllers, each with its queue's sources.
func (r *Replica) controllers(c cache.Cache, o *Options) []controller.Controller {
	const first, last = 20 * time.Millisecond, 15 * time.Second
	out := []controller.Controller{
		{Name: "node", Object: "node", Reconciler: r.Nodes, Workers: o.NodeWorkers, RateLimiter: r.Nodes.RateLimiter(),
			Sources: []source.Source{r.NodeRules, controller.Changes(c, &corev1.Node{}, r.Nodes.Relevant())}},
		{Name: "nodereadinessrule", Object: "rule", Reconciler: r.Status, Workers: o.RuleWorkers,
			FirstRetry: first, LastRetry: last,
			Sources: []source.Source{r.StatusQueue, controller.Changes(c, &v1alpha1.NodeReadinessRule{})}},
	}
	if r.Evictions != nil {
		out = append(out, controller.Controller{Name: "eviction", Object: "node", Reconciler: r.Evictions,
			Workers: eviction.Workers, FirstRetry: 5 * first, LastRetry: last,
			Sources: []source.Source{controller.Changes(c, &corev1.Node{}, eviction.Relevant())}})
		out = append(out, controller.Controller{Name: "endpoints", Object: "pass", Reconciler: r.Endpoints, Workers: 1,
			FirstRetry: time.Second, LastRetry: 5 * time.Second,
			Sources: []source.Source{&r.EndpointsQueue, endpoints.Changes(c)}},
			controller.Controller{Name: "endpoint-pods", Object: "node", Reconciler: r.Endpoints.Pods(),
				Workers: endpoints.Workers, FirstRetry: 5 * first, LastRetry: last,
				Sources: []source.Source{&r.EndpointPodsQueue}})
	}
	return out
}

// addAgentConfig adds the controller that writes the node agents' configuration.
func (r *Replica) addAgentConfig(_ context.Context, mgr manager.Manager, o *Options) error {
	if o.AgentConfig == nil {
		ctrl.Log.Info("Not writing the node agents' configuration: --agent-config is empty, " +
			"or the operator runs outside a cluster and has no namespace")
		return nil
	}
	account := types.NamespacedName{Namespace: o.AgentConfig.Namespace, Name: o.AgentAccount}
	c := &agentconfig.Reconciler{Recorder: r.env.Recorder, Key: *o.AgentConfig, Account: account}
	return c.SetupWithManager(mgr, r.Rules)
}

const actionFreeze = "FreezeRules"

// addIncumbents adds the check that freezes all rules while another controller acts on them. The first check comes
// before any controller starts. In its own API group, Nodegate acts beside another controller, except on its taints.
func (r *Replica) addIncumbents(ctx context.Context, mgr manager.Manager, _ *Options) error {
	if v1alpha1.Served().Own() {
		return r.addForeign(mgr)
	}
	env := r.env
	tell := func(ctx context.Context, p *ruleset.Problem) {
		served := &apiextensionsv1.CustomResourceDefinition{}
		if err := env.Live.Get(ctx, client.ObjectKey{Name: crd.Name()}, served); err == nil {
			env.frozen(served, p)
		}
	}
	i := &watch.Incumbents{Live: env.Live, Rules: r.Rules, Clock: env.Clock, Tell: tell}
	if err := i.Look(ctx); err != nil {
		ctrl.Log.Error(err, "Cannot check whether another controller acts on the rules")
	}
	if err := mgr.Add(i); err != nil {
		return fmt.Errorf("adding the search for other controllers: %w", err)
	}
	return addReadyzChecks(mgr, map[string]healthz.Checker{"no-other-controller": passes(r.Rules.OtherController)})
}

// addForeign adds the watch of another controller's rules.
func (r *Replica) addForeign(mgr manager.Manager) error {
	dynamically, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a client for the rules of another controller: %w", err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a client for the API groups: %w", err)
	}
	data, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a client for the metadata of the rules of another controller: %w", err)
	}
	f := &watch.Foreign{Discovery: discovered.RESTClient(), Metadata: data, Client: dynamically, Rules: r.Rules}
	f.Setup()
	if err := mgr.Add(f); err != nil {
		return fmt.Errorf("adding the watch of another controller's rules: %w", err)
	}
	return nil
}

// frozen emits an event for the CRD that tells why the rules are frozen.
func (e *Environment) frozen(served *apiextensionsv1.CustomResourceDefinition, p *ruleset.Problem) {
	e.Recorder.Eventf(served, nil, corev1.EventTypeWarning, p.Reason, actionFreeze, "%s", p.Message)
}

// passes returns a check that fails while there is a problem. The body of /readyz only names the check that fails. The
// log has the error.
func passes(problem func() *ruleset.Problem) healthz.Checker {
	return func(*http.Request) error {
		if p := problem(); p != nil {
			return errors.New(p.String())
		}
		return nil
	}
}

// addChecks adds /healthz and /readyz. /readyz succeeds once all caches are synced and the served CRD is ours.
func (r *Replica) addChecks(_ context.Context, mgr manager.Manager, _ *Options) error {
	var synced atomic.Bool
	// The manager starts runnables when the caches are synced.
	if err := mgr.Add(admission.EveryReplica(func(ctx context.Context) error {
		if err := r.Rules.WaitForSync(ctx); err != nil {
			return err
		}
		synced.Store(true)
		<-ctx.Done()
		return nil
	})); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	ready := func(*http.Request) error {
		if !synced.Load() || !r.CRDSeen() {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	return addReadyzChecks(mgr, map[string]healthz.Checker{
		"caches-synced": ready, "served-crd-is-ours": passes(r.Rules.Frozen),
	})
}

func addReadyzChecks(mgr manager.Manager, checks map[string]healthz.Checker) error {
	for name, check := range checks {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check %s: %w", name, err)
		}
	}
	return nil
}
