// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
)

const (
	// freshFor is for how long a node that was read, not watched, answers requests: a change is to be seen within a
	// second.
	freshFor = 900 * time.Millisecond
	// pollPeriod is how often the node is read while watching is forbidden and no request asks for it.
	pollPeriod = 10 * time.Second
	// firstRewatch and lastRewatch bound the wait before watching is tried again while it is forbidden. It begins short:
	// an API server that has just started forbids everything for a moment.
	firstRewatch = 2 * time.Second
	lastRewatch  = 5 * time.Minute
	// warnPeriod is how often the log repeats that the API server is unavailable.
	warnPeriod = time.Minute
	// lastRetry is the longest wait before an API server that is unavailable is asked again. It is twice as long if the
	// API server answers but refuses.
	lastRetry = 30 * time.Second
)

// Options are what a Watcher is made of.
type Options struct {
	// Name is the node's name.
	Name string
	// Connect makes a client. It is called again after a failure, so that what has changed meanwhile (a kubeconfig that
	// appears, another certificate authority) comes into force.
	Connect func() (*Client, error)
	// TrustLast makes checks judge by the last known node while the API server is unavailable.
	TrustLast bool
	// Quiet leaves out of warnings what is assumed meanwhile, for an agent that does not answer balancers.
	Quiet bool
	Log   *slog.Logger
	// Clock is the real one by default.
	Clock clock.WithTicker
}

// Watcher knows one node. Run it.
//
// Its states, and what answers a request in each of them:
//
//	state        watching  known  err   answer                                      leaves by
//	starting     no        no     nil   Wait: until the first answer, 1 s at most   list: watching. error: unavailable
//	watching     yes       yes    nil   memory                                      end of the watch: between
//	between      no        yes    nil   memory for 0.9 s, then one read             list: watching. error: unavailable
//	polling      no        yes    nil   memory for 0.9 s, then one read             error: unavailable. At times: list
//	unavailable  no        any    set   memory, marked as unavailable               after a backoff: list
//
// The watcher polls while it may not watch: it reads the node every 10 s, and a request that wants it fresher reads it
// for all that ask meanwhile. Known without an object means that there is no such node.
type Watcher struct {
	Options

	mu       sync.Mutex
	answered chan struct{} // closed once there is a first answer, or the knowledge that there is none
	known    bool          // an answer has come: object, or that there is none
	object   *corev1.Node
	readAt   time.Time // of the last answer
	err      error     // why the API server is unavailable; nil while it is not
	warned   time.Time
	watching bool
	reading  chan struct{} // closed when the read that is under way has ended
	client   *Client
	listener []func()
	failed   chan struct{} // gets a value when a read on request has failed
	rewatch  time.Duration // Run's own: the next wait before watching is tried again
}

// New returns a watcher.
func New(o Options) *Watcher {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Watcher{Options: o, answered: make(chan struct{}), failed: make(chan struct{}, 1)}
}

// OnChange makes f be called after each change of what is known. It must return at once. Call it before Run.
func (w *Watcher) OnChange(f func()) { w.listener = append(w.listener, f) }

// Current implements checks.NodeSource: from memory, unless the node was read and that was too long ago.
func (w *Watcher) Current() (checks.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fresh() {
		return checks.Node{}, false
	}
	return w.snapshot(), true
}

// fresh reports whether what is known answers requests. It is called with the lock held.
func (w *Watcher) fresh() bool {
	return w.err != nil || w.known && (w.watching || w.Clock.Since(w.readAt) <= freshFor)
}

// Wait implements checks.NodeSource: it waits for the first answer, or reads the node if that was too long ago, for as
// long as RequestLimit at most.
func (w *Watcher) Wait(ctx context.Context) checks.Node {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	select {
	case <-w.answered:
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		n := w.snapshot()
		if !w.known && n.Unavailable == "" {
			n.Unavailable = "the API server has not answered yet"
		}
		return n
	}
	if reading := w.refresh(); reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot()
}

// Answered reports whether the API server has told about the node once, or is known to be unavailable.
func (w *Watcher) Answered() bool {
	select {
	case <-w.answered:
		return true
	default:
		return false
	}
}

// Object returns the node as last known; nil if it is not.
func (w *Watcher) Object() *corev1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object
}

// Unavailable says why the API server does not tell about the node; nil while it does, or has not been asked yet.
func (w *Watcher) Unavailable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Client returns the present client; nil if there is none.
func (w *Watcher) Client() rest.Interface {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return nil
	}
	return w.client
}

// snapshot is called with the lock held.
func (w *Watcher) snapshot() checks.Node {
	n := checks.Node{Object: w.object, TrustLast: w.TrustLast}
	if w.err != nil {
		n.Unavailable = describe(w.err)
	}
	return n
}

// refresh reads the node once for all who ask meanwhile, if what is known is too old, and else returns nil; the channel
// is closed when the read has ended.
func (w *Watcher) refresh() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh() {
		return nil
	}
	if w.reading != nil {
		return w.reading
	}
	done := make(chan struct{})
	w.reading = done
	client := w.client
	go func() {
		if client != nil && !w.read(context.Background(), client) {
			select {
			case w.failed <- struct{}{}:
			default:
			}
		}
		w.mu.Lock()
		w.reading = nil
		w.mu.Unlock()
		close(done)
	}()
	return done
}

// read reads the node by its name, and reports whether the API server told.
func (w *Watcher) read(ctx context.Context, client rest.Interface) bool {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	node := &corev1.Node{}
	err := client.Get().Resource("nodes").Name(w.Name).MaxRetries(0).Do(ctx).Into(node)
	switch {
	case err == nil:
		w.store(node)
	case apierrors.IsNotFound(err):
		w.store(nil)
	default:
		w.lose(err)
		return false
	}
	return true
}

// store takes over what the API server has told; nil means that there is no such node.
func (w *Watcher) store(node *corev1.Node) {
	if node != nil {
		node = strip(node)
	}
	w.mu.Lock()
	if node == nil || !Older(node, w.object) { // two reads may overtake each other
		w.object = node
	}
	w.known, w.readAt = true, w.Clock.Now()
	w.found()
	w.mu.Unlock()
	w.tell()
}

// Older reports whether a is an older state of the same node than b. It is false if the resource versions are no
// numbers.
func Older(a, b *corev1.Node) bool {
	if b == nil || a.UID != b.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// found is called with the lock held.
func (w *Watcher) found() {
	if w.err != nil {
		w.Log.Info("The Kubernetes API is available again", "node", w.Name)
	}
	w.err = nil
	w.closeAnswered()
}

// lose takes note that the API server does not tell, and warns when that is new and then once a minute.
func (w *Watcher) lose(err error) {
	w.mu.Lock()
	if w.watching { // a read that began before the watch has failed: the watch knows better
		w.mu.Unlock()
		return
	}
	isNew := w.err == nil || isForbidden(w.err) != isForbidden(err)
	w.err = err
	if now := w.Clock.Now(); isNew || now.Sub(w.warned) >= warnPeriod {
		w.warned = now
		w.warn(err)
	}
	w.closeAnswered()
	w.mu.Unlock()
	if isNew {
		w.tell()
	}
}

func (w *Watcher) warn(err error) {
	answer := " Assuming node is ready."
	if w.TrustLast && w.object != nil {
		answer = " Answering from what was last known of the node."
	}
	if w.Quiet {
		answer = ""
	}
	what := "Kubernetes API appears to be down"
	if isForbidden(err) {
		what = "Kubernetes API does not let this agent read its node"
	}
	w.Log.Warn(what+" ("+describe(err)+")."+answer, "node", w.Name)
}

func (w *Watcher) closeAnswered() {
	select {
	case <-w.answered:
	default:
		close(w.answered)
	}
}

func (w *Watcher) tell() {
	for _, f := range w.listener {
		f()
	}
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// describe is an error in a few words.
func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + RequestLimit.String()
	}
	s := err.Error()
	if i := strings.LastIndex(s, `": `); i >= 0 { // Get "https://...": connection refused
		s = s[i+3:]
	}
	return s
}

// strip keeps of a node what the agent looks at.
func strip(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{}
	out.Name, out.UID, out.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	out.CreationTimestamp, out.DeletionTimestamp = node.CreationTimestamp, node.DeletionTimestamp
	out.Labels = maps.Clone(node.Labels)
	for k, v := range node.Annotations {
		if strings.HasPrefix(k, v1alpha1.GroupVersion.Group+"/") {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, k, v)
		}
	}
	out.Spec.Unschedulable = node.Spec.Unschedulable
	out.Status.Conditions = append([]corev1.NodeCondition(nil), node.Status.Conditions...)
	out.Status.Addresses = append([]corev1.NodeAddress(nil), node.Status.Addresses...)
	out.Status.NodeInfo.BootID = node.Status.NodeInfo.BootID
	return out
}
