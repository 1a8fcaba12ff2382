#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The overhead of sampling: the processor time of a fixed amount of work, with each tier and without recording, in
# alternation. Run it by hand on a quiet machine: it takes some minutes and is not part of make check.
#
#     tests/sampled/overhead.sh [-r ROUNDS] [-t TURNS] [TIER ...]     20, 1000 (millions), all of them
#
# A tier may have options: "clock --unwind fp". A tier that does not work here is reported.
OUT=${OUT:-build/gcc}
rounds=20 turns=1000
while getopts r:t: option; do
    case $option in
    r) rounds=$OPTARG ;;
    t) turns=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- clock
document=$(mktemp --suffix .json) || exit 8
trap 'rm -f "$document"' EXIT
for tier; do
    echo "== $tier"
    work="$OUT/tests/sampled/fixed $turns"
    record="$OUT/bn-flamegraph record -q -F 1000 --sampler $tier -o $document -- $work"
    if ! $record >"$document" 2>&1; then
        sed 's/^/   /' "$document"
        continue
    fi
    # shellcheck disable=SC2086 # words of a command
    "$OUT/bn-bench" ab -r "$rounds" --output-only --extract 'cpu_ns=^cpu_ns ([0-9]+)' -- $work --vs $record |
        grep -E '^command|^(test|noise)|cpu_ns'
done
