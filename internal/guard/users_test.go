// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateUsers(t *testing.T) {
	for name, c := range map[string]struct {
		users []string
		says  string
	}{
		"the default":   {users: DefaultUsers()},
		"a person":      {users: []string{"jane"}},
		"no user":       {says: "at least one"},
		"an empty name": {users: []string{""}, says: "empty"},
		"a kubelet":     {users: []string{"system:node:n1"}, says: "kubelets"},
		"the namespace controller": {users: []string{NodeController,
			"system:serviceaccount:kube-system:namespace-controller"}, says: "namespace-controller"},
		"its name elsewhere": {users: []string{"system:serviceaccount:default:namespace-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateUsers(c.users)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestTheChartRefusesTheSameUsers: the chart's schema repeats the names.
func TestTheChartRefusesTheSameUsers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "nodegate", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := "^system:(node:|serviceaccount:kube-system:(" + strings.Join(neverGuarded, "|") + ")$)"
	if !strings.Contains(string(raw), want) {
		t.Errorf("the chart's schema does not refuse %s", want)
	}
}
