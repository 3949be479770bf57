#!/bin/sh
# Checks what a commit easily forgets: generated files, go.mod files, shell scripts. Changes the files that it finds
# out of date, names every fault, and fails if there was one.
set -eu
cd "$(dirname "$0")/.."
MAKE=${MAKE:-make}
faults=0

fault() {
	echo "verify: $*" >&2
	faults=$((faults + 1))
}

# generated lists the files that "make generate manifests" writes; "$@" goes to git ls-files.
generated() {
	git ls-files "$@" -- config/crd/bases config/rbac/role.yaml config/components/webhooks/role.yaml charts/nodegate/crds charts/nodegate/files charts/nodegate/policies charts/nodegate/README.md docs/performance.md 'api/**/zz_generated.*' | LC_ALL=C sort -u
}

# sums are the contents of the generated files, whether committed yet or not: what counts is that generating changes
# nothing, in a fresh clone as among edits.
sums() {
	generated --cached --others --exclude-standard | while IFS= read -r file; do
		if [ -e "$file" ]; then cksum "$file"; else echo "missing $file"; fi
	done
}

verify_generated() {
	before=$(sums)
	"$MAKE" --no-print-directory generate manifests
	if [ "$before" != "$(sums)" ]; then
		git --no-pager diff --stat -- config charts api docs
		fault "generated files were out of date: commit what \"make generate manifests\" has just written"
	fi
	untracked=$(generated --others --exclude-standard)
	if [ -n "$untracked" ]; then
		fault "generated files are not committed:" $untracked
	fi
}

verify_modules() {
	git ls-files --cached --others --exclude-standard -- go.mod '**/go.mod' | while IFS= read -r file; do
		echo "go mod tidy -diff in $(dirname "$file")"
		(cd "$(dirname "$file")" && GOWORK=off go mod tidy -diff) || echo "$file" >>"$1"
	done
	if [ -s "$1" ]; then
		fault "not tidy:" $(cat "$1")
	fi
}

# verify_scripts lets the shell that a script names parse it, and checks that it can be run.
verify_scripts() {
	git ls-files --cached --others --exclude-standard -- '*.sh' .ci/run | while IFS= read -r file; do
		[ -x "$file" ] || echo "$file" >>"$1"
		case $(head -n 1 "$file") in
		*bash*) bash -n "$file" || echo "$file" >>"$1" ;;
		*) sh -n "$file" || echo "$file" >>"$1" ;;
		esac
	done
	if [ -s "$1" ]; then
		fault "do not parse, or are not executable:" $(cat "$1")
	fi
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
verify_generated
verify_modules "$tmp/modules"
verify_scripts "$tmp/scripts"
if [ "$faults" -gt 0 ]; then
	exit 1
fi
echo "verify: generated files, go.mod files and shell scripts are in order"
