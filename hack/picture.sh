#!/usr/bin/env bash
# Draws the table of the demo, from a real run in a terminal of tmux, as docs/demo.svg.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v tmux >/dev/null || { echo "error: tmux is missing: install it with your package manager" >&2 && exit 1; }
server=nodegate-picture-$$ # a server of its own, so that only its sessions end
trap 'tmux -L "$server" kill-server 2>/dev/null || true' EXIT
tmux -L "$server" -f /dev/null new-session -d -x 124 -y 44 "make --no-print-directory demo DEMO_WAIT=0; sleep 60"
# The frame in which half of the nodes are open.
for ((i = 0; ; i++)); do
	screen=$(tmux -L "$server" capture-pane -e -p)
	! grep -q "${1:-5 of 10 nodes}" <<<"$screen" || break
	((i < 2400)) || { printf 'error: the demo did not come that far:\n%s\n' "$screen" >&2 && exit 1; }
	sleep 0.25
done
sed -n "/The CNI comes up/,\$p" <<<"$screen" | go run -C hack/tools ./picture >docs/demo.svg
echo docs/demo.svg
