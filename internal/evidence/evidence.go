// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/evidence/expression"
)

// Requirement is a compiled requirement of a rule.
type Requirement struct {
	Name string
	// Kind is nil if the requirement is invalid.
	Kind Kind
}

// Kind is a compiled requirement of one kind of evidence.
type Kind interface {
	// Origin says where the evidence is read.
	Origin() Origin
	// judge evaluates the evidence on a node.
	judge(f *Facts, now time.Time) (condition.Judgement, finding)
}

// Origin says where evidence is read.
type Origin int

const (
	// Unread: the requirement is invalid, or it requires another rule.
	Unread Origin = iota
	// OnNode: the evidence is on the Node object, beside labels and conditions.
	OnNode
	// Elsewhere: the evidence is on other objects. The operator gathers it.
	Elsewhere
)

// Provider tells the DaemonSets that bring a piece of evidence to a node.
type Provider struct {
	// Field is the requirement's field that names the evidence, and What is the evidence in words.
	Field, What string
	// Driver is the name of the driver that they register at the kubelet.
	Driver string
	// Mounts is the end of the directory that they mount, if they are named after the vendor in Domain.
	Mounts, Domain string
}

// Provided is a kind of evidence that DaemonSets bring to a node.
type Provided interface{ Provider() Provider }

// finding is what was found for a requirement. It may also have the methods refutes and warning; see Result.
type finding interface {
	// message describes the evidence. r is the result of the requirement.
	message(r *Result) string
}

// kinds compile a requirement, each of one kind. They return nil for requirements of the other kinds.
var kinds = []func(p *Problems, field string, r *v1alpha1.Requirement) Kind{
	compilePods, compileDaemonSets, compileCSIDriver, compileResource, compileDevices, compileExpression,
	compileNoTaint, compileRuleSatisfied,
}

// Compile validates and compiles a requirement. An invalid one has no kind: it is evaluated even though the rule is
// frozen, and must not be watched.
func Compile(p *Problems, field string, r *v1alpha1.Requirement) Requirement {
	var given []Kind
	var found Problems
	for _, compile := range kinds {
		if k := compile(&found, field, r); k != nil {
			given = append(given, k)
		}
	}
	switch {
	case len(given) == 0:
		p.Unsupported(field, "has no kind of evidence that this version supports")
	case len(given) > 1:
		p.Invalid(field, "give exactly one of pods, daemonSets, csiDriver, resource, devices, cel, noTaint and "+
			"ruleSatisfied")
	case len(found) > 0:
		*p = append(*p, found...)
	default:
		return Requirement{Name: r.Name, Kind: given[0]}
	}
	return Requirement{Name: r.Name}
}

// Origin says where the evidence of a requirement is read.
func (r *Requirement) Origin() Origin {
	if r.Kind == nil {
		return Unread
	}
	return r.Kind.Origin()
}

// Rule returns the name of the rule that is required, or "".
func (r *Requirement) Rule() string {
	if k, ok := r.Kind.(*ruleSatisfied); ok {
		return k.Name
	}
	return ""
}

// Gathered is the evidence on a node for the requirements of all rules. It is not safe for concurrent use.
type Gathered struct {
	// Rules are the states of the rules that were evaluated before on this node, by name.
	Rules map[string]Satisfaction
	// Pods are the pods that a requirement selects and that are on the node, or created for it.
	Pods map[*Pods][]*corev1.Pod
	// DaemonPods are the pods of DaemonSets on the node, or created for it, by namespace.
	DaemonPods map[string][]DaemonPod
	// Absent returns since when the node has had no pod of a DaemonSet, as far as this process has observed. nil means
	// that this is unknown.
	Absent func(ds types.UID, now time.Time) time.Time
	// CSINode is the CSINode of the node, or nil if there is none.
	CSINode *storagev1.CSINode
	// Devices is the number of devices that each DRA driver has published for the node.
	Devices map[string]int64

	value expression.Value // of the node, for expressions; set at the first use
}

// requirement returns the judgement of a requirement whose evidence has no time.
func requirement(satisfied, missing bool) condition.Judgement {
	j := condition.Judgement{Satisfied: satisfied, Status: v1alpha1.ConditionFalse, Cause: condition.CauseReported}
	if satisfied {
		j.Status = v1alpha1.ConditionTrue
	}
	if missing && !satisfied {
		j.Cause = condition.CauseMissing
	}
	return j
}

// unread returns the judgement of a requirement whose evidence could not be read.
func unread() condition.Judgement {
	return condition.Judgement{Status: v1alpha1.ConditionUnknown, Cause: condition.CauseUnread}
}

// undated is requirement for evidence that may be from before the node booted, since nothing tells its time.
func (f *Facts) undated(satisfied, missing bool, now time.Time) condition.Judgement {
	boot := f.bootState(now)
	if boot != booting || !satisfied {
		return requirement(satisfied, missing)
	}
	j := requirement(false, false)
	j.Cause = condition.CauseBeforeBoot
	f.Boot.await(boot, &j, now)
	return j
}
