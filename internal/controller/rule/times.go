// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// keepTimes keeps the times of entries that have not changed. of returns the node and the time of an entry.
func keepTimes[T any](before, after []T, of func(*T) (string, *metav1.Time)) []T {
	former := make(map[string]*T, len(before))
	for i := range before {
		node, _ := of(&before[i])
		former[node] = &before[i]
	}
	for i := range after {
		node, at := of(&after[i])
		if old := former[node]; old != nil {
			same := *old
			_, was := of(&same)
			since := *was
			if *was = *at; equality.Semantic.DeepEqual(same, after[i]) {
				*at = since
			}
		}
	}
	return after
}

func evaluated(e *v1alpha1.NodeEvaluation) (string, *metav1.Time) {
	return e.NodeName, &e.LastEvaluationTime
}

func failed(f *v1alpha1.NodeFailure) (string, *metav1.Time) { return f.NodeName, &f.LastEvaluationTime }
