// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"maps"
	"reflect"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// LeanRules returns a transform of the cache of rules. A rule that differs from its former version in the status only
// shares the rest with it. Compiled rules keep the version from which they were made: without this, the memory would
// hold each rule twice after the first write of its status, and a rule may have more than a megabyte.
func LeanRules() toolscache.TransformFunc {
	var mu sync.Mutex
	known := map[types.UID]weak.Pointer[v1alpha1.NodeReadinessRule]{}
	return func(obj any) (any, error) {
		rule, ok := obj.(*v1alpha1.NodeReadinessRule)
		if !ok {
			return obj, nil
		}
		rule.ManagedFields = nil
		mu.Lock()
		defer mu.Unlock()
		if before := known[rule.UID].Value(); before != nil {
			if reflect.DeepEqual(&before.Spec, &rule.Spec) {
				rule.Spec = before.Spec
			}
			if maps.Equal(before.Annotations, rule.Annotations) {
				rule.Annotations = before.Annotations
			}
		}
		maps.DeleteFunc(known, func(_ types.UID, p weak.Pointer[v1alpha1.NodeReadinessRule]) bool { return p.Value() == nil })
		known[rule.UID] = weak.Make(rule)
		return rule, nil
	}
}
