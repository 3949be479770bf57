// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// verdict is a change to plainSpec, and what the API server says to it: nothing wanted means that it is accepted.
type verdict struct {
	change string
	want   []cause
}

func refused(field, says string) []cause { return []cause{{field, says}} }

// judge runs a table against a group of the API.
func judge(t *testing.T, group, plain string, cases map[string]verdict) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := create(t, rule(t, group, "case", changed(t, plain, c.change)), client.DryRunAll)
			if err == nil && len(c.want) == 0 {
				return
			}
			if err == nil {
				t.Fatalf("accepted, but should be refused: %v", c.want)
			}
			got := shorten(causes(t, err), c.want)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(cause{})); diff != "" {
				t.Errorf("refused in other words (-want +got):\n%s", diff)
			}
		})
	}
}

// group is the group of the API as it is installed.
var group = v1alpha1.GroupVersion.Group

// words makes a list of n items for YAML, from a format with %d.
func words(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ", ")
}

// domain is a DNS subdomain of so many characters.
func domain(n int) string {
	return strings.Repeat("a.", n/2-1) + strings.Repeat("b", n-2*(n/2-1))
}

const (
	badKey   = "should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'"
	badValue = "should match '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'"
)

func TestNodeSelector(t *testing.T) {
	const (
		at     = "spec.nodeSelector"
		labels = at + ".matchLabels"
		first  = at + ".matchExpressions[0]"
		empty  = "must select something: give matchLabels or matchExpressions (all nodes: key kubernetes.io/os, operator Exists)"
		key    = "every key must be a label key"
		values = "In and NotIn need values; Exists and DoesNotExist take none"
	)
	label := func(key string) string { return fmt.Sprintf("nodeSelector: {matchLabels: {%q: x}}", key) }
	value := func(v string) string { return fmt.Sprintf("nodeSelector: {matchLabels: {k: %q}}", v) }
	expression := func(e string) string {
		return "nodeSelector: {matchLabels: null, matchExpressions: [" + e + "]}"
	}
	judge(t, group, plainSpec, map[string]verdict{
		"missing":                    {"nodeSelector: null", refused(at, "Required value")},
		"empty":                      {"nodeSelector: {matchLabels: null}", refused(at, empty)},
		"empty lists":                {"nodeSelector: {matchLabels: {example.com/pool: null}, matchExpressions: []}", refused(at, empty)},
		"labels and expressions":     {"nodeSelector: {matchExpressions: [{key: a, operator: Exists}]}", nil},
		"64 labels":                  {"nodeSelector: {matchLabels: {" + words(63, "l%d: x") + "}}", nil},
		"65 labels":                  {"nodeSelector: {matchLabels: {" + words(64, "l%d: x") + "}}", refused(labels, "must have at most 64 items")},
		"a plain key":                {label("pool"), nil},
		"key with all signs":         {label("a-1.b/A_b-c.D"), nil},
		"key of 63":                  {label(strings.Repeat("k", 63)), nil},
		"key of 64":                  {label(strings.Repeat("k", 64)), refused(labels, key)},
		"key with prefix of 253":     {label(domain(253) + "/" + strings.Repeat("k", 63)), nil},
		"key with prefix of 254":     {label(domain(254) + "/k"), refused(labels, key)},
		"key that is empty":          {label(""), refused(labels, key)},
		"key with a space":           {label("a b"), refused(labels, key)},
		"key without a name":         {label("example.com/"), refused(labels, key)},
		"key without its prefix":     {label("/pool"), refused(labels, key)},
		"key with two slashes":       {label("a/b/c"), refused(labels, key)},
		"key with a capital prefix":  {label("Example.com/pool"), refused(labels, key)},
		"key with two dots":          {label("a..b/pool"), refused(labels, key)},
		"key with a dash after dot":  {label("a.-b/pool"), refused(labels, key)},
		"key that ends with a dash":  {label("pool-"), refused(labels, key)},
		"value that is empty":        {value(""), nil},
		"value of 63":                {value(strings.Repeat("v", 63)), nil},
		"value of 64":                {value(strings.Repeat("v", 64)), refused(labels+".k", "may not be more than 63 bytes")},
		"value with a space":         {value("a b"), refused(labels+".k", badValue)},
		"value that begins with -":   {value("-a"), refused(labels+".k", badValue)},
		"value that is no string":    {"nodeSelector: {matchLabels: {k: true}}", refused(labels+".k", "must be of type string")},
		"In":                         {expression("{key: a, operator: In, values: [x, \"\"]}"), nil},
		"NotIn":                      {expression("{key: a, operator: NotIn, values: [x]}"), nil},
		"Exists":                     {expression("{key: a, operator: Exists}"), nil},
		"Exists with no values":      {expression("{key: a, operator: Exists, values: []}"), nil},
		"DoesNotExist":               {expression("{key: a, operator: DoesNotExist}"), nil},
		"In without values":          {expression("{key: a, operator: In}"), refused(first+".values", values)},
		"In with no values":          {expression("{key: a, operator: In, values: []}"), refused(first+".values", values)},
		"NotIn without values":       {expression("{key: a, operator: NotIn}"), refused(first+".values", values)},
		"Exists with values":         {expression("{key: a, operator: Exists, values: [x]}"), refused(first+".values", values)},
		"DoesNotExist with values":   {expression("{key: a, operator: DoesNotExist, values: [x]}"), refused(first+".values", values)},
		"an operator for numbers":    {expression("{key: a, operator: Gt, values: [\"1\"]}"), refused(first+".operator", `supported values: "In", "NotIn", "Exists", "DoesNotExist"`)},
		"without operator":           {expression("{key: a}"), refused(first+".operator", "Required value")},
		"without key":                {expression("{operator: Exists}"), refused(first+".key", "Required value")},
		"expression key with spaces": {expression("{key: a b, operator: Exists}"), refused(first+".key", badKey)},
		"expression key of 253/63":   {expression("{key: " + domain(253) + "/" + strings.Repeat("k", 63) + ", operator: Exists}"), nil},
		"expression key of 254/1":    {expression("{key: " + domain(254) + "/k, operator: Exists}"), refused(first+".key", "the prefix of a label key has at most 253 characters")},
		"expression value of 64":     {expression("{key: a, operator: In, values: [" + strings.Repeat("v", 64) + "]}"), refused(first+".values[0]", "may not be more than 63 bytes")},
		"expression value with /":    {expression("{key: a, operator: In, values: [x, a/b]}"), refused(first+".values[1]", badValue)},
		"64 expressions":             {expression(words(64, "{key: k%d, operator: Exists}")), nil},
		"65 expressions":             {expression(words(65, "{key: k%d, operator: Exists}")), refused(at+".matchExpressions", "must have at most 64 items")},
		"256 values":                 {expression("{key: a, operator: In, values: [" + words(256, "v%d") + "]}"), nil},
		"257 values":                 {expression("{key: a, operator: In, values: [" + words(257, "v%d") + "]}"), refused(first+".values", "must have at most 256 items")},
	})
}

func TestEvidence(t *testing.T) {
	const (
		none  = "a rule needs evidence: give at least one entry in conditions or requirements"
		first = "spec.conditions[0]"
	)
	condition := func(c string) string { return "conditions: [" + c + "]" }
	judge(t, group, plainSpec, map[string]verdict{
		"no conditions":             {"conditions: null", refused("spec", none)},
		"an empty list":             {"conditions: []", refused("spec", none)},
		"32 conditions":             {condition(words(32, `{type: c%d, requiredStatus: "True"}`)), nil},
		"33 conditions":             {condition(words(33, `{type: c%d, requiredStatus: "True"}`)), refused("spec.conditions", "must have at most 32 items")},
		"one type twice":            {condition(`{type: a, requiredStatus: "True"}, {type: a, requiredStatus: "False"}`), refused("spec.conditions[1]", `Duplicate value: {"type":"a"}`)},
		"all three statuses":        {condition(`{type: a, requiredStatus: "True"}, {type: b, requiredStatus: "False"}, {type: c, requiredStatus: Unknown}`), nil},
		"type of 316":               {condition(`{type: ` + strings.Repeat("t", 316) + `, requiredStatus: "True"}`), nil},
		"type of 317":               {condition(`{type: ` + strings.Repeat("t", 317) + `, requiredStatus: "True"}`), refused(first+".type", "may not be more than 316 bytes")},
		"type that is empty":        {condition(`{type: "", requiredStatus: "True"}`), refused(first+".type", "at least 1 chars long")},
		"without type":              {condition(`{requiredStatus: "True"}`), refused(first+".type", "Required value")},
		"without requiredStatus":    {condition(`{type: a}`), refused(first+".requiredStatus", "Required value")},
		"status in small letters":   {condition(`{type: a, requiredStatus: "true"}`), refused(first+".requiredStatus", `supported values: "True", "False", "Unknown"`)},
		"status without quotes":     {condition(`{type: a, requiredStatus: true}`), []cause{{first + ".requiredStatus", "must be of type string: \"boolean\""}, {first + ".requiredStatus", `supported values: "True", "False", "Unknown"`}}},
		"defaultStatus":             {condition(`{type: a, requiredStatus: "True", defaultStatus: "True"}`), nil},
		"defaultStatus that is odd": {condition(`{type: a, requiredStatus: "True", defaultStatus: Maybe}`), refused(first+".defaultStatus", `supported values: "True", "False", "Unknown"`)},
		"maxAgeSeconds 1":           {condition(`{type: a, requiredStatus: "True", maxAgeSeconds: 1}`), nil},
		"maxAgeSeconds 30 days":     {condition(`{type: a, requiredStatus: "True", maxAgeSeconds: 2592000}`), nil},
		"maxAgeSeconds 0":           {condition(`{type: a, requiredStatus: "True", maxAgeSeconds: 0}`), refused(first+".maxAgeSeconds", "greater than or equal to 1")},
		"maxAgeSeconds too long":    {condition(`{type: a, requiredStatus: "True", maxAgeSeconds: 2592001}`), refused(first+".maxAgeSeconds", "less than or equal to 2592000")},
		"conditionPolicy allOf":     {"conditionPolicy: allOf", nil},
		"conditionPolicy anyOf":     {"conditionPolicy: anyOf", nil},
		"conditionPolicy AnyOf":     {"conditionPolicy: AnyOf", refused("spec.conditionPolicy", `supported values: "allOf", "anyOf"`)},
	})
}

func TestTaint(t *testing.T) {
	const (
		key      = "spec.taint.key"
		reserved = "taints under node.kubernetes.io/, node.cloudprovider.kubernetes.io/ and node-role.kubernetes.io/ belong to Kubernetes"
	)
	taint := func(k string) string { return fmt.Sprintf("taint: {key: %q}", k) }
	value := func(v string) string { return fmt.Sprintf("taint: {value: %q}", v) }
	judge(t, group, plainSpec, map[string]verdict{
		"no effect":                  {"taint: null", refused("spec", "a rule needs an effect: give at least one of taint, evictionGuard, health, or podAdmission: Deny")},
		"podAdmission is no effect":  {"{taint: null, podAdmission: None}", refused("spec", "a rule needs an effect")},
		"kubelet's own":              {taint("node.kubernetes.io/not-ready"), refused(key, reserved)},
		"any of kubelet's":           {taint("node.kubernetes.io/example"), refused(key, reserved)},
		"the cloud provider's":       {taint("node.cloudprovider.kubernetes.io/uninitialized"), refused(key, reserved)},
		"the control plane's":        {taint("node-role.kubernetes.io/control-plane"), refused(key, reserved)},
		"a subdomain is not theirs":  {taint("x.node.kubernetes.io/example"), nil},
		"no prefix":                  {taint("pending"), nil},
		"another domain":             {taint("startup-taint.cluster-autoscaler.kubernetes.io/cni"), nil},
		"key of 63":                  {taint("readiness.k8s.io/" + strings.Repeat("k", 63)), nil},
		"key of 64":                  {taint("readiness.k8s.io/" + strings.Repeat("k", 64)), refused(key, badKey)},
		"prefix of 253":              {taint(domain(253) + "/" + strings.Repeat("k", 63)), nil},
		"prefix of 254":              {taint(domain(254) + "/k"), refused(key, "the prefix of a taint key has at most 253 characters")},
		"key longer than any":        {taint(domain(255) + "/" + strings.Repeat("k", 63)), refused(key, "may not be more than 317 bytes")},
		"key that is empty":          {taint(""), refused(key, "at least 1 chars long")},
		"without key":                {"taint: {key: null}", refused(key, "Required value")},
		"key with a space":           {taint("a b"), refused(key, badKey)},
		"key without a name":         {taint("example.com/"), refused(key, badKey)},
		"key without its prefix":     {taint("/a"), refused(key, badKey)},
		"key with two slashes":       {taint("a/b/c"), refused(key, badKey)},
		"key with a capital prefix":  {taint("Example.com/a"), refused(key, badKey)},
		"key with two dots":          {taint("a..b/c"), refused(key, badKey)},
		"key that ends with a dot":   {taint("example.com/a."), refused(key, badKey)},
		"key with a line break":      {taint("example.com/a\n"), refused(key, badKey)},
		"no value":                   {"taint: {value: null}", nil},
		"value that is empty":        {value(""), nil},
		"value of 63":                {value(strings.Repeat("v", 63)), nil},
		"value of 64":                {value(strings.Repeat("v", 64)), refused("spec.taint.value", "may not be more than 63 bytes")},
		"value with a space":         {value("a b"), refused("spec.taint.value", badValue)},
		"value that ends with a dot": {value("a."), refused("spec.taint.value", badValue)},
		"NoSchedule":                 {"taint: {effect: NoSchedule}", nil},
		"PreferNoSchedule":           {"taint: {effect: PreferNoSchedule}", nil},
		"NoExecute":                  {"taint: {effect: NoExecute}", nil},
		"effect in small letters":    {"taint: {effect: noschedule}", refused("spec.taint.effect", `supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`)},
		"without effect":             {"taint: {effect: null}", refused("spec.taint.effect", "Required value")},
		"timeAdded of a core taint":  {"taint: {timeAdded: \"2026-01-02T03:04:05Z\"}", nil},
		"timeAdded with an offset":   {"taint: {timeAdded: \"2026-01-02T03:04:05.678+01:30\"}", nil},
		"timeAdded that is no day":   {"taint: {timeAdded: \"2026-02-30T03:04:05Z\"}", refused("spec.taint.timeAdded", "must be of type date-time")},
		"timeAdded in small letters": {"taint: {timeAdded: \"2026-01-02t03:04:05z\"}", refused("spec.taint.timeAdded", "should match")},
	})
}

func TestModes(t *testing.T) {
	const (
		anyOf      = "anyOf cannot be combined with bootstrap-only"
		defaults   = "defaultStatus cannot be combined with bootstrap-only"
		withoutOne = `enforcementMode: bootstrap-only, conditions: [{type: a, requiredStatus: "True"}, {type: b, requiredStatus: "True"`
	)
	judge(t, group, plainSpec, map[string]verdict{
		"plain":                              {"", nil},
		"without enforcementMode":            {"enforcementMode: null", refused("spec.enforcementMode", "enforcementMode is required with a taint: continuous or bootstrap-only")},
		"bootstrap-only":                     {"enforcementMode: bootstrap-only", nil},
		"another enforcementMode":            {"enforcementMode: once", refused("spec.enforcementMode", `supported values: "bootstrap-only", "continuous"`)},
		"bootstrap-only with allOf":          {"{enforcementMode: bootstrap-only, conditionPolicy: allOf}", nil},
		"bootstrap-only with anyOf":          {"{enforcementMode: bootstrap-only, conditionPolicy: anyOf}", refused("spec.conditionPolicy", anyOf)},
		"bootstrap-only with defaultStatus":  {"{" + withoutOne + ", defaultStatus: Unknown}]}", refused("spec.conditions", defaults)},
		"bootstrap-only without it":          {"{" + withoutOne + "}]}", nil},
		"rearmOn":                            {"rearmOn: [Reboot]", nil},
		"rearmOn nothing":                    {"rearmOn: []", nil},
		"rearmOn twice the same":             {"rearmOn: [Reboot, Reboot]", refused("spec.rearmOn[1]", "Duplicate value: \"Reboot\"")},
		"rearmOn something else":             {"rearmOn: [Upgrade]", refused("spec.rearmOn[0]", `supported values: "Reboot"`)},
		"admission: None":                    {"admission: None", nil},
		"admission of another kind":          {"admission: Hold", refused("spec.admission", `supported values: "Taint", "None"`)},
		"existingNodes: All":                 {"existingNodes: All", nil},
		"existingNodes: None":                {"existingNodes: None", nil},
		"existingNodes of another kind":      {"existingNodes: Some", refused("spec.existingNodes", `supported values: "All", "Idle", "None"`)},
		"no requirements":                    {"requirements: []", nil},
		"admission: Taint":                   {"admission: Taint", nil},
		"existingNodes: Idle":                {"existingNodes: Idle", nil},
		"podAdmission: Deny":                 {"podAdmission: Deny", nil},
		"podAdmission: Deny without a taint": {"{taint: null, podAdmission: Deny}", refused("spec.podAdmission", "podAdmission: Deny needs a taint")},
		"podAdmission: None":                 {"podAdmission: None", nil},
		"podAdmission of another kind":       {"podAdmission: Warn", refused("spec.podAdmission", `supported values: "None", "Deny"`)},
		"dryRun":                             {"dryRun: true", nil},
		"dryRun that is no bool":             {`dryRun: "yes"`, refused("spec.dryRun", "must be of type boolean")},
		"suspend":                            {"suspend: true", nil},
		"two faults are named both at once":  {`{enforcementMode: bootstrap-only, conditionPolicy: anyOf, conditions: [{type: a, requiredStatus: "True", defaultStatus: "True"}]}`, []cause{{"spec.conditionPolicy", anyOf}, {"spec.conditions", defaults}}},
		"faults of different kinds, as well": {"{taint: {key: a b, effect: x}, timeout: {seconds: 0}}", []cause{{"spec.taint.effect", "Unsupported value"}, {"spec.taint.key", badKey}, {"spec.timeout.seconds", "greater than or equal to 1"}}},
	})
}

func TestBounds(t *testing.T) {
	const (
		maxUnavailable = "spec.maxUnavailable"
		number         = "must be a number from 0 to 2147483647, or a percentage such as '30%'"
		percent        = "should match '^(100|[1-9]?[0-9])%$'"
		annotation     = "spec.completionAnnotation"
		ours           = "annotations under readiness.node.x-k8s.io/ and readiness.k8s.io/bootstrap-completed- are written by Nodegate itself"
	)
	limit := func(v string) string { return "maxUnavailable: " + v }
	complete := func(v string) string { return fmt.Sprintf("completionAnnotation: %q", v) }
	judge(t, group, plainSpec, map[string]verdict{
		"maxUnavailable 0":                   {limit("0"), nil},
		"maxUnavailable 5":                   {limit("5"), nil},
		"maxUnavailable 2147483647":          {limit("2147483647"), nil},
		"maxUnavailable 2147483648":          {limit("2147483648"), refused(maxUnavailable, number)},
		"maxUnavailable -1":                  {limit("-1"), refused(maxUnavailable, number)},
		"maxUnavailable 1.5":                 {limit("1.5"), []cause{{maxUnavailable, "must be of type integer,string"}, {maxUnavailable, "must be of type integer: "}}},
		"maxUnavailable '0%'":                {limit("'0%'"), nil},
		"maxUnavailable '30%'":               {limit("'30%'"), nil},
		"maxUnavailable '100%'":              {limit("'100%'"), nil},
		"maxUnavailable '101%'":              {limit("'101%'"), refused(maxUnavailable, percent)},
		"maxUnavailable '1000%'":             {limit("'1000%'"), refused(maxUnavailable, "may not be more than 4 bytes")},
		"maxUnavailable '030%'":              {limit("'030%'"), refused(maxUnavailable, percent)},
		"maxUnavailable '-1'":                {limit("'-1'"), refused(maxUnavailable, percent)},
		"maxUnavailable '-1%'":               {limit("'-1%'"), refused(maxUnavailable, percent)},
		"maxUnavailable 'abc'":               {limit("'abc'"), refused(maxUnavailable, percent)},
		"maxUnavailable '5'":                 {limit("'5'"), refused(maxUnavailable, percent)},
		"maxUnavailable ''":                  {limit("''"), refused(maxUnavailable, percent)},
		"stabilization at its edges":         {"stabilization: {readySeconds: 0, unreadySeconds: 86400, minimumHoldSeconds: 86400}", nil},
		"stabilization beyond":               {"stabilization: {readySeconds: -1, unreadySeconds: 86401, minimumHoldSeconds: 86401}", []cause{{"spec.stabilization.minimumHoldSeconds", "less than or equal to 86400"}, {"spec.stabilization.readySeconds", "greater than or equal to 0"}, {"spec.stabilization.unreadySeconds", "less than or equal to 86400"}}},
		"timeout":                            {"timeout: {seconds: 1, appearSeconds: 2592000, action: Release}", nil},
		"timeout for what never appears":     {"timeout: {appearSeconds: 300}", nil},
		"timeout without a time":             {"timeout: {action: Release}", refused("spec.timeout", "a timeout needs seconds, appearSeconds or both")},
		"timeout too short":                  {"timeout: {seconds: 0, appearSeconds: 0}", []cause{{"spec.timeout.appearSeconds", "greater than or equal to 1"}, {"spec.timeout.seconds", "greater than or equal to 1"}}},
		"timeout too long":                   {"timeout: {seconds: 2592001, appearSeconds: 2592001}", []cause{{"spec.timeout.appearSeconds", "less than or equal to 2592000"}, {"spec.timeout.seconds", "less than or equal to 2592000"}}},
		"timeout with another action":        {"timeout: {seconds: 1, action: Drop}", refused("spec.timeout.action", `supported values: "Keep", "Release"`)},
		"completionAnnotation":               {complete("startup.k8s.io/completedAt"), nil},
		"completionAnnotation, plain":        {complete("completedAt"), nil},
		"completionAnnotation of 253/63":     {complete(domain(253) + "/" + strings.Repeat("k", 63)), nil},
		"completionAnnotation of 254/1":      {complete(domain(254) + "/k"), refused(annotation, "the prefix of an annotation key has at most 253 characters")},
		"completionAnnotation of 64":         {complete(strings.Repeat("k", 64)), refused(annotation, badKey)},
		"completionAnnotation that is empty": {complete(""), refused(annotation, "at least 1 chars long")},
		"completionAnnotation with a space":  {complete("a b"), refused(annotation, badKey)},
		"completionAnnotation: a record":     {complete("readiness.node.x-k8s.io/rule-1"), refused(annotation, ours)},
		"completionAnnotation: the override": {complete("readiness.node.x-k8s.io/override"), refused(annotation, ours)},
		"completionAnnotation: a marker":     {complete("readiness.k8s.io/bootstrap-completed-x"), refused(annotation, ours)},
	})
}

func TestUnknownField(t *testing.T) {
	err := create(t, rule(t, group, "case", changed(t, plainSpec, "conditons: []")), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.conditons"`) {
		t.Errorf("a misspelt field, sent with strict validation as kubectl does: %v", err)
	}
}
