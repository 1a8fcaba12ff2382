#!/usr/bin/env bash
# Is HEAD slower than BASE? Builds both commits in folders outside the tree, runs their bn-bench in alternation (bn-bench ab),
# and ends with its verdict. When every time and rate is INCONCLUSIVE, as on a busy machine, the gate has no data and fails.
#
#     ci/bench-gate.sh BASE [HEAD] [-- ARGUMENTS of bn-bench run]
#
# The default of HEAD is the commit that is checked out. Both commits run `bn-bench run` with the arguments, by default one
# short answer of the built-in model. Environment variables:
#
#     BENCH_ROUNDS   rounds that count (20)
#     BENCH_MARGIN   change in per cent that does not matter (2)
#     BENCH_STRICT   1: fail when any series is inconclusive
#     BENCH_OUT      folder for the artefacts (build/bench-gate): ab.json, the reports of bn-bench report, and
#                    github-smaller.json, github-bigger.json for github-action-benchmark
#     BENCH_TIMEOUT  for one run (10m)
#     BENCH_AB       more options of bn-bench ab
#
# Exit status: 0 not slower, 1 slower or no data, 2 usage, 3 no such commit, 10 a commit does not build; others are
# those of bn-bench.
set -u
cd "$(dirname "$0")/.." || exit 10
script=bench-gate
# shellcheck source=ci/commits.sh
. ci/commits.sh
usage() {
    complain "usage: ci/bench-gate.sh BASE [HEAD] [-- ARGUMENTS of bn-bench run]"
    exit 2
}

commits=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in -*) usage ;; esac
    commits+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#commits[@]} -eq 1 ] || [ ${#commits[@]} -eq 2 ] || usage
arguments=("$@")
[ ${#arguments[@]} -gt 0 ] || arguments=(-p 32 -n 32 -r 3)

base=$(commit_of "${commits[0]}") || exit
head=$(commit_of "${commits[1]:-HEAD}") || exit

out=${BENCH_OUT:-build/bench-gate}
mkdir -p "$out" || exit 8
out=$(cd "$out" && pwd)
commits_start
build_commit base "$base" bn-bench "$out"
build_commit head "$head" bn-bench "$out"

programs=$(programs)
ab=(ab --json --series --output-only --rounds "${BENCH_ROUNDS:-20}" --margin "${BENCH_MARGIN:-2}" --timeout "${BENCH_TIMEOUT:-10m}")
[ "${BENCH_STRICT:-0}" = 0 ] || ab+=(--strict)
# shellcheck disable=SC2206 # words on purpose
ab+=(${BENCH_AB:-})
complain "bn-bench run ${arguments[*]}, ${BENCH_ROUNDS:-20} rounds"
# The judge is the bn-bench of this script's tree if it is built, else that of HEAD.
judge=$commits_dir/head/$programs/bn-bench
[ ! -x "$programs/bn-bench" ] || judge=$PWD/$programs/bn-bench
"$judge" "${ab[@]}" -- "$commits_dir/base/$programs/bn-bench" run --json -q "${arguments[@]}" \
    --vs "$commits_dir/head/$programs/bn-bench" run --json -q "${arguments[@]}" >"$out/ab.json"
verdict=$?
# The columns are file, test, metric, unit, verdict. Counts the series that are not sizes and that were decided.
judged=$("$judge" report --format csv-comparisons "$out/ab.json" | awk -F, 'NR > 1 && $4 != "bytes" && $5 != "INCONCLUSIVE"' | wc -l)
if [ "$verdict" -eq 0 ] && [ "$judged" -eq 0 ]; then
    complain "no data: every time and rate is inconclusive; use a quieter machine or more rounds (BENCH_ROUNDS)"
    verdict=1
fi
printf '{"base": "%s", "head": "%s", "status": %d}\n' "$base" "$head" "$verdict" >"$out/gate.json"
if "$judge" report --help >/dev/null 2>&1; then
    "$judge" report --dir "$out" "$out/ab.json" || complain "no report"
    for format in github-smaller github-bigger; do "$judge" report --format $format -o "$out/$format.json" "$out/ab.json"; done
    "$judge" report "$out/ab.json" || true
fi
complain "status $verdict; artefacts in $out"
exit "$verdict"
