#!/usr/bin/env bash
# Runs libFuzzer targets, FUZZ_SECONDS each (60), FUZZ_JOBS at a time (1), from the fixtures, the bad-input corpus and
# tests/fuzz/seeds/<target>. Their corpus stays in build/fuzz/<target>; FUZZ_MERGE=1 reduces it to the inputs that are needed.
# Ends with 1 when a target failed; the input is then in build/fuzz. Minimise it and add it to tests/fuzz/seeds/<target>.
set -u
cd "$(dirname "$0")/../.." || exit 1
export seconds=${FUZZ_SECONDS:-60}
[ $# -gt 0 ] || { echo 'usage: tests/fuzz/run.sh TARGET...' >&2; exit 2; }
mkdir -p build/fuzz/seeds
python3 tests/corpus/make.py build/fuzz/seeds || exit 1
"$OUT/bn-fixtures" gen --size nano --vocab 262 -o build/fuzz/seeds >/dev/null || exit 1
find build/fuzz/seeds -size +256k -delete

run_one() {
    local target=$1 name corpus seeds status=0
    name=$(basename "$target")
    corpus=build/fuzz/$name seeds=(build/fuzz/seeds)
    mkdir -p "$corpus"
    [ ! -d "tests/fuzz/seeds/$name" ] || seeds+=("tests/fuzz/seeds/$name")
    [ "$name" != fuzz_receipt ] || seeds+=(fixtures/receipts)
    "$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=256 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$corpus-" "$corpus" "${seeds[@]}" >"$corpus.log" 2>&1 || status=1
    if [ "$status" -eq 0 ] && [ -n "${FUZZ_MERGE:-}" ]; then
        rm -rf "$corpus.new" && mkdir "$corpus.new"
        if "$target" -merge=1 -timeout=10 "$corpus.new" "$corpus" >>"$corpus.log" 2>&1; then
            rm -r "$corpus" && mv "$corpus.new" "$corpus"
        else
            status=1
        fi
    fi
    # In one piece, because targets run next to each other.
    {
        echo "== $name, $seconds s: $([ "$status" -eq 0 ] && echo survived || echo FAILED), $(find "$corpus" -type f | wc -l) inputs kept"
        grep -aE 'ERROR|SUMMARY|runtime error|stat::(number_of_executed_units|average_exec)|Test unit written' "$corpus.log"
    } >"$corpus.said"
    cat "$corpus.said"
    return "$status"
}
export -f run_one
# shellcheck disable=SC2016 # the inner shell expands it
printf '%s\0' "$@" | xargs -0 -n 1 -P "${FUZZ_JOBS:-1}" bash -c 'run_one "$1"' _
