#!/usr/bin/env bash
# Checks that committed measurements are of models that the project has: ci/evidence.sh [FOLDER]
#
# Each baseline, flame graph, timing document and list of expected tokens must name its model by SHA-256, and each digest
# must be that of the built-in model or of a line in fixtures/generated.txt. Prints what is wrong and ends with 1. When
# the built-in model changes, this names the files to make again; docs/howto/measure.md has the commands.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
hex='[0-9a-f]{64}'
known=$( { grep ' built-in-i2_s\.gguf$' fixtures/SHA256SUMS; grep -v '^#' fixtures/generated.txt; } | cut -d ' ' -f 1)
[ "$(grep -cE "^$hex\$" <<<"$known")" -gt 1 ] || { echo "evidence: fixtures/ lists no models" >&2; exit 1; }

# The digests of models in a file: JSON (also inside of SVG) by the member's name, text by the line's beginning.
models_in() {
    tr -d ' \n' <"$1" | sed 's/&quot;/"/g' | grep -oaE "\"model_sha256\":\"$hex\"|\"model\":\{[^{}]*\"sha256\":\"$hex\"" | grep -oE "$hex"
    grep -aE '^(\| model \||\| sha256 of the model \||# model )' "$1" | grep -oE "$hex"
}

bad=0 files=0
for file in baselines/*/*.json docs/baselines/perf/*.md docs/baselines/perf/*.txt docs/baselines/perf/flamegraphs/*_* fixtures/prompts.jsonl; do
    [ -f "$file" ] || continue
    files=$((files + 1))
    named=$(models_in "$file" | sort -u)
    [ -n "$named" ] || { echo "evidence: $file does not name its model by SHA-256" >&2; bad=1; }
    for digest in $named; do
        grep -qx "$digest" <<<"$known" || { echo "evidence: $file was measured with model $digest, which is neither built in nor generated" >&2; bad=1; }
    done
done
[ "$files" -gt 0 ] || { echo "evidence: no file to check" >&2; bad=1; }
exit "$bad"
