#!/usr/bin/env bash
# .github/workflows/benchmark.yml runs this script. It finds the commit to compare with and runs the gate: the base of a pull
# request, the commit that a push replaced, the one that was entered, or else (nightly) the newest commit of the day before.
set -u
cd "$(dirname "$0")/.." || exit 10
base=
for candidate in "${BENCH_BASE_PULL:-}" "${BENCH_BASE_MANUAL:-}" "${BENCH_BASE_PUSH:-}" \
    "$(git rev-list -n 1 --before='24 hours ago' HEAD)" 'HEAD~1'; do
    # A first push "replaces" a commit of zeros, which is not a candidate.
    [ -n "$candidate" ] && base=$(git rev-parse --verify --quiet "$candidate^{commit}") && break
done
[ -n "$base" ] || {
    echo "bench-ci: no commit to compare with" >&2
    exit 1
}
# A pull request is compared with its branch point, not with later commits of the branch.
base=$(git merge-base "$base" HEAD) || exit 1
ci/bench-gate.sh "$base" HEAD
status=$?
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || [ ! -f build/bench-gate/performance-report.md ] ||
    cat build/bench-gate/performance-report.md >>"$GITHUB_STEP_SUMMARY"
exit "$status"
