// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard tests kubectl nodegate dashboard in a browser, with a real control plane and the operator.
package dashboard

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/browser"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/child"
	"github.com/nodegate/nodegate/test/cluster"
)

var pictures = flag.String("pictures", "", "only write the pictures of the documentation, into this directory")

const (
	cni, gpu, disk = "network.example.com/CNIReady", "gpu.example.com/DriverReady", "storage.example.com/DiskReady"
	agent          = "kubectl-nodegate/"
)

// auditPolicy writes down all requests.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.StartWithOperator(ctx, cluster.Options{AuditPolicy: auditPolicy}, cluster.OperatorOptions{Elect: true})
})

func TestMain(m *testing.M) { clusters.Main(m) }

// pools are the nodes of the tests: how many there are, and how many of them lack which evidence.
var pools = []struct {
	name         string
	zones, nodes int            // in each zone
	lack         map[string]int // in each zone
	late         bool           // they join when the rules are there
}{
	{"workers", 3, 40, map[string]int{disk: 9}, false},
	{"system", 3, 3, nil, false},
	{"gpu", 2, 12, map[string]int{gpu: 7, disk: 12}, true},
}

// waits is a new node that is held.
const waits = "gpu-1a-00"

// lost are nodes in service that lose their network.
var lost = []string{"workers-1b-07", "workers-1b-08", "workers-1b-09", "workers-1c-31"}

// scene fills the cluster with nodes and rules, until the test ends.
func scene(t *testing.T) *cluster.Env {
	e := cluster.NewEnv(t, clusters.Get(t))
	network := build.MakeRule("network").SelectorExpression("example.com/pool", "Exists").Condition(cni).
		MaxUnavailable("10%").Taint("readiness.k8s.io/network", "pending", corev1.TaintEffectNoSchedule).Obj()
	drivers := build.MakeRule("gpu-drivers").Selector("example.com/pool", "gpu").Condition(gpu).
		Taint("readiness.k8s.io/gpu", "pending", corev1.TaintEffectNoSchedule).Obj()
	storage := build.MakeRule("storage").SelectorExpression("example.com/pool", "In", "gpu", "workers").Condition(disk).
		Taint("readiness.k8s.io/storage", "pending", corev1.TaintEffectNoSchedule).DryRun(true).Obj()
	join(e, false)
	for _, rule := range []*v1alpha1.NodeReadinessRule{network, drivers, storage} {
		e.Create(rule)
	}
	counts := func(rule string, want v1alpha1.NodeCounts) {
		t.Helper()
		e.Eventually("the operator has looked at all nodes", e.Counts(rule, want))
	}
	counts("network", v1alpha1.NodeCounts{Matched: 129, Ready: 129})
	for _, name := range lost {
		e.Report(name, cni, false)
	}
	join(e, true)
	counts("network", v1alpha1.NodeCounts{Matched: 153, Ready: 149, Held: 4})
	counts("gpu-drivers", v1alpha1.NodeCounts{Matched: 24, Ready: 10, Held: 14})
	return e
}

// join creates the nodes that join early, or late.
func join(e *cluster.Env, late bool) {
	for _, pool := range pools {
		for i := range pool.zones * pool.nodes {
			if pool.late != late {
				break
			}
			zone := fmt.Sprintf("region-1%c", 'a'+i%pool.zones)
			node := cluster.NewNode(fmt.Sprintf("%s-%s-%02d", pool.name, zone[len(zone)-2:], i/pool.zones),
				cluster.NodeOptions{Images: -1, Unmanaged: true,
					Labels: map[string]string{"example.com/pool": pool.name, corev1.LabelTopologyZone: zone}})
			for _, condition := range []string{cni, gpu, disk} {
				if pool.lack[condition] > i/pool.zones {
					continue
				}
				node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
					Type: corev1.NodeConditionType(condition), Status: corev1.ConditionTrue, Reason: "AgentReports",
					LastTransitionTime: metav1.Now()})
			}
			e.Create(node)
		}
	}
}

// start starts kubectl nodegate dashboard until the test ends, and returns the address that it prints.
func start(t testing.TB, arguments ...string) (url string, process *os.Process) {
	t.Helper()
	binary, err := cluster.BinaryIn(t.Context(), t.TempDir(), "kubectl-nodegate")
	cluster.Must(t, err)
	cmd := exec.Command(binary, append([]string{"dashboard", "--no-browser"}, arguments...)...)
	out, err := cmd.StdoutPipe()
	cluster.Must(t, err)
	cmd.Stderr = os.Stderr
	cluster.Must(t, child.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	timer := time.AfterFunc(browser.Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if i := strings.Index(lines.Text(), "http://"); i >= 0 {
			return lines.Text()[i:], cmd.Process
		}
	}
	t.Fatal("it printed no address")
	return "", nil
}

// take takes the pictures of the documentation.
func take(s *stand) {
	write := func(name string, content []byte) {
		s.Must(os.WriteFile(filepath.Join(*pictures, name), content, 0o644))
	}
	s.page.Look(1280, 760, "screen", "prefers-color-scheme", "light")
	for name, view := range map[string]string{"now": "", "fleet": "fleet?group=topology.kubernetes.io%2Fzone",
		"node": "node/" + waits} {
		s.to(view, "")
		s.page.Await("all is drawn", "!app.fleet.loading && (app.view.name !== 'fleet' || !board.layout)")
		write("dashboard-"+name+".png", s.page.Picture())
	}
	binary, err := cluster.BinaryIn(s.T.Context(), s.T.TempDir(), "kubectl-nodegate")
	s.Must(err)
	const command = "kubectl nodegate why " + waits
	// A terminal, since the plugin has colors only there.
	text, err := exec.Command("script", "-qec", "stty cols 100; "+strings.Replace(command, "kubectl nodegate", binary, 1)+
		" --kubeconfig "+s.Kubeconfig(), "/dev/null").Output()
	s.Must(err)
	draw := exec.Command("go", "run", "-C", filepath.Join(cluster.Root(), "hack", "tools"), "./picture")
	draw.Stdin = strings.NewReader("$ " + command + "\n\n" + strings.ReplaceAll(string(text), "\r", ""))
	drawn, err := draw.Output()
	s.Must(err)
	write("why.svg", drawn)
}
