// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reason and action of the event on the ConfigMap.
const (
	reasonTooLarge = "AgentConfigTooLarge"
	actionCompile  = "CompileAgentConfig"
)

// fieldOwner is the field manager of the writes. Fields of other managers stay.
const fieldOwner = "nodegate"

// Reconciler reconciles the ConfigMap, and the annotation of the agents' ServiceAccount, with the rules. It has one
// worker.
type Reconciler struct {
	// Client reads and writes without a cache. Reads are rare, and a missing permission to read the ConfigMap must not
	// stop other controllers, as an informer that cannot sync would.
	Client client.Client
	// Rules returns the current snapshot of all rules.
	Rules func() *ruleset.Set
	// Recorder records events on the ConfigMap.
	Recorder events.EventRecorder
	// Key is the namespace and name of the ConfigMap.
	Key client.ObjectKey
	// Account is the agents' ServiceAccount.
	Account client.ObjectKey

	// last is the last configuration that was written, or nil. Rules that have become invalid keep their part of
	// it.
	last *config.File
	// refused is the last message about rules that are left out, so that it is emitted once.
	refused string
}

// Reconcile writes the ConfigMap if it differs from the configuration of the rules.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	exportCurrent()
	stored := &corev1.ConfigMap{}
	if err := r.Client.Get(ctx, r.Key, stored); client.IgnoreNotFound(err) != nil {
		current.Set(0)
		return reconcile.Result{}, fmt.Errorf("reading the agents' configuration: %w", err)
	}
	file := compile(r.Rules(), r.before(stored))
	raw, conditions, left, err := fit(file)
	if err != nil {
		current.Set(0)
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	// The permission to publish conditions comes first, and then the probes that publish them.
	if err := r.allow(ctx, conditions); err != nil {
		current.Set(0)
		return reconcile.Result{}, err
	}
	if stored.Data[config.Key] != raw {
		current.Set(0)
		if err := r.write(ctx, raw); err != nil {
			return reconcile.Result{}, err
		}
		log.FromContext(ctx).Info("Wrote the agents' configuration", "rules", len(file.Rules), "bytes", len(raw))
	}
	r.last = file
	r.tooLarge(ctx, left)
	if len(left) == 0 {
		current.Set(1)
	} else {
		current.Set(0)
	}
	size.Set(float64(len(raw)))
	return reconcile.Result{}, nil
}

// fit encodes the configuration. If it is too large, fit leaves out the largest rules, so that one rule does not stop
// the others.
func fit(file *config.File) (raw, conditions string, left []config.Rule, err error) {
	for {
		raw, conditions, err = encode(file)
		if !errors.Is(err, config.ErrTooLarge) {
			return raw, conditions, left, err
		}
		i := largest(file.Rules)
		left = append(left, file.Rules[i])
		file.Rules = slices.Delete(file.Rules, i, i+1)
	}
}

// largest returns the index of the rule with the longest encoding.
func largest(rules []config.Rule) int {
	sizes := make([]int, len(rules))
	for i := range rules {
		sizes[i] = encodedSize(&rules[i])
	}
	return slices.Index(sizes, slices.Max(sizes))
}

func encodedSize(rule *config.Rule) int {
	raw, err := json.Marshal(rule)
	if err != nil { // strings and numbers: cannot happen
		return 0
	}
	return len(raw)
}

func encode(file *config.File) (raw, conditions string, err error) {
	bytes, err := file.Encode()
	if err != nil {
		return "", "", err
	}
	conditions, err = file.Conditions()
	return string(bytes), conditions, err
}

// allow writes the conditions that agents may publish to their ServiceAccount. Without that account there are no
// agents. When it is created, it is reconciled.
func (r *Reconciler) allow(ctx context.Context, conditions string) error {
	account := &corev1.ServiceAccount{}
	if err := r.Client.Get(ctx, r.Account, account); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the agents' ServiceAccount: %w", err)
	}
	if is, ok := account.Annotations[config.ConditionsAnnotation]; ok && is == conditions {
		return nil
	}
	before := account.DeepCopy()
	metav1.SetMetaDataAnnotation(&account.ObjectMeta, config.ConditionsAnnotation, conditions)
	if err := r.Client.Patch(ctx, account, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the conditions that agents may publish to ServiceAccount %s: %w", r.Account, err)
	}
	return nil
}

// before returns the configuration in force. After a restart it is the stored one.
func (r *Reconciler) before(stored *corev1.ConfigMap) *config.File {
	if r.last != nil {
		return r.last
	}
	file, err := config.Decode([]byte(stored.Data[config.Key]))
	if err != nil { // there is none, or it is broken
		return nil
	}
	return file
}

func (r *Reconciler) write(ctx context.Context, raw string) error {
	wanted := corev1ac.ConfigMap(r.Key.Name, r.Key.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/name": "nodegate", "app.kubernetes.io/component": "agent"}).
		WithData(map[string]string{config.Key: raw})
	if err := r.Client.Apply(ctx, wanted, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing the agents' configuration to ConfigMap %s: %w", r.Key, err)
	}
	writes.Inc()
	return nil
}

// tooLarge reports the rules that are left out because the configuration is too large.
func (r *Reconciler) tooLarge(ctx context.Context, left []config.Rule) {
	const few = 3
	words := make([]string, 0, few)
	for i := range left[:min(few, len(left))] {
		words = append(words, fmt.Sprintf("%s (%d bytes)", left[i].Name, encodedSize(&left[i])))
	}
	message := ""
	if len(left) > 0 {
		message = fmt.Sprintf("%v: the agents do not run the probes and health checks of the %d largest rules: %s",
			config.ErrTooLarge, len(left), strings.Join(words, ", "))
	}
	if message == r.refused {
		return
	}
	if r.refused = message; message == "" {
		return
	}
	log.FromContext(ctx).Info("The agents' configuration is too large, so the largest rules are left out", "rules",
		len(left), "largest", words)
	on := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Key.Namespace, Name: r.Key.Name},
	}
	r.Recorder.Eventf(on, nil, corev1.EventTypeWarning, reasonTooLarge, actionCompile, "%s", message)
}
