#!/usr/bin/env bash
# .github/workflows/benchmark.yml runs this script. It finds the commit to compare with (base_commit in ci/commits.sh), runs
# the gate, and prepares what the later steps publish, in build/bench-gate:
#
#     performance-report.md   also into the summary of the job
#     issue.md                when the gate failed: title, then the text of an issue
set -u
cd "$(dirname "$0")/.." || exit 10
script=bench-ci
# shellcheck source=ci/commits.sh
. ci/commits.sh
base=$(base_commit) || exit 1
out=${BENCH_OUT:-build/bench-gate}
ci/bench-gate.sh "$base" HEAD
status=$?
report=$out/performance-report.md
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || [ ! -f "$report" ] || cat "$report" >>"$GITHUB_STEP_SUMMARY"
rm -f "$out/issue.md"
if [ "$status" -ne 0 ]; then
    title='performance: the benchmark failed'
    ! grep -qs '"verdict": "REGRESSED"' "$out/ab.json" || title='performance: slower'
    ! grep -qs '"severity": "critical"' "$out/ab.json" || title='performance: critically slower'
    {
        echo "$title"
        echo
        echo "$(git rev-parse HEAD), compared with $base: exit status $status."
        echo "To repeat it: \`ci/bench-gate.sh $base $(git rev-parse HEAD)\`"
        echo
        cat "$report" 2>/dev/null || echo 'There is no report; the log of the job says why.'
    } >"$out/issue.md"
fi
exit "$status"
