// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// ruled are values with two rules, one of which Helm keeps.
const ruled = `
replicas: 0
crds: {upgrade: false}
recordGuard: {enabled: false} # it would not let the operator of config/default write its records
commonLabels: {team: nodes}
rules:
  of-the-chart: &rule
    spec:
      nodeSelector: {matchLabels: {example.com/pool: charted}}
      conditions: [{type: example.com/Ready, requiredStatus: "True"}]
      taint: {key: readiness.k8s.io/Charted, value: pending, effect: NoSchedule}
      enforcementMode: continuous
  kept:
    <<: *rule
    annotations: {helm.sh/resource-policy: keep}
`

// write writes a file that is removed when the test ends.
func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cluster.Must(t, os.WriteFile(path, text, 0o600))
	return path
}

// chartRulesOnAFirstInstall: the chart installs the CRD and rules at once. Upgrades change and delete rules.
func chartRulesOnAFirstInstall(t *testing.T, empty *cluster.Cluster) {
	helm := func(command string, more ...string) {
		t.Helper()
		_, err := tool(t.Context(), "helm", append([]string{command, "nodegate", "charts/nodegate", "-n", namespace,
			"--kubeconfig", empty.Kubeconfig(), "-f", write(t, "values.yaml", []byte(ruled))}, more...)...)
		cluster.Must(t, err)
	}
	helm("install", "--create-namespace")
	c := empty.Client
	rule := &v1alpha1.NodeReadinessRule{}
	key := client.ObjectKey{Name: "of-the-chart"}
	cluster.Must(t, c.Get(t.Context(), key, rule))
	if l := rule.Labels; l["team"] != "nodes" || l["app.kubernetes.io/instance"] != "nodegate" ||
		rule.Spec.Taint.Key != "readiness.k8s.io/Charted" {
		t.Errorf("the rule is not as in the values: %v %+v", rule.Labels, rule.Spec)
	}

	// The operator adds a finalizer, which an upgrade must not remove.
	rule.Finalizers = append(rule.Finalizers, v1alpha1.Finalizer)
	cluster.Must(t, c.Update(t.Context(), rule))
	helm("upgrade", "--set", "rules.of-the-chart.spec.suspend=true")
	cluster.Must(t, c.Get(t.Context(), key, rule))
	if !rule.Spec.Suspend || len(rule.Finalizers) != 1 {
		t.Errorf("after an upgrade: suspend is %v, finalizers %q", rule.Spec.Suspend, rule.Finalizers)
	}
	helm("upgrade", "--set", "rules.of-the-chart=null")
	if err := c.Get(t.Context(), key, rule); err != nil || rule.DeletionTimestamp.IsZero() {
		t.Errorf("an overlay sets the rule to null, and Helm does not delete it: %v", err)
	}
}

// TestChartUninstall: a job of the chart deletes the rules of the release while the operator runs, which cleans their
// nodes. The job may do nothing else. No kubelet runs the job: the test does, with the job's service account.
func TestChartUninstall(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx := t.Context()
	at := []string{"third", "-n", "third", "--kubeconfig", control.Kubeconfig()}
	values := write(t, "values.yaml", []byte(ruled))
	_, err := tool(ctx, "helm", append([]string{"install", "--create-namespace", "-f", values},
		append(at, "charts/nodegate")...)...)
	g.Expect(err).NotTo(HaveOccurred())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "charted",
		Labels: map[string]string{"example.com/pool": "charted"}}}
	g.Expect(kube.Create(ctx, node)).To(Succeed())
	kept := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	t.Cleanup(func() {
		_ = kube.Delete(context.Background(), kept)
		_ = kube.Delete(context.Background(), node)
	})
	m := startManager(t)
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		g.Expect(node.Spec.Taints).To(ContainElement(HaveField("Key", "readiness.k8s.io/Charted")))
	}).Should(Succeed(), "the node is held")
	// Both rules claim the taint. When only the other one claims it, its deletion removes the taint.
	g.Expect(kube.Patch(ctx, kept, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"dryRun":true}}`)))).To(Succeed())

	uninstalled := make(chan error, 1)
	go func() {
		_, err := tool(ctx, "helm", append([]string{"uninstall"}, at...)...)
		uninstalled <- err
	}()
	job := &batchv1.Job{}
	g.Eventually(func() error {
		return kube.Get(ctx, client.ObjectKey{Namespace: "third", Name: "third-nodegate-delete-rules"}, job)
	}).Should(Succeed())
	spec := job.Spec.Template.Spec
	kubeconfig, err := kubeconfigAs("third", spec.ServiceAccountName)
	g.Expect(err).NotTo(HaveOccurred())
	user, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	as, err := clientFor(user)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(as.Delete(ctx, kept.DeepCopy())).To(MatchError(apierrors.IsForbidden, "forbidden"),
		"a rule that is none of its")
	g.Expect(as.List(ctx, &v1alpha1.NodeReadinessRuleList{})).To(MatchError(apierrors.IsForbidden, "forbidden"))
	g.Expect(as.Patch(ctx, node.DeepCopy(), client.RawPatch("application/merge-patch+json",
		[]byte(`{}`)))).To(MatchError(apierrors.IsForbidden, "forbidden"))
	run := exec.CommandContext(ctx, m.binary, append(spec.Containers[0].Args, "--kubeconfig="+kubeconfig)...)
	out, err := run.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	if diff := cmp.Diff("nodereadinessrule.readiness.node.x-k8s.io/of-the-chart deleted\n", string(out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", "readiness.k8s.io/Charted")),
		"the node is clean when the job is done")
	complete(g, job)
	g.Eventually(uninstalled).Should(Receive(BeNil()))

	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
	g.Expect(kept.DeletionTimestamp).To(BeNil(), "Helm keeps the CRD")
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		g.Expect(kube.Get(ctx, client.ObjectKey{Name: job.Name}, o)).To(MatchError(apierrors.IsNotFound, "not found"),
			"the job's permissions are deleted")
	}
	deleteRule(ctx, g, kept)
	g.Expect(m.Stop()).To(Succeed())
	g.Expect(m.log()).NotTo(ContainSubstring("forbidden"))
}

// complete sets the status that the job controller sets when a job is done.
func complete(g *WithT, job *batchv1.Job) {
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions,
			batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	g.Expect(kube.Status().Update(context.Background(), job)).To(Succeed())
}
