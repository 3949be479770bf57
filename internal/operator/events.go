// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/internal/text"
)

const (
	// EventsPerSecond limits the requests: in a burst, events must not delay the writes of taints.
	EventsPerSecond = 100
	// EventsBurst is the number of requests that may come at once.
	EventsBurst = 50
	// QueuedEvents is the length of the queue.
	QueuedEvents = 5000
	// knownEvents is the number of events that are remembered to count repeats.
	knownEvents = 5000
	// seriesFor is how long an event that repeats increments the count of the first one, instead of creating another.
	seriesFor = 6 * time.Minute
	// maxSummaries is the number of summaries that may wait, and summaryNames that of the examples in each.
	maxSummaries, summaryNames = 1000, 5
	// summaryEvery is how long a summary waits at most for events that are queued before it.
	summaryEvery = 10 * time.Second
	// MaxNote is the longest note in bytes that the API server accepts.
	MaxNote = 1024
	// retryEvents is the delay between attempts while the API server cannot be reached.
	retryEvents = 5 * time.Second
)

var droppedEvents = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "node_readiness_events_dropped_total",
	Help: "Events that are in no Event object: the API server refused them, or too many summaries were waiting.",
})

func init() { metrics.Registry.MustRegister(droppedEvents) }

// Recorder implements events.EventRecorder with a bounded queue and one writer. The recorder of client-go starts a
// goroutine for each event, without a bound.
type Recorder struct {
	scheme *runtime.Scheme
	sink   eventsclient.EventsV1Interface
	clock  clock.PassiveClock
	source string
	queue  chan *eventsv1.Event
	known  *lru.Cache // series, by eventKey

	mu        sync.Mutex
	summaries map[summaryKey]*summary
	since     time.Time // the oldest summary
}

// eventKey identifies a series: events with equal keys are counted in one object.
type eventKey struct {
	regarding, related                       types.UID
	namespace, name, reason, eventType, note string
}

// series is the Event object of a key, and how often the event has happened.
type series struct {
	namespace, name string
	count           int32
	last            time.Time
}

// summaryKey identifies the events that one event stands for when the queue is full.
type summaryKey struct {
	related           types.UID
	kind              string // of the objects
	reason, eventType string
}

// summary stands for events about several objects, on the object that they have in common.
type summary struct {
	first *eventsv1.Event
	count int
	names []string
}

// newRecorder makes a recorder with a client of its own.
func newRecorder(cfg *rest.Config, scheme *runtime.Scheme) (*Recorder, error) {
	limited := rest.CopyConfig(cfg)
	limited.QPS, limited.Burst = EventsPerSecond, EventsBurst
	limited.ContentType = runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("creating a client for events: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &Recorder{
		scheme: scheme, sink: clients.EventsV1(), clock: clock.RealClock{}, source: "nodegate-" + host,
		queue: make(chan *eventsv1.Event, QueuedEvents), known: lru.New(knownEvents),
	}, nil
}

// Eventf implements events.EventRecorder. It does not block.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	about, err := reference.GetReference(r.scheme, regarding)
	if err != nil { // cannot happen: the scheme has all kinds
		droppedEvents.Inc()
		return
	}
	e := r.event(about, r.clock.Now())
	e.Type, e.Reason, e.Action, e.Note = eventType, reason, action, text.Clip(fmt.Sprintf(note, args...), MaxNote)
	if related != nil {
		if e.Related, err = reference.GetReference(r.scheme, related); err != nil {
			e.Related = nil
		}
	}
	select {
	case r.queue <- e:
	default:
		r.summarize(e)
	}
}

// event makes an event about an object. Events about objects without a namespace are in the namespace "default".
func (r *Recorder) event(about *corev1.ObjectReference, now time.Time) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
			Name: util.GenerateEventName(about.Name, now.UnixNano())},
		EventTime: metav1.NewMicroTime(now), ReportingController: "nodegate", ReportingInstance: r.source,
		Regarding: *about,
	}
}

// summarize enters an event that does not fit into the queue in the summary on its related object, such as its rule.
func (r *Recorder) summarize(e *eventsv1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Related == nil {
		droppedEvents.Inc()
		return
	}
	key := summaryKey{e.Related.UID, e.Regarding.Kind, e.Reason, e.Type}
	s := r.summaries[key]
	if s == nil {
		if len(r.summaries) == maxSummaries {
			droppedEvents.Inc()
			return
		}
		if len(r.summaries) == 0 {
			r.summaries, r.since = map[summaryKey]*summary{}, r.clock.Now()
		}
		s = &summary{first: e}
		r.summaries[key] = s
	}
	s.count++
	if len(s.names) < summaryNames {
		s.names = append(s.names, e.Regarding.Name)
	}
}

// summarized returns the summaries as events if no event waits, or if they have waited for long.
func (r *Recorder) summarized() []*eventsv1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.summaries) == 0 || len(r.queue) > 0 && r.clock.Since(r.since) < summaryEvery {
		return nil
	}
	var out []*eventsv1.Event
	now := r.clock.Now()
	for _, s := range r.summaries {
		e := r.event(s.first.Related, now.Add(time.Duration(len(out)))) // no two have the same name
		e.Type, e.Reason, e.Action, e.Related = s.first.Type, s.first.Reason, s.first.Action, &s.first.Regarding
		kind := strings.ToLower(e.Related.Kind)
		e.Note = text.Clip(fmt.Sprintf("%s without an event of their own (%s). The first: %s",
			text.Plural(s.count, kind, kind+"s"), text.Few(s.names, summaryNames, s.count), s.first.Note), MaxNote)
		out = append(out, e)
	}
	r.summaries = nil
	return out
}

// Start writes events until the context ends. It implements manager.Runnable.
func (r *Recorder) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			r.try(ctx, e)
			for _, s := range r.summarized() {
				r.try(ctx, s)
			}
		}
	}
}

// try writes an event, which is lost if the API server refuses it.
func (r *Recorder) try(ctx context.Context, e *eventsv1.Event) {
	if err := r.write(ctx, e); err != nil && ctx.Err() == nil {
		droppedEvents.Inc()
		log.FromContext(ctx).V(2).Info("Could not write an event", "event", e.Name, "reason", e.Reason, "error",
			err.Error())
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Every replica denies evictions, and emits events about
// it.
func (*Recorder) NeedLeaderElection() bool { return false }

// write sends one event. While the API server cannot be reached, it tries again.
func (r *Recorder) write(ctx context.Context, e *eventsv1.Event) error {
	for {
		err := r.send(ctx, e)
		var status apierrors.APIStatus
		if err == nil || errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) &&
			!apierrors.IsTooManyRequests(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryEvents):
		}
	}
}

// send creates an event, or increments the count of the one that it repeats.
func (r *Recorder) send(ctx context.Context, e *eventsv1.Event) error {
	key := eventKey{regarding: e.Regarding.UID, namespace: e.Regarding.Namespace, name: e.Regarding.Name,
		reason: e.Reason, eventType: e.Type, note: e.Note}
	if e.Related != nil {
		key.related = e.Related.UID
	}
	if before, ok := r.known.Get(key); ok {
		if s, ok := before.(*series); ok && e.EventTime.Sub(s.last) < seriesFor {
			err := r.count(ctx, s, e)
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	// It exists already if the answer to an earlier attempt was lost.
	if _, err := r.sink.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating an event: %w", err)
	}
	r.known.Add(key, &series{namespace: e.Namespace, name: e.Name, count: 1, last: e.EventTime.Time})
	return nil
}

func (r *Recorder) count(ctx context.Context, s *series, e *eventsv1.Event) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: s.count + 1,
		LastObservedTime: e.EventTime}})
	if err != nil {
		return err
	}
	if _, err := r.sink.Events(s.namespace).Patch(ctx, s.name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("counting an event: %w", err)
	}
	s.count, s.last = s.count+1, e.EventTime.Time
	return nil
}
