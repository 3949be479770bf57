// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	judge(t, group, plainSpec, map[string]verdict{
		"alone":                           {"{taint: null, enforcementMode: null, health: {checks: [{name: kubelet}]}}", nil},
		"every check":                     {"health: {checks: [{name: node_ready}, {name: okd_router_1936}, {name: filesystem_ro}, {name: kubelet}, {name: container_runtime}, {name: disk_pressure}, {name: network}, {name: custom_conditions}, {name: rules}, {name: \"rule:a.b-c\"}, {name: schedulable}, {name: \"http:a\", httpGet: {port: 1}}]}", nil},
		"33 checks":                       {"health: {checks: [" + words(33, "{name: \"rule:r%d\"}") + "]}", refused("spec.health.checks", "must have at most 32 items")},
		"a rule's name that is none":      {"health: {checks: [{name: \"rule:A_b\"}]}", refused("spec.health.checks[0].name", "should match")},
		"at their edges":                  {"health: {checks: [{name: kubelet, timeoutSeconds: 60, cacheSeconds: 3600}]}", nil},
		"no time at all":                  {"health: {checks: [{name: kubelet, timeoutSeconds: 0, cacheSeconds: -1}]}", []cause{{"spec.health.checks[0].cacheSeconds", "greater than or equal to 0"}, {"spec.health.checks[0].timeoutSeconds", "greater than or equal to 1"}}},
		"17 paths":                        {"health: {checks: [{name: disk_pressure, disk: {paths: [" + words(17, "/p%d") + "]}}]}", refused("spec.health.checks[0].disk.paths", "must have at most 16 items")},
		"a relative path":                 {"health: {checks: [{name: disk_pressure, disk: {paths: [var/lib]}}]}", refused("spec.health.checks[0].disk.paths[0]", "should match '^/'")},
		"a relative socket":               {"health: {checks: [{name: container_runtime, containerRuntime: {socket: run/x}}]}", refused("spec.health.checks[0].containerRuntime.socket", "should match '^/'")},
		"a relative path that is ignored": {"health: {checks: [{name: filesystem_ro, filesystem: {ignorePaths: [mnt]}}]}", refused("spec.health.checks[0].filesystem.ignorePaths[0]", "should match '^/'")},
		"health without a check":          {"health: {checks: []}", refused("spec.health.checks", "at least 1 items")},
		"health without checks":           {"health: {}", refused("spec.health.checks", "Required value")},
		"one check twice":                 {"health: {checks: [{name: kubelet}, {name: kubelet}]}", refused("spec.health.checks[1]", "Duplicate value")},
		"a check nobody knows":            {"health: {checks: [{name: weather}]}", refused("spec.health.checks[0].name", "should match")},
		"a check of another rule":         {"health: {checks: [{name: \"rule:preinit\"}]}", nil},
		"a check of its own":              {"health: {checks: [{name: \"http:cni\", httpGet: {port: 9099}}]}", nil},
		"a check of its own, no request":  {"health: {checks: [{name: \"http:cni\"}]}", refused("spec.health.checks[0].httpGet", "a check named http:<name>, and no other, needs httpGet")},
		"a request for another check":     {"health: {checks: [{name: kubelet, httpGet: {port: 1}}]}", refused("spec.health.checks[0].httpGet", "a check named http:<name>, and no other, needs httpGet")},
		"parameters of other checks":      {"health: {checks: [{name: kubelet, disk: {}, network: {}, containerRuntime: {}, filesystem: {}, customConditions: {}}]}", []cause{{"spec.health.checks[0].containerRuntime", "containerRuntime belongs to the check container_runtime"}, {"spec.health.checks[0].customConditions", "customConditions belongs to the check custom_conditions"}, {"spec.health.checks[0].disk", "disk belongs to the check disk_pressure"}, {"spec.health.checks[0].filesystem", "filesystem belongs to the check filesystem_ro"}, {"spec.health.checks[0].network", "network belongs to the check network"}}},
		"parameters of the right checks":  {"health: {checks: [{name: disk_pressure, disk: {}}, {name: network, network: {resolve: [a], defaultGateway: false}}, {name: container_runtime, containerRuntime: {socket: /run/x}}, {name: filesystem_ro, filesystem: {ignorePaths: [/mnt]}}, {name: custom_conditions, customConditions: {types: [a]}}]}", nil},
		"disk beyond a hundred percent":   {"health: {checks: [{name: disk_pressure, disk: {minimumFreePercent: 101, minimumFreeInodesPercent: -1}}]}", []cause{{"spec.health.checks[0].disk.minimumFreeInodesPercent", "greater than or equal to 0"}, {"spec.health.checks[0].disk.minimumFreePercent", "less than or equal to 100"}}},
		"a check that runs for too long":  {"health: {checks: [{name: kubelet, timeoutSeconds: 61, cacheSeconds: 3601}]}", []cause{{"spec.health.checks[0].cacheSeconds", "less than or equal to 3600"}, {"spec.health.checks[0].timeoutSeconds", "less than or equal to 60"}}},
	})
}

func TestProbes(t *testing.T) {
	const (
		at  = "spec.probes[0]"
		one = "give exactly one of httpGet, tcpSocket, grpc, file and check"
	)
	probe := func(p string) string { return "probes: [{conditionType: example.com/CNIReady, " + p + "}]" }
	cases := map[string]verdict{
		"of no kind":             {probe("periodSeconds: 1"), refused(at, one)},
		"of two kinds":           {probe("tcpSocket: {port: 1}, grpc: {port: 1}"), refused(at, one)},
		"of each kind":           {"probes: [{conditionType: a, httpGet: {port: 1}}, {conditionType: b, tcpSocket: {port: 65535}}, {conditionType: c, grpc: {port: 1}}, {conditionType: d, file: {path: /run/x}}, {conditionType: e, check: kubelet}]", nil},
		"one type twice":         {"probes: [{conditionType: a, tcpSocket: {port: 1}}, {conditionType: a, tcpSocket: {port: 2}}]", refused("spec.probes[1]", "Duplicate value")},
		"a type of a newline":    {`probes: [{conditionType: "a\nb", tcpSocket: {port: 1}}]`, refused(at+".conditionType", "should match")},
		"a type with a space":    {"probes: [{conditionType: a b, tcpSocket: {port: 1}}]", refused(at+".conditionType", "should match")},
		"a type of 316":          {"probes: [{conditionType: " + strings.Repeat("t", 316) + ", tcpSocket: {port: 1}}]", nil},
		"a type of 317":          {"probes: [{conditionType: " + strings.Repeat("t", 317) + ", tcpSocket: {port: 1}}]", refused(at+".conditionType", "may not be more than 316 bytes")},
		"no probes":              {"probes: []", nil},
		"probes are no effect":   {"{taint: null, enforcementMode: null, probes: [{conditionType: a, tcpSocket: {port: 1}}]}", refused("spec", "a rule needs an effect")},
		"at their edges":         {probe("tcpSocket: {port: 1}, periodSeconds: 3600, timeoutSeconds: 300, successThreshold: 100, failureThreshold: 100"), nil},
		"too many headers":       {probe("httpGet: {port: 1, headers: [" + words(17, "{name: h%d, value: x}") + "]}"), refused(at+".httpGet.headers", "must have at most 16 items")},
		"another's address":      {probe("httpGet: {port: 1, host: 192.0.2.1}"), nil}, // the agent decides
		"a file's age":           {probe("file: {path: /x, maxAgeSeconds: 2592000}"), nil},
		"a file of no age":       {probe("file: {path: /x, maxAgeSeconds: 0}"), refused(at+".file.maxAgeSeconds", "greater than or equal to 1")},
		"without a type":         {"probes: [{tcpSocket: {port: 1}}]", refused(at+".conditionType", "Required value")},
		"16 of them":             {"probes: [" + words(16, "{conditionType: c%d, tcpSocket: {port: 1}}") + "]", nil},
		"17 of them":             {"probes: [" + words(17, "{conditionType: c%d, tcpSocket: {port: 1}}") + "]", refused("spec.probes", "must have at most 16 items")},
		"no port":                {probe("httpGet: {}"), refused(at+".httpGet.port", "Required value")},
		"port 0":                 {probe("tcpSocket: {port: 0}"), refused(at+".tcpSocket.port", "greater than or equal to 1")},
		"port 65536":             {probe("grpc: {port: 65536}"), refused(at+".grpc.port", "less than or equal to 65535")},
		"a path without a slash": {probe("httpGet: {port: 1, path: ready}"), refused(at+".httpGet.path", "should match '^/'")},
		"another scheme":         {probe("httpGet: {port: 1, scheme: FTP}"), refused(at+".httpGet.scheme", "supported values")},
		"statuses":               {probe(`httpGet: {port: 1, expectedStatuses: ["204", 2xx, 200-299]}`), nil},
		"a status that is none":  {probe(`httpGet: {port: 1, expectedStatuses: ["600"]}`), refused(at+".httpGet.expectedStatuses[0]", "should match")},
		"a header":               {probe("httpGet: {port: 1, headers: [{name: X-Probe, value: yes please}]}"), nil},
		"a header with a space":  {probe("httpGet: {port: 1, headers: [{name: X Probe, value: a}]}"), refused(at+".httpGet.headers[0].name", "should match")},
		"a relative file":        {probe("file: {path: run/x}"), refused(at+".file.path", "should match '^/'")},
		"a check of the API":     {probe("check: node_ready"), refused(at+".check", "should match")},
		"out of bounds":          {probe("tcpSocket: {port: 1}, periodSeconds: 0, timeoutSeconds: 301, successThreshold: 0, failureThreshold: 101"), []cause{{at + ".failureThreshold", "less than or equal to 100"}, {at + ".periodSeconds", "greater than or equal to 1"}, {at + ".successThreshold", "greater than or equal to 1"}, {at + ".timeoutSeconds", "less than or equal to 300"}}},
	}
	for _, owned := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"} {
		cases["for "+owned] = verdict{fmt.Sprintf("probes: [{conditionType: %s, tcpSocket: {port: 1}}]", owned),
			refused(at+".conditionType", "Ready, the pressure conditions and NetworkUnavailable belong to kubelet and the cloud provider")}
	}
	judge(t, group, plainSpec, cases)
}
