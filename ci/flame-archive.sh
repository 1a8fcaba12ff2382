#!/usr/bin/env bash
# Adds flame graphs of the built-in model to an archive and writes what changed since the recordings before:
# ci/flame-archive.sh [DIR]. The default of DIR is build/flame-archive. .github/workflows/flamegraph.yml runs it every night, and
# keeps DIR as the artefact "flamegraph-archive": where gh and its GH_TOKEN are there, and DIR is not, that of the newest earlier run
# is downloaded first. One thread is recorded, by ci/phase2-flamegraph.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-build/flame-archive}
if [ -n "${GH_TOKEN:-}" ] && [ ! -e "$dir" ]; then
    for run in $(gh run list --workflow flamegraph.yml --branch "${GITHUB_REF_NAME:-main}" --limit 30 --json databaseId --jq '.[].databaseId'); do
        gh run download "$run" --name flamegraph-archive --dir "$dir" 2>/dev/null && break
    done
    [ -d "$dir/archives" ] || echo "flame-archive: no earlier archive: this is the first one" >&2
fi
mkdir -p "$dir"
ci/phase2-flamegraph.sh built-in "$dir" -t 1 --archive
ci/phase2-flamegraph.sh - "$dir" --timeline
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$dir/timeline.md" >>"$GITHUB_STEP_SUMMARY"
