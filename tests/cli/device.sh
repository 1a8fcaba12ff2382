#!/usr/bin/env bash
# Models on an OpenCL device (PoCL): the bits of the CPU for every fixture, any batches, several sequences, saved prompts, and
# every operation of a trace. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
export XDG_CACHE_HOME=$tmp/cache
if ! "$bin/bn-run" devices -q >"$tmp/devices" 2>&1 || ! grep -q 'opencl:0' "$tmp/devices"; then
    skip 'models on a device' "$(head -1 "$tmp/devices")"
    exit
fi
generate() { "$bin/bn-fixtures" gen -q -o "$tmp" --vocab 320 "$@" | sed 's/^[0-9a-f]*  //'; }
ids=$(seq 1 21 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), ($1 * 151 + 7) % 256 }')
digest() { "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest "${@:2}"; }
# same MODEL: the logits of all positions
same() {
    local want way
    want=$(digest "$1")
    [ -n "$want" ] || return 1
    for way in "--batch 21" "--batch 1" "--batch 5"; do
        # shellcheck disable=SC2086 # words
        equal "$(digest "$1" --device opencl $way)" "$want" || return 1
    done
}
# same_trace MODEL: each operation
same_trace() {
    local one
    rm -rf "$tmp/trace" "$tmp/trace2"
    "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --trace "$tmp/trace" || return 1
    "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --trace "$tmp/trace2" --device opencl || return 1
    for one in "$tmp"/trace/*.f32; do
        cmp "$one" "$tmp/trace2/${one##*/}" || return 1
    done
    equal "$(ls "$tmp/trace2")" "$(ls "$tmp/trace")"
}

for model in fixtures/*.gguf; do check "${model##*/}: the same logits" same "$model"; done
for kind in "--size tiny --arch gemma3 --format tq2_0 --window 8" "--size tiny --arch gemma3 --format i2_s --input-norms" \
    "--size tiny --arch qwen3 --format i2_s --input-norms" "--size tiny --arch minicpm --format tq2_0" \
    "--size small --idle 18" "--size quad --arch qwen35 --format ptq1_0 --hadamard 64 --tied" "--size quad --arch maple --format q2_0"; do
    # shellcheck disable=SC2086 # words
    model=$(generate $kind)
    check "$kind: the same logits" same "$model"
    check "$kind: the same operations" same_trace "$model"
done
# Tokens of drafts that are refused are taken back, also from the states of recurrent layers.
drafts() { equal "$("$bin/bn-run" -q --device opencl "$@" --speculate ngram --draft-always)" "$("$bin/bn-run" -q "$@")"; }
check 'drafts change nothing' drafts -p 'to be to be to be' -n 24
check 'nor with recurrent layers' drafts -m fixtures/quad-qwen35-q2_0-v331-tied-42.gguf --tokens 1,2,3,1,2,3,1,2 -n 24 --ids

# The form of the kernels for GPUs, with a row in each work-item and groups of many: the driver says that the CPU is one.
# shellcheck disable=SC2034 # plant.sh uses it
out=$bin
# shellcheck source=tests/opencl/plant.sh
. tests/opencl/plant.sh
as_gpu() {
    local batch want
    want=$(digest "$1")
    for batch in 21 1; do
        equal "$(planted PLANT_TYPE=GPU "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest --device auto --batch $batch)" "$want" || return 1
    done
    planted PLANT_TYPE=GPU "$bin/bn-run" -m "$1" --tokens 1 -n 1 --device auto 2>&1 | grep -q 'opencl:0 GPU'
}
if plant_build; then
    for model in bitnet-b1.58-i2_s gemma3-i2_s-v331-embedding qwen3-ptq1_0-v331-hadamard64-tied minicpm-q2_0-v331-longrope-tied; do
        check "$model as on a GPU" as_gpu "fixtures/nano-$model-42.gguf"
    done
    check 'recurrent layers as on a GPU' as_gpu fixtures/quad-qwen35-q2_0-v331-tied-42.gguf
    check 'experts as on a GPU' as_gpu fixtures/duo-maple-tq2_0-v331-42.gguf
else
    skip 'models as on a GPU' 'the loader cannot be replaced here'
fi
