#!/usr/bin/env bash
# Opens an issue of GitHub, or comments on the open one of the same title: ci/open-issue.sh FILE. The first line of FILE is
# the title, the rest the text. Does nothing when there is no FILE. Needs gh and its GH_TOKEN.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: ci/open-issue.sh FILE" >&2; exit 2; }
[ -f "$1" ] || { echo "open-issue: $1 does not exist: nothing to report" >&2; exit 0; }
title=$(head -n 1 "$1")
text=$(mktemp)
trap 'rm -f "$text"' EXIT
# An issue takes 65536 characters.
tail -n +2 "$1" | head -c 60000 >"$text"
number=$(gh issue list --state open --json number,title --jq ".[] | select(.title == \"$title\") | .number" | head -n 1)
if [ -n "$number" ]; then
    gh issue comment "$number" --body-file "$text"
else
    gh issue create --title "$title" --body-file "$text"
fi
