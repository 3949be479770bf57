// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package serverclock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestClock: one answer after the other, on a machine whose clock is ahead by an hour.
func TestClock(t *testing.T) {
	start := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	own := clocktesting.NewFakePassiveClock(start.Add(time.Hour))
	c := &Clock{Own: own}
	var date string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		if date != "" {
			w.Header().Set("Date", date)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	api := &http.Client{Transport: c.Wrap(http.DefaultTransport)}
	second := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for _, step := range []struct {
		name   string
		own    float64 // the second by the own clock, after its start
		date   string
		status int
		want   time.Time
	}{
		{name: "an answer without the time", want: start.Add(time.Hour)},
		{name: "an answer of a proxy", date: second(-900).Format(http.TimeFormat), status: 503, want: start.Add(time.Hour)},
		{name: "an answer", date: second(0).Format(http.TimeFormat), want: second(0)},
		{name: "in whole seconds", own: 0.9, date: second(0).Format(http.TimeFormat), want: second(0.9)},
		{name: "a quicker one", own: 1.5, date: second(2).Format(http.TimeFormat), want: second(2)},
		{name: "no new answer", own: 60, date: "nonsense", want: second(60.5)},
		{name: "refused", own: 61, date: second(62).Format(http.TimeFormat), status: 403, want: second(62)},
		{name: "an answer that was under way", own: 63, date: second(63).Format(http.TimeFormat), want: second(64)},
		{name: "the API server's clock was set back", own: 70, date: second(40).Format(http.TimeFormat), want: second(40)},
		{name: "and forward", own: 71, date: second(99).Format(http.TimeFormat), want: second(99)},
	} {
		own.SetTime(start.Add(time.Hour + time.Duration(step.own*float64(time.Second))))
		if date, status = step.date, step.status; status == 0 {
			status = http.StatusOK
		}
		answer, err := api.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := c.Now(); !got.Equal(step.want) {
			t.Errorf("%s: it is %s, want %s", step.name, got, step.want)
		}
	}
}
