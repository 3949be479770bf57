// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/test/build"
)

func member(name, uid string, created int) *Rule {
	return Compile(build.MakeRule(name).UID(uid).Created(at(created)).Obj(), nil, start)
}

func TestSet(t *testing.T) {
	base := NewSet(member("c", "1", 0), member("b", "2", 5), member("a", "3", 5))
	cases := map[string]struct {
		set  *Set
		want []string
	}{
		"older ones first, then by name":            {base, []string{"c", "a", "b"}},
		"with a later version of one":               {base.With(member("c", "1", 0)), []string{"c", "a", "b"}},
		"with one that was re-created under a name": {base.With(member("c", "9", 9)), []string{"a", "b", "c"}},
		"without one":                                {base.Without("2"), []string{"c", "a"}},
		"without one that is not there":              {base.Without("7"), []string{"c", "a", "b"}},
		"the set itself is not changed by any of it": {base, []string{"c", "a", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, namesOf(c.set.All())); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			for _, r := range c.set.All() {
				if c.set.Rule(r.UID) != r || c.set.Named(r.Name) != r {
					t.Errorf("%s is not found by its UID or name", r.Name)
				}
			}
		})
	}
	replaced := base.With(member("c", "9", 9))
	if replaced.Rule("1") != nil {
		t.Error("the rule that was there before is still found by its UID")
	}
	if base.Rule("missing") != nil || base.Named("missing") != nil {
		t.Error("a rule that is not there is found")
	}
}
