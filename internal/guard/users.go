// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// AllUsers are the users whom any rule guards against, in a fixed order; the default ones, where no rule guards.
func AllUsers(rules *ruleset.Set) []string {
	var users []string
	for _, r := range rules.All() {
		if r.Spec.EvictionGuard != nil {
			users = append(users, Users(r)...)
		}
	}
	if len(users) == 0 {
		users = []string{v1alpha1.DefaultGuardedUser, ControllerManager}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// MatchCondition is the CEL expression by which the API server calls the webhook for these users only, and for what the
// controller manager deletes as itself only if it has announced that as an eviction.
func MatchCondition(users []string) string {
	var named []string
	var conditions []string
	for _, u := range users {
		if u == ControllerManager {
			continue
		}
		named = append(named, strconv.QuoteToASCII(u))
	}
	if len(named) > 0 {
		conditions = append(conditions, "request.userInfo.username in ["+strings.Join(named, ", ")+"]")
	}
	if slices.Contains(users, ControllerManager) {
		conditions = append(conditions, "request.userInfo.username == "+strconv.QuoteToASCII(ControllerManager)+
			" && has(oldObject.status.conditions) && oldObject.status.conditions.exists(c, c.type == \"DisruptionTarget\" && has(c.reason) && c.reason == "+
			strconv.QuoteToASCII(byTaintManager)+")")
	}
	return strings.Join(conditions, " || ")
}
