#!/usr/bin/env bash
# Runs libFuzzer targets one after the other, FUZZ_SECONDS each (60), from the fixtures, the bad-input corpus
# and tests/fuzz/seeds/<target>. Their corpus stays in build/fuzz/<target>. Ends with 1 when a target failed; the
# input is then in build/fuzz. Minimise it and add it to tests/fuzz/seeds/<target>.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${FUZZ_SECONDS:-60} bad=0
mkdir -p build/fuzz/seeds
python3 tests/corpus/make.py build/fuzz/seeds || exit 1
"$OUT/bn-fixtures" gen --size nano --vocab 262 -o build/fuzz/seeds >/dev/null || exit 1
find build/fuzz/seeds -size +256k -delete
for target in "$@"; do
    name=$(basename "$target")
    mkdir -p "build/fuzz/$name"
    seeds=(build/fuzz/seeds)
    [ ! -d "tests/fuzz/seeds/$name" ] || seeds+=("tests/fuzz/seeds/$name")
    [ "$name" != fuzz_receipt ] || seeds+=(fixtures/receipts)
    echo "== $name, $seconds s"
    "$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=256 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "build/fuzz/$name" "${seeds[@]}" >"build/fuzz/$name.log" 2>&1 || bad=1
    grep -E 'ERROR|SUMMARY|runtime error|stat::(number_of_executed_units|average_exec)|Test unit written' "build/fuzz/$name.log"
done
exit $bad
