#!/usr/bin/env bash
# Where did the time go, and did that change? Builds bn-flamegraph of HEAD and of BASE, records the same generation with both
# in turn, and compares them. .github/workflows/flamegraph.yml runs it every night.
#
#     ci/flame-ci.sh [BASE]
#
# The default of BASE is base_commit in ci/commits.sh. Environment variables:
#
#     FLAME_RUNS         recordings of each side (8)
#     FLAME_FAIL_ABOVE   growth of a function's share, in percentage points, that fails (5)
#     FLAME_OUT          folder for the artefacts (build/flame): recordings, head.svg, diff.svg, diff.txt
#     FLAME_OPTIONS      of bn-flamegraph record (-n 64 --min-samples 4000)
#
# One thread is recorded: threads that wait for each other are not work. When so little was recorded that growth over
# the limit could be missed, the comparison fails: more runs or more samples are needed.
#
# Exit status: 0 nothing grew, 1 a function grew or that cannot be decided, 2 usage, 3 no such commit, 10 a commit does not build.
set -u
cd "$(dirname "$0")/.." || exit 10
script=flame-ci
# shellcheck source=ci/commits.sh
. ci/commits.sh
case $#,${1:-} in [!01],* | *,-*) complain "usage: ci/flame-ci.sh [BASE]" && exit 2 ;; esac
if [ $# -gt 0 ]; then base=$(commit_of "$1") || exit; else base=$(base_commit) || exit 1; fi
head=$(commit_of HEAD) || exit
out=${FLAME_OUT:-build/flame} runs=${FLAME_RUNS:-8}
rm -rf "$out"
mkdir -p "$out" || exit 8
out=$(cd "$out" && pwd)
commits_start
build_commit base "$base" bn-flamegraph "$out"
build_commit head "$head" bn-flamegraph "$out"
for ((run = 1; run <= runs; run++)); do
    for side in base head; do
        # shellcheck disable=SC2086 # words on purpose
        "$commits_dir/$side/$(programs)/bn-flamegraph" record -q -t 1 ${FLAME_OPTIONS:--n 64 --min-samples 4000} -o "$out/$side$run.json" || {
            complain "no recording of $side"
            exit 1
        }
    done
done
tool=$commits_dir/head/$(programs)/bn-flamegraph
"$tool" render -q "$out"/head1.json -o "$out/head.svg" || complain "no picture"
"$tool" diff -q "$out"/base*.json --vs "$out"/head*.json -o "$out/diff.svg" || complain "no picture of the comparison"
"$tool" diff -q "$out"/base*.json --vs "$out"/head*.json --min 1 --fail-above "${FLAME_FAIL_ABOVE:-5}" --strict >"$out/diff.txt"
status=$?
cat "$out/diff.txt"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || { echo '```' && cat "$out/diff.txt" && echo '```'; } >>"$GITHUB_STEP_SUMMARY"
[ "$status" = 0 ] || { echo "The comparison of flame graphs failed" && echo "$base to $head:" && echo &&
    sed 's/^/    /' "$out/diff.txt"; } >"$out/issue.md"
complain "status $status; artefacts in $out"
exit "$status"
