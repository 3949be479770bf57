// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

const (
	// gather is for how long changes are collected before nodes are decided again.
	gather = 100 * time.Millisecond
	// lookEvery is how often the operator is looked at, and time passes for nodes on which nothing else changes.
	lookEvery = 10 * time.Second
)

// Options are what a Live is made from.
type Options struct {
	Cluster *input.Cluster
	// Identity is shown on each page.
	Identity Identity
	// Frozen returns why the operator changes nothing for any rule, or nil.
	Frozen func(context.Context) *ruleset.Problem
	// Problems returns what is wrong with the installation, in sentences, and what of it cannot be read.
	Problems func(context.Context) (problems, unread []string)
	// FirstPod returns when the first pod started on a node that is not part of it.
	FirstPod func(ctx context.Context, node string) (*time.Time, error)
	// Command returns the command line that explains a node in the terminal.
	Command func(node string) string
	Now     func() time.Time
}

// Identity says what is read, and as whom.
type Identity struct {
	Cluster string `json:"cluster"`
	Context string `json:"context"`
	User    string `json:"user"`
	Version string `json:"version"`
}

// Live knows the cluster as it is now. Run keeps it up to date:
//
//	watches ──► dirty nodes, or all if a rule changes ──► decide ──► rows with versions ──► readers
type Live struct {
	Options
	connection *connection
	evidence   *sources.Sources
	wake       chan struct{}

	mu       sync.Mutex
	nodes    map[string]*corev1.Node
	rules    map[string]*v1alpha1.NodeReadinessRule
	prefixes []string // of transient taints
	set      *ruleset.Set
	frozen   *ruleset.Problem
	operator *report.Operator
	managers []string
	problems []string
	unread   []string // of the installation

	compile bool            // the rules are compiled again
	dirty   map[string]bool // nodes that are decided again
	fleet   bool            // what concerns no single node has changed

	rows    map[string]*row
	version uint64        // grows with each change
	changed chan struct{} // closed at the next change
	loaded  bool          // the first list of nodes was read
	ruled   bool          // the first list of rules was read
	labels  []string      // by which nodes can be grouped
	relabel bool          // labels of nodes have changed
	limits  map[string]*Limit
	counted map[string]*limit.Limit // the uses of the limits of rules, by their names, as far as they were asked
	view    *Fleet                  // what concerns no single node
	viewed  uint64                  // the version of its last change
}

// row is a node as it was decided last.
type row struct {
	*Node
	labels  map[string]string
	version uint64    // of the last change of the row
	touched uint64    // of the last decision
	again   time.Time // when to decide again if nothing else changes
	gone    bool
}

// NewLive returns a Live that knows nothing yet.
func NewLive(o Options) *Live {
	l := &Live{Options: o, wake: make(chan struct{}, 1), nodes: map[string]*corev1.Node{},
		rules: map[string]*v1alpha1.NodeReadinessRule{}, prefixes: evidence.DefaultTransientTaintPrefixes,
		set: ruleset.NewSet(), dirty: map[string]bool{}, rows: map[string]*row{}, changed: make(chan struct{}),
		compile: true}
	l.connection = newConnection(l.fleetChanged)
	l.evidence = sources.New(sources.ClientInformers{Clients: o.Cluster.Clients,
		Wrap: func(lw *cache.ListWatch) *cache.ListWatch { return l.connection.wrap(evidenceName, lw) }}, listener{l})
	return l
}

// listener marks nodes whose evidence has changed.
type listener struct{ *Live }

// NodesChanged implements sources.Listener.
func (l listener) NodesChanged(nodes ...string) {
	l.change(func() {
		for _, n := range nodes {
			l.dirty[n] = true
		}
	})
}

// AvailabilityChanged implements sources.Listener.
func (l listener) AvailabilityChanged() { l.change(func() { l.compile = true }) }

func (l *Live) fleetChanged() { l.change(func() { l.fleet = true }) }

// change changes what is known, and wakes Run.
func (l *Live) change(f func()) {
	l.mu.Lock()
	f()
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// Run reads the cluster until the context ends.
func (l *Live) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		l.connection.follow(ctx, l.Cluster, "rules", &v1alpha1.NodeReadinessRule{},
			func() client.ObjectList { return &v1alpha1.NodeReadinessRuleList{} }, l.ruleStore())
	})
	running.Go(func() {
		l.connection.follow(ctx, l.Cluster, "nodes", &corev1.Node{},
			func() client.ObjectList { return &corev1.NodeList{} }, l.nodeStore())
	})
	running.Go(func() { l.look(ctx) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			select {
			case <-ctx.Done():
				return
			case <-time.After(gather):
			}
		case <-tick.C:
			l.passed()
		}
		l.update(ctx)
	}
}

func (l *Live) nodeStore() *store {
	return &store{strip: stripNode,
		put: func(o client.Object) {
			if node, ok := o.(*corev1.Node); ok {
				l.change(func() { l.nodes[node.Name], l.dirty[node.Name] = node, true })
			}
		},
		remove: func(name string) { l.change(func() { delete(l.nodes, name); l.dirty[name] = true }) },
		all: func(names []string) {
			there := setOf(names)
			l.change(func() {
				for name := range l.nodes {
					if !there[name] {
						delete(l.nodes, name)
						l.dirty[name] = true
					}
				}
				l.loaded, l.fleet = true, true
			})
		}}
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func (l *Live) ruleStore() *store {
	return &store{strip: stripRule,
		put: func(o client.Object) {
			if rule, ok := o.(*v1alpha1.NodeReadinessRule); ok {
				l.change(func() {
					before := l.rules[rule.Name]
					l.rules[rule.Name], l.fleet = rule, true
					l.compile = l.compile || before == nil || decides(before) != decides(rule) ||
						!equality.Semantic.DeepEqual(before.Status.Conditions, rule.Status.Conditions) ||
						!equality.Semantic.DeepEqual(before.Status.Limit, rule.Status.Limit) ||
						!equality.Semantic.DeepEqual(before.Status.FailedNodes, rule.Status.FailedNodes)
				})
			}
		},
		remove: func(name string) { l.change(func() { delete(l.rules, name); l.compile, l.fleet = true, true }) },
		all: func(names []string) {
			there := setOf(names)
			l.change(func() {
				maps.DeleteFunc(l.rules, func(name string, _ *v1alpha1.NodeReadinessRule) bool { return !there[name] })
				l.compile, l.fleet, l.ruled = true, true, true
			})
		}}
}

// decides identifies what a rule is, without its status.
func decides(r *v1alpha1.NodeReadinessRule) string {
	return fmt.Sprint(r.UID, r.Generation, r.DeletionTimestamp)
}

// look looks at the operator every ten seconds.
func (l *Live) look(ctx context.Context) {
	for {
		frozen, operator := l.Frozen(ctx), l.Cluster.Operator(ctx)
		managers, prefixes := l.Cluster.CRDManagers(ctx), l.Cluster.TransientTaintPrefixes(ctx)
		problems, unread := l.Problems(ctx)
		l.change(func() {
			if (frozen == nil) != (l.frozen == nil) || !slices.Equal(prefixes, l.prefixes) {
				l.compile = true
			}
			l.frozen, l.operator, l.managers, l.problems, l.unread = frozen, operator, managers, problems, unread
			l.prefixes, l.fleet = prefixes, true
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// passed marks the nodes for which time has passed.
func (l *Live) passed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	for name, r := range l.rows {
		if !r.again.IsZero() && !now.Before(r.again) {
			l.dirty[name] = true
		}
	}
}

// update decides again what has changed, and wakes the readers.
func (l *Live) update(ctx context.Context) {
	l.mu.Lock()
	now := l.Now()
	all := l.compile
	l.compile = false
	if all {
		l.set = l.compiled(ctx, now)
		for name := range l.nodes {
			l.dirty[name] = true
		}
	}
	dirty, fleet := l.dirty, l.fleet || all
	l.dirty, l.fleet = map[string]bool{}, false
	if len(dirty) == 0 && !fleet {
		l.mu.Unlock()
		return
	}
	l.version++
	failed := l.failedNodes()
	l.counted = map[string]*limit.Limit{}
	for name := range dirty {
		l.decide(name, failed[name], now)
	}
	if l.relabel {
		l.labels, l.relabel = l.labelsNow(), false
	}
	l.limits = l.limitsNow(now)
	if view := l.fleetView(now); !sameFleet(l.view, view) {
		l.view, l.viewed = view, l.version
	}
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
}

// compiled compiles the rules, and starts the watches of their evidence.
func (l *Live) compiled(ctx context.Context, now time.Time) *ruleset.Set {
	set := input.Compile(l.stored(), now)
	if l.frozen != nil {
		var all []*ruleset.Rule
		for _, rule := range set.All() {
			all = append(all, rule.Freeze(*l.frozen))
		}
		set = ruleset.NewSet(all...)
	}
	l.evidence.SetRules(ctx, set)
	l.evidence.StopUnused(set)
	return set.Resolve(ruleset.Known{Cluster: evidence.Cluster{DaemonSets: l.evidence.DaemonSets,
		TransientTaintPrefixes: l.prefixes}}, ruleset.NewSet())
}

// stored returns the rules in the order of their names.
func (l *Live) stored() []v1alpha1.NodeReadinessRule {
	out := make([]v1alpha1.NodeReadinessRule, 0, len(l.rules))
	for _, name := range slices.Sorted(maps.Keys(l.rules)) {
		out = append(out, *l.rules[name])
	}
	return out
}

// failedNodes returns the reasons of failures, by node, by rule.
func (l *Live) failedNodes() map[string]map[string]string {
	out := map[string]map[string]string{}
	for name, rule := range l.rules {
		for _, f := range rule.Status.FailedNodes {
			if out[f.NodeName] == nil {
				out[f.NodeName] = map[string]string{}
			}
			out[f.NodeName][name] = f.Reason
		}
	}
	return out
}

// decide decides about one node.
func (l *Live) decide(name string, failed map[string]string, now time.Time) {
	node, before := l.nodes[name], l.rows[name]
	if node == nil {
		l.evidence.Forget(name)
		l.relabel = true
		if before != nil && !before.gone {
			l.rows[name] = &row{Node: &Node{Name: name}, version: l.version, touched: l.version, gone: true}
		}
		return
	}
	known := l.evidence
	d := explain.Decide(node, l.set, known, now, func(rule *ruleset.Rule, ask limit.Request) string {
		return l.reserve(rule, ask, now)
	}, nil)
	after := &row{Node: nodeOf(node, d, known, failed, now), labels: node.Labels, version: l.version, touched: l.version,
		again: d.RecheckAt}
	if !after.again.IsZero() && !after.again.After(now) {
		after.again = now.Add(time.Second) // the operator is about to act
	}
	if before != nil && !before.gone && before.Node.same(after.Node) && maps.Equal(before.labels, after.labels) {
		after.version = before.version
	}
	if before == nil || !maps.Equal(before.labels, after.labels) {
		l.relabel = true
	}
	l.rows[name] = after
}

// reserve tells whether a rule's limits allow one more node to be tainted.
func (l *Live) reserve(rule *ruleset.Rule, ask limit.Request, now time.Time) (why string) {
	if why = l.uses(rule, now).Why(ask.Use, ask.Domains); why != "" {
		return why
	}
	if stored := l.rules[rule.Name]; stored != nil && !ask.Held {
		return rule.Limit.Reached(stored.Status.Rate, now)
	}
	return ""
}
