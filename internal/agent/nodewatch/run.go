// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// NewBackoff returns a backoff for Delay. It spreads the retries of all agents, which lose the API server at the same
// time: 1 to 2 s at first, 15 to 30 s at the end.
func NewBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: lastRetry / 2}
}

// Delay returns how long to wait before the next retry: the next step of the backoff, twice that if the error is
// Forbidden, or the server's Retry-After, at most lastRetryAfter, with jitter if that is longer. err may be nil.
func Delay(backoff *wait.Backoff, err error) time.Duration {
	delay := backoff.Step()
	if isForbidden(err) {
		delay *= 2
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, wait.Jitter(min(time.Duration(seconds)*time.Second, lastRetryAfter), 1))
	}
	return delay
}

// Sleep waits for d, until ctx ends, or until wake gets a value. wake may be nil.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-wake:
	}
}

// Run keeps the watcher up to date until ctx ends. Each try opens one connection.
func (w *Watcher) Run(ctx context.Context) {
	backoff := NewBackoff()
	w.rewatch = firstRewatch
	for ctx.Err() == nil {
		began := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil || time.Since(began) > lastRetry { // it worked for a while
			backoff = NewBackoff()
		}
		if err != nil {
			w.lose(err)
		}
		Sleep(ctx, Delay(&backoff, err), nil)
	}
}

// follow connects and follows the node while that works. An error means that the API server is unavailable.
func (w *Watcher) follow(ctx context.Context) error {
	client, err := w.Connect()
	if err != nil {
		return fmt.Errorf("Kubernetes client initialization failed: %w", err) //nolint:staticcheck // a name
	}
	w.mu.Lock()
	w.client = client
	w.mu.Unlock()
	defer client.Close()
	// The watch starts at the version of the list. Without the permission to list, the agent polls with get.
	version, err := w.list(ctx, client)
	if isForbidden(err) {
		return w.poll(ctx, client)
	}
	if err != nil {
		return err
	}
	backoff := NewBackoff()
	for ctx.Err() == nil {
		began := time.Now()
		next, failed := w.watch(ctx, client, version)
		version = next
		if isForbidden(failed) {
			return w.poll(ctx, client)
		}
		if failed == nil {
			continue
		}
		// A list shows whether the API server is available, and the version from which to watch.
		if version, err = w.list(ctx, client); err != nil {
			return err
		}
		// An overloaded API server may answer lists and refuse watches. The next watch has what changes meanwhile.
		if time.Since(began) > lastRetry {
			backoff = NewBackoff()
		} else {
			Sleep(ctx, Delay(&backoff, failed), nil)
		}
	}
	return nil
}

// list reads the node, and the version from which to watch.
func (w *Watcher) list(ctx context.Context, client rest.Interface) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	began, nodes := time.Now(), &corev1.NodeList{}
	err = client.Get().Resource("nodes").VersionedParams(w.only(metav1.ListOptions{}),
		parameterCodec).MaxRetries(0).Do(ctx).Into(nodes)
	if err != nil {
		return "", err
	}
	var node *corev1.Node
	if len(nodes.Items) > 0 {
		node = &nodes.Items[0]
	}
	w.store(began, node)
	return nodes.ResourceVersion, nil
}

func (w *Watcher) only(o metav1.ListOptions) *metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.Name).String()
	return &o
}

// watch follows the node from a version, until the watch ends, and returns the version from which to continue. Without
// an error, the API server has ended the watch as requested.
func (w *Watcher) watch(ctx context.Context, client *Client, version string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seconds := int64(5*60 + rand.IntN(5*60)) //nolint:gosec // spreads load, keeps no secret
	options := w.only(metav1.ListOptions{Watch: true, ResourceVersion: version, AllowWatchBookmarks: true,
		TimeoutSeconds: &seconds})
	began := time.Now()
	// The limit is only for the start of the watch, which then lasts.
	limit := time.AfterFunc(RequestLimit, cancel)
	events, err := client.Get().Resource("nodes").VersionedParams(options, parameterCodec).MaxRetries(0).Watch(ctx)
	if !limit.Stop() && err == nil {
		events.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		return version, err
	}
	defer events.Stop()
	w.rewatch = firstRewatch
	w.setWatching(true)
	defer w.setWatching(false)
	limit = time.AfterFunc(quietFor, cancel)
	defer limit.Stop()
	for event := range events.ResultChan() {
		limit.Reset(quietFor)
		switch event.Type {
		case watch.Error:
			return version, apierrors.FromObject(event.Object)
		case watch.Deleted:
			w.store(time.Now(), nil)
		case watch.Added, watch.Modified:
			if node, ok := event.Object.(*corev1.Node); ok {
				w.store(began, node)
			}
		}
		if o, ok := event.Object.(*corev1.Node); ok && o.ResourceVersion != "" {
			version = o.ResourceVersion
		}
	}
	if time.Since(began) >= time.Duration(seconds)*time.Second {
		return version, nil
	}
	return version, io.EOF // client-go does not distinguish an early end from a lost connection
}

// setWatching notes that a watch has begun or ended. An API server that lets it begin is available, also if a read has
// failed since the list.
func (w *Watcher) setWatching(on bool) {
	w.mu.Lock()
	w.watching = on
	back := on && w.err != nil
	if back {
		w.found()
	}
	w.mu.Unlock()
	if back {
		w.notify()
	}
}

// poll reads the node periodically, because the agent may not watch it. Requests that need a fresher node read it
// themselves. It ends when it is time to try a watch again.
func (w *Watcher) poll(ctx context.Context, client rest.Interface) error {
	end := time.Now().Add(w.rewatch)
	w.rewatch = min(2*w.rewatch, lastRewatch)
	for {
		if !w.read(ctx, client) {
			if err := w.Unavailable(); err != nil { // otherwise another read has succeeded meanwhile
				return err
			}
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			return nil
		}
		Sleep(ctx, min(left, pollPeriod), w.failed)
	}
}
