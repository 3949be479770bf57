// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	poolLabel     = "bench.example.com/pool"
	poolValue     = "bench"
	conditionStem = "bench.example.com/Ready-"
	taintKeyStem  = "readiness.k8s.io/bench-"
	taintValue    = "pending"
	ruleStem      = "bench-"
	// floorRecordStem is as long as the operator's prefix.
	floorRecordStem = "example.com/rule-"
	protobufType    = "application/vnd.kubernetes.protobuf"
	setUpLimit      = 5 * time.Minute
)

func conditionType(i int) string { return fmt.Sprintf("%s%d", conditionStem, i) }
func taintKey(i int) string      { return fmt.Sprintf("%s%d", taintKeyStem, i) }
func ruleName(i int) string      { return fmt.Sprintf("%s%d", ruleStem, i) }

// bench is the cluster and its clients.
type bench struct {
	*options
	cluster  *cluster.Cluster
	operator string // the binary
	admin    kubernetes.Interface
	writer   *writer
	watch    *observer
	audit    *auditLog
}

func newBench(ctx context.Context, o *options) (b *bench, err error) {
	b = &bench{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.startCluster(ctx); err != nil {
		return b, err
	}
	say("building the operator")
	if b.operator, err = b.cluster.Binary(ctx, "manager"); err != nil {
		return b, err
	}
	if err := b.connect(); err != nil {
		return b, err
	}
	return b, b.createNodes(ctx)
}

func (b *bench) close() error {
	if b.watch != nil {
		b.watch.stop()
	}
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
		Log:         progress{},
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

func (b *bench) connect() (err error) {
	b.audit = &auditLog{path: b.cluster.AuditLog()}
	config := b.cluster.Config()
	if b.admin, err = kubernetes.NewForConfig(withProtobuf(config)); err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	b.writer = newWriter(meta, b.rules)
	for i := range b.nodes {
		b.writer.names = append(b.writer.names, nodeName(i))
	}
	b.watch = newObserver(b.writer.names)
	return nil
}

func withProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = protobufType
	config.AcceptContentTypes = protobufType + ",application/json"
	config.QPS = -1
	return config
}

// createNodes makes the nodes, and works on them a little, so that no contestant meets a cold server.
func (b *bench) createNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	say("creating %d nodes", b.nodes)
	err := forEach(ctx, b.writer.names, func(ctx context.Context, _ int, name string) error {
		node := cluster.NewNode(name, cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolLabel: poolValue}})
		node.Status.Conditions = append(node.Status.Conditions, b.writer.conditions(corev1.ConditionFalse)...)
		_, err := b.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := b.createPods(ctx); err != nil {
		return err
	}
	b.watch.start(b.cluster)
	say("warming up the API server")
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
