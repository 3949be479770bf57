// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"path/filepath"
	"strings"
)

// runtimeSocket is containerd's, on each node.
const runtimeSocket = "/run/containerd/containerd.sock"

// cniDir is where a node's directory has the configuration of its pods' network.
const cniDir = "cni"

// fill replaces names in capitals.
func fill(template string, values ...string) string {
	return strings.NewReplacer(values...).Replace(template)
}

// containerdConfig restricts the OOM score, for without CAP_SYS_RESOURCE no sandbox could be made otherwise.
func containerdConfig(dir, snapshotter string) string {
	return fill(`version = 2
root = "DIR/containerd"
state = "/run/containerd"
[grpc]
  address = "SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "IMAGE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "SNAPSHOTTER"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "DIR/CNI"
`, "DIR", dir, "SOCKET", runtimeSocket, "IMAGE", PodImage, "SNAPSHOTTER", snapshotter, "CNI", cniDir)
}

// cniConfig is a bridge with addresses of the node's own.
func cniConfig(dir string, number int) string {
	return fill(`{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
    "ipam": {"type": "host-local", "dataDir": "DATA", "ranges": [[{"subnet": "SUBNET"}]],
      "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`, "DATA", filepath.Join(dir, "cni-addresses"), "SUBNET", podNetwork(number))
}

// kubeletConfig renews the lease every two seconds, so that a controller manager that looks often enough sees soon that
// a kubelet is silent.
func kubeletConfig(dir, cgroup, caFile string) string {
	return fill(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://SOCKET
cgroupDriver: cgroupfs
cgroupRoot: CGROUP
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: CAFILE}}
authorization: {mode: Webhook}
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
imagePullCredentialsVerificationPolicy: NeverVerify
evictionHard:
  {memory.available: 50Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%, imagefs.inodesFree: 0%}
volumePluginDir: DIR/volume-plugins
localStorageCapacityIsolation: false
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 1m
nodeLeaseDurationSeconds: 8
syncFrequency: 5s
`, "SOCKET", runtimeSocket, "CGROUP", cgroup, "CAFILE", caFile, "DIR", dir)
}

// proxyConfig leaves the limits of connection tracking alone: they are the machine's.
func proxyConfig(node, kubeconfig string) string {
	return fill(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: KUBECONFIG}
clusterCIDR: 10.244.0.0/16
hostnameOverride: NODE
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, "KUBECONFIG", kubeconfig, "NODE", node)
}
