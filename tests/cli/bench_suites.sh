#!/usr/bin/env bash
# bn-bench doctor, memory and quant from the command line: their tables and errors. Their documents are tested by
# tests/unit/tools/test_bench_document.c. No test depends on the speed of the machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=${OUT:-build/gcc}/bn-bench
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
# shellcheck source=tests/tap.sh
. tests/tap.sh
nano=fixtures/nano-bitnet-i2_s-42.gguf
# run STATUS TITLE COMMAND...; has PATTERN TITLE: in the output of the last `run`
run() {
    local want=$1 title=$2 got
    shift 2
    "$bench" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    if [ "$got" -eq "$want" ]; then ok "$title"; else not_ok "$title" "status $got, not $want" "$(cat "$tmp/out" "$tmp/err")"; fi
}
has() { check "$2" grep -qE -- "$1" "$tmp/out"; }

run 0 "doctor tries each source" doctor -q
for source in clock-monotonic clock-tick steal pressure others energy governor turbo boost perf-events affinity huge-pages cpu-quota topology amx valgrind git opencl gpu; do
    has "^(ok|note) +$source +[^ ]" "doctor tries $source"
done
# The reason is that of the option, whose status is 9; where the tiles can be used, the option is accepted.
amx=$(sed -nE 's/^note +amx +(.*[^ ]) *$/\1/p' "$tmp/out")
"$bench" kernels --isa amx --filter none >/dev/null 2>"$tmp/isa"
got=$?
check "doctor prints why amx cannot be used" grep -qF "${amx:-no row}" "$tmp/isa"
check "as --isa amx does" test $((got == 9)) -eq $((${#amx} > 0))
says 0 "a source that is there" '^ok +clock-monotonic ' "$bench" doctor --require clock-monotonic
export OCL_ICD_VENDORS=$tmp # no driver is there
says 1 "a required source that is not" '^FAIL +gpu ' "$bench" doctor --require gpu
says 2 "an unknown source" "there is no check 'gpus'" "$bench" doctor --require gpus
says 1 "a program that is not in PATH" '^FAIL +valgrind +no valgrind in PATH' env PATH=/nowhere "$bench" doctor --require valgrind

# ---- all doctors ----
bn=$(dirname "$bench")/bn
export HF_HUB_OFFLINE=1 HF_HUB_CACHE=$tmp/cache XDG_STATE_HOME=$tmp/state
says 0 "bn doctor has the sections of all" '^samplers:' "$bn" doctor
check "in their order" equal "$(grep -xE '[a-z]+:' "$tmp/tap" | tr -d '\n')" machine:samplers:references:downloads:
says 1 "a check that fails" '^FAIL +gpu ' "$bn" doctor --require gpu
says 1 "the document says so" '"ready": false' "$bn" doctor --require gpu --json
mkdir "$tmp/alone"
cp "$bn" "$tmp/alone"
printf '#!/bin/sh\necho "{}"\necho broken >&2\n' >"$tmp/alone/bn-bench"
chmod +x "$tmp/alone/bn-bench"
says 1 "a doctor without an answer fails" '^FAIL +doctor .*bn-bench' env PATH=/nowhere "$tmp/alone/bn" doctor
unset HF_HUB_OFFLINE HF_HUB_CACHE XDG_STATE_HOME OCL_ICD_VENDORS

quick=(memory --min-time 0 -t 1 -q -m "$nano")
run 0 "memory: blocks" "${quick[@]}" --filter '64 B'
for pattern in sequential mixed; do has "^bn_alloc $pattern 64 B +[0-9.]+ ns +[0-9.]+ % +[0-9.]+$" "$pattern, next to calloc"; done
run 0 "memory: latency" "${quick[@]}" --filter 'latency 4 KiB'
has '^latency 4 KiB +[0-9.]+ ns ' "a chain of loads"
run 0 "memory: what a session holds" "${quick[@]}" --filter tags
has '^tags session .* = the [0-9.]+ MiB counted' "its parts are the whole"
has '^tags use +128 tokens touch 100.0 % of KV, [0-9.]+ % of scratch' "a small context is used whole"
says 0 "memory: a context that is not used" 'touch [1-4]?[0-9]\.[0-9] % of KV' "$bench" memory --min-time 0 -t 1 -q --filter tags
says 0 "memory: both are series" '"metric": "memory_utilisation"' "$bench" "${quick[@]}" --filter tags --json
run 0 "memory: leaks" "${quick[@]}" --filter leaks
has '^leaks +none$' "none are found"
if sanitized address; then
    skip "memory: the heap" "a sanitizer has a heap of its own, and ends the program when memory is short"
else
    run 0 "memory: what is used of the heap" "${quick[@]}" --filter tags
    has '^tags use .*; [1-9][0-9.]+ % of the heap' "most of it"
    run 0 "memory: fragmentation" "${quick[@]}" --filter fragmentation
    has '^fragmentation +[0-9.]+ % of [0-9.]+ MiB' "of the heap"
    run 0 "memory: pressure" "${quick[@]}" --filter pressure
    has '^pressure +an error' "memory pressure is an error, not a crash"
fi
says 2 "a filter without a match" "no row has 'tape'" "$bench" "${quick[@]}" --filter tape
status 2 "an invalid time" "$bench" memory --min-time soon
status 3 "a missing model" "$bench" memory --filter leaks -m "$tmp/none"
status 3 "even when no row would use it" "$bench" memory --filter nothing -m "$tmp/none"
run 0 "memory: the document" "${quick[@]}" --filter 'latency 4 KiB' --json
has "\"sha256\": \"$(sha256sum <"$nano" | cut -d' ' -f1)\"" "names the model by its digest"

small=(quant --min-time 0 -t 1 -q -m "$nano" --shape 16x256)
run 0 "quant: one format" "${small[@]}" --filter TQ1_0
for operation in quantise dequantise; do
    has "^$operation TQ1_0 16x256 plain, 1 thread +[0-9.]+ [mun]?s " "$operation"
done
run 0 "quant: the scale alone" "${small[@]}" --filter calibrate
check "is timed once for a shape" equal "$(grep -cE '^calibrate I2_S 16x256 plain, 1 thread +[0-9.]+ [mun]?s ' "$tmp/out")" 1
run 0 "quant: a kernel of every instruction set" "${small[@]}" --isa all --filter F16
has '^quantise F16 16x256 f32_to_f16_ref, 1 thread ' "the reference is one"
run 0 "quant: what formats preserve" "${small[@]}" --filter quality
has '^TQ1_0 +256 +1\.6875 ' "bits with their scales"
has '^PTQ1_0 +128 +1\.7500 ' "of Bonsai's formats, too"
head -c 3000 fixtures/validation.txt >"$tmp/text"
# perplexity MODEL: format and perplexity of each row
perplexity() {
    "$bench" quant -q --min-time 0 -t 1 --shape 16x256 --filter perplexity --text "$tmp/text" -m "$1" |
        awk '$NF == "%" { print $1, $(NF - 2) }'
}
perplexity fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf >"$tmp/i2_s"
check "quant: perplexity in each format" equal "$(cut -d' ' -f1 "$tmp/i2_s" | xargs)" 'file T5 TQ2_0 TQ1_0 Q2_0 PQ2_0 PTQ1_0'
of() { awk -v name="$1" '$1 == name { print $2 }' "$tmp/i2_s"; }
check "a lossless format: the same perplexity" equal "$(of T5)" "$(of file)"
# The file of that format holds the same weights.
for format in tq1_0 tq2_0; do
    check "a converted model is the model of that format: $format" equal \
        "$(perplexity "fixtures/tiny-bitnet-b1.58-$format-v320-42.gguf" | awk '$1 == "file" { print $2 }')" "$(of "${format^^}")"
done
says 0 "rows that are not whole blocks have a reason" 'rows of 128 weights are not a multiple of 256, as TQ2_0 needs' \
    "$bench" quant -q --json --min-time 0 -t 1 --shape 16x256 --filter perplexity --text "$tmp/text" -m "$nano"
says 3 "a text that is missing" 'none.txt' "$bench" "${small[@]}" --filter perplexity --text "$tmp/none.txt"
: >"$tmp/one"
says 2 "a text that is too short" 'at least 2 are needed' "$bench" "${small[@]}" --filter perplexity --text "$tmp/one"
for shape in 16 16x 16x100 16x256x2 0x256 16x32768 65537x256 -1x256 16X256; do
    says 2 "an invalid shape: $shape" "error: --shape: " "$bench" quant "--shape=$shape"
done
status 2 "an unknown instruction set" "$bench" "${small[@]}" --isa mmx
