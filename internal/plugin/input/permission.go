// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/sets"
)

// viewed are the resources that the ClusterRole plugin-viewer covers, and changed those of plugin-editor.
var (
	viewed = sets.New("nodereadinessrules", "events", "nodes", "pods", "daemonsets", "deployments", "csinodes",
		"resourceslices", "leases", "customresourcedefinitions", "admissionrules",
		"keptendpoints")
	changed = sets.New("nodereadinessrules", "nodes")
)

// refused is how the API server says what a user may not do.
var refused = regexp.MustCompile(`cannot (\w+) resource "([^"]+)"`)

// missing names the ClusterRole that has the permission which a request lacked.
func missing(err error) string {
	switch m := refused.FindStringSubmatch(err.Error()); {
	case m == nil:
	case m[1] == "patch" && changed.Has(m[2]):
		return "the ClusterRole nodegate-plugin-editor"
	case (m[1] == "get" || m[1] == "list" || m[1] == "watch") && viewed.Has(m[2]):
		return "the ClusterRole nodegate-plugin-viewer"
	}
	return "this permission"
}
