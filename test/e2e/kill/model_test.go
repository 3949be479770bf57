// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/cluster"
)

// Everything of the rules has this prefix: what is tainted with one of these keys, NoSchedule or NoExecute, belongs
// to a rule. All other taints are foreign.
const ours = "kill.example.com/"

const (
	// poolLabel is what most rules select by; nodes come into pools and leave them.
	poolLabel = ours + "pool"
	// steadyLabel is on the nodes that the limited rules select, for as long as they exist. No other client adds a limited
	// rule's taint on them, holds them by an override or ends a cordon: all of these make claims that no limit applies to.
	steadyLabel = ours + "steady"

	slots = 20
	// leastForeign and mostForeign are how many foreign taints a node has.
	leastForeign, mostForeign = 20, 24
)

// model is a control plane, and what the test knows about the nodes and rules that are there.
type model struct {
	*cluster.Cluster
	slots      []*slot
	rules      *rulebook
	leadership leadership

	mu      sync.Mutex
	faults  []string
	journal []string
	serial  int
}

// slot is a node's name, and what the test knows of the node that has it now.
type slot struct {
	name   string
	steady bool

	// mu is held while the node's taints are written or the node is replaced.
	mu sync.Mutex
	// there is whether there is a node.
	there bool
	// foreign are the foreign taints, as they were written last.
	foreign []corev1.Taint

	// The rest is the node actor's.

	// reported are the statuses of its conditions.
	reported map[string]string
	boots    int
}

// newModel starts a control plane with the CustomResourceDefinition and without nodes.
func newModel(t *testing.T) *model {
	t.Helper()
	w := &model{Cluster: cluster.ForTest(t, cluster.Options{CRD: true, Log: t.Output()}), rules: newRulebook()}
	for i := range slots {
		w.slots = append(w.slots, &slot{name: fmt.Sprintf("n-%02d", i), steady: i%2 == 0})
	}
	return w
}

// fault keeps what went wrong somewhere in the background; the round fails by it.
func (w *model) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const enough = 20
	if len(w.faults) < enough {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
	w.write("FAULT "+format, args...)
}

// note writes down what was done, for the story of a round that fails.
func (w *model) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(format, args...)
}

func (w *model) write(format string, args ...any) {
	w.journal = append(w.journal, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *model) newPage() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = nil
}

// story is what was done lately, and what went wrong.
func (w *model) story() (story string, faults []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const lines = 400
	return strings.Join(w.journal[max(0, len(w.journal)-lines):], "\n"), w.faults
}

// next is a number that was not given before.
func (w *model) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return w.serial
}

// actor does one random thing after another.
type actor interface {
	act(ctx context.Context, rng *rand.Rand)
}

// disturb has the actors act, each with a source of its own, until time is up or something has gone wrong.
func (w *model) disturb(ctx context.Context, rng *rand.Rand, limit time.Duration, actors ...actor) {
	deadline := time.Now().Add(limit)
	var all sync.WaitGroup
	for _, a := range actors {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		all.Go(func() {
			for time.Now().Before(deadline) && ctx.Err() == nil {
				a.act(ctx, own)
			}
		})
	}
	all.Wait()
}

func oneOf[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// chance is true in so many percent of cases.
func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func pause(rng *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(rng.Int64N(int64(most-least))))
}
