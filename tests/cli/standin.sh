#!/usr/bin/env bash
# The stand-in of microsoft/bitnet-b1.58-2B-4T-gguf: same keys, same tensors, same size to the byte as ggml-model-i2_s.gguf, the real
# vocabulary. It must open like that file, use little additional memory, and decode the same on every instruction set.
# Needs the rank file of the vocabulary (BN_TEST_DATA) and 1.3 GB of disk. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
if [ ! -f "${BN_TEST_DATA:-}/llama3-tokenizer.model" ]; then
    echo "ok 1 - 2B stand-in # SKIP BN_TEST_DATA is not set"
    exit 0
fi
# shellcheck source=tests/tap.sh
. tests/tap.sh
if [ "$(df --output=avail -k "$tmp" | tail -n 1)" -lt 1400000 ]; then
    skip "2B stand-in" "less than 1.4 GB of disk"
    exit
fi
# The shape that committed measurements name is generated to the byte on every machine.
while read -r digest file command; do
    # shellcheck disable=SC2086 # a command line
    (cd "$tmp" && PATH="$bin:$PATH" && $command -o . >/dev/null)
    check "fixtures/generated.txt: $command" equal "$(sha256sum "$tmp/$file" | cut -d ' ' -f 1)" "$digest"
    rm -f "$tmp/$file"
done < <(sed '/^# Made by ci\/machine/,$d; /^#/d' fixtures/generated.txt)
"$bin/bn-fixtures" gen --size 2b --tokenizer "$BN_TEST_DATA/llama3-tokenizer.model" -o "$tmp" >/dev/null
model=$(echo "$tmp"/2b-*.gguf)
check "1,187,801,280 bytes, as the real file" equal "$(stat -c %s "$model")" 1187801280
"$bin/bn-run" inspect -m "$model" --json >"$tmp/inspect" 2>&1
check "24 keys" equal "$(grep -c '"key":' "$tmp/inspect")" 24
check "no tokenizer.ggml.pre" equal "$(grep -c 'tokenizer.ggml.pre"' "$tmp/inspect")" 0
check "332 tensors" equal "$(grep -c '"name":' "$tmp/inspect")" 332
check "210 of them ternary" equal "$(grep -c '"type": "I2_S"' "$tmp/inspect")" 210
check "runs here" grep -q '"runs_here": true' "$tmp/inspect"
check "squared ReLU" grep -q '"activation": "relu2"' "$tmp/inspect"
check "2084044800 ternary weights" grep -q '"ternary_weights": 2084044800' "$tmp/inspect"
check "split as llama-bpe where the key is absent" \
    equal "$("$bin/bn-run" tokenize -m "$model" --ids -p "What is 2+2? I'm 1234567." 2>/dev/null)" \
    128000,3923,374,220,17,10,17,30,358,2846,220,4513,10961,22,13
isas=$("$bin/bn-run" --version | grep -oE 'avx2|avx512vnni|avx512vbmi|amx|neon' | sort -u)
first=''
for isa in $isas; do
    digest=$("$bin/bn-run" logits -m "$model" --isa "$isa" --ctx 64 --tokens 128000,3923,374,220,17,10,17,30 --digest)
    [ -n "$first" ] || first=$digest
    check "logits on $isa" equal "$digest" "$first"
done
chain_of() { "$bin/bn-run" -q -m "$model" -p 'What is 2+2?' -n 5 --json --repack "$1" | sed -n 's/.*"chain": "\(.*\)".*/\1/p'; }
check "packed weights and a screened head" equal "$(chain_of always)" "$(chain_of never)"
"$bin/bn-run" -q -m "$model" -p 'What is 2+2?' -n 3 --receipt "$tmp/receipt.json" >/dev/null 2>&1
rss=$(sed -n 's/.*"peak_rss_bytes": \([0-9]*\).*/\1/p' "$tmp/receipt.json")
check "decodes within 1.5 GB of memory" test "${rss:-9999999999}" -lt 1500000000
check "the receipt replays" "$bin/bn-verify-receipt" -q --model "$model" --replay --threads 1 "$tmp/receipt.json"
