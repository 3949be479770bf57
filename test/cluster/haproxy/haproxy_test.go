// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// config has two servers, whose addresses are missing.
const config = `global
    log stdout format raw local0
defaults
    mode tcp
    log global
    timeout connect 30s
    timeout client 60s
    timeout server 60s
frontend front
    bind unix@front.sock
    default_backend nodes
backend nodes
    option httpchk GET /health
    default-server check inter 100ms rise 2 fall 3 on-marked-down shutdown-sessions
    server one %s
    server two %s
`

func start(t *testing.T, one, two string) *HAProxy {
	t.Helper()
	return Start(t, cluster.ForTest(t, cluster.Options{}), fmt.Sprintf(config, one, two))
}

// service answers its name, and to HAProxy what the test says.
type service struct {
	*httptest.Server
	answers chan int
}

func serve(t *testing.T, name string) service {
	t.Helper()
	s := service{answers: make(chan int, 1)}
	s.answers <- http.StatusOK
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			code := <-s.answers
			s.answers <- code
			w.WriteHeader(code)
			return
		}
		fmt.Fprint(w, name)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s service) say(code int) {
	<-s.answers
	s.answers <- code
}

func TestWhatHAProxySeesAndWhomItsClientsReach(t *testing.T) {
	one, two := serve(t, "one"), serve(t, "two")
	h := start(t, one.Listener.Addr().String(), two.Listener.Addr().String())
	b := h.Backend("nodes")
	b.Becomes(t, "one", Fields{"status": "UP", "check_code": "200"})
	clients := StartClients(t, "unix", h.Path("front.sock"), func(body string) string { return body })
	clients.Reach(t, "one")
	clients.Reach(t, "two")

	one.say(http.StatusServiceUnavailable)
	b.Becomes(t, "one", Fields{"status": "DOWN", "chkdown": "1"})
	clients.PassBy(t, "one", "two")
	one.say(http.StatusOK)
	b.Becomes(t, "one", Fields{"status": "UP", "chkdown": "1"})
	clients.Reach(t, "one")
	if failed := clients.Failed(); len(failed) > 0 {
		t.Errorf("%q", failed)
	}
	want := []Change{
		{Server: "one", State: "DOWN", Why: "Layer7 wrong status, code: 503"},
		{Server: "one", State: "UP", Why: "Layer7 check passed, code: 200"},
	}
	if diff := cmp.Diff(want, b.Changes(t)); diff != "" {
		t.Errorf("changes, -want +got:\n%s", diff)
	}
}

// ownerEnv is the path of an HAProxy that the test binary starts, in a cluster of its own. It prints what runs and
// waits to be killed.
const ownerEnv = "HAPROXY_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := own(context.Background(), os.Getenv(ownerEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func own(ctx context.Context, haproxy string) error {
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		return err
	}
	h, err := launch(ctx, c, haproxy, fmt.Sprintf(config, "127.0.0.1:1", "127.0.0.1:1"))
	if err == nil {
		fmt.Println(h.dir, h.process.PID())
	}
	return err
}

func TestNothingIsLeftOfATestThatIsKilled(t *testing.T) {
	test := exec.Command(os.Args[0])
	test.Env = append(os.Environ(), ownerEnv+"="+needs.Command(t, "haproxy", "haproxy"))
	var stderr bytes.Buffer
	test.Stderr = &stderr
	stdout, err := test.StdoutPipe()
	cluster.Must(t, err)
	cluster.Must(t, test.Start())
	var dir string
	var pid int
	_, err = fmt.Fscan(stdout, &dir, &pid)
	running := err == nil && syscall.Kill(pid, 0) == nil
	_ = test.Process.Kill()
	_ = test.Wait()
	if !running {
		t.Fatalf("it has not started HAProxy: %v\n%s", err, &stderr)
	}
	cluster.Eventually(t, "HAProxy and its directory are gone", func() error {
		// A process that has ended and was not waited for is a zombie.
		if out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output(); strings.Trim(string(out),
			"Z\n ") != "" {
			return fmt.Errorf("process %d runs: %s", pid, out)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return errors.New(dir + " is there")
		}
		return nil
	})
}
