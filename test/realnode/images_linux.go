// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// Image is the project's own image on the nodes.
	Image = "registry.test/nodegate:dev"
	// PodImage is the image of testpod, which is also what keeps the sandboxes.
	PodImage = "registry.test/testpod:dev"
)

// BuildImages writes the images as tars into a directory, and returns their paths. It needs the checkout, and a network
// where modules have not been downloaded yet.
func BuildImages(root, dir string) ([]string, error) {
	manager, agent, pod := filepath.Join(dir, "manager"), filepath.Join(dir, "agent"), filepath.Join(dir, "testpod")
	for binary, pkg := range map[string]string{manager: "./cmd/manager", agent: "./cmd/agent", pod: "./test/realnode/testpod"} {
		if err := goCommand(root, "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", binary, pkg); err != nil {
			return nil, err
		}
	}
	images := map[string][]string{Image: {agent, manager}, PodImage: {pod}}
	var tars []string
	for _, name := range []string{Image, PodImage} {
		tar := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(name)+".tar")
		args := append([]string{"run", "-C", "hack/tools", "./image", "-tag=" + name, "-out=" + tar}, images[name]...)
		if err := goCommand(root, args...); err != nil {
			return nil, err
		}
		tars = append(tars, tar)
	}
	return tars, nil
}

func goCommand(root string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
