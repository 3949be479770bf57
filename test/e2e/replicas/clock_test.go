// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
)

// TestTheOperatorGoesByTheServersClock: a proxy makes the API server's clock an hour ahead of the operator's. What the
// operator writes has the API server's time.
func TestTheOperatorGoesByTheServersClock(t *testing.T) {
	e := newPool(t, 1)
	config, err := e.ConfigFor("admin", "system:masters")
	e.Must(err)
	transport, err := rest.TransportFor(config)
	e.Must(err)
	server, err := url.Parse(config.Host)
	e.Must(err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, Transport: transport, FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			return nil
		},
	})
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	rule := e.Rule().Obj()
	e.Create(rule)
	replica, _ := early(t, "an-hour-behind", &rest.Config{Host: proxy.URL})
	e.Eventually("the operator holds the node", e.taintedAre(1))
	node := e.Node(e.Nodes[0])
	record, _ := nodeview.ReadRecord(node.Annotations[v1alpha1.RecordAnnotationPrefix+string(rule.UID)])
	if ahead := record.Since.Sub(node.CreationTimestamp.Time); ahead < 59*time.Minute {
		t.Errorf("the record counts from %s after the node's creation, by the operator's own clock", ahead)
	}
	e.Eventually("the status says since when the rule is in force", func() error {
		stored := &v1alpha1.NodeReadinessRule{}
		e.Must(e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), stored))
		if c := stored.Status.Conditions; len(c) == 0 || time.Until(c[0].LastTransitionTime.Time) < 59*time.Minute {
			return fmt.Errorf("conditions %+v", c)
		}
		return nil
	})
	e.Must(e.Client.Delete(t.Context(), rule)) // while there is an operator that cleans up
	e.Eventually("the rule is gone", e.Gone(rule))
	e.Must(replica.Stop())
}
