#!/usr/bin/env bash
# Usage: ci/coverage.sh FOLDER | --judge FILE
# Judges which lines of the sources the tests ran. FOLDER is a build with COVER=1 whose tests ran; FILE has lines of
# "LINES-RUN LINES FILE". Fails when a room of the table is under its floor, and when there is nothing to judge.
#
# A floor is what was measured, rounded down, and only rises.
set -euo pipefail
cd "$(dirname "$0")/.."
# floor name pattern
rooms='
97 engine ^engine/
98 parsers ^(engine/gguf/|engine/base/json|hub/files/)
98 receipts ^lab/(receipt|verify)/
97 lab ^lab/
96 hub ^hub/
96 tools ^tools/
96 train+mpi ^(train|mpi)/
96 opencl ^opencl/
'
# What gcov says of every object that was built: one that no test ran counts with no line run.
collect() {
    # gcov fails where data are missing; lines that nothing ran are the answer then.
    (cd "$1" && { find engine lab hub tools train mpi opencl -name '*.gcno' 2>/dev/null | sort | xargs -r gcov -n 2>/dev/null || true; }) |
        sed -nE "/^File '[a-z]/{s/File '(.*)'/\\1/;N;s/\n.*:([0-9.]+)% of ([0-9]+)/ \\1 \\2/p}" |
        awk '$1 ~ /^(engine|lab|hub|tools|train|mpi|opencl)\// { printf "%d %d %s\n", $2 * $3 / 100 + 0.5, $3, $1 }'
}
report=$(mktemp)
trap 'rm -f "$report"' EXIT
case ${1:-} in
--judge) cat "${2:?a file}" >"$report" ;;
'' | -*) sed -n '2,/^$/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2 && exit 2 ;;
*) collect "$1" >"$report" && sort -k3 "$report" | awk '{ printf "%6.2f %% of %5d  %s\n", 100 * $1 / $2, $2, $3 }' ;;
esac
bad=0
while read -r floor name pattern; do
    [ -n "$floor" ] || continue
    awk -v pattern="$pattern" -v floor="$floor" -v name="$name" '
        $3 ~ pattern { run += $1; all += $2 }
        END {
            percent = all ? 100 * run / all : 0
            printf "coverage: %-10s %6.2f %% of %6d lines, floor %d: %s\n", name, percent, all, floor, percent < floor ? "UNDER ITS FLOOR" : "enough"
            if (!all) print "coverage: no data of " name
            exit percent < floor
        }' "$report" || bad=1
done <<<"$rooms"
exit "$bad"
