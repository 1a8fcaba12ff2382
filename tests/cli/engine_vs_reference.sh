#!/usr/bin/env bash
# The engine compared with the independent reference, on every model in fixtures/ (and in BN_TEST_DATA): each
# operation on the engine's own input, ternary layers to the bit; then whole logits. These are close but not equal,
# because an activation that falls on the other side of a rounding makes a small difference.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gcc}
run=$out/bn-run ref=$out/crossval/bn-reference cmp_logits=$out/crossval/bn-compare-logits
ids=fixtures/validation-ids-256.txt
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shows TITLE COMMAND...: like check, with the last line of the output
shows() { local title=$1 text; shift; if text=$("$@" 2>&1); then ok "$title: $(echo "$text" | tail -n 1)"; else not_ok "$title" "status $?" "$text"; fi; }
value() { tr ' ' '\n' | sed -n "s/^$1=//p"; }

# some_ids VOCAB N: the same N ids every time
some_ids() { awk -v v="$1" -v n="$2" 'BEGIN { x = 12345; for (i = 0; i < n; i++) { x = (x * 1103 + 12821) % 65536; printf "%s%d", i ? "," : "", x % v } }'; }

# agree NAME MODEL IDS VOCAB LIMITS...: traces operation by operation, then logits within the limits
agree() {
    local name=$1 model=$2 tokens=$3 vocab=$4 trace=$tmp/trace-$1; shift 4
    rm -rf "$trace"
    check "$name: bn-run evaluates the model" "$run" logits -m "$model" --tokens "$tokens" --all -o "$tmp/engine.f32" --trace "$trace"
    shows "$name: each operation on the engine's own input" "$ref" check-trace -m "$model" --tokens "$tokens" --trace "$trace"
    "$ref" logits -m "$model" --tokens "$tokens" --all -o "$tmp/reference.f32"
    shows "$name: logits" "$cmp_logits" "$tmp/engine.f32" "$tmp/reference.f32" --vocab "$vocab" "$@"
    check "$name: the trace's logits are those of -o" cmp "$trace/G.logits.f32" "$tmp/engine.f32"
}

# A trained model reduces such differences, random weights amplify them: bitnet.cpp agrees with itself (batch, single
# tokens) to cosine 0.9997 on random weights, and with ik_llama.cpp to 0.9991. A row is clear when its best token
# is 0.3 above the next, which is more than the error of any logit.
trained=(--min-cosine 0.9995 --max-abs 0.3 --max-kl 0.0005 --margin 0.3 --clear-equal)
random=(--min-cosine 0.9985 --max-abs 0.3 --max-kl 0.002 --margin 0.3 --clear-equal)
# Models that are not trained for 8-bit activations have 16 bits, and the reference does not round at all. A float16 cache of keys
# and values, which is on both sides here, makes most of the rest.
exact=(--min-cosine 0.999999 --max-abs 0.01 --max-kl 1e-6 --margin 0.02 --clear-equal)

models=0
for model in fixtures/*.gguf; do
    name=$(basename "$model" .gguf)
    vocab=$("$ref" info -m "$model" | value vocab)
    models=$((models + 1))
    case $name in
    shakespeare*) agree "$name" "$model" "$(cut -d, -f1-96 $ids)" "$vocab" "${trained[@]}" ;;
    *-i2_s-*) agree "$name" "$model" "$(some_ids "$vocab" 12)" "$vocab" "${random[@]}" ;;
    *qwen3* | *gemma3* | *minicpm* | *group*) agree "$name" "$model" "$(some_ids "$vocab" 12)" "$vocab" "${exact[@]}" ;;
    *) agree "$name" "$model" "$(some_ids "$vocab" 12)" "$vocab" "${random[@]}" ;;
    esac
done
check "there were models to compare" test "$models" -gt 0

# Every architecture and format, on random weights.
# made TITLE LIMITS... -- OPTIONS...
made() {
    local title=$1 limits=() model vocab; shift
    while [ "$1" != -- ]; do limits+=("$1"); shift; done
    shift
    rm -rf "$tmp/made"
    check "made $title" "$out/bn-fixtures" gen "$@" -o "$tmp/made"
    model=$(echo "$tmp"/made/*.gguf)
    vocab=$("$ref" info -m "$model" | value vocab)
    agree "made $title" "$model" "$(some_ids "$vocab" 12)" "$vocab" "${limits[@]}"
}
for arch in bitnet-b1.58 bitnet llama qwen3; do
    for format in i2_s tq2_0 tq1_0 f16; do
        case $format in tq*) size=tiny ;; *) size=nano ;; esac # blocks of 256 need the rows of tiny
        made "$arch $format" "${random[@]}" -- --size "$size" --arch $arch --format $format --vocab 320
    done
done
for format in q2_0 q2_0-g128 pq2_0 ptq1_0; do
    made "llama $format" "${exact[@]}" -- --size nano --arch llama --format $format --vocab 320
done
made "qwen3 f32 with an F16 embedding and heads of 64" "${exact[@]}" -- --size nano --arch qwen3 --format f32 --embedding f16 \
    --head-width 64 --vocab 320
for format in i2_s tq2_0 f16; do
    case $format in i2_s) limits=("${random[@]}") ;; *) limits=("${exact[@]}") ;; esac
    made "gemma3 $format" "${limits[@]}" -- --size tiny --arch gemma3 --format $format --vocab 320
    made "gemma3 $format with a window" "${limits[@]}" -- --size deep --arch gemma3 --format $format --window 5 --vocab 320
    made "minicpm $format" "${limits[@]}" -- --size tiny --arch minicpm --format $format --vocab 320
done
for arch in qwen3 gemma3; do
    made "$arch with norms of inputs" "${random[@]}" -- --size tiny --arch $arch --input-norms --vocab 320
done
made "qwen3 with a rotated embedding that is the head" "${exact[@]}" -- --size tiny --arch qwen3 --format pq2_0 --tied \
    --hadamard 256 --vocab 320

# A single position has trivial attention: only rounding in the last bit can flip a value.
model=fixtures/shakespeare-5m-i2_s.gguf
"$run" logits -m $model --tokens 1541 --all -o "$tmp/engine.f32"
"$ref" logits -m $model --tokens 1541 --all --float-quant -o "$tmp/reference.f32"
shows "one token" "$cmp_logits" "$tmp/engine.f32" "$tmp/reference.f32" --vocab 2048 --min-cosine 0.99999

# A prompt in batches leaves the same records as one batch.
"$run" logits -m $model --tokens "$(cut -d, -f1-40 $ids)" --batch 7 --all -o "$tmp/batches.f32" --trace "$tmp/batches"
shows "a trace in batches of 7" "$ref" check-trace -m $model --tokens "$(cut -d, -f1-40 $ids)" --trace "$tmp/batches"

# Planted faults are found in the engine's trace, and named; the comparison of logits finds them too.
trace=$tmp/trace
tokens=$(cut -d, -f1-24 $ids)
"$run" logits -m $model --tokens "$tokens" --all -o "$tmp/engine.f32" --trace "$trace"
for pair in silu:L0.ffn_act rope-norm:L0.q_rope no-sub-norm:L0.attn_o head-map:L0.attn_out code-map:L0.q scale:L0.q; do
    fault=${pair%%:*}
    first=$("$ref" check-trace -m $model --tokens "$tokens" --trace "$trace" --fault "$fault" | sed -n 's/^DIFFERS \([^ ]*\) .*/\1/p' | head -n 1)
    check "fault $fault is named" equal "$first" "${pair##*:}"
    "$ref" logits -m $model --tokens "$tokens" --all --fault "$fault" -o "$tmp/fault.f32"
    status 1 "fault $fault is found in the logits" "$cmp_logits" "$tmp/engine.f32" "$tmp/fault.f32" --vocab 2048 "${trained[@]}"
done
gemma=fixtures/pair-gemma3-q2_0-v331-w8-p2-42.gguf
"$run" logits -m $gemma --tokens "$(some_ids 331 24)" --trace "$tmp/gemma"
first=$("$ref" check-trace -m $gemma --trace "$tmp/gemma" --fault gelu-erf | sed -n 's/^DIFFERS \([^ ]*\) .*/\1/p' | head -n 1)
check "fault gelu-erf is named" equal "$first" L0.ffn_act
status 1 "a trace against the tokens of another" "$ref" check-trace -m $model --tokens "1,$(echo "$tokens" | cut -d, -f2-)" --trace "$trace"

# The engine compared with the results of other engines.
data=${BN_TEST_DATA:-}
if [ -n "$data" ] && [ -d "$data/foreign" ]; then
    tiny=$data/foreign/tiny-i2_s.gguf
    tokens=$(tr -d '[:space:]' <"$data/foreign/tiny-ids.txt")
    agree tiny-i2_s "$tiny" "$tokens" 1024 "${random[@]}"
    "$run" logits -m "$tiny" --tokens "$tokens" --all -o "$tmp/engine.f32"
    for peer in "$data"/foreign/tiny-*.f32; do
        shows "engine and $(basename "$peer" .f32)" "$cmp_logits" "$tmp/engine.f32" "$peer" --vocab 1024 --min-cosine 0.9990 --min-argmax 46 --max-abs 0.135
    done
    "$run" logits -m $model --tokens "$(cut -d, -f1-64 $ids)" --all -o "$tmp/engine.f32"
    for peer in bitnetcpp-token-by-token-64 ik_llamacpp-batch-64; do
        shows "engine and $peer" "$cmp_logits" "$tmp/engine.f32" "$data/shakespeare/$peer.f32" --vocab 2048 \
            --min-cosine 0.9997 --min-argmax 62 --max-abs 0.3 --margin 0.3 --clear-equal
    done
else
    skip "engine and other engines" "BN_TEST_DATA is not set"
fi
