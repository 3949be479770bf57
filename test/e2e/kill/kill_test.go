// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// leaseName is the name of the operator's lease.
	leaseName = "nodegate.readiness.node.x-k8s.io"
	// converged bounds the wait until the operator is done; it usually takes a second or two.
	converged = 2 * time.Minute
	// provoked bounds the wait for a write that a trap is set for.
	provoked = time.Minute
)

// TestOperator is one test, so that its parts share the binary and run side by side.
func TestOperator(t *testing.T) {
	seed := uint64(setting(t, "NODEGATE_KILL_SEED", int(time.Now().UnixNano()%1_000_000)))
	binary := buildOperator(t)
	t.Run("is killed anywhere", func(t *testing.T) {
		t.Parallel()
		killAnywhere(t, binary, seed)
	})
	t.Run("is without an API server for a while", func(t *testing.T) {
		t.Parallel()
		outages(t, binary, seed)
	})
}

func setting(t *testing.T, name string, usually int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usually
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q and must be a number", name, text)
	}
	return n
}

// campaign is a series of rounds.
type campaign struct {
	*model
	seed  uint64
	round int
	// kills counts what replicas were killed at.
	kills map[string]int
}

func killAnywhere(t *testing.T, binary string, seed uint64) {
	c := &campaign{model: newModel(t), seed: seed, kills: map[string]int{}}
	replacements(t, c.model, binary)
	startMonitor(t, c.model)
	rounds, pairs := setting(t, "NODEGATE_KILL_ROUNDS", 42), setting(t, "NODEGATE_KILL_PAIR_ROUNDS", 10)
	began := time.Now()

	solo := startReplica(t, c.model, binary, "solo", false)
	kinds := []kind{nodePatch, event, status, finalizer}
	for i := range rounds {
		c.play(t, []*replica{solo}, kinds[i%len(kinds)], oneOfTwo(i/len(kinds)), false)
	}
	t.Logf("%d rounds with one replica took %s: %s", rounds, time.Since(began).Round(time.Second), solo.proxy.summary())
	c.covered(t, rounds, kinds)
	end(t, solo)

	began = time.Now()
	c.kills = map[string]int{}
	two := []*replica{startReplica(t, c.model, binary, "left", true), startReplica(t, c.model, binary, "right", true)}
	kinds = append(kinds, lease)
	for i := range pairs {
		c.play(t, two, kinds[i%len(kinds)], oneOfTwo(i/len(kinds)), i == pairs-1)
	}
	t.Logf("%d rounds with two replicas took %s: %s; %s", pairs, time.Since(began).Round(time.Second),
		two[0].proxy.summary(), two[1].proxy.summary())
	c.covered(t, pairs, kinds)
	end(t, two...)
}

func oneOfTwo(i int) moment {
	if i%2 == 0 {
		return before
	}
	return after
}

// covered tells at what replicas were killed, and fails where a series that is long enough has left something out.
func (c *campaign) covered(t *testing.T, rounds int, kinds []kind) {
	t.Helper()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.kills)) {
		all = append(all, fmt.Sprintf("%d %s", c.kills[what], what))
	}
	t.Logf("killed: %s", strings.Join(all, ", "))
	for _, k := range kinds {
		for _, m := range []moment{before, after} {
			if what := fmt.Sprintf("%s a write: %s", m, k); c.kills[what] == 0 && rounds >= 2*len(kinds) {
				t.Errorf("in %d rounds, no replica was killed %s", rounds, what)
			}
		}
	}
}

// end ends replicas in order.
func end(t *testing.T, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		if err := r.process.Stop(); err != nil {
			t.Error(err)
		}
		r.sound(t)
	}
}

// most is up to which write of a kind a trap waits.
var most = map[kind]int{nodePatch: 30, event: 30, status: 3, finalizer: 3, lease: 1}

// play plays one round: rules and nodes are disturbed, a replica is killed at a write of a kind, and perhaps again at
// another; and then all has to be as it is to be.
func (c *campaign) play(t *testing.T, replicas []*replica, k kind, m moment, expiry bool) {
	t.Helper()
	c.round++
	c.newPage()
	rng := rand.New(rand.NewPCG(c.seed, uint64(c.round)))
	nodes := &nodeActor{w: c.model, slots: 10 + rng.IntN(slots-9)}
	rules := &ruleActor{w: c.model}
	ctx := t.Context()

	fatal := trap{kind: k, moment: m, n: 1 + rng.IntN(most[k])}
	armed := time.AfterFunc(time.Duration(rng.Int64N(int64(400*time.Millisecond))), func() { c.set(replicas, &fatal) })
	defer armed.Stop()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		nodes.settle(ctx, rng)
		rules.start(ctx, rng)
		c.disturb(ctx, rng, 500*time.Millisecond+time.Duration(rng.Int64N(int64(500*time.Millisecond))),
			&foreignWriter{w: c.model}, nodes, rules)
		for waiting := time.Now(); time.Since(waiting) < provoked; { // goes on until the trap has sprung
			select {
			case <-stop:
				return
			default:
			}
			c.disturb(ctx, rng, 50*time.Millisecond, &foreignWriter{w: c.model}, nodes, rules)
		}
	}()
	own := rand.New(rand.NewPCG(c.seed, uint64(c.round)<<32)) // rng is the other goroutine's for now
	c.kill(t, own, replicas, done, expiry)
	close(stop)
	<-done
	if len(replicas) == 1 && chance(own, 20) {
		c.strike(t, replicas[0], own) // and once more, while it catches up
	}
	c.converge(t, replicas, converged)
}

// set sets the same trap for all replicas, since only the leader writes; with nil it takes it away.
func (c *campaign) set(replicas []*replica, tr *trap) {
	for _, r := range replicas {
		r.proxy.arm(tr)
	}
}

// kill waits for a trap to spring, or in the end kills a replica anyway, and brings the dead back to life.
func (c *campaign) kill(t *testing.T, rng *rand.Rand, replicas []*replica, done <-chan struct{}, expiry bool) {
	t.Helper()
	victim := replicas[0]
	other := replicas[len(replicas)-1]
	select {
	case sprung := <-victim.proxy.sprung:
		c.died(victim, fmt.Sprintf("%s a write: %s", sprung.moment, sprung.kind))
	case sprung := <-other.proxy.sprung:
		victim, other = other, victim
		c.died(victim, fmt.Sprintf("%s a write: %s", sprung.moment, sprung.kind))
	case <-done:
		if c.leadership.is() == other.name {
			victim, other = other, victim
		}
		victim.proxy.kill()
		c.died(victim, "at no write")
	}
	c.set(replicas, nil)
	<-victim.process.Exited() // the trap tells before it kills
	if victim == other {
		pause(rng, time.Millisecond, 300*time.Millisecond)
		victim.restart(t)
		return
	}
	if !expiry {
		c.expireLease(t)
	}
	if chance(rng, 50) || expiry { // else the first that comes leads
		cluster.Eventually(t, "replica "+other.name+" leads", func() error {
			if leader := c.leadership.is(); leader != other.name {
				return fmt.Errorf("replica %q leads", leader)
			}
			return nil
		})
	}
	victim.restart(t)
}

// strike kills a replica at any moment.
func (c *campaign) strike(t *testing.T, r *replica, rng *rand.Rand) {
	t.Helper()
	pause(rng, time.Millisecond, 800*time.Millisecond)
	r.proxy.kill()
	c.died(r, "at no write")
	r.restart(t)
}

func (c *campaign) died(r *replica, when string) {
	c.kills[when]++
	c.note("replica %s was killed %s", r.name, when)
}

// expireLease does what time does: the lease of a dead replica expires.
func (c *campaign) expireLease(t *testing.T) {
	t.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}}
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), l)); err != nil {
		t.Fatalf("deleting the lease: %v", err)
	}
}

// converge waits until the operator is done and has stopped writing, and fails where that is not what is to be.
func (c *campaign) converge(t *testing.T, replicas []*replica, limit time.Duration) {
	t.Helper()
	if err := c.settled(t.Context(), limit); err != nil {
		c.fail(t, replicas, "%v", err)
	}
	if _, faults := c.story(); len(faults) > 0 {
		c.fail(t, replicas, "%s", strings.Join(faults, "\n"))
	}
	for _, r := range replicas {
		if !r.alive() && !r.kept {
			c.fail(t, replicas, "replica %s has ended by itself", r.name)
		}
	}
}

// settled waits until nothing is to be complained about, and nothing is written any more.
func (w *model) settled(ctx context.Context, limit time.Duration) error {
	quiet := ""
	for start := time.Now(); ; time.Sleep(40 * time.Millisecond) {
		j, err := newJudge(ctx, w)
		if err != nil {
			return err
		}
		complaints, state := j.verdict(), j.versions()
		switch late := time.Since(start) > limit; {
		case len(complaints) == 0 && state == quiet:
			return nil
		case len(complaints) > 0 && late:
			return fmt.Errorf("after %s:\n%s\n%s", limit, strings.Join(complaints, "\n"), j.accused())
		case late:
			return fmt.Errorf("after %s it is still being written: %s, before: %s", limit, state, quiet)
		case len(complaints) == 0:
			quiet = state
			time.Sleep(60 * time.Millisecond)
		}
	}
}

// fail ends the test with the whole story.
func (c *campaign) fail(t *testing.T, replicas []*replica, format string, args ...any) {
	t.Helper()
	story, faults := c.story()
	logs := ""
	for _, r := range replicas {
		logs += fmt.Sprintf("\n=== the end of the log of replica %s\n%s", r.name, r.process.LogTail(60))
	}
	t.Fatalf("round %d with seed %d: %s\n=== faults\n%s\n=== what happened\n%s%s",
		c.round, c.seed, fmt.Sprintf(format, args...), strings.Join(faults, "\n"), story, logs)
}
