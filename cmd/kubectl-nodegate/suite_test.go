// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var (
	server     *cluster.Cluster
	kubeconfig string
)

func TestPlugin(t *testing.T) {
	suite.Run(t, "kubectl nodegate")
}

var _ = BeforeSuite(func() {
	server = suite.Server()
	kubeconfig = server.Kubeconfig()
})

// output is a buffer that may be read while it is written to.
type output struct{ *gbytes.Buffer }

func (o output) String() string { return string(o.Contents()) }

// call is a command line.
type call struct {
	plugin   *plugin
	out, err output
}

// calling is a call with this answer on stdin, or without a terminal if the answer is empty.
func calling(answer string) *call {
	c := &call{out: output{gbytes.NewBuffer()}, err: output{gbytes.NewBuffer()}}
	c.plugin = &plugin{
		streams: genericiooptions.IOStreams{In: strings.NewReader(answer), Out: c.out, ErrOut: c.err},
		now:     time.Now, getenv: func(string) string { return "" }, asks: func() bool { return answer != "" },
	}
	return c
}

func (c *call) run(ctx context.Context, args ...string) int {
	return run(ctx, c.plugin, append(args, "--kubeconfig", kubeconfig))
}

// nodegate runs a command without a terminal and returns the exit code and all that was written.
func nodegate(ctx context.Context, args ...string) (code int, out, err string) {
	c := calling("")
	code = c.run(ctx, args...)
	return code, c.out.String(), c.err.String()
}

// file writes a file of a test's own.
func file(name, content string) string {
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

const cni = "example.com/CNI"

// create creates an object for a test.
func create[T client.Object](ctx context.Context, o T) T {
	GinkgoHelper()
	Expect(server.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(server.Client.Delete(ctx, o))).To(Succeed())
	})
	return o
}

// node creates a node with a label of its own.
func node(ctx context.Context, name string) *corev1.Node {
	return create(ctx, build.MakeNode(name).Label("test", name).Obj())
}

// ruleFor creates a rule for the nodes with a label.
func ruleFor(ctx context.Context, name, label string) *v1alpha1.NodeReadinessRule {
	return create(ctx, network(name, label).Obj())
}

func network(name, label string) *build.RuleWrapper {
	return build.MakeRule(name).Selector("test", label).Condition(cni).Taint("readiness.k8s.io/"+name, "pending",
		corev1.TaintEffectNoSchedule)
}

// read reads an object again.
func read[T client.Object](ctx context.Context, o T) T {
	GinkgoHelper()
	Expect(server.Client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	return o
}

// leads creates the lease of an operator that leads, on a node whose clock differs from the API server's.
func leads(ctx context.Context, differs time.Duration) *coordinationv1.Lease {
	GinkgoHelper()
	return create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "operator.nodegate.io", Namespace: "default"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("manager-0"),
			RenewTime: new(metav1.NewMicroTime(time.Now().Add(differs)))},
	})
}

// dies makes a lease one that was last written so long ago. Its holder's clock was ahead.
func dies(ctx context.Context, lease *coordinationv1.Lease, ago time.Duration) {
	GinkgoHelper()
	lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(time.Hour)))
	Expect(server.Client.Update(ctx, lease)).To(Succeed())
	for i := range lease.ManagedFields { // another name, since the API server ignores a change of only the time
		m := &lease.ManagedFields[i]
		m.Manager, m.Time = "died", new(metav1.NewTime(time.Now().Add(-ago)))
	}
	Expect(server.Client.Update(ctx, lease)).To(Succeed())
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }
