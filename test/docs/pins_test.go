// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	commit = regexp.MustCompile(`@[0-9a-f]{40}$`)
	image  = regexp.MustCompile(`(?m)^FROM .*`)
	digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}\b`)
)

// TestBuildsRunOnlyWhatIsPinned: a tag of an action or image can be moved. An expression in a script is text of the
// user who chose its value, such as the name of a tag.
func TestBuildsRunOnlyWhatIsPinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		name := strings.TrimPrefix(file, root+"/")
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(read(t, name), &workflow); err != nil {
			t.Fatal(err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !commit.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned by its commit", name, step.Uses)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: an expression in a script: use a variable of the environment: %s", name, step.Run)
				}
			}
		}
	}
	for _, from := range image.FindAllString(string(read(t, "Dockerfile")), -1) {
		if !digest.MatchString(from) {
			t.Errorf("Dockerfile: %s is not pinned by its digest", from)
		}
	}
}
