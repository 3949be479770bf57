#!/usr/bin/env bash
# Finds words that this repository does not use, and prints file, line, word and what to write instead (words.txt).
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while IFS=$'\t' read -r word instead; do
	case $word in '' | '#'*) continue ;; esac
	# testdata has files of other projects, too.
	found=$(git grep -InoE -e "$word" -- '*.md' '*.gotmpl' '*.go' '*.yaml' '*.json' '*.txt' '*.sh' \
		':!*/testdata/*' ':!hack/words.txt') || [ $? -eq 1 ]
	if [ -n "$found" ]; then
		status=1
		while IFS= read -r hit; do echo "$hit: write $instead"; done <<<"$found"
	fi
done <hack/words.txt
exit $status
