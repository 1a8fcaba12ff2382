#!/usr/bin/env bash
# Prints the path of a random model of the 2B shape, which it generates once (bn-fixtures gen --size 2b): ci/phase2-2b.sh. The
# bytes, and so the digest in what is recorded with it, are the same on every machine. Environment variable: OUT (build/gcc).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-build/gcc} dir=${OUT:-build/gcc}/models
if [ ! -s "$dir/2b.gguf" ]; then
    mkdir -p "$dir/new"
    "$out/bn-fixtures" gen --size 2b -o "$dir/new" >&2
    mv "$dir"/new/2b-*.gguf "$dir/2b.gguf"
    rmdir "$dir/new"
fi
echo "$dir/2b.gguf"
