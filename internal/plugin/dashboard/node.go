// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/sources"
)

const (
	// maxEvents is how many events of a node are shown.
	maxEvents = 50
	// eventPage is how many are read at a time.
	eventPage = 500
)

// View is all about one node.
type View struct {
	// Explanation is what "kubectl nodegate why -o json" prints, Timeline what "kubectl nodegate timeline -o json" prints.
	Explanation *report.NodeExplanation `json:"explanation"`
	Timeline    *report.Timeline        `json:"timeline"`
	Records     []Record                `json:"records,omitempty"`
	Labels      map[string]string       `json:"labels,omitempty"`
	Events      []Event                 `json:"events,omitempty"`
	Command     string                  `json:"command"`
	Unread      []string                `json:"unread,omitempty"`
}

// Record is an annotation of Nodegate.
type Record struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Event is an event of the node.
type Event struct {
	At      int64  `json:"at"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	From    string `json:"from"`
	Count   int32  `json:"count,omitempty"`
}

// Node returns all about one node, with texts.
func (l *Live) Node(ctx context.Context, name string) (*View, error) {
	l.mu.Lock()
	node, set, frozen, operator := l.nodes[name], l.set, l.frozen, l.operator
	stored, all := l.stored(), make([]*corev1.Node, 0, len(l.nodes))
	for _, n := range l.nodes {
		all = append(all, n)
	}
	l.mu.Unlock()
	if node == nil {
		return nil, fmt.Errorf("there is no node %q", name)
	}
	known := l.evidence
	moment := &explain.Moment{Rules: set, Stored: stored, Evidence: known, Operator: operator, Now: l.Now(),
		Frozen: frozen,
		All:    func() explain.Evidence { return known },
		Nodes:  func() ([]*corev1.Node, error) { return all, nil },
		Pods:   func(node string) ([]corev1.Pod, error) { return sources.ListPods(ctx, l.Cluster, node) },
	}
	v := &View{Explanation: moment.Node(node), Labels: node.Labels, Command: l.Command(name)}
	first, err := l.FirstPod(ctx, name)
	if err != nil {
		v.Unread = append(v.Unread, "When the first pod started: "+err.Error())
	}
	v.Timeline = report.NewTimeline(v.Explanation, first, err == nil)
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if strings.HasPrefix(key, v1alpha1.Domain) {
			v.Records = append(v.Records, Record{key, node.Annotations[key]})
		}
	}
	if v.Events, err = l.events(ctx, name); err != nil {
		v.Unread = append(v.Unread, "Events: "+err.Error())
	}
	return v, nil
}

// events returns the last events of a node, the newest first. There may be very many.
func (l *Live) events(ctx context.Context, node string) (out []Event, err error) {
	for next, first := "", true; err == nil && (first || next != ""); first = false {
		page := &corev1.EventList{}
		err = l.Cluster.List(ctx, page, client.Limit(eventPage), client.Continue(next),
			client.MatchingFields{"involvedObject.kind": "Node", "involvedObject.name": node})
		for i := range page.Items {
			out = append(out, eventOf(&page.Items[i]))
		}
		sort.SliceStable(out, func(i, j int) bool { return out[i].At > out[j].At }) // package slices is large for structs
		out, next = out[:min(len(out), maxEvents)], page.Continue
	}
	return out, input.Explain(err, "listing events")
}

func eventOf(e *corev1.Event) Event {
	at := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time} {
		if at.IsZero() {
			at = t
		}
	}
	event := Event{At: seconds(at), Type: e.Type, Reason: e.Reason, Message: e.Message, Count: e.Count,
		From: cmp.Or(e.ReportingController, e.Source.Component)}
	if e.Series != nil {
		event.At, event.Count = seconds(e.Series.LastObservedTime.Time), e.Series.Count
	}
	return event
}
