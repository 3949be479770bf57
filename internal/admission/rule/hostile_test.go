// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	webhooks "github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/test/cluster"
)

// start serves the webhook over TLS, and returns the address.
func start(t *testing.T, w *Webhook) string {
	t.Helper()
	public, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(public, key)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := cluster.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("localhost:%d", ports[0])
	server := &webhooks.Server{Address: address, Handlers: []webhooks.Handler{w},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for server.Ready(nil) != nil {
		time.Sleep(time.Millisecond)
	}
	return "https://" + address + w.Path()
}

func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestHostileReviews: every client that reaches the port can send reviews. They must not take the operator's memory.
func TestHostileReviews(t *testing.T) {
	const most = 200 << 20
	url := start(t, serve(network("b")))
	fill := func(before, one, after string) []byte {
		const around = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
			`"operation":"CREATE","object":`
		n := (7<<20 - len(around) - len(before) - len(after) - 10) / len(one)
		return []byte(around + before + strings.Repeat(one, n) + strings.TrimSuffix(one, ",") + after + "}}")
	}
	for name, body := range map[string][]byte{
		"conditions":   fill(`{"spec":{"conditions":[`, `{},`, `]}}`),
		"requirements": fill(`{"spec":{"requirements":[`, `{"cel":{"expression":"a"}},`, `]}}`),
		"annotation":   fill(`{"metadata":{"annotations":{"a":"`, `x`, `"}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			before, peak, done := heap(), uint64(0), make(chan struct{})
			var watching sync.WaitGroup
			watching.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(5 * time.Millisecond):
						peak = max(peak, heap())
					}
				}
			})
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer transport.CloseIdleConnections()
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					if response, err := transport.RoundTrip(r); err == nil { // some are refused before they are sent
						_ = response.Body.Close()
					}
				})
			}
			all.Wait()
			close(done)
			watching.Wait()
			if peak-min(before, peak) > most {
				t.Errorf("30 reviews took %d MiB", (peak-before)>>20)
			}
		})
	}
}

// TestOversized: no spec is compiled that has a longer list than the schema allows.
func TestOversized(t *testing.T) {
	definition, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	lists := 0
	for name, list := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		if list.Type != "array" {
			continue
		}
		lists++
		item := map[bool]string{true: `"",`, false: `{},`}[list.Items.Schema.Type == "string"]
		for more, refused := range []bool{false, true} {
			spec := v1alpha1.NodeReadinessRuleSpec{}
			items := strings.TrimSuffix(strings.Repeat(item, int(*list.MaxItems)+more), ",")
			if err := json.Unmarshal(fmt.Appendf(nil, `{%q:[%s]}`, name, items), &spec); err != nil {
				t.Fatal(err)
			}
			if message := oversized(&spec); (message != "") != refused {
				t.Errorf("%s, with at most %d entries and %d more: %q", name, *list.MaxItems, more, message)
			}
		}
	}
	if lists == 0 {
		t.Error("the schema has no lists")
	}
}
