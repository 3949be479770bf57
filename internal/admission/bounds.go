// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The webhook server cannot authenticate the API server: every client that reaches the port can send reviews. These
// bounds limit the memory that all reviews take together.
const (
	// maxBody is the size of the largest review: two objects of 3 MiB, and 1 MiB for the rest.
	maxBody = 7 << 20
	// bytesInFlight is the size of all reviews that are read or answered at the same time.
	bytesInFlight = 4 * maxBody
	// valuesInFlight is the number of JSON values in all reviews that are decoded at the same time, and in one review. A
	// value takes up to some hundred bytes of memory, however short it is.
	valuesInFlight = 100_000
	// reviewsAtOnce is the number of reviews that one handler answers at the same time, unless it sets a smaller one.
	reviewsAtOnce = 64
	// roomWithin is how long a review waits for room. The API server waits for the answer for 2 seconds.
	roomWithin = time.Second
)

var refused = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
	Name: "node_readiness_webhook_refused_total",
	Help: "Requests that the webhook server refused without a review: too large, not a review, or too many at once.",
})

// Expensive is a Handler that limits how many of its reviews run at the same time.
type Expensive interface{ AtOnce() int64 }

// room is the memory for reviews of all handlers.
type room struct{ bytes, values *semaphore.Weighted }

func newRoom() room {
	return room{semaphore.NewWeighted(bytesInFlight), semaphore.NewWeighted(valuesInFlight)}
}

// bounded passes a review to the next handler once there is room for it. The API server treats a refusal as a failure
// of the webhook, and does what failurePolicy says.
type bounded struct {
	room    room
	reviews *semaphore.Weighted
	next    http.Handler
}

func (r room) bound(h Handler, next http.Handler) http.Handler {
	atOnce := int64(reviewsAtOnce)
	if e, ok := h.(Expensive); ok {
		atOnce = e.AtOnce()
	}
	return &bounded{r, semaphore.NewWeighted(atOnce), next}
}

// ServeHTTP implements http.Handler.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, why string) {
		refused.Inc()
		w.Header().Set("Connection", "close") // the rest of the body is not read
		http.Error(w, why, code)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.ContentLength < 0 {
		refuse(http.StatusBadRequest, "expected a POST of application/json with a Content-Length")
		return
	}
	if r.ContentLength > maxBody {
		refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is too large: the limit is %d bytes", maxBody))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), roomWithin)
	defer cancel()
	const busy = "too many reviews at once"
	if b.room.bytes.Acquire(ctx, r.ContentLength) != nil {
		refuse(http.StatusServiceUnavailable, busy)
		return
	}
	defer b.room.bytes.Release(r.ContentLength)
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		refuse(http.StatusRequestTimeout, "the review is incomplete")
		return
	}
	values := countValues(body)
	if values == 0 || values > valuesInFlight {
		refuse(http.StatusBadRequest, fmt.Sprintf("expected a JSON object with at most %d values", valuesInFlight))
		return
	}
	for _, s := range []struct {
		*semaphore.Weighted
		n int64
	}{{b.reviews, 1}, {b.room.values, values}} {
		if s.Acquire(ctx, s.n) != nil {
			refuse(http.StatusServiceUnavailable, busy)
			return
		}
		defer s.Release(s.n)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.next.ServeHTTP(w, r)
}

// countValues returns an upper bound of the number of values in a JSON object, or 0 if the text is not an object. It
// does not check the grammar.
func countValues(text []byte) int64 {
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return 0
	}
	values, quoted := int64(1), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			values++
		}
	}
	return values
}
