// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/evidence"
)

func TestDisjoint(t *testing.T) {
	parse := func(s string) labels.Selector {
		if s == "nothing" {
			return labels.Nothing()
		}
		selector, err := labels.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"pool=a", "pool=a", false},
		{"pool=a", "pool=b", true},
		{"pool in (a,b)", "pool in (b,c)", false},
		{"pool=a", "disk=ssd", false},
		{"pool=a", "!disk", false},
		{"pool=a", "pool", false},
		{"pool=a", "pool!=a", true},
		{"pool", "!pool", true},
		{"disk=ssd,pool=a", "zone=z,pool=b", true},
		{"pool", "nothing", true},
		{"", "pool=a", false},
	} {
		a, b := parse(c.a), parse(c.b)
		if got, turned := evidence.Disjoint(a, b), evidence.Disjoint(b, a); got != c.want || turned != c.want {
			t.Errorf("%q and %q: %t, turned round %t, want %t", c.a, c.b, got, turned, c.want)
		}
	}
}
