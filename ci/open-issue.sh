#!/usr/bin/env bash
# Opens an issue of GitHub, or comments on the open one of the same title: ci/open-issue.sh FILE [TITLE]. The first line of FILE is
# the title, the rest the text. Without FILE, because what writes it failed before, the issue has TITLE and names the run; without a
# TITLE nothing is done. Needs gh and its GH_TOKEN.
set -euo pipefail
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: ci/open-issue.sh FILE [TITLE]" >&2; exit 2; }
[ -f "$1" ] || [ $# -eq 2 ] || { echo "open-issue: $1 does not exist: nothing to report" >&2; exit 0; }
text=$(mktemp)
trap 'rm -f "$text"' EXIT
if [ -f "$1" ]; then
    title=$(head -n 1 "$1")
    tail -n +2 "$1" | head -c 60000 >"$text" # an issue takes 65536 characters
else
    title=$2
    echo "The log says why: ${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}/actions/runs/${GITHUB_RUN_ID:-}" >"$text"
fi
number=$(gh issue list --state open --json number,title --jq ".[] | select(.title == \"$title\") | .number" | head -n 1)
if [ -n "$number" ]; then
    gh issue comment "$number" --body-file "$text"
else
    gh issue create --title "$title" --body-file "$text"
fi
