// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"cmp"
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

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
)

const (
	// freshFor is how long a node that was read, not watched, answers requests, so that a change is visible within a
	// second.
	freshFor = 900 * time.Millisecond
	// pollPeriod is how often the agent reads the node while it may not watch it, in addition to requests.
	pollPeriod = 10 * time.Second
	// firstRewatch and lastRewatch limit the wait before the agent tries again to watch while that is forbidden. The first
	// wait is short, because an API server that has just started forbids everything for a moment.
	firstRewatch = 2 * time.Second
	lastRewatch  = 5 * time.Minute
	// warnPeriod is how often the log repeats that the API server is unavailable.
	warnPeriod = time.Minute
	// lastRetry is the longest wait before a retry while the API server is unavailable. It is twice as long if the API
	// server answers Forbidden.
	lastRetry = 30 * time.Second
	// lastRetryAfter is the longest wait that a server can ask for. A proxy that answers for the API server may ask for
	// hours.
	lastRetryAfter = time.Minute
)

// Options configure a Watcher.
type Options struct {
	// Name is the node's name.
	Name string
	// Connect returns a client. It is called again after a failure, to use changes such as a new kubeconfig or another
	// certificate authority.
	Connect func() (*Client, error)
	// TrustLast makes checks use the last known node while the API server is unavailable.
	TrustLast bool
	// Last is the node as an earlier process knew it, until the API server answers; nil: unknown.
	Last *corev1.Node
	// Quiet omits from warnings what the agent assumes meanwhile, for an agent that answers no load balancers.
	Quiet bool
	Log   *slog.Logger
}

// Watcher watches one node while Run runs.
//
// These are its states, and how it answers a request in each of them:
//
//	state        watching  known  err   answer                                      leaves by
//	starting     no        no     nil   Wait: until the first answer, 1 s at most   list: watching. error: unavailable
//	watching     yes       yes    nil   memory                                      end of the watch: between
//	between      no        yes    nil   memory for 0.9 s, then one read             list, at times a pause: watching.
//	                                                                                error: unavailable
//	polling      no        yes    nil   memory for 0.9 s, then one read             error: unavailable. At times: list
//	unavailable  no        any    set   memory, marked as unavailable               after a backoff: list
//
// The watcher polls while it may not watch: it reads the node every 10 s. A request that needs a fresher node reads it,
// also for concurrent requests. Known without an object means that the node does not exist.
type Watcher struct {
	Options

	mu       sync.Mutex
	answered chan struct{} // closed at the first answer or error, by answer
	answer   func()
	known    bool // the API server has answered: object, or nil if there is none
	object   *corev1.Node
	last     *corev1.Node // the last object; nil only if there was none
	missing  bool         // the API server has answered that there is no node
	readAt   time.Time    // of the last answer
	err      error        // why the API server is unavailable; nil: it is available
	warned   time.Time
	watching bool
	reading  chan struct{} // closed when the read in progress has ended
	client   *Client
	onChange []func()
	failed   chan struct{} // gets a value when the read of a request has failed
	rewatch  time.Duration // used by Run: the next wait before it tries to watch again
}

// New returns a watcher.
func New(o Options) *Watcher {
	answered := make(chan struct{})
	return &Watcher{Options: o, object: o.Last, last: o.Last, answered: answered,
		answer: sync.OnceFunc(func() { close(answered) }), failed: make(chan struct{}, 1)}
}

// OnChange registers a function to call after each change. It must return at once. Call OnChange before Run.
func (w *Watcher) OnChange(f func()) { w.onChange = append(w.onChange, f) }

// Current implements checks.NodeSource. It answers from memory if the node is fresh.
func (w *Watcher) Current() (checks.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fresh() {
		return checks.Node{}, false
	}
	return w.snapshot(), true
}

// fresh reports whether the known state answers requests. The caller holds the lock.
func (w *Watcher) fresh() bool {
	return w.err != nil || w.known && (w.watching || time.Since(w.readAt) <= freshFor)
}

// Wait implements checks.NodeSource. It waits for the first answer, or reads the node if it is not fresh, for at most
// RequestLimit.
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

// Answered reports whether the API server has answered once, or is known to be unavailable.
func (w *Watcher) Answered() bool {
	select {
	case <-w.answered:
		return true
	default:
		return false
	}
}

// Known reports whether the API server has answered once about the node. Before that, Object is Options.Last.
func (w *Watcher) Known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// Object returns the last known node; nil if there is none.
func (w *Watcher) Object() *corev1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object
}

// Addresses implements checks.NodeSource.
func (w *Watcher) Addresses() []corev1.NodeAddress {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return nil
	}
	return w.last.Status.Addresses
}

// Unavailable returns why the API server is unavailable; nil if it is available or was not asked yet.
func (w *Watcher) Unavailable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Client returns the current client; nil if there is none.
func (w *Watcher) Client() rest.Interface {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return nil
	}
	return w.client
}

// snapshot returns the state for checks. The caller holds the lock.
func (w *Watcher) snapshot() checks.Node {
	n := checks.Node{Object: w.object, TrustLast: w.TrustLast}
	if w.err != nil {
		n.Unavailable = describe(w.err)
	}
	return n
}

// refresh starts one read for all concurrent requests if the node is not fresh, and otherwise returns nil. The channel
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

// read reads the node by its name, and reports whether the API server answered.
func (w *Watcher) read(ctx context.Context, client rest.Interface) bool {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	began, node := time.Now(), &corev1.Node{}
	err := client.Get().Resource("nodes").Name(w.Name).MaxRetries(0).Do(ctx).Into(node)
	switch {
	case err == nil:
		w.store(began, node)
	case Gone(err, w.Name):
		w.store(began, nil)
	default:
		w.lose(err)
		return false
	}
	return true
}

// Gone reports whether the API server says that the node does not exist. A 404 of something in front of the API server
// says nothing about the node: client-go fills in the name for these, too, and adds the cause UnexpectedServerResponse.
func Gone(err error, node string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == node && details.Kind == "nodes"
}

// store stores an answer of the API server to a request that began at this time; nil means that the node does not
// exist. Of two concurrent requests, the newer state counts. Of two in a row, the second answer counts: after a restore
// of etcd, it has an older resource version.
func (w *Watcher) store(began time.Time, node *corev1.Node) {
	if node != nil {
		node = strip(node)
	}
	w.mu.Lock()
	if !began.Before(w.readAt) || node != nil && !Older(node, w.object) {
		w.object, w.last = node, cmp.Or(node, w.last)
	}
	if was := w.missing; was != (w.object == nil) {
		w.missing = !was
		w.logMissing()
	}
	w.known, w.readAt = true, time.Now()
	w.found()
	w.mu.Unlock()
	w.notify()
}

// logMissing logs that the node does not exist, or that it does. A wrong name of the node looks like a missing one.
func (w *Watcher) logMissing() {
	switch {
	case !w.missing:
		w.Log.Info("The node exists", "node", w.Name)
	case w.Quiet:
		w.Log.Warn("The node does not exist. Check NODE_NAME", "node", w.Name)
	default:
		w.Log.Warn("The node does not exist, so /health answers 503. Check NODE_NAME", "node", w.Name)
	}
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

// found notes that the API server is available. The caller holds the lock.
func (w *Watcher) found() {
	if w.err != nil {
		w.Log.Info("The Kubernetes API is available again", "node", w.Name)
	}
	w.err = nil
	w.answer()
}

// lose notes that the API server is unavailable. It warns if that is new, and then once a minute.
func (w *Watcher) lose(err error) {
	w.mu.Lock()
	if w.watching { // a read from before the watch has failed, but the watch works
		w.mu.Unlock()
		return
	}
	isNew := w.err == nil || isForbidden(w.err) != isForbidden(err)
	w.err = err
	if now := time.Now(); isNew || now.Sub(w.warned) >= warnPeriod {
		w.warned = now
		w.warn(err)
	}
	w.answer()
	w.mu.Unlock()
	if isNew {
		w.notify()
	}
}

func (w *Watcher) warn(err error) {
	answer := " Assuming node is ready."
	if w.TrustLast && w.object != nil {
		answer = " Using the last known state of the node."
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

func (w *Watcher) notify() {
	for _, f := range w.onChange {
		f()
	}
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// describe returns a short description of an error.
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

// strip returns a node with only the fields that the agent uses.
func strip(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{}
	out.Name, out.UID, out.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	out.CreationTimestamp, out.DeletionTimestamp = node.CreationTimestamp, node.DeletionTimestamp
	out.Labels = maps.Clone(node.Labels)
	for k, v := range node.Annotations {
		if strings.HasPrefix(k, v1alpha1.Domain) {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, k, v)
		}
	}
	out.Spec.Unschedulable = node.Spec.Unschedulable
	out.Status.Conditions = append([]corev1.NodeCondition(nil), node.Status.Conditions...)
	out.Status.Addresses = append([]corev1.NodeAddress(nil), node.Status.Addresses...)
	out.Status.NodeInfo.BootID = node.Status.NodeInfo.BootID
	return out
}
