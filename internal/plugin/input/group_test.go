// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestTheGroupOfTheDeployment reads the arguments as the operator does.
func TestTheGroupOfTheDeployment(t *testing.T) {
	const theirs, own = "readiness.node.x-k8s.io", "rules.nodegate.io"
	for name, c := range map[string]struct {
		command, args []string
		want          string
	}{
		"none":                {args: []string{"--leader-elect"}, want: theirs},
		"one argument":        {args: []string{"--leader-elect", "--api-group=" + own}, want: own},
		"two arguments":       {args: []string{"--api-group", own, "--leader-elect"}, want: own},
		"in the command":      {command: []string{"/manager", "--api-group=" + own}, want: own},
		"the last one counts": {args: []string{"--api-group=" + theirs, "--api-group", own}, want: own},
		"without a value":     {args: []string{"--api-group"}, want: theirs},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "manager", Namespace: Namespace,
				Labels: OperatorLabels}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Command: c.command, Args: c.args}}
			cluster := &Cluster{WithWatch: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(d).Build()}
			if got := cluster.deployedGroup(t.Context()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
