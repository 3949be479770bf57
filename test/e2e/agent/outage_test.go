// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// warning is what the log says, once, when the API server is unavailable. The seed's words.
	warning = "Kubernetes API appears to be down"
	refused = "Kubernetes API does not let this agent read its node"
)

// outage is a way for the API server to be away.
type outage struct{ begin, end func() }

// apiOutages are those of a process. An outage ends with the test at the latest.
func apiOutages(t *testing.T) map[string]outage {
	t.Helper()
	api := shared(t).APIServer
	do := func(f func() error) func() {
		return func() {
			t.Helper()
			cluster.Must(t, f())
		}
	}
	t.Cleanup(func() {
		if api.PID() == 0 {
			_ = api.Start(context.Background()) // the test's own is over
		} else {
			_ = api.Resume()
		}
	})
	return map[string]outage{
		"paused":  {do(api.Pause), do(api.Resume)},
		"stopped": {do(api.Kill), do(func() error { return api.Start(t.Context()) })},
	}
}

func wantCount(p *process, text string, want int) error {
	if n := p.Count(text); n != want {
		return fmt.Errorf("the log has %q %d times, not %d", text, n, want)
	}
	return nil
}

// watches waits until the API server has taken up a watch of the account, by the API server's own audit log.
func watches(t *testing.T, name string) {
	t.Helper()
	cluster.Eventually(t, "the watch", func() error {
		events, err := cluster.ReadAudit[struct {
			Verb, Stage string
			User        struct{ Username string }
		}](shared(t).AuditLog())
		cluster.Must(t, err)
		// A server that was paused completes a lost watch late, and maybe after the next one has started.
		open := 0
		for i := range events {
			switch e := &events[i]; {
			case e.Verb != "watch" || e.User.Username != "system:serviceaccount:"+agents+":"+name:
			case e.Stage == "ResponseStarted":
				open++
			case e.Stage == "ResponseComplete":
				open--
			}
		}
		if open < 1 {
			return fmt.Errorf("%d watches among %d requests", open, len(events))
		}
		return nil
	})
}

// TestTheFirstAnswerFailsOpen has agents start, with a node that is not ready, while the API server does not tell. The
// first answer must come within the limit already. TestTheAPIServerGoesAndComes has a server that is paused or stopped.
func TestTheFirstAnswerFailsOpen(t *testing.T) {
	const node = "unavailable"
	newNode(t, node, "False")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // and no server accepts
	cluster.Must(t, err)
	defer silent.Close() //nolint:errcheck // done with it
	here := shared(t).Config()
	for _, row := range []struct {
		name, kubeconfig, log string
	}{
		{"the API server's address accepts connections and says nothing",
			cluster.Kubeconfig(t, "https://"+silent.Addr().String(), nil, "unknown"), warning},
		{"the API server does not know who asks", cluster.Kubeconfig(t, here.Host, here.CAData, "unknown"), refused},
		{"another authority is trusted", cluster.Kubeconfig(t, here.Host, here.CertData, "unknown"), warning},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := startAgent(t, "127.0.0.1", node, row.kubeconfig)
			a := p.Health(t, "")
			t.Logf("%d ms: %s", a.TotalMillis, a.Raw)
			if a.Code != 200 || a.Status != "ready" || a.FailOpen == "" || !a.Checks[0].Passed || a.Checks[0].FailOpen == "" ||
				a.Checks[0].Reason != "" {
				t.Errorf("status %d, %s", a.Code, a.Raw)
			}
			cluster.Eventually(t, "the warning", func() error { return wantCount(p, row.log, 1) })
			if err := wantCount(p, "Assuming node is ready", 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheAPIServerGoesAndComes measures how soon agents notice: those that watch by the pings of their connection. The
// third uses the last known state, which was a failure.
func TestTheAPIServerGoesAndComes(t *testing.T) {
	const node = "goes"
	newNode(t, node, "False")
	kubeconfig := account(t, "goes", watching)
	p := startAgent(t, "127.0.0.1", node, kubeconfig)
	polling := startAgent(t, "127.0.0.1", node, account(t, "polls", getting))
	trusting := startAgent(t, "127.0.0.1", node, account(t, "trusts", watching), "--api-unavailable=last-known")
	all := []*process{p, polling, trusting}
	for _, agent := range all {
		agent.Is(t, 503, false, "KubeletNotReady")
	}
	for name, outage := range apiOutages(t) {
		t.Run(name, func(t *testing.T) {
			watches(t, "goes") // otherwise the loss would be noticed when the node is read again
			var before []int
			for _, agent := range all {
				before = append(before, agent.Count(warning))
			}
			outage.begin()
			for _, agent := range []*process{p, polling} {
				began := time.Now()
				agent.Is(t, 200, true, "")
				took := time.Since(began)
				t.Logf("noticed after %s", took.Round(time.Millisecond))
				if took > 30*time.Second { // as usual it would take 45 s
					t.Errorf("it was noticed after %s: 5 s are promised, and the machine gets the rest", took)
				}
			}
			for i, agent := range all {
				// While the API server comes back it may refuse, and then not answer once more.
				cluster.Eventually(t, "the warning", func() error { return wantCount(agent, warning, before[i]+1) })
			}
			if a := trusting.Health(t, ""); a.Code != 503 || a.FailOpen != "" || a.Checks[0].Reason != "KubeletNotReady" {
				t.Errorf("from the last known state: status %d, %s", a.Code, a.Raw)
			}
			if trusting.Count("Using the last known state") == 0 {
				t.Error("the warning does not say what is answered")
			}
			late := startAgent(t, "127.0.0.1", node, kubeconfig)
			if a := late.Health(t, ""); a.Code != 200 || a.FailOpen == "" { // the first answer already
				t.Errorf("an agent that starts during the outage: status %d, %s", a.Code, a.Raw)
			}
			outage.end()
			for _, agent := range append([]*process{late}, all...) {
				agent.Is(t, 503, false, "KubeletNotReady")
				cluster.Eventually(t, "the API server is available", func() error { // of the trusting one the answer does not tell
					if agent.Metric(t, "node_readiness_agent_api_available") != 1 {
						return errors.New("it is still taken to be unavailable")
					}
					return nil
				})
			}
		})
	}
}
