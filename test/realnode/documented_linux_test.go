// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
)

// removal is the page about uninstalling.
const removal = "docs/uninstall.md"

// documented are the commands in a page's blocks of code that begin with some words: the tests do what people are told
// to do. Without a heading it is those of the whole page.
func documented(t *testing.T, page, under, begin string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, page))
	cluster.Must(t, err)
	var out [][]string
	code, heading := false, ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
			continue
		case !code && strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		}
		command, _, _ := strings.Cut(line, " #")
		if code && command != "" && strings.HasPrefix(command, begin) && (under == "" || under == heading) {
			out = append(out, strings.Fields(command))
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no command %q below %q", page, begin, under)
	}
	return out
}

// follow runs commands of a page, with what is otherwise here replaced, and returns what they print.
func follow(t *testing.T, commands [][]string, pairs ...string) string {
	t.Helper()
	var printed strings.Builder
	replacer := strings.NewReplacer(pairs...)
	for _, command := range commands {
		t.Log(strings.Join(command, " "))
		args := make([]string, len(command))
		for i := range command {
			args[i] = strings.ReplaceAll(replacer.Replace(command[i]), "'", "") // as a shell would
		}
		var out string
		var err error
		switch {
		case args[0] == "helm":
			out, err = helm(t.Context(), args[1:]...)
		case args[0] == "kubectl" && args[1] == "nodegate":
			out, err = lab.Tool(t.Context(), filepath.Join(lab.Dir, "kubectl-nodegate"), args[2:]...)
		case args[0] == "kubectl":
			out, err = lab.Kubectl(t.Context(), args[1:]...)
		default:
			t.Fatalf("%q is nothing that can be run here", args)
		}
		cluster.Must(t, err)
		t.Log(out)
		printed.WriteString(out)
	}
	return printed.String()
}

// quickstart runs the commands of the quickstart, apart from those of kind and of the image, which the lab has.
func quickstart(t *testing.T) {
	const page = "docs/quickstart.md"
	first := lab.Nodes[0].Name
	for _, other := range lab.Nodes[1:] { // the page has one node
		kubectl(t, "cordon", other.Name)
		defer kubectl(t, "uncordon", other.Name)
	}
	kubectl(t, "label", "node", first, "example.com/pool-") // of another part
	pairs := append([]string{
		"nodegate-control-plane", first, "examples/quickstart", filepath.Join(checkout, "examples", "quickstart"),
		"image.repository=nodegate", "image.repository=" + strings.Split(Image, ":")[0],
		"registry.k8s.io/pause:3.10", PodImage,
	}, inThisLab()...)
	commands := append(documented(t, page, "", "helm"), documented(t, page, "", "kubectl")...)
	printed := follow(t, commands, pairs...)
	for _, line := range []string{
		"web    0/1     Pending", "condition example.com/Warm has not been reported", "InForce   1       1       0",
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("the page's commands do not print %q", line)
		}
	}
	kubectl(t, "label", "node", first, "example.com/pool-")
	follow(t, documented(t, removal, "In order", ""))
	nothingLeft(t)
}

// installDocumented runs the README's lines alone, with the image that the nodes have.
func installDocumented(t *testing.T, more ...string) {
	t.Helper()
	commands := documented(t, "README.md", "Install", "helm install")
	commands[0] = append(commands[0], more...)
	follow(t, commands, inThisLab()...)
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "deployment/nodegate-manager", "--timeout=5m")
}

// inThisLab is what is called otherwise in the pages.
func inThisLab() []string {
	repository, tag, _ := strings.Cut(Image, ":")
	return []string{
		"charts/nodegate", filepath.Join(checkout, "charts", "nodegate"),
		"config/crd", filepath.Join(checkout, "config", "crd"),
		"registry.example.com/nodegate", repository, "v0.1.0", tag,
	}
}
