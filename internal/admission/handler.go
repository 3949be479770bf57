// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Handler answers the admission reviews that the API server sends to a path.
type Handler interface {
	admission.Handler
	// Path is the URL path, as in the webhook's configuration.
	Path() string
}

// Decode decodes an object of a request. It has the one version that the webhook's configuration names.
func Decode[T any](raw []byte) (*T, error) {
	if len(raw) == 0 {
		return nil, errors.New("the request has no object")
	}
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, err
	}
	return object, nil
}

// Unreadable allows a request whose object cannot be read, because a fault of the operator must not block requests.
func Unreadable(kind string, err error) admission.Response {
	return admission.Allowed("").WithWarnings(fmt.Sprintf("nodegate: cannot read the %s of the request: %v", kind, err))
}

var failed = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
	Name: "node_readiness_webhook_failures_total",
	Help: "Requests that a webhook failed to review and therefore allowed, by the webhook's path.",
}, []string{"path"})

// careful allows a request if its handler panics, because a fault of the operator must not block requests.
type careful struct{ Handler }

// Handle implements admission.Handler.
func (c careful) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	defer func() {
		if p := recover(); p != nil {
			failed.WithLabelValues(c.Path()).Inc()
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "Failed to answer a review", "path", c.Path(), "stack",
				string(debug.Stack()))
			response = admission.Allowed("").WithWarnings("nodegate: " + c.Path() +
				" failed and allows the request; see the operator's log")
		}
	}()
	if req.UID == "" { // the answer has none either, so that no API server takes it for one
		return admission.Errored(http.StatusBadRequest, errors.New("the review has no request"))
	}
	return c.Handler.Handle(ctx, req)
}
