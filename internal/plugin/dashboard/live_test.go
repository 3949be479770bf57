// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/test/build"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// emptyLive knows nothing, and reads nothing.
func emptyLive() *Live {
	return NewLive(Options{Cluster: &input.Cluster{Clients: fake.NewClientset()}, Now: func() time.Time { return start }})
}

// TestMaintenance: the end of a maintenance is a part of its annotation, which stays on the node.
func TestMaintenance(t *testing.T) {
	of := func(value string) *Note {
		node := &corev1.Node{}
		node.Annotations = map[string]string{v1alpha1.MaintenanceAnnotation: value}
		return nodeOf(node, &explain.Decided{}, nil, nil, start).Maintenance
	}
	g := NewWithT(t)
	g.Expect(of("disk")).To(Equal(&Note{Value: "disk"}))
	g.Expect(of("disk;until=2026-07-01T12:30:00Z")).To(HaveField("Value", "disk until 2026-07-01T12:30:00Z"))
	g.Expect(of("disk;until=2026-07-01T12:00:00Z")).To(BeNil())
	g.Expect(of("false")).To(BeNil())
}

// TestADomainThatTheStatusDoesNotList: a rule's status lists 100 domains, and the page counts the nodes of all.
func TestADomainThatTheStatusDoesNotList(t *testing.T) {
	const rack, cni = "example.com/rack", "example.com/CNIReady"
	rule := build.MakeRule("net").UID("u1").Created(start.Add(-2*time.Hour)).Selector("pool", "a").Condition(cni).
		Taint("example.com/net", "", corev1.TaintEffectNoSchedule).LimitPer(rack, "1")
	rule.Status.Limit = &v1alpha1.LimitStatus{InUse: v1alpha1.MaxDomainsListed + 1}
	for i := range v1alpha1.MaxDomainsListed {
		rule.Status.Limit.Domains = append(rule.Status.Limit.Domains, v1alpha1.DomainStatus{Per: rack,
			Domain: fmt.Sprint("r", i), InService: 2, InUse: 1, Waiting: 1})
	}
	l := emptyLive()
	l.rules["net"] = rule.Obj()
	for name, in := range map[string]string{"held": "z", "waits": "z", "next": "y"} {
		n := build.MakeNode(name).UID(name).Created(start.Add(-3*time.Hour)).Label("pool", "a").Label(rack, in).
			Condition(cni, corev1.ConditionFalse, start.Add(-time.Hour))
		if name == "held" {
			record := nodeview.Record{Taint: "example.com/net=:NoSchedule", Limited: true,
				Since: metav1.NewTime(start.Add(-time.Hour)), Domains: rack + "=z"}
			n.Taint("example.com/net", "", corev1.TaintEffectNoSchedule).
				Annotation(v1alpha1.RecordAnnotationPrefix+"u1", record.Encode())
		}
		l.nodes[name] = n.Obj()
	}
	l.update(t.Context())
	for name, want := range map[string]string{"held": Held, "waits": Exempt, "next": Pending} {
		if got := l.rows[name].Rules[0]; got.State != want {
			t.Errorf("%s is %s (%s), want %s", name, got.State, got.Reason, want)
		}
	}
	if got := l.limits["net"].Max; got != 2 {
		t.Errorf("at most %d nodes may be held, want one of each rack", got)
	}
}

// eventServer has events, in pages, the oldest first.
type eventServer struct {
	client.WithWatch
	t      *testing.T
	events []corev1.Event
}

func (s *eventServer) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	page, _ := list.(*corev1.EventList)
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+int(o.Limit), len(s.events))
	if o.Limit == 0 {
		s.t.Error("all events are asked for at once")
		to = len(s.events)
	}
	if page.Items = s.events[from:to]; to < len(s.events) {
		page.Continue = strconv.Itoa(to)
	}
	return nil
}

// TestEvents: a node that flaps has thousands of events, and the API server sends the oldest first.
func TestEvents(t *testing.T) {
	server := &eventServer{t: t, events: make([]corev1.Event, 3*eventPage+1)}
	for i := range server.events {
		server.events[i].LastTimestamp.Time = start.Add(time.Duration(i) * time.Second)
	}
	l := emptyLive()
	l.Cluster.WithWatch = server
	events, err := l.events(t.Context(), "a")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(HaveLen(maxEvents))
	g.Expect(events[0].At).To(Equal(start.Unix() + 3*eventPage))
	g.Expect(events[maxEvents-1].At).To(Equal(start.Unix() + 3*eventPage - maxEvents + 1))
}
