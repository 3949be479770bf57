#!/usr/bin/env bash
# Draws the table of the demo, from a real run in a terminal of tmux, as docs/demo.svg, which moves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v tmux >/dev/null || { echo "error: tmux is missing: install it with your package manager" >&2 && exit 1; }
server=nodegate-picture-$$ # a server of its own, so that only its sessions end
frames=$(mktemp)
trap 'tmux -L "$server" kill-server 2>/dev/null || true; rm -f "$frames"' EXIT
tmux -L "$server" -f /dev/null new-session -d -x 124 -y 44 "make --no-print-directory demo DEMO_WAIT=0; sleep 60"
# A frame for each number of nodes that are open.
last=
for ((i = 0; ; i++)); do
	screen=$(tmux -L "$server" capture-pane -e -p | sed -n "/The CNI comes up/,\$p")
	open=$(grep -oE '[0-9]+ of 10 nodes' <<<"$screen" | tail -n 1) || true
	if [[ -n $open && $open != "$last" ]]; then
		[[ -z $last ]] || printf '\f\n' >>"$frames"
		printf '%s\n' "$screen" >>"$frames"
		last=$open
	fi
	[[ $last != "10 of 10 nodes" ]] || break
	((i < 6000)) || { printf 'error: the demo did not come that far:\n%s\n' "$screen" >&2 && exit 1; }
	sleep 0.1
done
go run -C hack/tools ./picture <"$frames" >docs/demo.svg
echo docs/demo.svg
