// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/serverclock"
)

const (
	// lookForIncumbents is how often the leases are read. An incumbent renews its own every two seconds.
	lookForIncumbents = 10 * time.Second
	// renewedWithin is how long after its last renewal a lease counts. It is twice the lease's duration of 15 seconds.
	renewedWithin = 30 * time.Second
	// leftBehind is how old a lease is at the first look if no controller runs. After an outage of the API server, one
	// that runs may not have renewed it yet.
	leftBehind = 2 * time.Minute
)

// Incumbents freezes the rules while another controller acts on them, because two controllers would undo each other's
// taints. The proof of another controller is a lease that it renews. A lease that a removed controller left proves
// nothing.
type Incumbents struct {
	Live  client.Reader
	Rules *Rules
	Clock clock.PassiveClock
	// Tell is called when another controller is found.
	Tell func(context.Context, *ruleset.Problem)

	leases map[types.NamespacedName]sighting
}

// sighting is the last renewal of a lease, when this process saw it, and whether it proves that a controller runs.
type sighting struct {
	renewed metav1.MicroTime
	at      time.Time
	counts  bool
}

// Start implements manager.Runnable: it looks every ten seconds.
func (i *Incumbents) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := i.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot check whether another controller acts on the rules")
		}
	}, lookForIncumbents)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica answers readiness probes and webhooks.
func (*Incumbents) NeedLeaderElection() bool { return false }

// Look reads the leases once, and freezes or unfreezes the rules. If it fails, it changes nothing.
func (i *Incumbents) Look(ctx context.Context) error {
	list := &coordinationv1.LeaseList{}
	// Version 0: from the API server's cache, which has the leases of all nodes.
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	named := client.MatchingFields{"metadata.name": ruleset.IncumbentLease}
	if err := i.Live.List(ctx, list, named, cached); err != nil {
		return fmt.Errorf("listing leases named %s: %w", ruleset.IncumbentLease, err)
	}
	now, found := i.Clock.Now(), (*ruleset.Problem)(nil)
	leases := map[types.NamespacedName]sighting{}
	for n := range list.Items {
		l := &list.Items[n]
		if l.Namespace == corev1.NamespaceNodeLease { // a kubelet may write the lease that is named after its node
			continue
		}
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil {
			continue // released
		}
		key := client.ObjectKeyFromObject(l)
		s, seen := i.leases[key]
		switch {
		case !seen:
			s = sighting{renewed: *l.Spec.RenewTime, at: now, counts: now.Sub(serverclock.Renewed(l)) < leftBehind}
		case !s.renewed.Equal(l.Spec.RenewTime):
			s = sighting{renewed: *l.Spec.RenewTime, at: now, counts: true}
		}
		if s.at.After(now) { // the API server's clock was set back
			s.at = now
		}
		s.counts = s.counts && now.Sub(s.at) < renewedWithin
		leases[key] = s
		if s.counts && found == nil {
			found = ruleset.OtherController(l.Namespace, *l.Spec.HolderIdentity)
		}
	}
	i.leases = leases
	if i.Rules.giveWay(found) && found != nil {
		log.FromContext(ctx).Error(errors.New(found.Message), "Frozen")
		i.Tell(ctx, found)
	}
	return nil
}
