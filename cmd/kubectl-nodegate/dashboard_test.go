// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/nodegate/nodegate/internal/plugin/dashboard"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"worker-3": "worker-3", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'",
		"arn:aws:eks:eu-1:1:cluster/x": "arn:aws:eks:eu-1:1:cluster/x", "a\nb": `$'a\x0ab'`, "~": "'~'", "é": "'é'",
		"\u202e'\\": `$'\xe2\x80\xae\'\\'`,
	} {
		if got := quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// TestIdentity: what the page shows of the command line has no password, and works in each directory.
func TestIdentity(t *testing.T) {
	t.Chdir(t.TempDir())
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := calling("").plugin
	newCommand(p)
	*p.config.APIServer, *p.config.KubeConfig = "https://admin:secret@example.com:6443/a@b", "config"
	if err := os.WriteFile("config", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	identity, flags, err := p.identity()
	if err != nil {
		t.Fatal(err)
	}
	const server = "https://example.com:6443/a@b"
	if identity.Cluster != server {
		t.Errorf("cluster %s", identity.Cluster)
	}
	want := []string{"--kubeconfig", filepath.Join(directory, "config"), "--server", server}
	if !slices.Equal(flags, want) {
		t.Errorf("%q, want %q", flags, want)
	}
}

// TestSkewed: an operator that has no deployment with the chart's labels says nothing about the CRD.
func TestSkewed(t *testing.T) {
	v := &report.Versions{Skew: []string{noDeployment, "the CRD is not installed"}}
	if got := skewed(v, true); !slices.Equal(got, []string{"The CRD is not installed."}) {
		t.Errorf("with a leader: %q", got)
	}
	if got := skewed(v, false); len(got) != 2 {
		t.Errorf("without a leader: %q", got)
	}
}

// served is a dashboard that runs until the spec ends.
type served struct {
	base, token string
	end         context.CancelFunc
	ended       chan int
}

func serveDashboard(ctx context.Context) *served {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	s, c := &served{end: cancel, ended: make(chan int, 1)}, calling("")
	go func() { s.ended <- c.run(ctx, "dashboard", "--no-browser") }()
	Eventually(c.out.String).WithTimeout(time.Minute).Should(ContainSubstring("until Ctrl-C"))
	_, address, _ := strings.Cut(c.out.String(), "once: ")
	base, rest, _ := strings.Cut(address, "#code=")
	code, _, _ := strings.Cut(rest, "\n")
	body, err := json.Marshal(map[string]string{"code": code})
	Expect(err).NotTo(HaveOccurred())
	answer, err := http.Post(base+"api/session", "application/json", strings.NewReader(string(body)))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	var session struct{ Token string }
	Expect(json.NewDecoder(answer.Body).Decode(&session)).To(Succeed())
	s.base, s.token = base, session.Token
	return s
}

// get returns the answer to a request with the token.
func (s *served) get(ctx context.Context, path string) *http.Response {
	GinkgoHelper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(answer.Body.Close)
	Expect(answer.StatusCode).To(Equal(http.StatusOK))
	return answer
}

var _ = Describe("dashboard", func() {
	It("shows nodes as they change, and ends at once", func(ctx SpecContext) {
		seen := node(ctx, "seen")
		ruleFor(ctx, "seen", "seen")
		s := serveDashboard(ctx)
		lines := bufio.NewReader(s.get(ctx, "api/stream?group=test").Body)
		states := func(want string) {
			GinkgoHelper()
			for {
				line, err := lines.ReadBytes('\n')
				Expect(err).NotTo(HaveOccurred())
				var m dashboard.Message
				Expect(json.Unmarshal(line, &m)).To(Succeed())
				for _, n := range m.Nodes {
					if n.Name == seen.Name && n.State == want {
						Expect(n.Group).To(Equal(seen.Labels["test"]))
						return
					}
				}
			}
		}
		states(dashboard.Pending) // no operator runs here that adds the taint
		Expect(server.Report(ctx, seen.Name, cni, true)).To(Succeed())
		states(dashboard.Ready)

		var view dashboard.View
		Expect(json.NewDecoder(s.get(ctx, "api/node?name=seen").Body).Decode(&view)).To(Succeed())
		_, out, _ := nodegate(ctx, "why", "seen", "-o", "json")
		var why report.NodeExplanation
		Expect(json.Unmarshal([]byte(out), &why)).To(Succeed())
		Expect(view.Explanation.Rules).To(HaveLen(1))
		Expect(view.Explanation.Rules[0].State).To(Equal(why.Rules[0].State))
		Expect(view.Explanation.Rules[0].Message).To(Equal(why.Rules[0].Message))
		Expect(view.Explanation.NotSelectedBy).To(HaveLen(len(why.NotSelectedBy)))
		Expect(view.Command).To(ContainSubstring("kubectl nodegate why seen --context c --kubeconfig " + kubeconfig))

		s.end()
		Eventually(s.ended).WithTimeout(time.Minute).Should(Receive(Equal(0)))
	}, SpecTimeout(3*time.Minute))
})
