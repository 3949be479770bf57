// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Setup makes Rules wait until the other controller's rules have been read, and read them again before a change of a
// rule counts.
func (f *Foreign) Setup() {
	exportOthersRead()
	f.asks, f.ended = make(chan chan struct{}), make(chan struct{})
	f.Rules.AwaitForeign(f.lookAgain)
}

// lookAgain waits for a look that begins now. If that fails, or takes too long, the last rules that were read count.
func (f *Foreign) lookAgain() {
	if f.Failing() {
		return
	}
	done, timer := make(chan struct{}), time.NewTimer(lookTimeout)
	defer timer.Stop()
	select {
	case f.asks <- done:
	case <-f.ended:
		return
	case <-timer.C:
		return
	}
	select {
	case <-done:
	case <-f.ended:
	case <-timer.C:
	}
}

// Start implements manager.Runnable.
func (f *Foreign) Start(ctx context.Context) error {
	defer close(f.ended)
	for {
		began, pause := time.Now(), lookForForeign
		found, err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot read the rules of another controller", "group", v1alpha1.GroupNames()[0])
		}
		if found && err == nil { // the API server ends each watch after some minutes
			pause = interval - time.Since(began)
		}
		if len(f.waiting) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		case done := <-f.asks:
			f.waiting = append(f.waiting, done)
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves webhooks by the rules.
func (*Foreign) NeedLeaderElection() bool { return false }

// follow reads the other controller's rules, if it has any, and follows their changes until the watch ends or another
// look is requested.
func (f *Foreign) follow(ctx context.Context) (found bool, err error) {
	resource, version, err := f.Look(ctx, len(f.waiting) > 0)
	for _, done := range f.waiting {
		close(done)
	}
	f.waiting = nil
	if err != nil || resource == nil {
		return false, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	starting := time.AfterFunc(lookTimeout, stop)
	stream, err := f.Metadata.Resource(*resource).Watch(watching, metav1.ListOptions{ResourceVersion: version})
	starting.Stop()
	readOthers(err)
	if err != nil {
		return false, fmt.Errorf("watching rules: %w", err)
	}
	defer stream.Stop()
	for {
		select {
		case done := <-f.asks:
			f.waiting = append(f.waiting, done)
			return true, nil
		case event, open := <-stream.ResultChan():
			if !open {
				return true, nil
			}
			if err := f.Apply(ctx, *resource, event); err != nil {
				return true, err
			}
		}
	}
}
