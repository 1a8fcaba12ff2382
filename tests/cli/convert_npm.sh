#!/usr/bin/env bash
# Converted files in the llama.cpp of node-llama-cpp, from other authors: it opens each type that it knows, and for a folder of
# safetensors its logits are those that the safetensors alone give in binary64. `make crossval-npm` installs it; without that
# the test skips. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=${OUT:-build/gcc}
bridges=${BN_BRIDGE_DIR:-$bin/crossval}
skip() { echo "ok 1 - bn-convert and node-llama-cpp # SKIP $*"; exit 0; }
[ -f "$bridges/node-llama-cpp/installed-lock.json" ] || skip "not installed; make crossval-npm does that"
command -v node >/dev/null || skip "node is not installed"
# shellcheck source=tests/protocol/client.sh
. tests/protocol/client.sh
# shellcheck source=tests/tap.sh
. tests/tap.sh
good() { ask "$1" && { [ "$(member ok)" = true ] || { echo "$answer"; return 1; }; }; }
ids=$(seq 1 37 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), ($1 * 151 + 7) % 256 }')
# peer MODEL FILE: its logits
peer() {
    good "\"op\": \"open\", \"model\": \"$1\", \"threads\": 1" &&
        good "\"op\": \"logits\", \"tokens\": [$ids], \"last\": false" && cp "$tmp/floats" "$2"
}
# agree COSINE ARGMAX MAX: the two files of logits
agree() { "$bin/crossval/bn-compare-logits" "$tmp/alone.f32" "$tmp/peer.f32" --vocab 320 --min-cosine "$1" --min-argmax "$2" --max-abs "$3"; }

reference_start "$tmp" node "$bridges/node-llama-cpp/bridge.mjs"
"$bin/bn-fixtures" gen --size tiny --vocab 320 --arch llama --format i2_s -o "$tmp" >/dev/null
source=$(echo "$tmp"/tiny-llama-i2_s-*.gguf)
for changes in '' qwen3 'qwen3 yarn'; do
    # shellcheck disable=SC2086 # several words
    node tests/convert/folder.mjs "$source" "$tmp/folder" trits $changes
    node tests/convert/forward.mjs "$tmp/folder" "$ids" >"$tmp/alone.f32"
    for type in f32 f16 q2_0 tq2_0 tq1_0; do
        check "${changes:-llama}: $type" "$bin/bn-convert" -q "$tmp/folder" --to $type -o "$tmp/$type.gguf"
        check "llama.cpp computes it" peer "$tmp/$type.gguf" "$tmp/peer.f32"
        # It rounds activations to 8 bits for the ternary types.
        case $type in
        f32 | f16) check "as the safetensors give" agree 0.9999 36 0.05 ;;
        *) check "as the safetensors give, nearly" agree 0.99 30 0.8 ;;
        esac
    done
done
# YaRN of the last model, compared with one without it.
node tests/convert/folder.mjs "$source" "$tmp/folder" trits qwen3
node tests/convert/forward.mjs "$tmp/folder" "$ids" >"$tmp/alone.f32"
status 1 "a model without YaRN has other logits" agree 0.99 30 0.8

# A folder of qwen35 gives the bits of its GGUF file (convert_hybrid.sh). Here llama.cpp reads its keys and tensors.
if command -v python3 >/dev/null; then
    python3 tests/convert/hybrid_folder.py fixtures/quad-qwen35-q2_0-v331-tied-42.gguf "$tmp/hybrid"
    for type in f32 q2_0; do
        check "qwen35: $type" "$bin/bn-convert" -q "$tmp/hybrid" --to $type -o "$tmp/$type.gguf"
        check "llama.cpp computes it" peer "$tmp/$type.gguf" "$tmp/peer.f32"
        "$bin/bn-run" logits -q -m "$tmp/$type.gguf" --tokens "$ids" --all -o "$tmp/engine.f32"
        case $type in f32) limits=(--max-kl 1e-5 --max-abs 0.1) ;; *) limits=(--max-kl 0.004 --min-cosine 0.99) ;; esac
        check "as the engine does" "$bin/crossval/bn-compare-logits" "$tmp/engine.f32" "$tmp/peer.f32" --vocab 331 "${limits[@]}"
    done
else
    skip "folders of qwen35" "python3 is not installed"
fi
