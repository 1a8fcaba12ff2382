#!/usr/bin/env bash
# Holds the tokenizer against three that nobody here wrote, from the npm registry at pinned versions: OpenAI's tiktoken
# (Rust, as WebAssembly) fed with the LLaMA 3 ranks, llama3-tokenizer-js and llama-tokenizer-js with vocabularies of their
# own. Some thousand varied texts; every list of ids has to be equal. Needs node, npm, the network (or npm's cache) and
# BN_TEST_DATA with llama3-tokenizer.model and llama-spm-vocab.gguf. Not part of `make check`.
#
#   ci/compare-tokenizers.sh [DIR]     packages, texts and ids are kept in DIR (default: a temporary one)
#
# BN_TOKENIZE is the command that gets a vocabulary as its last argument, JSON strings line by line on standard input, and
# prints arrays of ids; by default tests/drivers/tokenize_jsonl.c is built and used.
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
(cd "$dir" && npm install --ignore-scripts --no-audit --no-fund --silent tiktoken@1.0.22 llama3-tokenizer-js@1.2.0 llama-tokenizer-js@1.2.2)

if [ -z "${BN_TOKENIZE:-}" ]; then
    make -s -C "$root" CC=gcc BUILD="$dir/build" "$dir/build/gcc/libbn.a" >/dev/null
    gcc -O2 -I"$root/engine" -I"$root" -o "$dir/tokenize_jsonl" "$root/tests/drivers/tokenize_jsonl.c" \
        "$dir/build/gcc/libbn.a" -fopenmp -lcrypto -lcjson -lpcre2-8 -lm
    BN_TOKENIZE=$dir/tokenize_jsonl
fi

cp "$root/ci/compare-tokenizers.mjs" "$dir/compare.mjs" # where its packages are
node "$dir/compare.mjs" texts "$root" >"$dir/texts.jsonl"
# shellcheck disable=SC2086
$BN_TOKENIZE "$BN_TEST_DATA/llama3-tokenizer.model" <"$dir/texts.jsonl" >"$dir/llama3.jsonl"
# shellcheck disable=SC2086
$BN_TOKENIZE "$BN_TEST_DATA/llama-spm-vocab.gguf" <"$dir/texts.jsonl" >"$dir/spm.jsonl"
node "$dir/compare.mjs" compare "$dir" "$BN_TEST_DATA/llama3-tokenizer.model"
