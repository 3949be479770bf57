// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

const (
	// APIVersion tells the file's format from later ones.
	APIVersion = "agent.nodegate.io/v1alpha1"
	// Kind tells the file from others.
	Kind = "AgentConfiguration"

	// MaxSize is the maximum size of an encoded file, in bytes. A ConfigMap holds 1 MiB, including its metadata.
	MaxSize = 1<<20 - 16<<10
	// MaxConditions is the maximum size of the list of conditions, in bytes. Annotations of an object hold 256 KiB.
	MaxConditions = 192 << 10

	// Key is the key of the file in the ConfigMap, and its name in the mounted ConfigMap.
	Key = "rules.json"
	// ConditionsAnnotation is an annotation of the agents' ServiceAccount. It lists the types of the conditions that
	// agents publish, one on each line. The ValidatingAdmissionPolicy that confines the agents reads it. It is not in the
	// ConfigMap: when the last policy with a ConfigMap as its parameter is deleted, the API server never watches
	// ConfigMaps again (seen with 1.36), but it always watches ServiceAccounts. Without the ServiceAccount, there are no
	// agents.
	ConditionsAnnotation = v1alpha1.Domain + "agent-conditions"
)

// File is the configuration of all agents.
type File struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Rules are the rules that concern agents, the oldest first.
	Rules []Rule `json:"rules"`

	unknown []string
}

// Unknown returns the fields that this version does not know, and ignores, by their paths.
func (f *File) Unknown() []string { return f.unknown }

// New returns a configuration of these rules.
func New(rules ...Rule) *File {
	return &File{APIVersion: APIVersion, Kind: Kind, Rules: append([]Rule{}, rules...)}
}

// Rule is what agents need of a rule.
type Rule struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// CreationTimestamp decides which of two rules publishes a condition: the older one.
	CreationTimestamp metav1.Time           `json:"creationTimestamp"`
	NodeSelector      v1alpha1.NodeSelector `json:"nodeSelector"`
	// Conditions are the conditions that a rule with health requires. With AnyOf, one of them is enough.
	Conditions []v1alpha1.ConditionRequirement `json:"conditions,omitempty"`
	AnyOf      bool                            `json:"anyOf,omitempty"`
	// Elsewhere reports whether a rule with health requires evidence that agents do not see.
	Elsewhere bool             `json:"elsewhere,omitempty"`
	Probes    []v1alpha1.Probe `json:"probes,omitempty"`
	Health    *v1alpha1.Health `json:"health,omitempty"`
}

// ErrTooLarge is the error of a file that does not fit into a ConfigMap, or of conditions that do not fit into an
// annotation.
var ErrTooLarge = errors.New("the agents' configuration is too large")

// Encode returns the bytes of the file, which are always the same for the same rules. If they exceed MaxSize, the error
// is ErrTooLarge.
func (f *File) Encode() ([]byte, error) {
	raw, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding the agents' configuration: %w", err)
	}
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("%w for a ConfigMap: %d bytes", ErrTooLarge, len(raw))
	}
	return append(raw, '\n'), nil
}

// Conditions returns the value of ConditionsAnnotation: the types of the conditions that the rules' probes publish. If
// it exceeds MaxConditions, the error is ErrTooLarge.
func (f *File) Conditions() (string, error) {
	var types []string
	for i := range f.Rules {
		for j := range f.Rules[i].Probes {
			types = append(types, f.Rules[i].Probes[j].ConditionType)
		}
	}
	slices.Sort(types)
	conditions := strings.Join(slices.Compact(types), "\n")
	if n := len(conditions); n > MaxConditions {
		return "", fmt.Errorf("%w: the names of its conditions have %d bytes, for an annotation of at most %d", ErrTooLarge,
			n, MaxConditions)
	}
	return conditions, nil
}

// Decode reads a file. Later versions may have fields that are unknown here. They are ignored, and Unknown has them.
// Another apiVersion or kind is an error.
func Decode(raw []byte) (*File, error) {
	f := &File{}
	unknown, err := kjson.UnmarshalStrict(raw, f, kjson.DisallowUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	for _, field := range unknown {
		if at, ok := errors.AsType[kjson.FieldError](field); ok {
			f.unknown = append(f.unknown, at.FieldPath())
		}
	}
	if f.APIVersion != APIVersion || f.Kind != Kind {
		return nil, fmt.Errorf("reading the configuration: want apiVersion %s and kind %s, not %q and %q", APIVersion, Kind,
			f.APIVersion, f.Kind)
	}
	return f, nil
}

// Select returns the rules that match a node's labels, and without their probes those by whose record the operator
// still holds the node: of a suspended rule, it does so if the labels change. An invalid or empty selector matches no
// node, so that an invalid rule affects no other rule.
func (f *File) Select(node *corev1.Node) []Rule {
	var out []Rule
	byName := sync.OnceValue(func() map[string]v1alpha1.HealthVerdict { return recordsOn(node) })
	for i := range f.Rules {
		rule := f.Rules[i]
		selector, err := rule.NodeSelector.AsSelector()
		switch {
		case err == nil && !selector.Empty() && selector.Matches(labels.Set(node.Labels)):
		case rule.Health != nil && rule.recorded(node, byName) == v1alpha1.HealthNotReady:
			rule.Probes = nil
		default:
			continue
		}
		out = append(out, rule)
	}
	return out
}

// Recorded returns the operator's verdict from its record on the node; empty if there is none. While the API group is
// changed, the record may be that of the rule of the same name in the other group: the operator moves it a moment
// before or after this configuration.
func (r *Rule) Recorded(node *corev1.Node) v1alpha1.HealthVerdict {
	return r.recorded(node, func() map[string]v1alpha1.HealthVerdict { return recordsOn(node) })
}

func (r *Rule) recorded(node *corev1.Node, byName func() map[string]v1alpha1.HealthVerdict) v1alpha1.HealthVerdict {
	if value, ok := node.Annotations[v1alpha1.RecordAnnotationPrefix+string(r.UID)]; ok {
		_, health := recordIn(value)
		return health
	}
	return byName()[r.Name]
}

// recordsOn returns the verdicts of all records on a node, by the name of the rule.
func recordsOn(node *corev1.Node) map[string]v1alpha1.HealthVerdict {
	out := map[string]v1alpha1.HealthVerdict{}
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
			rule, health := recordIn(value)
			out[rule] = health
		}
	}
	return out
}

// recordIn returns the rule and the verdict of a record; empty if it cannot be read.
func recordIn(value string) (rule string, health v1alpha1.HealthVerdict) {
	var record struct {
		Rule   string
		Health v1alpha1.HealthVerdict
	}
	if json.Unmarshal([]byte(value), &record) != nil {
		return "", ""
	}
	return record.Rule, record.Health
}
