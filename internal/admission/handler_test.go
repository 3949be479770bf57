// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// echo denies what it is told to, and panics at the rest.
type echo struct{}

func (echo) Path() string { return "/echo" }

func (echo) Handle(_ context.Context, req admission.Request) admission.Response {
	switch string(req.Object.Raw) {
	case `"deny"`:
		return admission.Denied("as told")
	case `"panic"`:
		panic("as told")
	}
	return admission.Allowed("")
}

func serve(t testing.TB) http.Handler {
	t.Helper()
	log.SetLogger(logr.Discard())
	h, err := (&Server{Handlers: []Handler{echo{}}}).handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// call returns the answer to a review, or nil if the server refuses it.
func call(h http.Handler, contentType, body string) *admissionv1.AdmissionResponse {
	r := httptest.NewRequest(http.MethodPost, "/echo", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil
	}
	review := &admissionv1.AdmissionReview{}
	if json.NewDecoder(w.Body).Decode(review) != nil {
		return nil
	}
	return review.Response
}

const asJSON = "application/json"

func reviewOf(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",` +
		`"request":{"uid":"u","operation":"CREATE","object":` + object + `}}`
}

// TestBadReviews: an answer without the review's UID is none to the API server, which then does what failurePolicy
// says.
func TestBadReviews(t *testing.T) {
	h := serve(t)
	for name, c := range map[string]struct {
		contentType, body string
		uid               string
		allowed           bool
		says              string
	}{
		"a good one":            {asJSON, reviewOf(`{}`), "u", true, ""},
		"one that is denied":    {asJSON, reviewOf(`"deny"`), "u", false, "as told"},
		"a handler that panics": {asJSON, reviewOf(`"panic"`), "u", true, ""},
		"of the older version":  {asJSON, strings.Replace(reviewOf(`{}`), "/v1", "/v1beta1", 1), "u", true, ""},
		// It is read as the only version that there is, and answered in its own.
		"of an unknown version": {asJSON, strings.Replace(reviewOf(`"deny"`), "/v1", "/v9", 1), "u", false, "as told"},
		"of another kind":       {asJSON, `{"apiVersion":"v1","kind":"Pod"}`, "", false, "the review has no request"},
		"without a request": {asJSON, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "", false,
			"the review has no request"},
		"without an object": {asJSON,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`, "u", true, ""},
		"no JSON": {asJSON, "{", "", false, "JSON"},
		"with 5 MB of annotations": {asJSON, reviewOf(`{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 5<<20) +
			`"}}}`), "u", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(h, c.contentType, c.body)
			if got == nil {
				t.Fatal("no answer")
			}
			if string(got.UID) != c.uid || got.Allowed != c.allowed {
				t.Errorf("uid %q, allowed %t: %+v", got.UID, got.Allowed, got.Result)
			}
			if c.says != "" && (got.Result == nil || !strings.Contains(got.Result.Message, c.says)) {
				t.Errorf("it does not say %q: %+v", c.says, got.Result)
			}
		})
	}
	if n := testutil.ToFloat64(failed.WithLabelValues("/echo")); n != 1 {
		t.Errorf("%v failures are counted, not 1", n)
	}
}

// FuzzReviews checks that nothing is denied that the handler does not deny.
func FuzzReviews(f *testing.F) {
	for _, body := range []string{reviewOf(`{}`), reviewOf(`"panic"`), reviewOf(`null`), "", "[]",
		`{"kind":"AdmissionReview"}`} {
		f.Add(asJSON, body)
		f.Add("", body)
	}
	h := serve(f)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		got := call(h, contentType, body)
		if got != nil && !got.Allowed && got.UID != "" && !strings.Contains(body, "deny") {
			t.Errorf("denied: %+v", got.Result)
		}
	})
}
