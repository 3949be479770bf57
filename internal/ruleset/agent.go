// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// The checks of /health that have a fixed name. A probe can run each of probeChecks.
var (
	probeChecks  = []string{"okd_router_1936", "filesystem_ro", "kubelet", "container_runtime", "disk_pressure", "network"}
	healthChecks = append([]string{"node_ready", "custom_conditions", "rules", "schedulable"}, probeChecks...)
)

// Prefixes of the names of checks. The rest is the name of a rule, or a name that the user chooses.
const (
	checkOfRule = "rule:"
	checkByHTTP = "http:"
)

// The grammar of the type of a condition, as in metav1.Condition, and that of a type with a domain.
const (
	domainGrammar = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/`
	nameGrammar   = `[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`
)

var (
	conditionType      = regexp.MustCompile(`^(` + domainGrammar + `)?` + nameGrammar + `$`)
	qualifiedCondition = regexp.MustCompile(`^` + domainGrammar + nameGrammar + `$`)
)

// agent validates the probes and the health checks of a rule, which node agents run.
func (v *validator) agent(spec *v1alpha1.NodeReadinessRuleSpec) {
	seen := map[string]bool{}
	for i := range spec.Probes {
		p := &spec.Probes[i]
		field := fmt.Sprintf("spec.probes[%d]", i)
		switch {
		case p.ConditionType == "" || seen[p.ConditionType]:
			v.Invalid(field+".conditionType", "is required, and must be different for each probe")
		case !conditionType.MatchString(p.ConditionType):
			v.Invalid(field+".conditionType", "%q is not a condition type such as example.com/CNIReady", p.ConditionType)
		case v1alpha1.KubernetesCondition(p.ConditionType):
			v.Invalid(field+".conditionType", "condition %s belongs to Kubernetes: choose a type of your own, for example "+
				"example.com/CNIReady", p.ConditionType)
		}
		seen[p.ConditionType] = true
		v.probe(field, p)
	}
	if spec.Health == nil {
		return
	}
	if len(spec.Health.Checks) == 0 {
		v.Invalid("spec.health.checks", "must have at least one check")
	}
	names := map[string]bool{}
	for i := range spec.Health.Checks {
		c := &spec.Health.Checks[i]
		field := fmt.Sprintf("spec.health.checks[%d]", i)
		if names[c.Name] {
			v.Invalid(field+".name", "is a duplicate")
		}
		names[c.Name] = true
		v.check(field, c)
	}
}

func (v *validator) probe(field string, p *v1alpha1.Probe) {
	actions := count(p.HTTPGet != nil, p.TCPSocket != nil, p.GRPC != nil, p.File != nil, p.Check != "")
	switch {
	case actions == 0:
		v.Unsupported(field, "has no action that this version supports")
	case actions > 1:
		v.Invalid(field, "give exactly one of httpGet, tcpSocket, grpc, file and check")
	case p.Check != "" && !slices.Contains(probeChecks, p.Check):
		v.Unknown(field+".check", p.Check)
	}
}

func (v *validator) check(field string, c *v1alpha1.HealthCheck) {
	byHTTP := strings.HasPrefix(c.Name, checkByHTTP)
	if !byHTTP && !strings.HasPrefix(c.Name, checkOfRule) && !slices.Contains(healthChecks, c.Name) {
		v.Unknown(field+".name", c.Name)
	}
	if byHTTP != (c.HTTPGet != nil) {
		v.Invalid(field+".httpGet", "is required in a check named http:<name>, and only there: give it, or use another name")
	}
	for _, p := range []struct {
		field, check string
		given        bool
	}{
		{"disk", "disk_pressure", c.Disk != nil},
		{"network", "network", c.Network != nil},
		{"containerRuntime", "container_runtime", c.ContainerRuntime != nil},
		{"filesystem", "filesystem_ro", c.Filesystem != nil},
		{"customConditions", "custom_conditions", c.CustomConditions != nil},
	} {
		if p.given && c.Name != p.check {
			v.Invalid(field+"."+p.field, "is for the check %s only: remove it, or use name: %s", p.check, p.check)
		}
	}
}
