#!/usr/bin/env bash
# Installs the Debian packages that the tests need and that are missing. Go itself is expected; all else is built from
# Go modules. As root.
set -euo pipefail

# A command that is needed, or one in its place after a bar, and the packages that bring it.
needed=(
	"git git"
	"make make"
	"gcc gcc libc6-dev"
	"containerd containerd runc"
	"/usr/lib/cni/bridge containernetworking-plugins"
	"iptables iptables"
	"conntrack conntrack"
	"ip iproute2"
	"mkfs.ext4 e2fsprogs"
	"mkfs.xfs xfsprogs"
	"haproxy haproxy"
	"chromium-headless-shell|google-chrome chromium-headless-shell fonts-dejavu-core"
)
missing=()
for entry in "${needed[@]}"; do
	read -r -a words <<<"$entry"
	IFS='|' read -r -a commands <<<"${words[0]}"
	command -v "${commands[@]}" >/dev/null || missing+=("${words[@]:1}")
done
if ((${#missing[@]})); then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Promtool is taken out of the Debian package of Prometheus, whose service is not wanted here.
if ! command -v promtool >/dev/null; then
	unpacked=$(mktemp -d)
	(
		cd "$unpacked"
		apt-get update -qq
		apt-get download -qq prometheus
		dpkg-deb -x prometheus_*.deb .
		install -m 755 usr/bin/promtool /usr/local/bin/promtool
	) || printf 'promtool could not be installed\n'
	rm -rf "$unpacked"
fi
