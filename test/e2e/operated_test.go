// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

func TestWhatHappenedWhileTheOperatorWasDown(t *testing.T) {
	e := newPool(t, 2)
	rule := e.create(e.Rule())
	e.Eventually("the nodes are held", e.held(true))
	e.stopOperator()

	e.PatchNode(e.Nodes[0], fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, cluster.PoolKey))
	e.Must(e.Client.Delete(t.Context(), rule))

	e.Must(e.Operator.Start(t.Context()))
	e.Eventually("the relabelled node and the deleted rule's node are released", e.held(false))
	e.Eventually("the rule is gone", e.Gone(rule))
}

func TestTheIncumbentIsTakenOverInPlace(t *testing.T) {
	e := newPool(t, 3)
	e.stopOperator()
	taint := corev1.Taint{Key: cluster.GPUTaint, Value: "pending", Effect: corev1.TaintEffectNoSchedule}
	// As that controller leaves them: one node held, one that was held and then relabelled, one completed.
	rule := e.create(e.Rule().BootstrapOnly())
	rule.Finalizers = []string{v1alpha1.Finalizer}
	e.Must(e.Client.Update(t.Context(), rule))
	e.EditNode(e.Nodes[0], func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) })
	e.EditNode(e.Nodes[1], func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
		delete(n.Labels,
			cluster.PoolKey)
	})
	e.EditNode(e.Nodes[2], func(n *corev1.Node) {
		n.Annotations["readiness.k8s.io/bootstrap-completed-"+rule.Name] = fmt.Sprintf(`{"rule-name":%q}`, rule.Name)
	})
	rule.Status.ObservedGeneration = rule.Generation
	for i := range 2 {
		rule.Status.NodeEvaluations = append(rule.Status.NodeEvaluations, v1alpha1.NodeEvaluation{
			NodeName: e.Nodes[i], TaintStatus: v1alpha1.TaintPresent, LastEvaluationTime: metav1.Now()})
	}
	e.Must(e.Client.Status().Update(t.Context(), rule))

	e.Must(e.Operator.Start(t.Context()))
	e.Eventually("the relabelled node loses the taint that only the old status tells of",
		e.Tainted(e.Nodes[1], cluster.GPUTaint, false))
	counts := v1alpha1.NodeCounts{Matched: 2, Ready: 1, Held: 1}
	e.Eventually("the status counts one held and one completed node", e.Counts(rule.Name, counts))
	e.Must(e.Tainted(e.Nodes[0], cluster.GPUTaint, true)())
	e.Must(e.Tainted(e.Nodes[2], cluster.GPUTaint, false)())
	e.Must(e.Client.Delete(t.Context(), rule))
	e.Eventually("the held node is released with the rule", e.Tainted(e.Nodes[0], cluster.GPUTaint, false))
}

func TestAForeignCRDFreezesEverythingUntilItIsMended(t *testing.T) {
	e := newPool(t, 2)
	e.create(e.Rule().MaxUnavailable("100%"))
	e.Eventually("the nodes are held", e.held(true))
	ready := func() error { return ready(e.Operator) }
	e.Eventually("the operator is ready", ready)

	ours, err := crd.Load()
	e.Must(err)
	foreign := ours.DeepCopy()
	spec := foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "maxUnavailable")
	spec.XValidations = nil // one of them reads the field
	foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	e.Must(e.InstallCRD(t.Context(), foreign))
	t.Cleanup(func() { e.Must(e.InstallCRD(context.Background(), ours)) })
	e.Eventually("readyz says why", func() error {
		if err := ready(); err == nil || !strings.Contains(err.Error(), "[-]served-crd-is-ours") {
			return fmt.Errorf("it says %w", err)
		}
		if log := strings.Join(e.Operator.Log(), "\n"); !strings.Contains(log, "maxUnavailable") {
			return errors.New("the log does not name the field that is missing")
		}
		return nil
	})
	e.ReportAll(true)
	e.Consistently("the frozen operator releases no node", 2*time.Second, e.held(true))

	e.Must(e.InstallCRD(t.Context(), ours))
	e.Eventually("the operator is ready again", ready)
	for _, node := range e.Nodes {
		e.Eventually("and does what is due", e.Tainted(node, cluster.GPUTaint, false))
	}
}

// ready is what the operator answers to a readiness probe.
func ready(o *cluster.Operator) error {
	status, body, err := cluster.Get(context.Background(), o.ReadyURL)
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

func TestWhatCanBeSeenOfARule(t *testing.T) {
	e := newPool(t, 2)
	rule := e.create(e.Rule())
	e.Eventually("the nodes are held", e.held(true))
	e.ReportAll(true)
	e.Eventually("the status says that all are ready", func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionNodesReady) {
			return fmt.Errorf("conditions %+v", rule.Status.Conditions)
		}
		return nil
	})
	e.Eventually("each node has its events", func() error {
		list := &eventsv1.EventList{}
		if err := e.Client.List(t.Context(), list); err != nil {
			return err
		}
		for _, node := range e.Nodes {
			for reason, action := range map[string]string{"TaintAdded": "AddTaint", "TaintRemoved": "RemoveTaint"} {
				if !slices.ContainsFunc(list.Items, func(v eventsv1.Event) bool {
					return v.Regarding.Kind == "Node" && v.Regarding.Name == node && v.Reason == reason && v.Action == action &&
						v.Related != nil && v.Related.Name == rule.Name
				}) {
					return fmt.Errorf("node %s has no event %s", node, reason)
				}
			}
		}
		return nil
	})
	wanted := []string{
		fmt.Sprintf(`node_readiness_taint_operations_total{operation="add",rule=%q} 2`, rule.Name),
		fmt.Sprintf(`node_readiness_taint_operations_total{operation="remove",rule=%q} 2`, rule.Name),
		fmt.Sprintf(`node_readiness_rule_node_states{rule=%q,state="ready"} 2`, rule.Name),
		fmt.Sprintf(`node_readiness_rule_nodes{rule=%q,state="released"} 2`, rule.Name),
		"node_readiness_rules_total", "node_readiness_build_info", "node_readiness_evaluation_duration_seconds_count",
	}
	e.Eventually("the metrics tell", func() error {
		metrics := e.Metrics()
		for _, want := range wanted {
			if !strings.Contains(metrics, want) {
				return fmt.Errorf("no metric %s", want)
			}
		}
		return nil
	})
	text, err := os.ReadFile(e.Operator.LogFile())
	e.Must(err)
	if !strings.Contains(string(text), "Running without leader election: this must be the only replica") {
		t.Error("the log does not say that there is no election")
	}
	e.Must(e.Client.Delete(t.Context(), rule))
	e.Eventually("the metrics of a deleted rule go", func() error {
		if strings.Contains(e.Metrics(), fmt.Sprintf("rule=%q", rule.Name)) {
			return fmt.Errorf("there are some")
		}
		return nil
	})
}
