// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestCommands runs the commands beside the operator on one API server, one after the other.
func TestCommands(t *testing.T) {
	server := cluster.ForTest(t, cluster.Options{CRD: true})
	client, err := apiextensions.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := client.CustomResourceDefinitions()
	t.Run("delete-rules", func(t *testing.T) { deletes(t, server, crds) }) // in the end also the CRD
	t.Run("the operator without the CRD", func(t *testing.T) { misses(t, client, server) })
	t.Run("apply-crd", func(t *testing.T) { applies(t, crds) })
	t.Run("beside another controller", func(t *testing.T) { givesWay(t, server, crds) })
	t.Run("the rules for admission", func(t *testing.T) { fills(t, server) })
	t.Run("another API group", func(t *testing.T) { refuses(t, server, crds) })
}

// deleteDefinition deletes the CRD, and waits until it is gone.
func deleteDefinition(t *testing.T, crds apiextensions.CustomResourceDefinitionInterface) {
	t.Helper()
	if err := crds.Delete(t.Context(), crd.Name(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := crds.Get(ctx, crd.Name(), metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// misses: the error names the command for this API group.
func misses(t *testing.T, client *apiextensions.ApiextensionsV1Client, server *cluster.Cluster) {
	cluster.Must(t, cluster.Poll(t.Context(), cluster.Limit, func() error { // discovery is later than the CRD
		err := client.RESTClient().Get().AbsPath("/apis/" + v1alpha1.GroupVersion().String()).Do(t.Context()).Error()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still served: %w", err)
	}))
	cmd := newCommand(&options{})
	cmd.SetArgs([]string{"--leader-elect=false", "--health-probe-bind-address=127.0.0.1:0",
		"--kubeconfig=" + server.Kubeconfig()})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "run manager apply-crd --api-group="+v1alpha1.Served().Name) {
		t.Error(err)
	}
}

func applies(t *testing.T, crds apiextensions.CustomResourceDefinitionInterface) {
	apply := func(want string) {
		t.Helper()
		out := &bytes.Buffer{}
		wanted, err := crd.Load()
		if err != nil {
			t.Fatal(err)
		}
		if err := applyCRD(t.Context(), crds, wanted, out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(out.String()), want) {
			t.Errorf("says %q, want %q", out, want)
		}
	}
	found := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		definition, err := crds.Get(t.Context(), crd.Name(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return definition
	}

	apply("created")
	ours := found()

	another := ours.DeepCopy()
	schema := another.Spec.Versions[0].Schema.OpenAPIV3Schema
	schema.XValidations = append(schema.XValidations, apiextensionsv1.ValidationRule{Rule: "!has(self.spec.suspend)",
		Message: "not yet"})
	spec := schema.Properties["spec"]
	delete(spec.Properties, "probes")
	schema.Properties["spec"] = spec
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the API server writes its status meanwhile
		another.ResourceVersion = found().ResourceVersion
		_, err := crds.Update(t.Context(), another, metav1.UpdateOptions{FieldManager: "helm"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	apply("replaced")
	now := found().Spec.Versions[0].Schema.OpenAPIV3Schema
	if len(now.XValidations) != len(ours.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations) {
		t.Errorf("a check of the other version is left: %v", now.XValidations)
	}
	if _, ok := now.Properties["spec"].Properties["probes"]; !ok {
		t.Error("a field of this version is missing")
	}
	apply("unchanged")
}

// givesWay: where no installation has recorded its group, nothing of another controller is deleted or replaced.
func givesWay(t *testing.T, server *cluster.Cluster, crds apiextensions.CustomResourceDefinitionInterface) {
	ctx := t.Context()
	command := func(want string, args ...string) {
		t.Helper()
		cmd := newCommand(&options{})
		cmd.SetArgs(append(args, "--kubeconfig="+server.Kubeconfig()))
		cmd.SetOut(io.Discard)
		err := cmd.ExecuteContext(ctx)
		if want == "" {
			cluster.Must(t, err)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	edit := func(edit func(*apiextensionsv1.CustomResourceDefinition)) (generation int64) {
		t.Helper()
		cluster.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			definition, err := crds.Get(ctx, crd.Name(), metav1.GetOptions{})
			cluster.Must(t, err)
			edit(definition)
			definition, err = crds.Update(ctx, definition, metav1.UpdateOptions{})
			if err == nil {
				generation = definition.Generation
			}
			return err
		}))
		return generation
	}
	theirs := build.MakeRule("theirs").Condition("example.com/C").Selector("pool", "a").
		Taint("readiness.example.com/theirs", "", corev1.TaintEffectNoSchedule).Obj()
	cluster.Must(t, cluster.Poll(ctx, cluster.Limit, func() error { // the CRD was created a moment ago
		return server.Client.Create(ctx, theirs.DeepCopy())
	}))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ruleset.IncumbentLease, Namespace: "default"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), RenewTime: new(metav1.NowMicro())}}
	cluster.Must(t, server.Client.Create(ctx, lease))
	before := edit(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Names.Categories = []string{"theirs"}
		d.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}
	})

	command("with --api-group=rules.nodegate.io", "apply-crd")
	command("incumbent-0 renews the lease", "delete-rules", "--all", "--timeout=5s")
	cluster.Must(t, server.Client.Delete(ctx, lease))
	command("addonmanager.kubernetes.io/mode=Reconcile", "apply-crd")
	command("set --api-group="+v1alpha1.Served().Name, "delete-rules", "--all", "--timeout=5s")
	if now := edit(func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = nil }); now != before {
		t.Errorf("the spec of their CRD was written: generation %d, not %d", now, before)
	}
	cluster.Must(t, server.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs))
	if !theirs.DeletionTimestamp.IsZero() {
		t.Error("their rule was deleted")
	}

	command("", "delete-rules", "--all", "--timeout=30s", "--api-group="+v1alpha1.Served().Name)
	command("", "apply-crd")
	object := &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name}}
	cluster.Must(t, server.Client.Get(ctx, client.ObjectKeyFromObject(object), object))
	command("", "delete-rules", "--all", "--timeout=30s")
	cluster.Must(t, server.Client.Delete(ctx, object))
}

// fills: before an upgrade, the object has the rules that are in force by their status, also if it was written before.
func fills(t *testing.T, server *cluster.Cluster) {
	rules := map[string]*v1alpha1.NodeReadinessRule{}
	for name, edit := range map[string]func(*build.RuleWrapper){
		"acts": func(*build.RuleWrapper) {}, "frozen": func(*build.RuleWrapper) {},
		"dry-run":          func(r *build.RuleWrapper) { r.DryRun(true) },
		"not-at-admission": func(r *build.RuleWrapper) { r.Spec.NodeAdmission = v1alpha1.NodeAdmissionNone },
	} {
		r := build.MakeRule(name).Condition("example.com/C").Selector("pool", name).
			Taint("readiness.example.com/"+name, "", corev1.TaintEffectNoSchedule)
		edit(r)
		rules[name] = r.Obj()
		cluster.Must(t, cluster.Poll(t.Context(), cluster.Limit, func() error { // the CRD was created a moment ago
			return server.Client.Create(t.Context(), rules[name])
		}))
	}
	frozen := rules["frozen"]
	meta.SetStatusCondition(&frozen.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady,
		Status: metav1.ConditionFalse, Reason: "Invalid", ObservedGeneration: frozen.Generation})
	cluster.Must(t, server.Client.Status().Update(t.Context(), frozen))
	earlier := true // the first update is by the CRD of an earlier version, which has no groups
	api := interceptor.NewClient(server.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			byLeader := &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name}}
			cluster.Must(t, c.Create(ctx, byLeader)) // at the same time
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if object, is := o.(*admissionv1alpha1.AdmissionRules); is && earlier {
				earlier, object.Groups = false, nil
			}
			return c.Update(ctx, o, opts...)
		}})
	for _, want := range [][]string{{"acts"}, {"acts"}, nil} {
		if want == nil {
			cluster.Must(t, server.Client.Delete(t.Context(), rules["acts"]))
		}
		cluster.Must(t, seedAdmissionRules(t.Context(), api, io.Discard))
		object := &admissionv1alpha1.AdmissionRules{}
		cluster.Must(t, server.Client.Get(t.Context(), client.ObjectKey{Name: admissionv1alpha1.Name}, object))
		var got []string
		for _, r := range ruleset.CompileAdmission(object) {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the object has %v, want %v", got, want)
		}
	}
}

// refuses plays an installation in Nodegate's own group, in which a flag was forgotten.
func refuses(t *testing.T, server *cluster.Cluster, crds apiextensions.CustomResourceDefinitionInterface) {
	object := &admissionv1alpha1.AdmissionRules{}
	cluster.Must(t, server.Client.Get(t.Context(), client.ObjectKey{Name: admissionv1alpha1.Name}, object))
	object.MarkerPrefix = "nodegate.io/bootstrap-completed-"
	cluster.Must(t, server.Client.Update(t.Context(), object))
	edited, err := crds.Get(t.Context(), crd.Name(), metav1.GetOptions{})
	cluster.Must(t, err)
	edited.Spec.Names.Categories = []string{"theirs"}
	edited, err = crds.Update(t.Context(), edited, metav1.UpdateOptions{})
	cluster.Must(t, err)
	for _, args := range [][]string{
		{"apply-crd"}, {"apply-crd", "--check-group"}, {"delete-rules", "--all", "--timeout=5s"},
		{"--leader-elect=false", "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=0"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		cmd := newCommand(&options{})
		cmd.SetArgs(append(args, "--kubeconfig="+server.Kubeconfig()))
		cmd.SetOut(io.Discard)
		err := cmd.ExecuteContext(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "set --api-group=rules.nodegate.io") {
			t.Errorf("%v: %v", args, err)
		}
	}
	now, err := crds.Get(t.Context(), crd.Name(), metav1.GetOptions{})
	cluster.Must(t, err)
	if now.Generation != edited.Generation {
		t.Error("the CRD of the other group was written")
	}
	rules := &v1alpha1.NodeReadinessRuleList{}
	cluster.Must(t, server.Client.List(t.Context(), rules))
	for i := range rules.Items {
		if !rules.Items[i].DeletionTimestamp.IsZero() {
			t.Errorf("rule %s of the other group was deleted", rules.Items[i].Name)
		}
	}
	if len(rules.Items) == 0 {
		t.Error("the rules of the other group are gone")
	}

	served := v1alpha1.Served().Name
	t.Cleanup(func() { cluster.Must(t, v1alpha1.Serve(served)) })
	cmd := newCommand(&options{})
	cmd.SetArgs([]string{"apply-crd", "--check-group", "--api-group=rules.nodegate.io",
		"--kubeconfig=" + server.Kubeconfig()})
	cluster.Must(t, cmd.ExecuteContext(t.Context()))
	if _, err := crds.Get(t.Context(), crd.Name(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a check has written the CRD: %v", err)
	}
}
