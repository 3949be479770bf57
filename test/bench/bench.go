// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"

	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	poolLabel    = "bench.example.com/pool"
	poolValue    = "bench"
	taintKeyStem = "readiness.k8s.io/bench-"
	taintValue   = "pending"
	nodePrefix   = "node"
	setUpLimit   = 5 * time.Minute
)

// nodeOptions are those of the nodes, which no kubelet renews.
var nodeOptions = cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolLabel: poolValue}}

func conditionType(i int) string { return fmt.Sprintf("bench.example.com/Ready-%d", i) }
func taintKey(i int) string      { return fmt.Sprintf("%s%d", taintKeyStem, i) }
func nodeName(i int) string      { return fmt.Sprintf("%s-%d", nodePrefix, i) }
func ruleName(i int) string      { return fmt.Sprintf("bench-%d", i) }

// bench is the cluster and its clients.
type bench struct {
	*measure.Run
	cluster  *cluster.Cluster
	operator string // the binary
	writer   *writer
	watch    *observer
	audit    *auditLog
}

// setUp starts the cluster and creates its nodes. Call close also after an error.
func (b *bench) setUp(ctx context.Context) error {
	if err := b.startCluster(ctx); err != nil {
		return err
	}
	log.Printf("building the operator")
	operator, err := b.cluster.Binary(ctx, "manager")
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(b.cluster.Config())
	if err != nil {
		return err
	}
	b.operator, b.audit, b.writer = operator, &auditLog{path: b.cluster.AuditLog()}, newWriter(client, b.Rules)
	for i := range b.Nodes {
		b.writer.names = append(b.writer.names, nodeName(i))
	}
	go b.watch.run(ctx, b.cluster)
	return b.createNodes(ctx)
}

func (b *bench) close() error {
	if b.cluster != nil {
		return b.cluster.Stop()
	}
	return nil
}

func (b *bench) startCluster(ctx context.Context) (err error) {
	// Each pass writes all nodes a dozen times: at 5000 nodes that is more than etcd's 2 GiB.
	if err := os.Setenv("ETCD_QUOTA_BACKEND_BYTES", fmt.Sprint(8<<30)); err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		AuditPolicy: auditPolicy(),
		Log:         log.Writer(),
		CRD:         true,
		// The bench compacts between the passes: in the middle of one it would disturb it.
		APIServerArgs: []string{"--etcd-compaction-interval=0"},
	})
	if err != nil {
		return err
	}
	if _, err := b.cluster.ApplyConfig(ctx, forContestants, cluster.RecordGuard, cluster.NodeAdmissionPolicy); err != nil {
		return err
	}
	return cluster.AwaitPolicies(ctx, b.cluster.Client)
}

// forContestants lets the policies that a user installs take each contestant for the operator, so that each write of
// each of them costs the API server the same.
func forContestants(o *unstructured.Unstructured) error {
	raw, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	is := fmt.Sprintf("request.userInfo.username.startsWith('%s')", userStem)
	return o.UnmarshalJSON([]byte(strings.NewReplacer(
		"request.userInfo.username == '"+cluster.OperatorUser+"'", is,
		"request.userInfo.username != '"+cluster.OperatorUser+"'", "!"+is).Replace(string(raw))))
}

// createNodes makes the nodes, and works on them a little, so that no contestant meets a cold server.
func (b *bench) createNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	log.Printf("creating %d nodes", b.Nodes)
	if err := b.cluster.AddNodes(ctx, nodePrefix, b.Nodes, nodeOptions); err != nil {
		return err
	}
	if err := b.createPods(ctx); err != nil {
		return err
	}
	log.Printf("warming up the API server")
	if _, err := b.writer.setConditions(ctx, corev1.ConditionFalse); err != nil { // for heartbeats
		return err
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		if _, err := b.turn(ctx, b.writer, status); err != nil {
			return err
		}
	}
	return nil
}

// reset makes all nodes what they are before the first phase: without taints, with conditions that are not True. Only
// the last phase leaves a condition that is True, on the first node. The API server's own taint on new nodes goes here,
// too: no controller runs that would remove it.
func (b *bench) reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	if err := b.turnFirst(ctx, corev1.ConditionFalse); err != nil {
		return err
	}
	if err := b.writer.clear(ctx); err != nil {
		return err
	}
	return errors.Join(cluster.Poll(ctx, setUpLimit, b.watch.clean), b.cluster.Compact(ctx))
}

// sleep reports false when the context has ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
