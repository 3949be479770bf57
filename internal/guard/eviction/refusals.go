// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstDelay and lastDelay bound the delay between attempts to evict a pod that the API server refuses to delete.
	firstDelay = 5 * time.Second
	lastDelay  = 5 * time.Minute
)

// refuses reports whether an error is about one pod only, so that other pods of the node may still be evicted. After
// any other error, such as a lost connection, all pods are tried again soon.
func refuses(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err)
}

// refusals holds the pods that the API server refused to delete. It is safe for concurrent use.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusal
}

type refusal struct {
	node  string
	delay time.Duration
	retry time.Time
}

// add records a refusal, and returns the time of the next try.
func (r *refusals) add(node string, pod *corev1.Pod, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]refusal{}
	}
	delay := min(max(2*r.pods[pod.UID].delay, firstDelay), lastDelay)
	r.pods[pod.UID] = refusal{node: node, delay: delay, retry: now.Add(delay)}
	return now.Add(delay)
}

// retryAt returns the time of the next try of a pod, or zero if it was not refused.
func (r *refusals) retryAt(pod *corev1.Pod) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[pod.UID].retry
}

// keep drops the refusals of the node's other pods, which no longer exist.
func (r *refusals) keep(node string, pods []corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[types.UID]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	for uid, of := range r.pods {
		if of.node == node && !there[uid] {
			delete(r.pods, uid)
		}
	}
}
