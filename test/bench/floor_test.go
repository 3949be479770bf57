// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/operator"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/bench/synthetic"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

func TestOnlyTheEqualFloorWritesRecordsAndEvents(t *testing.T) {
	for name, rules := range map[string]int{equalName: 1, equalName + "-50": 50, leanName: 1, leanName + "-50": 50} {
		lean := strings.HasPrefix(name, leanName)
		t.Run(name, func(t *testing.T) {
			server := synthetic.New(&apiextensionsv1.CustomResourceDefinition{})
			node := build.MakeNode("n1").UID("u1").Obj()
			node.Annotations = map[string]string{"of": "another"} // a JSON patch adds to a map that is there
			server.Put("nodes", node)
			var records atomic.Int32
			records.Store(-1)
			server.Patched = func(node *corev1.Node) {
				records.Store(int32(len(node.Annotations) - 1))
				for key := range node.Annotations { // what the API server stores and sends costs CPU by its length
					if key != "of" && len(key) != len(v1alpha1.RecordAnnotationPrefix+uuid.NewUUID()) {
						t.Errorf("the key of a record is %s", key)
					}
				}
			}
			var compressed atomic.Bool
			var sent atomic.Int64
			listener := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "" {
					compressed.Store(true)
				}
				sent.Add(r.ContentLength)
				server.ServeHTTP(w, r)
			}))
			f, err := newFloor(&rest.Config{Host: listener.URL, // client-go's transport without TLS always asks for compression
				TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, rules, lean)
			if err != nil {
				t.Fatal(err)
			}
			address, err := cluster.FreeAddress()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer listener.Close()
			defer cancel() // before, since the server waits for the watch to end
			ended := make(chan error, 1)
			go func() { ended <- f.run(ctx, address) }()
			apply := func() error { return cluster.Probe(nil, "http://"+address+"/apply")(ctx) }
			if err := cluster.Poll(ctx, time.Minute, apply); err != nil {
				t.Fatal(err)
			}
			wantRecords, wantEvents := int32(rules), 1
			if lean {
				wantRecords, wantEvents = 0, 0
			}
			if err := cluster.Poll(ctx, time.Minute, func() error {
				if n, events := records.Load(), server.Counts().Events; n != wantRecords || events < wantEvents {
					return fmt.Errorf("%d records and %d events, want %d and %d", n, events, wantRecords, wantEvents)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			t.Logf("%d bytes of requests for one node", sent.Load())
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if lean && (len(f.events) > 0 || server.Counts().Events > 0) {
				t.Error("it sends events")
			}
			if compressed.Load() {
				t.Error("it asks for compressed answers")
			}
			if limit := f.sink.RESTClient().GetRateLimiter(); limit.QPS() != operator.EventsPerSecond {
				t.Errorf("%v events a second", limit.QPS())
			}
		})
	}
}

// The operator must run on what takes the place of the API server: it must answer all that is asked for at the start.
func TestTheOperatorRunsOnTheSyntheticServer(t *testing.T) {
	l, stop, err := newLab(t.Context(), &measure.Run{Nodes: 3, Rules: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p, err := l.run(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill() //nolint:errcheck // it writes nothing that matters
	if err := errors.Join(
		l.burst(t.Context(), l.Rules, 0, l.apply),
		l.turnAll(t.Context(), corev1.ConditionTrue, l.Nodes, 0),
		l.statuses(t.Context()),
		l.measured(t.Context(), p, "relist", l.relist),
		l.restart(t.Context(), p),
	); err != nil {
		t.Fatal(err)
	}
	if got := l.Lines; got[0].P99 > 0 || got[1].P99 > 0 || got[2].P99 == 0 { // only the last one changes taints
		t.Errorf("times of an earlier step: %+v", got)
	}
}
