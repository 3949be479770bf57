// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/version"
)

var ours = client.MatchingLabels{"app.kubernetes.io/name": "nodegate"}

// bundled returns the kinds of objects in a bundle. Secrets are not among them.
func bundled(ctx context.Context, c *input.Cluster) []kindOfBundle {
	kinds := []kindOfBundle{{v1alpha1.GroupVersion().String(), "NodeReadinessRule", nil}}
	for _, name := range []string{crd.Name(), "admissionrules.nodegate.io", "keptendpoints.nodegate.io"} {
		kinds = append(kinds, kindOfBundle{"apiextensions.k8s.io/v1", "CustomResourceDefinition", []client.ListOption{
			client.MatchingFields{"metadata.name": name},
		}})
	}
	for _, namespace := range namespaces(ctx, c) {
		kinds = append(kinds, kindOfBundle{"v1", "Event", []client.ListOption{client.InNamespace(namespace)}},
			kindOfBundle{"coordination.k8s.io/v1", "Lease", []client.ListOption{client.InNamespace(namespace)}})
	}
	return append(kinds, otherKinds...)
}

// namespaces returns the namespaces with a deployment of the operator, or the usual one if there is none, or if it
// cannot be read.
func namespaces(ctx context.Context, c *input.Cluster) []string {
	found := sets.New[string]()
	deployments, _ := input.List[*appsv1.Deployment](ctx, c, "the operator's deployment", &appsv1.DeploymentList{},
		input.OperatorLabels)
	for _, d := range deployments {
		found.Insert(d.Namespace)
	}
	if found.Len() == 0 {
		return []string{input.Namespace}
	}
	return sets.List(found)
}

type kindOfBundle struct {
	apiVersion, kind string
	options          []client.ListOption
}

var otherKinds = []kindOfBundle{
	{"v1", "Node", nil},
	{"v1", "Event", []client.ListOption{client.MatchingFields{"involvedObject.kind": "Node"}}},
	{"v1", "Event", []client.ListOption{client.MatchingFields{"involvedObject.kind": "NodeReadinessRule"}}},
	{"v1", "Pod", []client.ListOption{ours}},
	{"v1", "ServiceAccount", []client.ListOption{ours}},
	{"v1", "ConfigMap", []client.ListOption{ours}},
	{"v1", "Service", []client.ListOption{ours}},
	{"apps/v1", "Deployment", []client.ListOption{ours}},
	{"apps/v1", "DaemonSet", []client.ListOption{ours}},
	{"policy/v1", "PodDisruptionBudget", []client.ListOption{ours}},
	{"networking.k8s.io/v1", "NetworkPolicy", []client.ListOption{ours}},
	{"nodegate.io/v1alpha1", "AdmissionRules", nil},
	{"nodegate.io/v1alpha1", "KeptEndpoints", nil},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", []client.ListOption{ours}},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", []client.ListOption{ours}},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", []client.ListOption{ours}},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", []client.ListOption{ours}},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", []client.ListOption{ours}},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", []client.ListOption{ours}},
}

const (
	redacted = "REDACTED"
	logLines = 5000 // of each container
	logPods  = 20   // pods whose logs are in a bundle
)

func newSupportBundle(p *plugin) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write rules, statuses, records, events, logs and configuration to a file for support",
		Long: `Write a .tar.gz file with what is needed to analyze a problem: rules with their statuses, nodes with
their records, explanations of all nodes, events, and the operator's and the agents' logs, objects
and versions.

The plugin reads no Secrets. It replaces the values of environment variables and of HTTP headers,
and removes annotations that may repeat them. What you have no permission to read is listed in errors.txt; if
nothing could be read, the command fails. Check the file before you share it: it has the names,
labels and addresses of nodes.`,
		Example: "  kubectl nodegate support-bundle\n  kubectl nodegate support-bundle --file - | tar tz",
		Args:    cobra.NoArgs,
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, _ []string) error {
			return p.supportBundle(ctx, c, file)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "The file to write, or - for stdout. The default is nodegate-TIME.tar.gz "+
		"in this directory.")
	return cmd
}

func (p *plugin) supportBundle(ctx context.Context, c *input.Cluster, file string) (err error) {
	if file == "" {
		file = "nodegate-" + p.now().UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	out := p.streams.Out
	if file != "-" {
		created, opened := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if opened != nil {
			return opened
		}
		defer func() {
			if err = errors.Join(err, created.Close()); err != nil {
				_ = os.Remove(file) // an incomplete file would only mislead
			}
		}()
		out = created
	}
	zipped := gzip.NewWriter(out)
	b := &bundle{tar: tar.NewWriter(zipped), now: p.now()}
	if err := b.objects(ctx, c); err != nil {
		return fmt.Errorf("nothing could be read: %w", err)
	}
	b.logs(ctx, c)
	p.explanations(ctx, c, b)
	if b.errors.Len() > 0 {
		b.add("errors.txt", b.errors.Bytes())
	}
	if err := errors.Join(b.failed, b.tar.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	fmt.Fprint(p.streams.ErrOut, b.errors.String())
	if file != "-" {
		fmt.Fprintln(p.streams.ErrOut, "Wrote", file)
	}
	return nil
}

// bundle is a tar file that is being written.
type bundle struct {
	tar    *tar.Writer
	now    time.Time
	errors bytes.Buffer // what could not be read
	failed error        // why the file cannot be written
}

func (b *bundle) add(name string, content []byte) {
	err := b.tar.WriteHeader(&tar.Header{Name: "nodegate/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: b.now})
	if err == nil {
		_, err = b.tar.Write(content)
	}
	b.failed = errors.Join(b.failed, err)
}

func (b *bundle) addYAML(name string, v any) {
	raw, err := yaml.Marshal(v)
	b.problem(err)
	b.add(name, raw)
}

func (b *bundle) problem(err error) {
	if err != nil {
		fmt.Fprintln(&b.errors, "warning:", err)
	}
}

// objects adds the objects of all kinds. It returns the first error if no kind could be read.
func (b *bundle) objects(ctx context.Context, c *input.Cluster) error {
	found, failed, read := map[string][]any{}, []error(nil), false
	for _, k := range bundled(ctx, c) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(k.apiVersion)
		list.SetKind(k.kind + "List")
		items, err := input.List[*unstructured.Unstructured](ctx, c, k.kind, list, k.options...)
		if meta.IsNoMatchError(err) && k.kind != "NodeReadinessRule" {
			continue // not every cluster has this kind
		}
		if err != nil {
			b.problem(err)
			failed = append(failed, err)
		}
		read = read || err == nil
		for _, item := range items {
			redact(item)
			found[k.kind] = append(found[k.kind], item.Object)
		}
	}
	if !read {
		return failed[0]
	}
	for kind, items := range found {
		b.addYAML(strings.ToLower(kind)+".yaml", map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	return nil
}

// redact removes what may be secret: the values of environment variables and of HTTP headers, and annotations that
// repeat an object.
func redact(o *unstructured.Unstructured) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	o.SetAnnotations(annotations)
	redactValues(o.Object)
	if data, ok := o.Object["data"].(map[string]any); ok && o.GetKind() == "ConfigMap" {
		for key, value := range data {
			if text, ok := value.(string); ok && strings.Contains(text, "httpHeaders") {
				data[key] = redactText(text)
			}
		}
	}
}

// redactText redacts YAML or JSON, such as the configuration of the agents.
func redactText(text string) string {
	var content any
	if yaml.Unmarshal([]byte(text), &content) != nil {
		return redacted
	}
	redactValues(content)
	out, err := yaml.Marshal(content)
	if err != nil {
		return redacted
	}
	return string(out)
}

func redactValues(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if list, ok := value.([]any); ok && (key == "env" || key == "httpHeaders") {
				for _, item := range list {
					if named, ok := item.(map[string]any); ok && named["value"] != nil {
						named["value"] = redacted
					}
				}
			}
			redactValues(value)
		}
	case []any:
		for _, value := range v {
			redactValues(value)
		}
	}
}

// logs adds the logs of the operator, then of agents that are not ready, then of others.
func (b *bundle) logs(ctx context.Context, c *input.Cluster) {
	pods, err := input.List[*corev1.Pod](ctx, c, "pods of Nodegate", &corev1.PodList{}, ours)
	b.problem(err)
	rank := func(pod *corev1.Pod) int {
		ready := condition.OfPod(pod, corev1.PodReady)
		switch {
		case pod.Labels["app.kubernetes.io/component"] == "manager":
			return 0
		case ready == nil || ready.Status != corev1.ConditionTrue:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	for _, pod := range pods[:min(logPods, len(pods))] {
		for _, status := range pod.Status.ContainerStatuses {
			b.log(ctx, c, pod, status.Name, false)
			if status.RestartCount > 0 {
				b.log(ctx, c, pod, status.Name, true)
			}
		}
	}
}

func (b *bundle) log(ctx context.Context, c *input.Cluster, pod *corev1.Pod, container string, previous bool) {
	name := pod.Namespace + "_" + pod.Name + "_" + container
	if previous {
		name += "_previous"
	}
	options := &corev1.PodLogOptions{Container: container, Previous: previous, TailLines: new(int64(logLines)),
		Timestamps: true}
	stream, err := c.Clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		b.problem(input.Explain(err, "reading the log "+name))
		return
	}
	defer func() { _ = stream.Close() }() // read to its end, or failed already
	content, err := io.ReadAll(stream)
	b.problem(err)
	b.add("logs/"+name+".log", content)
}

// explanations adds the versions and the explanation of each node.
func (p *plugin) explanations(ctx context.Context, c *input.Cluster, b *bundle) {
	v := &report.Versions{TypeMeta: report.Type("Versions"), Plugin: version.Version, Commit: version.Commit()}
	b.problem(versions(ctx, c, v))
	b.addYAML("versions.yaml", v)
	moment, err := p.moment(ctx, c)
	if err != nil {
		b.problem(err)
		return
	}
	nodes, err := moment.Nodes()
	b.problem(err)
	var all []*report.NodeExplanation
	for _, node := range nodes {
		all = append(all, moment.Node(node))
	}
	b.addYAML("explanations.yaml", report.NewNodes(all))
}
