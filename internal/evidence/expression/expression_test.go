// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodegate/nodegate/test/build"
)

func node() *corev1.Node {
	n := build.MakeNode("n1").Label("pool", "gpu").Created(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).
		Taint("example.com/x", "v", corev1.TaintEffectNoSchedule).
		Condition("Ready", corev1.ConditionTrue, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).Obj()
	n.Status.NodeInfo.KernelVersion = "6.12.1"
	n.Status.DeclaredFeatures = []string{"InPlacePodVerticalScaling"}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"),
		"memory": resource.MustParse("64Gi")}
	return n
}

func TestEval(t *testing.T) {
	for text, want := range map[string]bool{
		"node.status.nodeInfo.kernelVersion.startsWith('6.')":                                     true,
		"'InPlacePodVerticalScaling' in node.status.declaredFeatures":                             true,
		"node.metadata.labels['pool'] == 'gpu'":                                                   true,
		"'zone' in node.metadata.labels":                                                          false,
		"quantity(node.status.allocatable['nvidia.com/gpu']).compareTo(quantity('8')) >= 0":       true,
		"quantity(node.status.allocatable['memory']).isGreaterThan(quantity('65Gi'))":             false,
		"node.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":               true,
		"node.spec.taints.all(t, t.key != 'example.com/x')":                                       false,
		"node.metadata.creationTimestamp < timestamp('2026-06-01T00:00:00Z')":                     true,
		"'a' in node.metadata.annotations":                                                        false,
		"!optional.none().hasValue()":                                                             true,
		"!node.spec.unschedulable && size(node.spec.podCIDRs) == 0 && node.metadata.name == 'n1'": true,
	} {
		p, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := p.Eval(ValueOf(node())); err != nil || got != want {
			t.Errorf("%s: %t, %v", text, got, err)
		}
	}
}

func TestMistakesAreRefusedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"node.status.kernel == 'x'":              "1:12",
		"node.status.nodeInfo.kernelVersion > 6": "no matching overload",
		"node.status.nodeInfo.kernelVersion":     "must be a bool, not string",
		"node.metadata.name == ":                 "Syntax error",
		"self.x":                                 "undeclared reference",
		"node.status.allocatable['cpu'] > 2":     "no matching overload",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWhatFailsOnANodeSaysWhy(t *testing.T) {
	for text, want := range map[string]string{
		"node.status.allocatable['absent'] == '1'": "no such key: absent",
		"node.metadata.labels.all(a, node.metadata.labels.all(b, node.metadata.labels.all(c, node.metadata.labels.all(d, " +
			"a+b+c+d != 'no'))))": "cost limit",
	} {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		n := node()
		for i := range 60 {
			n.Labels[strings.Repeat("x", i)] = "y"
		}
		_, err = p.Eval(ValueOf(n))
		slow := err != nil && strings.Contains(err.Error(), "deadline") // on a busy machine, the time ends before the cost
		if err == nil || !strings.Contains(err.Error(), want) && !slow {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSlowExpressions: CEL's cost does not limit the time of an evaluation.
func TestSlowExpressions(t *testing.T) {
	for text, refused := range map[string]string{
		"A.matches(B)":              "text in quotes",
		"A.indexOf(B) > 0":          "text in quotes",
		"A.replace('x', B) == ''":   "replace() is not supported",
		"[B, B].join() == ''":       "join() is not supported",
		"'%s'.format([B]) == ''":    "format() is not supported",
		"A.find('x' + 'y') == ''":   "text in quotes",
		"A.matches('(x{100}y){9}')": "too complex",
		"A.matches('x{127}')":       "too complex",
		"A.matches('x{126}')":       "",
		"matches('x', B)":           "text in quotes",
		"matches(B, 'x')":           "",
		"node.metadata.name == '" + strings.Repeat("x", 4073) + "'": "4097 bytes",
		"node.metadata.name == '" + strings.Repeat("x", 4072) + "'": "",
		"A.lastIndexOf('" + strings.Repeat("x", 257) + "') > 0":     "257 bytes",
		"A.matches('(')": "invalid matches argument",
		"node.metadata.name == '" + strings.Repeat("x", 5000) + "'":                    "5024 bytes",
		"A.findAll('^(a|b)*c{2,9}$').size() == 0":                                      "",
		"A.matches('^((a{1,3}){1,4}|(a{1,2}){1,4})*b$')":                               "",
		"A.indexOf('" + strings.Repeat("a", 255) + "b') > 0":                           "",
		"node.metadata.labels.all(l, node.metadata.labels.all(m, A.charAt(0) == 'a'))": "",
	} {
		text = strings.NewReplacer("A.", "node.metadata.annotations['a'].", "B", "node.metadata.annotations['b']").
			Replace(text)
		p, err := Compile(text)
		if refused != "" {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %v, want %q", text, err, refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		n := node()
		for i := range 100 {
			n.Labels[strings.Repeat("x", i)] = "y"
		}
		n.Annotations = map[string]string{"a": strings.Repeat("a", 250<<10)}
		const limit = 15 * Timeout // with the race detector and beside other tests, too
		took := limit
		for tries := 0; took >= limit && tries < 3; tries++ { // the machine may have stood still
			begin := time.Now() //nolint:forbidigo // the limit is one of real time
			_, err = p.Eval(ValueOf(n))
			took = time.Since(begin) //nolint:forbidigo // as above
		}
		if took >= limit {
			t.Errorf("%s took %v (%v)", text, took, err)
		}
	}
}

func TestExpressionsDoNotSeePublishedConditions(t *testing.T) {
	program, err := Compile("node.status.conditions.exists(c, c.type == 'example.com/Verdict')")
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]bool{"NodegateRuleReady": false, "Reported": true} {
		n := build.MakeNode("n").Condition("example.com/Verdict", "True", time.Time{}).
			Reason("example.com/Verdict", reason, "")
		if got, err := program.Eval(ValueOf(n.Obj())); err != nil || got != want {
			t.Errorf("reason %s: %t, %v", reason, got, err)
		}
	}
}
