// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/needs"
)

// containerdConfig keeps all of containerd's files below one directory.
const containerdConfig = `
version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
address = "%[1]s/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "%[1]s/bin"
conf_dir = "%[1]s/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
`

// TestContainerdThatIsPaused sees a real containerd without a network, paused, and gone.
func TestContainerdThatIsPaused(t *testing.T) {
	containerd := needs.Command(t, "containerd", "containerd")
	if !needs.Isolated(t) {
		return
	}
	root, err := os.MkdirTemp("", "cri") // a test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	network := filepath.Join(root, "cni")
	if err := os.Mkdir(network, 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(root, "config.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, root), 0o600); err != nil {
		t.Fatal(err)
	}
	c := ContainerRuntime(root, nil)
	finds(t, c, "no CRI socket at the default paths")

	server := background(t, exec.Command(containerd, "--config", config, "--log-level", "error"))
	finds(t, c, "NetworkReady is false: NetworkPluginNotReady")
	list := `{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "loopback"}]}`
	if err := os.WriteFile(filepath.Join(network, "10-test.conflist"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, c, "")

	signal(t, server, unix.SIGSTOP)
	if o := finds(t, c, "the runtime does not answer"); o.Duration < time.Second || o.Duration > 40*time.Second {
		t.Errorf("it took %s, the limit is 1 s", o.Duration)
	}
	signal(t, server, unix.SIGCONT)
	finds(t, c, "")
	signal(t, server, unix.SIGKILL)
	finds(t, c, "connection refused")
}
