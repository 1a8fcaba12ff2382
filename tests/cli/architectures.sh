#!/usr/bin/env bash
# Every architecture that differs from the others: the same bits for any batches, threads and instruction set, a trace of its own
# stages, a profile that passes its gate, a receipt that replays. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
generate() { "$bin/bn-fixtures" gen -q -o "$tmp" --vocab 320 "$@" | sed 's/^[0-9a-f]*  //'; }
ids=$(seq 1 21 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), ($1 * 151 + 7) % 256 }')
digest() { "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest "${@:2}"; }
# all_same MODEL
all_same() {
    local want
    want=$(digest "$1" --threads 1)
    [ -n "$want" ] || return 1
    for way in "--batch 1 --threads 2" "--batch 5 --threads 3" "--isa ref --batch 8"; do
        # shellcheck disable=SC2086 # words
        equal "$(digest "$1" $way)" "$want" || return 1
    done
}
# has_stages MODEL STAGE...
has_stages() {
    local model=$1 stage
    shift
    rm -rf "$tmp/trace"
    "$bin/bn-run" logits -q -m "$model" --tokens "$ids" --trace "$tmp/trace" || return 1
    for stage in "$@"; do [ -s "$tmp/trace/L0.$stage.f32" ] || { echo "no $stage"; return 1; }; done
}
receipt() { "$bin/bn-run" -q -m "$1" -p 'To be, or not' -n 6 --batch 4 --receipt "$tmp/receipt" --profile "$tmp/profile" "${@:2}" 2>&1 | tr -d "\000-\010\013-\037\200-\377"; }
replays() { "$bin/bn-verify-receipt" --replay -m "$1" "$tmp/receipt"; }

inputs=(attn_q_norm_in attn_k_norm_in attn_v_norm_in attn_output_norm_in ffn_gate_norm_in ffn_up_norm_in ffn_down_norm_in)
for kind in "gemma3:--format tq2_0 --window 8:post_attention_norm post_ffw_norm" "gemma3:--format i2_s --input-norms:${inputs[*]}" \
    "qwen3:--format i2_s --input-norms:${inputs[*]}" "qwen3:--format q2_0:attn_norm" "minicpm:--format tq2_0:attn_norm" \
    "qwen35:--size quad --format q2_0:mix z conv attn_out" "qwen35:--size quad --format ptq1_0 --hadamard 64 --tied:mix z conv attn_out" \
    "maple:--size duo --format tq2_0:router expert_weights ffn_act down" "maple:--size quad --format q2_0:router expert_weights"; do
    IFS=: read -r arch options stages <<<"$kind"
    # shellcheck disable=SC2086 # words
    model=$(generate --size tiny --arch "$arch" $options)
    check "$arch $options: the same bits" all_same "$model"
    # shellcheck disable=SC2086 # words
    check "$arch $options: its stages are traced" has_stages "$model" $stages
    check "$arch $options: a receipt is written" receipt "$model"
    check "$arch $options: it replays" replays "$model"
    # Other rules can fail on a busy machine.
    "$bin/bn-bench" profile --check "$tmp/profile" >"$tmp/rules" 2>&1
    check "$arch $options: its profile has the bricks and norms of each layer" grep -qE '^ok +counts ' "$tmp/rules"
done

# Single tokens skip rows of up and columns of down, of which each thread has its own lines here.
chain() { "$bin/bn-run" -q -m "$1" -p 'To be, or not' -n 6 --json "${@:2}" | grep -E '"(ids|chain)"'; }
skips() {
    local model=$1 want way
    want=$(chain "$model" --repack never)
    [ -n "$want" ] || return 1
    for way in "" "--threads 2" "--threads 3" "--isa ref"; do
        # shellcheck disable=SC2086 # words
        equal "$(chain "$model" --repack always $way)" "$want" || return 1
    done
}
model=$(generate --size small --idle 18)
check "bitnet-b1.58 of 512 rows: the same bits without what zeros need" skips "$model"
check "a receipt of packed weights is written" receipt "$model" --repack always --threads 2
[ "$(grep -cE '"skipped_(rows|columns)": [1-9]' "$tmp/receipt")" = 2 ] || grep -qE '"isa": "(ref|neon)"' "$tmp/receipt"
check "it states how many rows and columns were skipped" test $? = 0
check "it replays" replays "$model"

# A pass of several tokens reads each expert once: no more than there are, no fewer than one token uses.
model=$(generate --size duo --arch maple --format tq2_0)
check "a receipt with experts is written" receipt "$model"
check "it states them" grep -qE '"count": 6,' "$tmp/receipt"
read_experts=$(sed -n 's/^ *"experts": \([0-9]*\),*$/\1/p' "$tmp/receipt")
passes=$(sed -n '/"work": {/,/}/s/^ *"passes": \([0-9]*\),$/\1/p' "$tmp/receipt")
tokens=$(sed -n '/"work": {/,/}/s/^ *"tokens": \([0-9]*\),$/\1/p' "$tmp/receipt")
check "it counts the experts that were read" test "$read_experts" -ge $((2 * 2 * passes)) -a "$read_experts" -lt $((2 * 2 * tokens))

# The window and the layers that have it decide how much attention there is.
model=$(generate --size tiny --arch gemma3 --format tq2_0 --window 8)
check "a receipt with a window is written" receipt "$model"
check "it states the window" grep -qE '"window": 8,' "$tmp/receipt"
check "and how many layers have it" grep -qE '"local_layers": 2,' "$tmp/receipt"
