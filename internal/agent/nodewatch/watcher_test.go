// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/build"
)

// readiness is the status of the node's condition Ready as the watcher knows it, or what else is to be said.
func readiness(w *Watcher) string {
	n, ok := w.Current()
	switch {
	case !ok:
		return "would have to wait"
	case n.Unavailable != "":
		return "unavailable: " + n.Unavailable
	case n.Object == nil:
		return "none"
	}
	return string(n.Object.Status.Conditions[0].Status)
}

func expect(t *testing.T, w *Watcher, want string) {
	t.Helper()
	synctest.Wait()
	if got := readiness(w); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func expectAsked(t *testing.T, a *api, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, a.asked()); diff != "" {
		t.Errorf("requests: -want +got:\n%s", diff)
	}
}

func TestTheNodeIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "False")}
		changes := 0
		w, log := start(t, Options{Connect: a.connect}, func() { changes++ })
		expect(t, w, "False")
		expectAsked(t, a, "list", "watch from 100")
		time.Sleep(quietFor - time.Second)
		expect(t, w, "False") // from memory, however old
		if n := w.Wait(context.Background()); n.Object == nil {
			t.Errorf("got %+v", n)
		}
		expectAsked(t, a)

		a.event(t, "MODIFIED", node("101", "True"))
		expect(t, w, "True")
		a.event(t, "DELETED", node("102", "True"))
		expect(t, w, "none")
		a.event(t, "ADDED", node("103", "Unknown"))
		expect(t, w, "Unknown")
		if changes != 4 { // with the list's
			t.Errorf("%d changes told", changes)
		}

		// It goes on from where it was, or if that is too long ago from the start.
		a.event(t, "BOOKMARK", node("104", "Unknown"))
		synctest.Wait()
		a.set(func() { a.node = node("105", "True") })
		a.endWatch(io.ErrUnexpectedEOF)
		expect(t, w, "True")
		expectAsked(t, a, "list", "watch from 100")
		time.Sleep(2 * lastRetry)
		a.event(t, "ERROR", new(apierrors.NewResourceExpired("too old").Status()))
		expectAsked(t, a, "list", "watch from 100")
		expect(t, w, "True")
		if got := log.take(); len(got) != 2 { // the end of the node, and the new one
			t.Errorf("logged: %v", got)
		}
	})
}

// TestAWatchThatFailsAtOnceIsNoLoop: an API server answers lists, and refuses or cuts each watch.
func TestAWatchThatFailsAtOnceIsNoLoop(t *testing.T) {
	for name, err := range map[string]error{
		"refused": apierrors.NewTooManyRequests("busy", 0),
		"cut":     io.ErrUnexpectedEOF,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{node: node("7", "True"), errs: map[string]error{"watch": err}}
				w, _ := start(t, Options{Connect: a.connect})
				expect(t, w, "True")
				time.Sleep(10 * time.Minute)
				if n := len(a.asked()); n < 2*10 || n > 2*50 {
					t.Errorf("%d requests in ten minutes", n)
				}
				a.set(func() { a.errs = nil })
				time.Sleep(lastRetry)
				expect(t, w, "True") // from memory, as it is watched
			})
		})
	}
}

// TestAWatchThatBeginsShowsThatTheAPIServerAnswers: the read of a request has failed since the list, and the watch has
// no event.
func TestAWatchThatBeginsShowsThatTheAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "False"), errs: map[string]error{"watch": apierrors.NewTooManyRequests("busy", 0),
			"get": errRefused}}
		var told atomic.Int32
		w, log := start(t, Options{Connect: a.connect}, func() { told.Add(1) })
		expect(t, w, "False")
		time.Sleep(freshFor + time.Millisecond)
		w.Wait(t.Context())
		expect(t, w, "unavailable: connect: connection refused")
		a.set(func() { a.errs = nil })
		told.Store(0)
		time.Sleep(lastRetry)
		expect(t, w, "False")
		if n := told.Load(); n != 1 {
			t.Errorf("%d changes told", n)
		}
		if got := log.take(); len(got) != 2 || !strings.HasSuffix(got[1].Message, "available again") {
			t.Errorf("logged: %v", got)
		}
	})
}

func TestAnOlderAnswerDoesNotOvertakeANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "False")}
		w, _ := start(t, Options{Connect: a.connect})
		synctest.Wait()
		began := time.Now() // a read that takes a second
		time.Sleep(time.Second)
		a.event(t, "MODIFIED", node("101", "True"))
		expect(t, w, "True")
		for _, old := range []*corev1.Node{node("90", "False"), nil} {
			w.store(began, old)
			expect(t, w, "True")
		}
		w.store(began, node("102", "Unknown")) // its request began earlier, and was served later
		expect(t, w, "Unknown")
	})
}

// TestAnAPIServerThatWasRestored from a backup has older versions of the node, which count.
func TestAnAPIServerThatWasRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "False")}
		w, _ := start(t, Options{Connect: a.connect})
		time.Sleep(time.Second)
		a.event(t, "MODIFIED", node("101", "True"))
		expect(t, w, "True")
		a.set(func() { a.node = node("90", "False") })
		time.Sleep(time.Minute)
		a.endWatch(io.ErrUnexpectedEOF)
		expect(t, w, "False")
	})
}

func TestTheWarningComesOnChangeAndThenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := &api{node: node("7", "True"), errs: map[string]error{"list": errRefused}}
		_, log := start(t, Options{Connect: a.connect})
		time.Sleep(10 * time.Minute)
		warnings := log.take()
		if len(warnings) < 6 || len(warnings) > 10 {
			t.Fatalf("%d warnings in ten minutes: %v", len(warnings), warnings)
		}
		for i, e := range warnings {
			if !strings.Contains(e.Message, "Kubernetes API appears to be down (connect: connection refused). Assuming node is "+
				"ready.") {
				t.Errorf("it says %q", e.Message)
			}
			if i == 0 && !e.Time.Equal(began) {
				t.Errorf("the first after %s", e.Time.Sub(began))
			}
			if i > 0 && (e.Time.Sub(warnings[i-1].Time) < warnPeriod || e.Time.Sub(warnings[i-1].Time) > warnPeriod+lastRetry) {
				t.Errorf("%s between two", e.Time.Sub(warnings[i-1].Time))
			}
		}

		// Another cause is a change, and so are its end and its return.
		texts := func(wait time.Duration) (all []string) {
			time.Sleep(wait)
			synctest.Wait()
			for _, e := range log.take() {
				all = append(all, e.Message)
			}
			return all
		}
		texts(0)
		a.set(func() { a.errs["list"], a.errs["get"] = errForbidden, errForbidden })
		if got := texts(lastRetry + time.Second); len(got) != 1 || !strings.Contains(got[0],
			"does not let this agent read its node") {
			t.Errorf("forbidden: %q", got)
		}
		a.set(func() { a.errs = map[string]error{} })
		if got := texts(4 * lastRetry); len(got) != 1 || got[0] != "The Kubernetes API is available again" {
			t.Errorf("back: %q", got)
		}
		a.set(func() { a.errs["list"] = errRefused })
		a.endWatch(io.ErrUnexpectedEOF)
		if got := texts(0); len(got) != 1 || !strings.Contains(got[0], "appears to be down") {
			t.Errorf("lost again: %q", got)
		}
	})
}

func TestTheWarningSaysWhatIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"the node is assumed to be ready": {Options{}, "(no answer within 1s). Assuming node is ready."},
		"what was last known": {Options{TrustLast: true},
			"(no answer within 1s). Using the last known state of the node."},
		"an agent that does not answer balancers": {Options{Quiet: true}, "(no answer within 1s)."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{node: node("7", "False"), errs: map[string]error{}}
				c.options.Connect = a.connect
				w, log := start(t, c.options)
				expect(t, w, "False")
				a.set(func() { a.errs["list"] = errHangs })
				a.endWatch(io.ErrUnexpectedEOF)
				time.Sleep(RequestLimit)
				synctest.Wait()
				if got := log.take(); len(got) != 1 || !strings.HasSuffix(got[0].Message, c.want) {
					t.Errorf("got %v", got)
				}
				if n, ok := w.Current(); !ok || n.Unavailable == "" || n.Object == nil || n.TrustLast != c.options.TrustLast {
					t.Errorf("got %+v", n)
				}
			})
		})
	}
}

func TestAnAnswerTakesASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{errs: map[string]error{"list": errHangs}}
		w, _ := start(t, Options{Connect: a.connect})
		began := time.Now()
		n := w.Wait(context.Background())
		if took := time.Since(began); took != time.Second || n.Unavailable == "" || n.Object != nil {
			t.Errorf("after %s: %+v", took, n)
		}
		synctest.Wait()
		if n = w.Wait(context.Background()); time.Since(began) != RequestLimit || n.Unavailable != "no answer within 1s" {
			t.Errorf("and then at once, not after %s: %+v", time.Since(began), n)
		}
	})
}

func TestTheFirstRequestWaitsForTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := make(chan struct{})
		a := &api{node: node("7", "True")}
		w, _ := start(t, Options{Connect: func() (*Client, error) { <-connected; return a.connect() }})
		go func() {
			time.Sleep(RequestLimit / 2)
			close(connected)
		}()
		if n := w.Wait(context.Background()); n.Unavailable != "" || n.Object == nil {
			t.Errorf("got %+v", n)
		}
	})
}

func TestWithoutThePermissionToWatchTheNodeIsRead(t *testing.T) {
	for name, errs := range map[string]map[string]error{
		"permissions to get and list": {"watch": errForbidden},
		"the permission to get":       {"watch": errForbidden, "list": errForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{node: node("7", "False"), errs: errs}
				w, log := start(t, Options{Connect: a.connect})
				expect(t, w, "False")
				a.asked()

				// One read for all who ask within a second.
				a.set(func() { a.node = node("8", "True") })
				time.Sleep(freshFor + time.Millisecond)
				expect(t, w, "would have to wait")
				a.asked()
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if n := w.Wait(context.Background()); n.Object == nil || n.Object.ResourceVersion != "8" {
							t.Errorf("got %+v", n)
						}
					})
				}
				all.Wait()
				expectAsked(t, a, "get")
				expect(t, w, "True")

				// The end of the node, and of the API server.
				a.set(func() { a.node = nil })
				time.Sleep(2 * freshFor)
				if n := w.Wait(context.Background()); n.Object != nil || n.Unavailable != "" {
					t.Errorf("got %+v", n)
				}
				if got := log.take(); len(got) != 1 { // the end of the node
					t.Errorf("logged: %v", got)
				}
				a.set(func() { a.errs = map[string]error{"get": errHangs, "list": errHangs, "watch": errHangs} })
				time.Sleep(2 * freshFor)
				began := time.Now()
				n := w.Wait(context.Background())
				if took := time.Since(began); took > RequestLimit {
					t.Errorf("it took %s: %+v", took, n)
				}
				time.Sleep(2 * RequestLimit)
				expect(t, w, "unavailable: no answer within 1s")
			})
		})
	}
}

func TestTheNodeIsReadWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "True"), errs: map[string]error{"watch": errForbidden}}
		start(t, Options{Connect: a.connect})
		time.Sleep(10 * lastRewatch)
		a.asked()
		time.Sleep(10 * time.Minute)
		gets, others := 0, 0
		for _, r := range a.asked() {
			if r == "get" {
				gets++
			} else {
				others++
			}
		}
		if gets < 50 || gets > 70 || others > 8 {
			t.Errorf("%d reads and %d attempts to watch in ten minutes", gets, others)
		}
	})
}

func TestANewPermissionToWatchIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "True"), errs: map[string]error{"watch": errForbidden}}
		w, _ := start(t, Options{Connect: a.connect})
		synctest.Wait()
		a.set(func() { a.errs = nil })
		time.Sleep(2 * firstRewatch)
		synctest.Wait()
		a.event(t, "MODIFIED", node("101", "False"))
		expect(t, w, "False")
	})
}

func TestWhatHasChangedMeanwhileComesIntoForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "True")}
		var mu sync.Mutex
		err := errors.New("there is no kubeconfig")
		w, _ := start(t, Options{Connect: func() (*Client, error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return nil, err
			}
			return a.connect()
		}})
		expect(t, w, "unavailable: Kubernetes client initialization failed: there is no kubeconfig")
		mu.Lock()
		err = nil
		mu.Unlock()
		time.Sleep(lastRetry)
		expect(t, w, "True")
	})
}

// TestAddresses has those of the last known node in each state of the watcher.
func TestAddresses(t *testing.T) {
	at := func(address string) *corev1.Node {
		n := node("7", "True")
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: at("192.0.2.2"), errs: map[string]error{"list": errHangs}}
		w, _ := start(t, Options{Connect: a.connect, Last: at("192.0.2.1")})
		is := func(when, state, want string) {
			t.Helper()
			expect(t, w, state)
			if got := w.Addresses(); len(got) != 1 || got[0].Address != want {
				t.Errorf("%s: got %v", when, got)
			}
		}
		is("starting", "would have to wait", "192.0.2.1")
		time.Sleep(RequestLimit)
		is("unavailable", "unavailable: no answer within 1s", "192.0.2.1")
		a.set(func() { a.errs = map[string]error{"watch": errForbidden} })
		time.Sleep(lastRetry)
		if readiness(w) == "True" { // it was read just now
			time.Sleep(freshFor + 1)
		}
		is("polling", "would have to wait", "192.0.2.2")
		a.set(func() { a.node = nil })
		w.Wait(t.Context())
		is("deleted", "none", "192.0.2.2")
	})
	if got := New(Options{}).Addresses(); got != nil {
		t.Errorf("never known: %v", got)
	}
}

// TestAFleetDoesNotRetryInStep has 500 agents ask an API server that answers 429.
func TestAFleetDoesNotRetryInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents, retryAfter = 500, 5
		busy := apierrors.NewTooManyRequests("busy", retryAfter)
		a := &api{errs: map[string]error{"list": busy}}
		var mu sync.Mutex
		connections := 0
		began := time.Now()
		for range agents {
			start(t, Options{Connect: func() (*Client, error) {
				mu.Lock()
				defer mu.Unlock()
				connections++
				return a.connect()
			}})
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		perSecond := map[int]int{}
		for _, at := range a.times {
			perSecond[int(at.Sub(began)/time.Second)]++
		}
		busiest := 0
		for second, n := range perSecond {
			switch {
			case second > 0 && second < retryAfter:
				t.Errorf("%d requests in second %d: Retry-After is not obeyed", n, second)
			case second >= 60:
				busiest = max(busiest, n)
			}
		}
		t.Logf("%d requests, %d connections, %d in the busiest second after the first minute", len(a.times), connections,
			busiest)
		if len(a.times) < 10*agents || busiest > 2*agents/22 {
			t.Errorf("%d requests, %d in the busiest second", len(a.times), busiest)
		}
		if connections != len(a.times) {
			t.Errorf("%d connections for %d tries", connections, len(a.times))
		}
	})
}

// TestAProxyThatAsksForHours: an agent whose API server is back after a minute must not be blind for a day.
func TestAProxyThatAsksForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "True"), errs: map[string]error{
			"list": apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", schema.GroupResource{}, "", "down",
				24*60*60, true)}}
		w, _ := start(t, Options{Connect: a.connect})
		time.Sleep(time.Minute)
		a.set(func() { a.errs = nil })
		time.Sleep(2 * lastRetryAfter)
		expect(t, w, "True")
	})
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b *corev1.Node
		want bool
	}{
		{"nothing was known", node("1", ""), nil, false},
		{"an older version", node("9", ""), node("10", ""), true},
		{"the same version", node("10", ""), node("10", ""), false},
		{"a newer version", node("11", ""), node("10", ""), false},
		{"another node of that name", build.WrapNode(node("9", "")).UID("v").Obj(), node("10", ""), false},
		{"a version that is no number", node("a", ""), node("10", ""), false},
	} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestStripKeepsWhatTheAgentLooksAt(t *testing.T) {
	n := build.WrapNode(node("7", "True")).Label("pool", "workers").Annotation("nodegate.io/maintenance",
		"yes").
		Annotation("example.com/large", strings.Repeat("x", 1000)).BootID("b").Cordoned().Obj()
	n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
	want := build.WrapNode(n).Unannotate("example.com/large").Obj()
	want.TypeMeta, want.Status.Images = node("", "").TypeMeta, nil
	want.Kind, want.APIVersion = "", ""
	if diff := cmp.Diff(want, strip(n)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheConnectionHasTheAgentsLimits(t *testing.T) {
	c, err := NewClient(&rest.Config{Host: "https://api.example"})
	if err != nil {
		t.Fatal(err)
	}
	h := c.transport.HTTP2
	if h == nil || h.SendPingTimeout == 0 || h.PingTimeout == 0 ||
		h.SendPingTimeout+h.PingTimeout+RequestLimit > 5*time.Second {
		t.Errorf("a lost API server would be noticed after more than 5 s: %+v", h)
	}
	if c.transport.TLSHandshakeTimeout != RequestLimit || c.transport.DialContext == nil {
		t.Error("connecting has no limit")
	}
}

// TestOnlyTheAPIServersWordIsTheEndOfTheNode: a proxy or a load balancer in front of it answers 404, too.
func TestOnlyTheAPIServersWordIsTheEndOfTheNode(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	foreign := apierrors.NewGenericServerResponse(404, "get", nodes, "n", "404 page not found", 0, true)
	for name, err := range map[string]error{
		"a page":           foreign,
		"another resource": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "n"),
		"another node":     apierrors.NewNotFound(nodes, "m"),
		"a path": &apierrors.StatusError{ErrStatus: metav1.Status{Status: "Failure", Code: 404,
			Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{node: node("7", "True"), errs: map[string]error{"list": errForbidden}}
				w, _ := start(t, Options{Connect: a.connect})
				expect(t, w, "True")
				a.set(func() { a.errs["get"] = err })
				time.Sleep(2 * freshFor)
				if n := w.Wait(t.Context()); n.Unavailable == "" || n.Object == nil {
					t.Errorf("got %+v", n)
				}
				a.set(func() { a.errs["get"], a.node = nil, nil })
				time.Sleep(time.Minute)
				expect(t, w, "would have to wait")
				if n := w.Wait(t.Context()); n.Unavailable != "" || n.Object != nil {
					t.Errorf("got %+v", n)
				}
			})
		})
	}
}

// TestALostAPIServerBehindAProxy: the proxy keeps the connection, and answers pings. Bookmarks come about once a
// minute.
func TestALostAPIServerBehindAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{node: node("7", "True"), errs: map[string]error{}}
		w, _ := start(t, Options{Connect: a.connect})
		expect(t, w, "True")
		a.asked()
		for range 10 {
			time.Sleep(quietFor - time.Second)
			a.event(t, "BOOKMARK", node("101", "True"))
		}
		expectAsked(t, a)
		a.set(func() { a.errs["list"] = errHangs })
		time.Sleep(quietFor + 2*RequestLimit)
		expect(t, w, "unavailable: no answer within 1s")
	})
}

// TestTheLogNamesAMissingNode: a wrong NODE_NAME looks like that.
func TestTheLogNamesAMissingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		w, log := start(t, Options{Connect: a.connect})
		messages := func() (all []string) {
			for _, r := range log.take() {
				all = append(all, r.Message)
			}
			return all
		}
		expect(t, w, "none")
		for range 60 {
			time.Sleep(time.Minute)
			a.event(t, "BOOKMARK", node("100", "True"))
		}
		if diff := cmp.Diff([]string{"The node does not exist, so /health answers 503. Check NODE_NAME"},
			messages()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		a.event(t, "ADDED", node("101", "True"))
		expect(t, w, "True")
		if diff := cmp.Diff([]string{"The node exists"}, messages()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		a.event(t, "MODIFIED", node("102", "True"))
		expect(t, w, "True")
		a.event(t, "DELETED", node("103", "True"))
		expect(t, w, "none")
		if diff := cmp.Diff([]string{"The node does not exist, so /health answers 503. Check NODE_NAME"},
			messages()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
