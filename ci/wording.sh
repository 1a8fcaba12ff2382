#!/usr/bin/env bash
# Lists lines whose wording ci/words.txt refuses, with what to write instead: ci/wording.sh [PATH...]
# The exit status is 1 when there are any.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- '*.c' '*.h' '*.cpp' '*.hpp' '*.mjs' '*.sh' '*.md' Makefile
status=0
while IFS=$'\t' read -r pattern instead; do
    case $pattern in '' | '#'*) continue ;; esac
    git grep -nIP --untracked -e "$pattern" -- "$@" ':!fixtures/*.txt' ':!ci/words.txt' ':!docs/baselines' | cut -c 1-160 | sed "s|\$|  [write: $instead]|" | grep . && status=1
done <ci/words.txt
exit $status
