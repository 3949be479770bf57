// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"
)

type answers struct {
	status int
	sent   []string
	during func()
}

var errNoAnswer = errors.New("no answer")

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent = append(a.sent, r.Method)
	if a.during != nil {
		a.during()
	}
	if a.status == 0 {
		return nil, errNoAnswer
	}
	return &http.Response{StatusCode: a.status, Body: http.NoBody}, nil
}

func TestFence(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/nodegate-system/leases/operator.nodegate.io"
	const node = "/api/v1/nodes/n"
	now := time.Now()
	server := &answers{status: http.StatusOK}
	transport := (&Fence{Lease: "operator.nodegate.io", Valid: 10 * time.Second,
		now: func() time.Time { return now }}).Wrap(server)
	send := func(method, to string) error {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://server"+to, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		before := len(server.sent)
		answer, err := transport.RoundTrip(r)
		if errors.Is(err, errExpired) == (len(server.sent) > before) {
			t.Errorf("%s %s: sent %v, and %v", method, to, server.sent[before:], err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	pass := func(d time.Duration, renews bool) {
		if now = now.Add(d); renews {
			if err := send(http.MethodPut, lease); err != nil && !errors.Is(err, errNoAnswer) {
				t.Errorf("renewing the lease: %v", err)
			}
		}
	}
	may := func(when string, want error) {
		t.Helper()
		for _, of := range []string{node, strings.Replace(lease, "operator.", "other.", 1),
			"/api/v1/namespaces/nodegate-system/secrets/operator.nodegate.io"} {
			if err := send(http.MethodPatch, of); errors.Is(err, errExpired) != (want != nil) {
				t.Errorf("%s, %s: %v", when, of, err)
			}
		}
		if err := send(http.MethodGet, node); errors.Is(err, errExpired) {
			t.Errorf("%s, reading: %v", when, err)
		}
	}

	pass(time.Hour, false)
	may("before it has had the lease", nil)
	pass(0, true)
	pass(10*time.Second, false)
	may("within the time", nil)
	pass(time.Second, false)
	may("after the time", errExpired)
	server.status = http.StatusConflict
	pass(0, true)
	may("after a renewal that was refused", errExpired)
	server.status = http.StatusOK
	server.during = func() { now, server.during = now.Add(11*time.Second), nil }
	pass(0, true)
	may("after a renewal that took too long", errExpired)
	pass(0, true)
	may("after a renewal", nil)

	// A virtual machine that was paused: its clocks stood still, and another process leads.
	for _, status := range []int{http.StatusConflict, http.StatusGatewayTimeout, 0} {
		server.status = status
		pass(time.Second, true)
		may(fmt.Sprintf("within the time, after a renewal was answered %d", status), errExpired)
		pass(time.Second, false)
		may("and a second later", errExpired)
		server.status = http.StatusOK
		pass(0, true)
		may("after a renewal", nil)
	}
	server.status = http.StatusConflict // of the lease's UID, since the lease was deleted
	pass(time.Second, true)
	may("after the lease was deleted", errExpired)
	server.status = http.StatusCreated
	if err := send(http.MethodPost, path.Dir(lease)); err != nil {
		t.Errorf("creating the lease: %v", err)
	}
	may("after the election has created it", nil)
	pass(11*time.Second, false)
	may("the election has not renewed it", errExpired)
}
