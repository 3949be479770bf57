#!/usr/bin/env bash
# Makes the chart in a directory that of a release. The annotation is no default of image.digest, which would win over a
# tag or a repository that a user sets.
#
#   hack/chart.sh DIRECTORY v0.1.0 ghcr.io/nodegate/nodegate@sha256:...
set -euo pipefail
directory=$1 version=$2 image=$3
sed -i -E "s/^(version): .*/\1: ${version#v}/; s/^(appVersion): .*/\1: $version/
s|^annotations:$|&\n  nodegate.io/image: $image|" "$directory/Chart.yaml"
grep -qxF "  nodegate.io/image: $image" "$directory/Chart.yaml" ||
	{ echo "error: Chart.yaml has no annotations" >&2 && exit 1; }
