#!/usr/bin/env bash
# Makes sure of the control plane's binaries. The last line of stdout is the directory they are in.
#
#   hack/assets.sh [-node] [-kubernetes=1.32]     -node: kubelet and kube-proxy too
#
# The binaries must run here, so a GOOS or GOARCH meant for the operator's own build has no effect.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec env -u GOOS -u GOARCH GOWORK=off CGO_ENABLED=0 go run ./hack/assets "$@"
