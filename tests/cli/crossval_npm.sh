#!/usr/bin/env bash
# The engine compared with the llama.cpp of node-llama-cpp, from other authors: token ids, and logits of every position, for models
# that both can read. llama.cpp computes `bitnet-b1.58` as `bitnet`, with SiLU instead of squared ReLU, and that must be found.
# `make crossval-npm` installs it; without that the test skips. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=${OUT:-build/gcc}
bridges=${BN_BRIDGE_DIR:-$bin/crossval}
bridge=$bridges/node-llama-cpp/bridge.mjs
skip() { echo "ok 1 - engine and node-llama-cpp # SKIP $*"; exit 0; }
if [ "${BN_NPM_INSTALL:-0}" = 1 ]; then
    why=$(crossval/bridges/node-llama-cpp/install.sh "$bridges") || skip "$why"
fi
[ -f "$bridges/node-llama-cpp/installed-lock.json" ] || skip "not installed; make crossval-npm does that"
command -v node >/dev/null || skip "node is not installed"

# shellcheck source=tests/protocol/client.sh
. tests/protocol/client.sh
# shellcheck source=tests/tap.sh
. tests/tap.sh
fails() { ! "$@" || { echo "the difference was not found"; return 1; }; }
same() {
    if [ -n "$1" ] && [ "$1" = "$2" ]; then return 0; fi
    printf '%s\n' "engine    $1" "llama.cpp $2"
    return 1
}
good() { ask "$1" && { [ "$(member ok)" = true ] || { echo "$answer"; return 1; }; }; }
vocab=320
ids=$(seq 1 37 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), ($1 * 151 + 7) % 256 }')
generate() { "$bin/bn-fixtures" gen --size tiny --vocab $vocab --arch "$1" --format "$2" -o "$tmp" >/dev/null; }
# engine_logits MODEL FILE
engine_logits() { "$bin/bn-run" logits -q -m "$1" --tokens "$ids" --all -o "$2"; }
peer_logits() { good "\"op\": \"logits\", \"tokens\": [$ids], \"last\": false" && cp "$tmp/floats" "$1"; }
# A network of random weights amplifies rounding. llama.cpp rounds activations in blocks of 256 or not at all, the engine in rows.
limits=(--vocab "$vocab" --min-cosine 0.998 --min-argmax 33 --max-abs 0.3)

check "the protocol" bash tests/cli/bridge_protocol.sh node "$bridge"
reference_start "$tmp" node "$bridge"
for kind in bitnet:tq2_0 bitnet:tq1_0 bitnet:f16 llama:tq2_0 llama:tq1_0 llama:f16; do
    generate "${kind%:*}" "${kind#*:}"
    model=$(echo "$tmp"/tiny-"${kind%:*}"-"${kind#*:}"-*.gguf)
    check "$kind opens" good "\"op\": \"open\", \"model\": \"$model\", \"threads\": 1"
    engine_logits "$model" "$tmp/engine.f32"
    check "$kind: logits come" peer_logits "$tmp/peer.f32"
    check "$kind: they agree" "$bin/crossval/bn-compare-logits" "$tmp/engine.f32" "$tmp/peer.f32" "${limits[@]}"
done
# Seven layers, so that one of gemma3 is not local. Both programs compute F16 matrices in floats or nearly so.
close=(--vocab "$vocab" --min-cosine 0.9999 --min-argmax 36 --max-abs 0.05)
for kind in "deep:gemma3:" "deep:gemma3:--window 16" "deep:gemma3:--window 8 --period 3" "small:minicpm:" "small:minicpm:--long-rope" "deep:qwen3:--embedding f16" "quad:qwen35:--embedding f16" "quad:maple:"; do
    IFS=: read -r size arch options <<<"$kind"
    # shellcheck disable=SC2086 # words
    model=$("$bin/bn-fixtures" gen -q --size "$size" --vocab $vocab --arch "$arch" --format f16 $options -o "$tmp" | sed 's/^[0-9a-f]*  //')
    check "$arch $options opens" good "\"op\": \"open\", \"model\": \"$model\", \"threads\": 1"
    engine_logits "$model" "$tmp/engine.f32"
    check "$arch $options: logits come" peer_logits "$tmp/peer.f32"
    check "$arch $options: they agree" "$bin/crossval/bn-compare-logits" "$tmp/engine.f32" "$tmp/peer.f32" "${close[@]}"
    if [ "$options" = "--window 16" ]; then
        engine_logits "${model/-w16/}" "$tmp/engine.f32"
        check "attention to all positions in place of the last ones is found" \
            fails "$bin/crossval/bn-compare-logits" "$tmp/engine.f32" "$tmp/peer.f32" "${close[@]}"
    fi
done
# Speed, memory and agreement, the text and its tokens included.
bench=$("$bin/bn-crossval" bench -m "$(echo "$tmp"/tiny-bitnet-tq2_0-*.gguf)" --ref "node $bridge" -p 8 -n 4 --reps 2 --threads 1 --positions 64 --json)
check "bn-crossval bench: every figure, and nearly the same tokens" python3 - <<END
import json
doc = json.loads(r"""$bench""")
found = {(s["test"].split(" ")[0], s["metric"]): s["samples"] for s in doc["series"] if "reference" in s["test"]}
assert len(found) == 7 and found["process", "peak_rss_bytes"][0] > 32 << 20, found
assert found["text", "agreement"][0] >= 0.9 and 0 < found["text", "kld"][0] < 0.002, found
assert [r["status"] for r in doc["references"][0]["rungs"] if r["rung"] == "tokens"] == ["pass"], doc["references"]
END
generate llama f16 # whose tokens are compared next
model=$(echo "$tmp"/tiny-llama-f16-*.gguf)
good "\"op\": \"open\", \"model\": \"$model\", \"threads\": 1" >/dev/null
texts=('To be, or not to be' "What is 2+2? I'm 1234567." '  spaces  and\ttabs' 'Gr\u00fc\u00dfe, \u4f60\u597d \ud83d\ude00' 'a\nb\r\n\nc'
    'ne\u0301e  12.5 (x[0]); \u0915\u093f' "HE'LL  \n\n  DON'T !!\n\n9")
tokens_of_both() { # MODEL TITLE: the model is open
    for text in "${texts[@]}"; do
        good "\"op\": \"tokenize\", \"text\": \"$text\", \"bos\": true, \"special\": false"
        peer=$(printf '%s' "$answer" | grep -oE '"tokens": *\[[^]]*\]' | tr -cd '0-9,')
        engine=$(printf '"%s"\n' "$text" | "$bin/bn-run" tokenize -q -m "$1" --jsonl | tr -cd '0-9,')
        check "$2tokens of '$text'" same "$engine" "$peer"
    done
}
tokens_of_both "$model" ''
# The splitting rules, and whether a begin-of-sequence token is added. llama.cpp does not know falcon_e.
for pre in llama-bpe falcon3 falcon-h1 qwen2 qwen35 minicpm5 gpt-2 olmo; do
    if ! python3 tests/cli/edit_vocabulary.py "$model" "$tmp/$pre.gguf" $pre ''; then
        skip "the splitting rule $pre" "python3 is not installed"
        continue
    fi
    check "$pre opens" good "\"op\": \"open\", \"model\": \"$tmp/$pre.gguf\", \"threads\": 1"
    tokens_of_both "$tmp/$pre.gguf" "$pre: "
done

# ---- models that were not trained for 8-bit activations ----

# Four results for the same weights: llama.cpp's, this engine's and the reference's, and that of llama.cpp for the weights in F32.
# The reference does not round activations. Against it llama.cpp's F32 differs by the F16 cache of keys and values alone, llama.cpp's
# ternary layers by 8-bit activations, and this engine must be ten times closer.
made() { "$bin/bn-fixtures" gen --vocab 331 -o "$tmp" "$@" | sed 's/.*  //'; }
oracle_logits() { "$bin/crossval/bn-reference" logits -m "$1" --tokens "$ids" --all --kv f64 -o "$2" "${@:3}"; }
opens() { good "\"op\": \"open\", \"model\": \"$1\", \"threads\": 1"; }
runs() { opens "$1" && peer_logits "$2"; }
compare() { "$bin/crossval/bn-compare-logits" "$1" "$2" --vocab 331 "${@:3}"; }
kld() { compare "$1" "$2" | grep -oE 'kl_mean=.*' | cut -d= -f2; }
floats=(--max-kl 1e-6 --max-abs 0.02) near=(--max-kl 0.002 --min-cosine 0.998)
# exact TITLE MODEL F32-MODEL: leaves the results in peer.f32, f32.f32, oracle.f32, engine.f32
exact() {
    check "$1: llama.cpp runs the F32 model" runs "$3" "$tmp/f32.f32"
    oracle_logits "$2" "$tmp/oracle.f32"
    check "$1: the reference is llama.cpp's F32" compare "$tmp/f32.f32" "$tmp/oracle.f32" "${floats[@]}"
    engine_logits "$2" "$tmp/engine.f32"
    check "$1: this engine is the reference ($(kld "$tmp/engine.f32" "$tmp/oracle.f32"))" \
        compare "$tmp/engine.f32" "$tmp/oracle.f32" --max-kl 1e-6 --max-abs 0.02
}
ternary() { # TITLE MODEL F32-MODEL: also the ternary file in llama.cpp
    local theirs ours
    exact "$@"
    check "$1: llama.cpp runs the ternary model" runs "$2" "$tmp/peer.f32"
    check "$1: it is near the reference" compare "$tmp/peer.f32" "$tmp/oracle.f32" "${near[@]}"
    theirs=$(kld "$tmp/peer.f32" "$tmp/oracle.f32") ours=$(kld "$tmp/engine.f32" "$tmp/oracle.f32")
    check "$1: this engine is ten times closer (mean KLD $ours; llama.cpp $theirs)" \
        awk "BEGIN { exit !($theirs > 0 && $ours * 10 < $theirs) }"
}
bonsai=(--size nano --arch qwen3 --yarn --tied --zeros 0.38)
q2=$(made "${bonsai[@]}" --format q2_0)
ternary "qwen3 q2_0" "$q2" "$(made "${bonsai[@]}" --format f32 --group 64)"
for fault in no-yarn no-magnitude width-64 no-head-norm neighbour rope-norm; do
    oracle_logits "$q2" "$tmp/fault.f32" --fault $fault
    check "qwen3: $fault in the reference is found" fails compare "$tmp/peer.f32" "$tmp/fault.f32" --max-kl 0.002
done
# Three layers with the gated delta rule to one of attention. llama.cpp computes the rule for blocks of tokens, and the state keeps
# what was rounded before: more than above, far less than a fault.
floats=(--max-kl 1e-5 --max-abs 0.1) near=(--max-kl 0.004 --min-cosine 0.99)
hybrid=(--size quad --arch qwen35 --tied)
recurrent=$(made "${hybrid[@]}" --format q2_0)
ternary "qwen35 q2_0" "$recurrent" "$(made "${hybrid[@]}" --format f32 --group 64)"
for fault in grouped-heads late-update no-key-root gate-halves rope-all no-head-norm; do
    oracle_logits "$recurrent" "$tmp/fault.f32" --fault $fault
    check "qwen35: $fault in the reference is found ($(kld "$tmp/f32.f32" "$tmp/fault.f32"))" fails compare "$tmp/f32.f32" "$tmp/fault.f32" "${floats[@]}"
done
exact "qwen35 with a Hadamard transform" "$(made --size quad --arch qwen35 --format ptq1_0 --hadamard 64)" \
    "$(made --size quad --arch qwen35 --format f32 --hadamard 64)"
floats=(--max-kl 1e-6 --max-abs 0.02) near=(--max-kl 0.002 --min-cosine 0.998)
for format in tq2_0 tq1_0; do
    ternary "qwen3 $format" "$(made --size micro --arch qwen3 --yarn --format $format)" \
        "$(made --size micro --arch qwen3 --yarn --format f32 --group 256)"
    ternary "llama $format with scales of blocks" "$(made --size micro --arch llama --format $format --group 256)" \
        "$(made --size micro --arch llama --format f32 --group 256)"
done
f32=$(made "${bonsai[@]}" --format f32)
for format in q2_0-g128 pq2_0 ptq1_0; do
    model=$(made "${bonsai[@]}" --format $format)
    exact "qwen3 $format" "$model" "$f32"
    opens "$model" >/dev/null
    check "llama.cpp refuses $format" test "$(member kind)" = unsupported
done
# A model whose inputs are transformed, and the same without.
exact "qwen3 with a Hadamard transform" "$(made --size micro --arch qwen3 --format ptq1_0 --hadamard 64)" \
    "$(made --size micro --arch qwen3 --format f32 --hadamard 64)"
opens "$q2" >/dev/null
texts=("${texts[@]:0:5}")
tokens_of_both "$q2" 'qwen3: '

# ---- the known mistake of other engines ----

# The same seed gives the same matrices for both architectures; only the architecture's name in the file differs.
generate bitnet-b1.58 f16
engine_logits "$(echo "$tmp"/tiny-bitnet-b1.58-f16-*.gguf)" "$tmp/engine.f32"
good "\"op\": \"open\", \"model\": \"$(echo "$tmp"/tiny-bitnet-f16-*.gguf)\", \"threads\": 1"
check "logits for the model of the other name come" peer_logits "$tmp/peer.f32"
check "SiLU in place of squared ReLU is found" fails "$bin/crossval/bn-compare-logits" "$tmp/engine.f32" "$tmp/peer.f32" "${limits[@]}"
good "\"op\": \"open\", \"model\": \"$(echo "$tmp"/tiny-bitnet-b1.58-f16-*.gguf)\", \"threads\": 1" >/dev/null
check "a model that llama.cpp cannot read is refused" test "$(member kind)" = unsupported
good '"op": "close"' >/dev/null
reference_end
