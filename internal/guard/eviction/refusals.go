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

// refuses reports whether the API server refused to evict one pod. Other pods of the node may be evicted. After any
// other error, such as a lost connection, all pods are tried again soon.
func refuses(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err)
}

// refusals are the pods that the API server refused to delete. They are safe for concurrent use.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusal
}

type refusal struct {
	node  string
	delay time.Duration
	retry time.Time
}

// add keeps a refusal, and returns when to try again.
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

// retryAt returns when to try a pod again; zero if it has not been refused.
func (r *refusals) retryAt(pod *corev1.Pod) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[pod.UID].retry
}

// keep forgets the refusals of a node's pods that are gone.
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
