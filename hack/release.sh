#!/usr/bin/env bash
# Writes a release to dist/: images, chart, manifests, plugin, bills of materials, checksums and release notes. It needs
# Go, git and the module proxy, and no other network. The same commit and version give the same bytes.
#
#   hack/release.sh v0.1.0
#
# PLATFORMS limits the plugin's platforms, and ARCHES the image's, for a quick look.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C TZ=UTC CGO_ENABLED=0

die() { printf 'error: %s\n' "$*" >&2 && exit 1; }
say() { printf '... %s\n' "$*" >&2; }

version=${1-}
[[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] ||
	die "VERSION is \"$version\": set it to a version such as v0.1.0"
[[ -z $(git status --porcelain) ]] || die "the checkout has changes: commit them, so that the release can be repeated"
grep -qx "appVersion: ${version%%-*}" charts/nodegate/Chart.yaml ||
	die "the pages are for another version: run hack/version.sh ${version%%-*}, and commit"
ARCHES=${ARCHES-amd64 arm64}
PLATFORMS=${PLATFORMS-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
image=ghcr.io/nodegate/nodegate
dist=$PWD/dist
modified=@$(git log -1 --format=%ct) # the time of everything that has one
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

compile() { # GOOS GOARCH DIRECTORY COMMAND...
	local os=$1 arch=$2 out=$3
	shift 3
	say "building ${*##*/} for $os/$arch"
	mkdir -p "$out"
	GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=true -tags grpcnotrace \
		-ldflags "-s -w -X github.com/nodegate/nodegate/internal/version.Version=$version" -o "$out/" "$@"
}
pack() { # ARCHIVE DIRECTORY ENTRY...
	local archive=$1 directory=$2
	shift 2
	tar -C "$directory" --sort=name --mtime="$modified" --owner=0 --group=0 --numeric-owner --mode='u+rw,go=rX' -cf - "$@" |
		gzip -9 -n >"$archive"
}
cyclonedx=$(GOFLAGS=-trimpath go tool -modfile=hack/tools/sbom/go.mod -n cyclonedx-gomod)
sbom() { # OS ARCH NAME BINARY
	GOOS=$1 GOARCH=$2 "$cyclonedx" bin -json -output-version 1.6 -std -noserial -notimestamp -version "$version" \
		-output "$dist/$3.cdx.json" "$4"
}

# --- Release notes ---------------------------------------------------------------------------------------------------
rm -rf dist
mkdir -p dist
awk -v heading="## [${version#v}]" '
	index($0, "## [") == 1 || index($0, "[unreleased]:") == 1 { inside = index($0, heading) == 1; next }
	inside { print }
' CHANGELOG.md >dist/release-notes.md
[[ -s dist/release-notes.md ]] || die "CHANGELOG.md has no section \"## [${version#v}]\": write it first"

# --- Images ----------------------------------------------------------------------------------------------------------
for arch in $ARCHES; do
	compile linux "$arch" "$build/linux_$arch" ./cmd/manager ./cmd/agent
	for command in manager agent; do
		sbom linux "$arch" "${command}_linux_$arch" "$build/linux_$arch/$command"
	done
done
digest=$(go run -C hack/tools ./image -tag "$image:$version" -layout "$build/nodegate-oci" -arch "${ARCHES// /,}" \
	-label org.opencontainers.image.title=nodegate \
	-label org.opencontainers.image.source=https://github.com/nodegate/nodegate \
	-label org.opencontainers.image.revision="$(git rev-parse HEAD)" \
	-label org.opencontainers.image.licenses=Apache-2.0 \
	-label org.opencontainers.image.version="$version" \
	"$build/linux_{arch}/agent" "$build/linux_{arch}/manager")
pack "dist/nodegate_${version}_oci.tar.gz" "$build" nodegate-oci
printf '%s@%s\n' "$image:$version" "$digest" >dist/image.txt

# --- Chart -----------------------------------------------------------------------------------------------------------
say "packaging the chart"
mkdir "$build/chart"
git archive HEAD charts/nodegate ":!charts/nodegate/tests" ":!charts/nodegate/README.md.gotmpl" |
	tar -x -C "$build/chart" --strip-components=1
hack/chart.sh "$build/chart/nodegate" "$version" "$image@$digest"
go tool -modfile=hack/tools/go.mod helm lint --strict "$build/chart/nodegate" >&2
pack "dist/nodegate-${version#v}.tgz" "$build/chart" nodegate

# --- Manifests -------------------------------------------------------------------------------------------------------
cp -r config "$build/" # kustomize takes no absolute paths
kustomize=$(go tool -modfile=hack/tools/go.mod -n kustomize)
manifests() { # CONFIG
	mkdir -p "$build/overlay/$1"
	(
		cd "$build/overlay/$1"
		"$kustomize" create --resources "../../config/$1"
		"$kustomize" edit set image "$image=$image:$version@$digest"
		"$kustomize" build .
	)
}
say "writing the manifests"
manifests default >dist/install.yaml
manifests with-agent >dist/install-with-agent.yaml
manifests olm | hack/bundle.sh "$version" "$build/bundle"
pack "dist/nodegate_${version}_olm-bundle.tar.gz" "$build" bundle

# --- The plugin ------------------------------------------------------------------------------------------------------
krew() { # the part of the plugin's manifest for one platform
	cat <<-EOF
	  - selector: {matchLabels: {os: $1, arch: $2}}
	    uri: https://github.com/nodegate/nodegate/releases/download/$version/$3
	    sha256: $(sha256sum "dist/$3" | cut -d' ' -f1)
	    bin: $4
	EOF
}
cat >dist/krew-nodegate.yaml <<EOF
# https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: nodegate
spec:
  version: $version
  homepage: https://github.com/nodegate/nodegate
  shortDescription: Explain and control node readiness
  description: |
    Says why Nodegate holds a node, tries a rule before it is applied, and
    releases, pauses and puts nodes into maintenance.
  platforms:
EOF
for platform in $PLATFORMS; do
	os=${platform%/*} arch=${platform#*/}
	binary=kubectl-nodegate$([[ $os != windows ]] || echo .exe)
	directory=$build/plugin_${os}_$arch
	archive=kubectl-nodegate_${version}_${os}_$arch.tar.gz
	compile "$os" "$arch" "$directory" ./cmd/kubectl-nodegate
	sbom "$os" "$arch" "kubectl-nodegate_${os}_$arch" "$directory/$binary"
	cp LICENSE cmd/kubectl-nodegate/kubectl_complete-nodegate "$directory/"
	pack "dist/$archive" "$directory" LICENSE kubectl_complete-nodegate "$binary"
	krew "$os" "$arch" "$archive" "$binary" >>dist/krew-nodegate.yaml
done

# --- Checksums -------------------------------------------------------------------------------------------------------
(cd dist && sha256sum -- * >"$build/checksums.txt" && mv "$build/checksums.txt" .)
say "dist/ holds the release $version: image $digest"
