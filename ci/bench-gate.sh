#!/usr/bin/env bash
# Is HEAD slower than BASE? Builds both commits in folders outside the tree, runs their bn-bench in alternation (bn-bench ab),
# and ends with its verdict. Each metric of BENCH_METRICS must be decided in every test that has it. One that is INCONCLUSIVE, as
# on a busy machine, or that no run has, is named, and the gate fails: decisions about others do not count for it.
#
#     ci/bench-gate.sh BASE [HEAD] [-- ARGUMENTS of bn-bench run]
#
# The default of HEAD is the commit that is checked out. Both commits run `bn-bench run` with the arguments, by default one
# short answer of the built-in model. Environment variables:
#
#     BENCH_ROUNDS   rounds that count (20)
#     BENCH_MARGIN   change in per cent that does not matter (2)
#     BENCH_METRICS  what must be decided (ns_per_token token_ns peak_rss_bytes: rate, time between tokens, memory)
#     BENCH_STRICT   1: fail when any series is inconclusive
#     BENCH_OUT      folder for the artefacts (build/bench-gate): ab.json, comparisons.csv, the reports of bn-bench report, and
#                    github-smaller.json, github-bigger.json for github-action-benchmark
#     BENCH_TIMEOUT  for one run (10m)
#     BENCH_AB       more options of bn-bench ab
#
# Exit status: 0 not slower, 1 slower or undecided, 2 usage, 3 no such commit, 10 a commit does not build; others are
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
# The columns are test, metric, A, B, change, verdict.
"$judge" report --format csv -o "$out/comparisons.csv" "$out/ab.json" || : >"$out/comparisons.csv"
undecided=()
for metric in ${BENCH_METRICS:-ns_per_token token_ns peak_rss_bytes}; do
    rows=$(sed 's/"[^"]*"/a test/g' "$out/comparisons.csv" | awk -F, -v m="$metric" '$2 == m { print $1 ": " $6 }')
    [ -n "$rows" ] || rows="no run has it: INCONCLUSIVE"
    while IFS= read -r row; do
        case $row in *INCONCLUSIVE*) undecided+=("$metric") && complain "no data: $metric, ${row%: *} is undecided" ;; esac
    done <<<"$rows"
done
if [ "$verdict" -eq 0 ] && [ ${#undecided[@]} -gt 0 ]; then
    complain "use a quieter machine, more rounds (BENCH_ROUNDS), or other metrics (BENCH_METRICS)"
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
