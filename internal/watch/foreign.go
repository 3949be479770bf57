// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// lookForForeign is how often to look for the CRD of another controller while it is missing or cannot be read.
	lookForForeign = 5 * time.Second
	// looks is how many looks in a row must find no CRD before rules that were there count as gone, and how many must
	// fail before Nodegate acts without having read the rules.
	looks = 3
	// lookTimeout is how long one look may take, and the start of a watch, and reading the rule of one event.
	lookTimeout = 10 * time.Second
)

var errNoCRD = errors.New("their CRD is not served: the rules that were there count until this is certain")

// othersRead is exported in Nodegate's own API group: an alert fires while it is 0.
var (
	othersRead = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "node_readiness_other_rules_read",
		Help: "1 if the replica could read the rules of another controller at its last look and begin to watch them, 0 if " +
			"not. Only exported in Nodegate's own API group.",
	})
	exportOthersRead = sync.OnceFunc(func() { metrics.Registry.MustRegister(othersRead) })
)

// readOthers sets othersRead after an attempt to read the rules of another controller.
func readOthers(err error) {
	if err != nil {
		othersRead.Set(0)
		return
	}
	othersRead.Set(1)
}

// Foreign watches the rules of another controller in the default API group, for an installation in Nodegate's own one,
// and freezes the rules of Nodegate that have the same taints. The other controller's CRD may come, go, and change its
// version, so each look asks for the version. It reads a rule only when its generation changes: the status may be large
// and change often. If the rules cannot be read, the last ones count. Until they have been read once, or several looks
// have failed, Rules has not synced: a replica that does not know them could remove taints that are not its own.
type Foreign struct {
	Discovery rest.Interface
	Metadata  metadata.Interface
	Client    dynamic.Interface
	Rules     *Rules

	// known are the rules that count, by name. unfinished are those of a look that failed, as far as it has read them: the
	// next look does not read them again.
	known, unfinished map[string]foreignRule
	// missing is how many looks in a row found no CRD, and failed how many failed. Looks on request count only if they
	// timed out: many may come at once. failing is true after so many have failed that no change waits for another one.
	missing, failed int
	failing         atomic.Bool
	// asks are requests to look again, and waiting those that the next look answers. ended is closed when Start ends.
	asks    chan chan struct{}
	waiting []chan struct{}
	ended   chan struct{}
}

type foreignRule struct {
	uid        types.UID
	version    string
	generation int64
	taint      ruleset.TaintID
	managed    bool      // not in dry-run
	continues  types.UID // the rule whose copy it is
}

// foreignTo returns the taints that another controller manages. The copy of a rule of the set is not that controller's:
// "kubectl nodegate convert --live" has made it, and has not handed the rules over.
func foreignTo(set *ruleset.Set, theirs map[string]foreignRule) ruleset.Foreign {
	foreign := ruleset.Foreign{}
	for name, rule := range theirs {
		if rule.managed && set.Rule(rule.continues) == nil {
			foreign.Add(name, rule.taint)
		}
	}
	return foreign
}

// Look reads the other controller's rules, and gives them to Rules. It returns the resource and the version from which
// to watch, or nil if their CRD is missing. asked says that the look is on request.
func (f *Foreign) Look(ctx context.Context, asked bool) (*schema.GroupVersionResource, string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resource, version, err := f.look(ctx, asked)
	switch {
	case err == nil:
		f.failed = 0
	case !asked || ctx.Err() != nil:
		f.failed++
	}
	f.failing.Store(f.failed >= looks)
	if err != nil || resource == nil { // else the start of the watch decides
		readOthers(err)
	}
	if f.failed >= looks {
		f.Rules.assumeForeign()
	}
	return resource, version, err
}

// Failing reports whether so many looks have failed that no change of a rule waits for another one.
func (f *Foreign) Failing() bool { return f.failing.Load() }

// Apply applies one event of the watch.
func (f *Foreign) Apply(ctx context.Context, resource schema.GroupVersionResource, event watch.Event) error {
	rule, ok := event.Object.(*metav1.PartialObjectMetadata)
	switch {
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	case !ok:
		return nil
	case event.Type == watch.Deleted:
		if f.known[rule.Name].uid == rule.UID { // else it was created again, and read, before this event came
			delete(f.known, rule.Name)
		}
	default:
		reading, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if err := f.read(reading, resource, f.known, rule); err != nil {
			return err
		}
	}
	f.serve()
	return nil
}

// look reads the other controller's rules for Look.
func (f *Foreign) look(ctx context.Context, asked bool) (*schema.GroupVersionResource, string, error) {
	resource, err := f.find(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("finding their version: %w", err)
	}
	if resource == nil {
		// An API server that has just started, or was told of a change of the CRD later than another one, does not serve it.
		if !asked {
			f.missing++
		}
		if len(f.known) > 0 && f.missing < looks {
			return nil, "", errNoCRD
		}
		f.known, f.unfinished = nil, nil
		f.serve()
		return nil, "", nil
	}
	f.missing = 0
	list, err := f.Metadata.Resource(*resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("listing rules: %w", err)
	}
	next := make(map[string]foreignRule, len(list.Items))
	for i := range list.Items {
		name := list.Items[i].Name
		if rule, ok := f.known[name]; ok {
			next[name] = rule
		}
		if rule, ok := f.unfinished[name]; ok {
			next[name] = rule
		}
	}
	f.unfinished = next
	for i := range list.Items {
		if err := f.read(ctx, *resource, next, &list.Items[i]); err != nil {
			return nil, "", err
		}
	}
	f.known, f.unfinished = next, nil
	f.serve()
	return resource, list.ResourceVersion, nil
}

// find returns the resource in the first version that is served and has it, or nil if there is none. The preferred
// version of the group may have only other resources.
func (f *Foreign) find(ctx context.Context) (*schema.GroupVersionResource, error) {
	group := &metav1.APIGroup{}
	err := f.Discovery.Get().AbsPath("/apis/" + v1alpha1.GroupNames()[0]).Do(ctx).Into(group)
	for i := 0; err == nil && i < len(group.Versions); i++ {
		resources, version := &metav1.APIResourceList{}, group.Versions[i]
		err = f.Discovery.Get().AbsPath("/apis/" + version.GroupVersion).Do(ctx).Into(resources)
		const plural = "nodereadinessrules"
		if err == nil && slices.ContainsFunc(resources.APIResources,
			func(r metav1.APIResource) bool { return r.Name == plural }) {
			return &schema.GroupVersionResource{Group: group.Name, Version: version.Version, Resource: plural}, nil
		}
		if apierrors.IsNotFound(err) { // this version is no longer served
			err = nil
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return nil, err
}

// read reads a rule whose metadata is known into rules, unless they have this generation of it.
func (f *Foreign) read(ctx context.Context, resource schema.GroupVersionResource, rules map[string]foreignRule,
	rule *metav1.PartialObjectMetadata) error {
	have, known := rules[rule.Name]
	continues := types.UID(rule.Annotations[v1alpha1.SuccessorAnnotation])
	if known && have.uid == rule.UID && have.version == resource.Version && have.generation == rule.Generation &&
		rule.Generation > 0 {
		have.continues = continues
		rules[rule.Name] = have
		return nil
	}
	list, err := f.Client.Resource(resource).List(ctx, metav1.ListOptions{
		FieldSelector: metav1.ObjectNameField + "=" + rule.Name})
	if err != nil {
		return fmt.Errorf("reading rule %q: %w", rule.Name, err)
	}
	delete(rules, rule.Name) // it may have been deleted since
	for i := range list.Items {
		one := &list.Items[i]
		next := foreignRule{uid: one.GetUID(), version: resource.Version, generation: one.GetGeneration(),
			continues: continues}
		if next.taint, next.managed = ruleset.ForeignTaint(one.Object); next.taint.Key == "" || next.taint.Effect == "" {
			log.FromContext(ctx).Info("A rule of another controller has no taint that this version of Nodegate can read",
				"rule", one.GetName(), "apiVersion", one.GetAPIVersion())
		}
		rules[one.GetName()] = next
	}
	return nil
}

func (f *Foreign) serve() { f.Rules.setForeign(maps.Clone(f.known)) }
