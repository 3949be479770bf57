// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// Reasons of the reporter's condition, the same as those of the incumbent's reporter.
const (
	ReasonEndpointOK              = "EndpointOK"
	ReasonEndpointNotReady        = "EndpointNotReady"
	ReasonEndpointConnectionError = "EndpointConnectionError"
	ReasonRequestCreationError    = "RequestCreationError"
)

const (
	reporterInterval = 30 * time.Second
	reporterTimeout  = 10 * time.Second
)

// Reporter is the probe of the incumbent's node readiness reporter: one endpoint, one condition.
type Reporter struct {
	Endpoint, ConditionType string
	Interval, Heartbeat     time.Duration
}

// ReporterFromEnv reads the environment variables of the incumbent's reporter. It returns nil if neither CHECK_ENDPOINT
// nor CONDITION_TYPE is set. It logs invalid durations and uses their defaults.
func ReporterFromEnv(lookup func(string) (string, bool), log *slog.Logger) (*Reporter, error) {
	get := func(name string) string { v, _ := lookup(name); return v }
	r := &Reporter{Endpoint: get("CHECK_ENDPOINT"), ConditionType: get("CONDITION_TYPE")}
	switch {
	case r.Endpoint == "" && r.ConditionType == "":
		return nil, nil
	case r.Endpoint == "":
		return nil, errors.New("the environment variable CHECK_ENDPOINT: must be set along with CONDITION_TYPE")
	case r.ConditionType == "":
		return nil, errors.New("the environment variable CONDITION_TYPE: must be set along with CHECK_ENDPOINT")
	}
	u, err := url.Parse(r.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the environment variable CHECK_ENDPOINT: must be an http or https URL, not %q", r.Endpoint)
	}
	duration := func(name string, def time.Duration) time.Duration {
		text := get(name)
		if text == "" {
			return def
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			log.Error("Invalid duration, using the default", "variable", name, "value", text, "default", def.String())
			return def
		}
		return d
	}
	r.Interval = duration("CHECK_INTERVAL", reporterInterval)
	r.Heartbeat = duration("HEARTBEAT_PERIOD", DefaultHeartbeat)
	return r, nil
}

// Probe returns the probe. Like that of the incumbent's reporter, one result changes the condition, it follows
// redirects, and it connects to any address.
func (r *Reporter) Probe() Probe {
	client := &http.Client{Timeout: reporterTimeout}
	shown := r.Endpoint
	if u, err := url.Parse(r.Endpoint); err == nil {
		shown = u.Redacted() // every user of the cluster can read conditions
	}
	return Probe{
		ConditionType: r.ConditionType, Identity: r.Endpoint,
		Check: checks.Check{
			Timeout: reporterTimeout + time.Second,
			Run:     func(ctx context.Context) checks.Result { return ask(ctx, client, r.Endpoint, shown) },
		},
		Success: shown + " reports ready",
		Period:  r.Interval, Fixed: true, SuccessThreshold: 1, FailureThreshold: 1, Heartbeat: r.Heartbeat,
	}
}

func ask(ctx context.Context, client *http.Client, endpoint, shown string) checks.Result {
	fail := func(code, reason string) checks.Result {
		result := checks.Fail(reason)
		result.Code = code
		return result
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, http.NoBody)
	if err != nil {
		return fail(ReasonRequestCreationError, fmt.Sprintf("no request can be made for %s", shown))
	}
	resp, err := client.Do(req)
	if err != nil {
		return fail(ReasonEndpointConnectionError, fmt.Sprintf("%s cannot be reached: %s", shown, checks.DialReason(err)))
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fail(ReasonEndpointNotReady, fmt.Sprintf("%s answers with HTTP status %d", shown, resp.StatusCode))
	}
	return checks.Result{Passed: true, Code: ReasonEndpointOK}
}
