// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

// Events are written at this rate at most: they tell people, and in a burst must not take from the API server what the
// taints need. Those of a thousand nodes that change at once are there after ten seconds.
const eventsPerSecond, eventsBurst = 100, 50

// newRecorder makes a recorder of events with a client of its own.
func newRecorder(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (events.EventRecorder, error) {
	limited := rest.CopyConfig(cfg)
	limited.QPS, limited.Burst = eventsPerSecond, eventsBurst
	limited.ContentType = runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("making a client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("recording events: %w", err)
	}
	return broadcaster.NewRecorder(scheme, "nodegate"), nil
}
