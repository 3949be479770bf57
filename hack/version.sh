#!/usr/bin/env bash
# Writes a version of Nodegate into the chart, the manifests, the examples and the commands of all pages, before a release.
# The version that they have now is appVersion in charts/nodegate/Chart.yaml; a test compares the pages with it.
# CHANGELOG.md is written by hand.
#
#   hack/version.sh v0.2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
old=$(sed -n 's/^appVersion: v//p' charts/nodegate/Chart.yaml)
new=${1-v$old}
[[ $new =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "error: $new is not a version such as v0.2.0" >&2 && exit 1; }
while IFS= read -r file; do
	sed -i -E "s/(nodegate:v|tag=v|ref=v|newTag: v|ersion: v?|VERSION=v|tags\/v|nodegate-|Nodegate v)${old//./\\.}/\1${new#v}/g" "$file"
done < <(git ls-files '*.md' '*.gotmpl' config examples charts/nodegate/Chart.yaml ':!CHANGELOG.md')
