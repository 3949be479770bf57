// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

func wantCount(p *process, text string, want int) error {
	if n := p.Count(text); n != want {
		return fmt.Errorf("the log has %q %d times, not %d", text, n, want)
	}
	return nil
}

// otherCA is the certificate of an authority that is unknown elsewhere.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	cluster.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	cluster.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// requests are what an account has asked the API server for: one entry for each stage of each request.
func requests(t *testing.T, name string) []string {
	t.Helper()
	events, err := cluster.ReadAudit[struct {
		Verb, Stage, RequestURI string
		User                    struct{ Username string }
	}](shared(t).AuditLog())
	cluster.Must(t, err)
	var found []string
	for i := range events {
		if e := &events[i]; e.User.Username == accountName(name) {
			found = append(found, e.Verb+" "+e.Stage+" "+e.RequestURI)
		}
	}
	return found
}

// watches waits until a watch is the last that the account has asked for, and the API server has taken it up.
func watches(t *testing.T, name string) {
	t.Helper()
	cluster.Eventually(t, "the watch", func() error {
		// A server that was paused completes a lost watch late, and maybe after the next one has started.
		all := requests(t, name)
		open := 0
		for _, request := range all {
			switch {
			case strings.HasPrefix(request, "watch ResponseStarted "):
				open++
			case strings.HasPrefix(request, "watch ResponseComplete "):
				open--
			}
		}
		if open < 1 {
			return fmt.Errorf("%q", all)
		}
		return nil
	})
}

// TestInTheSteadyStateTheAPIServerIsAskedNothing has the API server's own audit log tell.
func TestInTheSteadyStateTheAPIServerIsAskedNothing(t *testing.T) {
	const node = "steady"
	newNode(t, node)
	setReady(t, node, "True", "KubeletReady")
	p := startAgent(t, "127.0.0.1", node, account(t, "steady", watching))
	p.Is(t, 200, false, "")
	watches(t, "steady")
	before := len(requests(t, "steady"))
	// What is read instead of watched would be too old after a second without a heartbeat.
	heartbeats := 20
	for i, end := 0, time.Now().Add(4*time.Second); i < 2000 || time.Now().Before(end); i++ {
		if i%100 == 0 && i/100 < heartbeats {
			setReady(t, node, "True", fmt.Sprintf("Heartbeat%d", i))
		}
		if a := p.Health(t, "?check=node_ready,custom_conditions,schedulable,rules"); a.Code != 200 {
			t.Fatalf("status %d, %s", a.Code, a.Raw)
		}
	}
	setReady(t, node, "False", "Last")
	p.Is(t, 503, false, "Last") // it has seen it all
	if all := requests(t, "steady"); len(all) != before {
		t.Errorf("it has asked for more than its watch:\n%q", all[before:])
	}
}
