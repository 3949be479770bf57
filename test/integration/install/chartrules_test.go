// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// ruled are values with two rules, of which Helm keeps one.
const ruled = `
replicas: 0
crds: {upgrade: false}
recordGuard: {enabled: false} # or it would keep the operator of config/default from its records
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

// write is a file with the text, for as long as the test runs.
func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestChartRulesOnAFirstInstall: the chart brings the definition, and at once rules of it, which an upgrade changes and deletes.
func TestChartRulesOnAFirstInstall(t *testing.T) {
	empty := &envtest.Environment{BinaryAssetsDirectory: env.BinaryAssetsDirectory}
	cfg, err := empty.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := empty.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := empty.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"nodegate", "charts/nodegate", "--kubeconfig", write(t, "kubeconfig", kubeconfig), "-n", namespace, "-f", write(t, "values.yaml", []byte(ruled))}
	if _, err := tool(t.Context(), "helm", append([]string{"install", "--create-namespace"}, at...)...); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	rule := &v1alpha1.NodeReadinessRule{}
	key := client.ObjectKey{Name: "of-the-chart"}
	if err := c.Get(t.Context(), key, rule); err != nil {
		t.Fatal(err)
	}
	if rule.Labels["team"] != "nodes" || rule.Labels["app.kubernetes.io/instance"] != "nodegate" || rule.Spec.Taint.Key != "readiness.k8s.io/Charted" {
		t.Errorf("the rule is not as in the values: %v %+v", rule.Labels, rule.Spec)
	}

	// The operator's part: what an upgrade changes must not cost the rule its finalizer.
	rule.Finalizers = append(rule.Finalizers, v1alpha1.Finalizer)
	if err := c.Update(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	upgrade := append([]string{"upgrade"}, at...)
	if _, err := tool(t.Context(), "helm", append(upgrade, "--set", "rules.of-the-chart.spec.suspend=true")...); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, rule); err != nil {
		t.Fatal(err)
	}
	if !rule.Spec.Suspend || len(rule.Finalizers) != 1 {
		t.Errorf("after an upgrade: suspend is %v, finalizers %q", rule.Spec.Suspend, rule.Finalizers)
	}
	if _, err := tool(t.Context(), "helm", append(upgrade, "--set", "rules.of-the-chart=null")...); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, rule); err != nil || rule.DeletionTimestamp.IsZero() {
		t.Errorf("an overlay has taken the rule out, and it is not deleted: %v", err)
	}
}

// TestChartUninstall: a job of the chart deletes the release's rules while the operator is there, which cleans their nodes. It
// has the rights for that and for nothing else. What would run the job is not there: the test does, with the job's own account.
func TestChartUninstall(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx := t.Context()
	user, err := adminUser()
	g.Expect(err).NotTo(HaveOccurred())
	at := []string{"third", "-n", "third", "--kubeconfig", write(t, "kubeconfig", user)}
	_, err = tool(ctx, "helm", append([]string{"install", "--create-namespace", "-f", write(t, "values.yaml", []byte(ruled))}, append(at, "charts/nodegate")...)...)
	g.Expect(err).NotTo(HaveOccurred())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "charted", Labels: map[string]string{"example.com/pool": "charted"}}}
	g.Expect(kube.Create(ctx, node)).To(Succeed())
	kept := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	t.Cleanup(func() {
		_ = kube.Delete(context.Background(), kept)
		_ = kube.Delete(context.Background(), node)
	})
	m := startManager(t)
	g.Eventually(func() error { return m.probe(ctx, "/readyz") }).Should(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		g.Expect(node.Spec.Taints).To(ContainElement(HaveField("Key", "readiness.k8s.io/Charted")))
	}).Should(Succeed(), "the node is held")
	// Two rules claim the taint: without the one that stays it goes with the other.
	g.Expect(kube.Patch(ctx, kept, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dryRun":true}}`)))).To(Succeed())

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
	as := clientAs(t, "third", spec.ServiceAccountName)
	g.Expect(as.Delete(ctx, kept.DeepCopy())).To(MatchError(apierrors.IsForbidden, "forbidden"), "a rule that is none of its")
	g.Expect(as.List(ctx, &v1alpha1.NodeReadinessRuleList{})).To(MatchError(apierrors.IsForbidden, "forbidden"))
	g.Expect(as.Patch(ctx, node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`)))).To(MatchError(apierrors.IsForbidden, "forbidden"))
	run := exec.CommandContext(ctx, m.cmd.Path, append(spec.Containers[0].Args, "--kubeconfig="+write(t, "job", kubeconfigAs(t, "third", spec.ServiceAccountName)))...)
	out, err := run.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	if diff := cmp.Diff("nodereadinessrule.readiness.node.x-k8s.io/of-the-chart deleted\n", string(out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", "readiness.k8s.io/Charted")), "the node is clean when the job is done")
	complete(g, job)
	g.Eventually(uninstalled).Should(Receive(BeNil()))

	g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
	g.Expect(kept.DeletionTimestamp).To(BeNil(), "Helm keeps what it is told to keep")
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		g.Expect(kube.Get(ctx, client.ObjectKey{Name: job.Name}, o)).To(MatchError(apierrors.IsNotFound, "not found"), "the job's rights go")
	}
	g.Expect(kube.Delete(ctx, kept)).To(Succeed())
	g.Eventually(func() bool { return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(kept), kept)) }).Should(BeTrue())
	g.Expect(m.stop()).To(Succeed())
	if strings.Contains(m.log(), "forbidden") {
		t.Error("something was forbidden, as the operator's log says")
	}
}

// complete says of a job what its controller says when it is done.
func complete(g *WithT, job *batchv1.Job) {
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	g.Expect(kube.Status().Update(context.Background(), job)).To(Succeed())
}
