// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// Image is the project's own image on the nodes.
	Image = "registry.test/nodegate:dev"
	// PodImage is the image of testpod, which is also what keeps the sandboxes.
	PodImage = "registry.test/testpod:dev"
)

// Commands returns a directory with manager, agent and kubectl-nodegate as they are shipped. They are built below dir
// if they were not built before the tests.
func Commands(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "bin")
	for _, command := range []string{"manager", "agent", "kubectl-nodegate"} {
		path, err := cluster.BinaryIn(ctx, bin, command)
		if err != nil {
			return "", err
		}
		bin = filepath.Dir(path)
	}
	return bin, nil
}

// BuildImages writes the images as tars into a directory, and returns their paths. commands is the directory of the
// project's commands. It needs the checkout, and a network where modules have not been downloaded yet.
func BuildImages(root, commands, dir string) ([]string, error) {
	pod := filepath.Join(dir, "testpod")
	if err := goCommand(root, "build", "-trimpath", "-o", pod, "./test/realnode/testpod"); err != nil {
		return nil, err
	}
	images := map[string][]string{
		Image:    {filepath.Join(commands, "agent"), filepath.Join(commands, "manager")},
		PodImage: {pod},
	}
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
