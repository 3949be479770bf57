// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reasons and the action of events on pods, nodes and rules.
const (
	reasonEvictionDenied    = "EvictionDenied"
	reasonEvictionRehearsed = "EvictionWouldBeDenied"

	actionDenyEviction = "DenyEviction"
)

var (
	denials = fleet.NewCounterByRule("node_readiness_guard_denials_total",
		"Deletions of pods that this replica has denied, by rule. The node controller tries each five times.")
	guardedPods = fleet.NewCounterByRule("node_readiness_guarded_pods_total",
		"Pods whose deletion this replica has denied, by rule. Each pod counts once while a guard is active.")
	rehearsals = fleet.NewCounterByRule("node_readiness_guard_rehearsals_total",
		"Deletions of pods that a rule in dry-run would have denied, by rule.")
)

const (
	// remembered is how many reports are remembered: the pods of a hundred nodes.
	remembered = 16384
	// waiting is how many denials wait for a report.
	waiting = 1000
	// maxNames is the greatest length of the names of a pod that is looked up.
	maxNames = 1024
	// lookUpsPerSecond and lookUpsBurst limit the requests to the API server.
	lookUpsPerSecond, lookUpsBurst = 20, 100
	// lookUpTimeout is how long one of them may take.
	lookUpTimeout = 5 * time.Second
	// ruleEventEvery is the least time between two events about a rule, for any number of nodes.
	ruleEventEvery = 10 * time.Minute
)

// Reporter logs denials and emits events about them. Every client that reaches the webhooks' port can send reviews, so
// the Reporter first looks for the pod on the node, and does that for only some pods in a second. It does not report a
// pod that it cannot look up in time: the node controller tries each pod five times.
type Reporter struct {
	pods     client.Reader // past the cache: the operator does not watch all pods
	recorder events.EventRecorder
	clock    clock.PassiveClock
	queue    chan denial
	seen     *lru.Cache // of report
}

// NewReporter returns a reporter. live reads past the cache.
func NewReporter(live client.Reader, recorder events.EventRecorder, clock clock.PassiveClock) *Reporter {
	return &Reporter{pods: live, recorder: recorder, clock: clock, queue: make(chan denial, waiting),
		seen: lru.New(remembered)}
}

// denial is a deletion that a rule denies, or would deny if it were not in dry-run.
type denial struct {
	user    string
	pod     *corev1.Pod // only its names, UID and node
	node    *corev1.Node
	rule    *ruleset.Rule
	message string
	// since is when the node was lost or, for a deletion that began before, ready again. It is zero in a rehearsal.
	since time.Time
	until time.Time // zero if the guard has ended
}

// report is what is reported once. A node has many pods, and the node controller tries each pod five times: they must
// not cause as many events.
type report struct {
	about any // a UID
	rule  string
	since time.Time
}

func (d *denial) report(about types.UID) report { return report{about, d.rule.Name, d.since} }

// first reports whether this was not reported before, and records it.
func (r *Reporter) first(what report) bool {
	if _, ok := r.seen.Get(what); ok {
		return false
	}
	r.seen.Add(what, true)
	return true
}

// add lets Run report a denial. It does not block.
func (r *Reporter) add(d denial) {
	full := d.pod
	if _, ok := r.seen.Get(d.report(full.UID)); ok ||
		len(full.Name)+len(full.Namespace)+len(full.UID)+len(full.Spec.NodeName) > maxNames {
		return
	}
	d.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: full.Name, Namespace: full.Namespace, UID: full.UID},
		Spec:       corev1.PodSpec{NodeName: full.Spec.NodeName},
	}
	select {
	case r.queue <- d:
	default:
	}
}

// Run reports denials until the context ends.
func (r *Reporter) Run(ctx context.Context) error {
	limit := rate.NewLimiter(lookUpsPerSecond, lookUpsBurst)
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-r.queue:
			if _, ok := r.seen.Get(d.report(d.pod.UID)); ok {
				continue
			}
			if limit.Wait(ctx) == nil && r.exists(ctx, d.pod) && r.first(d.report(d.pod.UID)) {
				r.announce(ctx, &d)
			}
		}
	}
}

// exists reports whether the API server has this pod on this node. It needs the permission to list pods, not to get
// them.
func (r *Reporter) exists(ctx context.Context, pod *corev1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found := &corev1.PodList{}
	err := r.pods.List(ctx, found, client.InNamespace(pod.Namespace),
		client.MatchingFields{"metadata.name": pod.Name, "spec.nodeName": pod.Spec.NodeName})
	return err == nil && len(found.Items) == 1 && found.Items[0].UID == pod.UID
}

// announce logs a denial and emits events about it: one on the pod and one on the node for each active guard, and from
// time to time one on the rule, for all its nodes.
func (r *Reporter) announce(ctx context.Context, d *denial) {
	rule := d.rule.Reference()
	if d.since.IsZero() {
		r.event(d.pod, rule, reasonEvictionRehearsed, "Rule %s is in dry-run; if enforced, it would have denied "+
			"the eviction of this pod from node %s", d.rule.Name, d.node.Name)
		if r.first(d.report(d.node.UID)) {
			r.event(rule, d.node, reasonEvictionRehearsed, "If enforced, the rule would have denied evictions from node %s",
				d.node.Name)
		}
		return
	}
	log.FromContext(ctx).Info("Denied the eviction of a pod", "user", d.user, "pod", d.pod.Namespace+"/"+d.pod.Name,
		"node", d.node.Name, "rule", d.rule.Name, "until", d.until, "outdated", d.until.IsZero())
	guardedPods.WithLabelValues(d.rule.Name).Inc()
	r.event(d.pod, rule, reasonEvictionDenied, "%s", d.message)
	if r.first(d.report(d.node.UID)) {
		r.event(d.node, rule, reasonEvictionDenied, "Rule %s guards the pods of this node against eviction, "+
			"first pod %s/%s", d.rule.Name, d.pod.Namespace, d.pod.Name)
	}
	if r.first(report{d.rule.UID, d.rule.Name, r.clock.Now().Truncate(ruleEventEvery)}) {
		r.event(rule, d.node, reasonEvictionDenied, "Pods of node %s, and possibly of others, are guarded "+
			"against eviction", d.node.Name)
	}
}

func (r *Reporter) event(regarding, related runtime.Object, reason, format string, args ...any) {
	r.recorder.Eventf(regarding, related, corev1.EventTypeWarning, reason, actionDenyEviction, format, args...)
}
