#!/usr/bin/env bash
# Writes the module that pins another control plane: hack/assets/pin.sh v1.32.13 writes hack/assets/kubernetes/1.32.
# Kubernetes requires its own parts at version 0, so that each needs a replacement.
set -euo pipefail
version=$1
minor=${version#v}
minor=${minor%.*}
dir=$(dirname "${BASH_SOURCE[0]}")/kubernetes/$minor
export GOWORK=off
mkdir -p "$dir"
cd "$dir"
source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
{
	printf '// The pinned sources of a control plane of Kubernetes %s. Written by hack/assets/pin.sh.\n' "$minor"
	printf 'module github.com/nodegate/nodegate/hack/assets/kubernetes/%s\n\n' "$minor"
	printf 'go 1.26.0\n\n'
	sed -n 's/^godebug default=.*/&\n/p' "$source"
	printf 'tool (\n'
	printf '\tk8s.io/kubernetes/cmd/%s\n' kube-apiserver kube-controller-manager kube-scheduler kubectl
	printf ')\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$version"
	sed -nE "s#^\t(k8s.io/[a-z-]+) (v0.0.0|=> ./staging/.*)( // indirect)?\$#\1#p" "$source" | LC_ALL=C sort -u |
		sed "s#.*#\t& => & v0.${version#v1.}#"
	printf ')\n'
} >go.mod
go mod tidy
