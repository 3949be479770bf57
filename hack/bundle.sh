#!/usr/bin/env bash
# Writes a bundle for the Operator Lifecycle Manager from the manifests on its standard input.
#
#   kustomize build config/olm | hack/bundle.sh v0.1.0 dist/bundle
set -euo pipefail
version=$1 out=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rm -rf "$out"
go run -C hack/tools ./bundle -version "$version" -base "$PWD/config/olm/csv.yaml" -out "$out" \
	"$PWD"/config/samples/{bootstrap,continuous}.yaml
