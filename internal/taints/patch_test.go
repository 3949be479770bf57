// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
	. "github.com/nodegate/nodegate/test/story"
)

// A patch is planned on the node as read, and sent to one that another client has written meanwhile.
func TestPatchAgainstConcurrentWriters(t *testing.T) {
	annotated := func() *build.NodeWrapper { return Fresh().Annotation("mine", "x") }
	tainted := func() *build.NodeWrapper { return annotated().Taint("foreign.example.com/t", "", NoSchedule) }
	held := func() *build.NodeWrapper {
		return tainted().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0))
	}
	completing := func() *build.NodeWrapper { return held().Condition(CNI, "True", At(0)) }
	cases := map[string]struct {
		read    *build.NodeWrapper
		write   func(n *build.NodeWrapper)
		refused bool
	}{
		"no other client has written": {read: Fresh(), write: func(*build.NodeWrapper) {}},
		"a heartbeat": {read: held().Condition(CNI, "True", At(0)),
			write: func(n *build.NodeWrapper) { n.Condition("Ready", "True", At(5)) }},
		"a label": {read: held().Condition(CNI, "True", At(0)),
			write: func(n *build.NodeWrapper) { n.Label("zone", "b") }},
		"cordoned":                   {read: tainted(), write: func(n *build.NodeWrapper) { n.Cordoned() }},
		"another annotation":         {read: annotated(), write: func(n *build.NodeWrapper) { n.Annotation("theirs", "y") }},
		"another annotation changed": {read: annotated(), write: func(n *build.NodeWrapper) { n.Annotation("mine", "y") }},
		"another annotation removed, not the last": {read: held().Condition(CNI, "True", At(0)),
			write: func(n *build.NodeWrapper) { n.Unannotate("mine") }},
		"another node of the same name": {read: Fresh(), write: func(n *build.NodeWrapper) { n.UID("uid-other") },
			refused: true},
		"the first taint": {read: annotated(),
			write: func(n *build.NodeWrapper) { n.Taint("new", "", NoExecute) }, refused: true},
		"a further taint": {read: tainted(),
			write: func(n *build.NodeWrapper) { n.Taint("new", "", NoExecute) }, refused: true},
		"a further taint, where ours goes": {read: completing(),
			write: func(n *build.NodeWrapper) { n.Taint("new", "", NoExecute) }, refused: true},
		"a taint taken off": {read: tainted(),
			write: func(n *build.NodeWrapper) { n.Untaint("foreign.example.com/t") }, refused: true},
		"a taint's value": {read: tainted(), write: func(n *build.NodeWrapper) {
			n.Untaint("foreign.example.com/t").Taint("foreign.example.com/t", "v", NoSchedule)
		}, refused: true},
		"the first annotation, where we make the map": {read: Fresh(),
			write: func(n *build.NodeWrapper) { n.Annotation("theirs", "y") }, refused: true},
		"our record made": {read: annotated(), write: func(n *build.NodeWrapper) { n.Annotation(RecordKey, "{}") },
			refused: true},
		"our record changed": {read: completing(), write: func(n *build.NodeWrapper) { n.Annotation(RecordKey, "{}") },
			refused: true},
		"our record removed": {read: completing(), write: func(n *build.NodeWrapper) { n.Unannotate(RecordKey) },
			refused: true},
		"our record removed, where its taint is added again": {read: annotated().Annotation(RecordKey, Claimed(0)),
			write: func(n *build.NodeWrapper) { n.Unannotate(RecordKey) }, refused: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, Rule())
			_, out, _ := w.Pass(c.read.Obj(), At(10))
			if out.Patch == nil {
				t.Fatal("nothing is planned")
			}
			live := build.WrapNode(c.read.Obj())
			c.write(live)
			after, err := TryApply(t, live.Obj(), out.Patch)
			if c.refused {
				if err == nil {
					t.Errorf("it is accepted, and %v\nbecomes %v %v", live.Spec.Taints, after.Spec.Taints, after.Annotations)
				}
				return
			}
			if err != nil {
				t.Fatalf("it is refused: %v", err)
			}
			for k, v := range live.Annotations {
				if k != RecordKey && after.Annotations[k] != v {
					t.Errorf("annotation %s is %q, was %q", k, after.Annotations[k], v)
				}
			}
			if diff := cmp.Diff(live.Labels, after.Labels); diff != "" {
				t.Errorf("labels (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(live.Status, after.Status); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPatch(t *testing.T) {
	ops := func(t *testing.T, patch []byte) []string {
		t.Helper()
		var list []struct{ Op, Path string }
		if err := json.Unmarshal(patch, &list); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, o := range list {
			out = append(out, o.Op+" "+o.Path)
		}
		return out
	}
	record, marker := "/metadata/annotations/nodegate.io~1rule-u-cni",
		"/metadata/annotations/readiness.k8s.io~1bootstrap-completed-u-cni"
	held := func() *build.NodeWrapper {
		return Fresh().Taint(Key, "pending", NoSchedule).Annotation(RecordKey, Claimed(0))
	}
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want []string
	}{
		"a node with nothing": {
			rule: Rule(), node: Fresh(),
			want: []string{"test /metadata/uid", "test /spec/taints", "add /spec/taints", "test /metadata/annotations",
				"add /metadata/annotations"},
		},
		"a node with an empty map of annotations": {
			rule: Rule(), node: Fresh().Annotation("x", "").Unannotate("x"),
			want: []string{"test /metadata/uid", "test /spec/taints", "add /spec/taints", "test /metadata/annotations",
				"add /metadata/annotations"},
		},
		"a node with other things": {
			rule: Rule(), node: Fresh().Taint("x", "", NoSchedule).Annotation("x", ""),
			want: []string{"test /metadata/uid", "test /spec/taints", "replace /spec/taints", "test " + record, "add " + record},
		},
		"the last taint goes, in the patch that sets the marker": {
			rule: Rule().BootstrapOnly(), node: held().Condition(CNI, "True", At(0)),
			want: []string{"test /metadata/uid", "test /spec/taints", "remove /spec/taints", "test " + record, "add " + record,
				"test " + marker, "add " + marker},
		},
		"the last taint and the last annotation go": {
			rule: Rule().Deleted(At(0)), node: held(),
			want: []string{"test /metadata/uid", "test /spec/taints", "remove /spec/taints", "test " + record, "remove " +
				record},
		},
		"only the record changes": {
			rule: Rule(), node: Fresh().Condition(CNI, "True", At(0)),
			want: []string{"test /metadata/uid", "test /spec/taints", "test /metadata/annotations", "add /metadata/annotations"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, out, _ := NewWorld(t, c.rule).Pass(c.node.Obj(), At(10))
			if diff := cmp.Diff(c.want, ops(t, out.Patch)); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
		})
	}
}

// Many records are written as one map, unless other clients have more in it than that saves.
func TestPatchOfManyRecords(t *testing.T) {
	const many = 16
	cases := map[string]struct {
		rules      int
		annotation string
		whole      bool
	}{
		"many":                       {many, "x", true},
		"fewer":                      {many - 1, "x", false},
		"others have much in it":     {many, strings.Repeat("x", 5000), false},
		"others have less than that": {many, strings.Repeat("x", 500), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var rules []*build.RuleWrapper
			for i := range c.rules {
				name := fmt.Sprintf("rule-%d", i)
				rules = append(rules, RuleOf(name, CNI, "example.com/"+name))
			}
			w, node := NewWorld(t, rules...), Fresh().Annotation("mine", c.annotation).Obj()
			for second, status := range []corev1.ConditionStatus{"False", "True"} { // the records are new, and then they change
				before := build.WrapNode(node).Condition(CNI, status, At(second)).Obj()
				after, out, _ := w.Pass(before, At(second))
				if len(after.Annotations) != c.rules+1 || after.Annotations["mine"] != c.annotation {
					t.Errorf("the annotations are %v", after.Annotations)
				}
				live := before.DeepCopy()
				live.Annotations["theirs"] = "y"
				if _, err := TryApply(t, live, out.Patch); (err != nil) != c.whole {
					t.Errorf("status %s: after another client's annotation the answer is %v", status, err)
				}
				live = before.DeepCopy()
				live.Annotations["mine"] = "y"
				if after, err := TryApply(t, live, out.Patch); err == nil && after.Annotations["mine"] != "y" {
					t.Error("another client's change is lost")
				}
				node = after
			}
		})
	}
}

func TestSameInputs(t *testing.T) {
	base := func() *build.NodeWrapper { return Fresh().Taint("x", "", NoSchedule).Annotation("x", "") }
	cases := map[string]struct {
		other *build.NodeWrapper
		want  bool
	}{
		"the same":           {base(), true},
		"a heartbeat":        {base().Condition(CNI, "True", At(0)), true},
		"a label":            {base().Label("a", "b"), true},
		"another UID":        {base().UID("other"), false},
		"another taint":      {base().Taint("y", "", NoSchedule), false},
		"another annotation": {base().Annotation("y", ""), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := taints.SameInputs(base().Obj(), c.other.Obj()); got != c.want {
				t.Errorf("same is %t, want %t", got, c.want)
			}
		})
	}
	if !taints.SameInputs(Fresh().Obj(), Fresh().Annotation("x", "").Unannotate("x").Obj()) {
		t.Error("no annotations and an empty map of them are not the same")
	}
}
