#!/usr/bin/env bash
# bn-run --prompt-cache: the same answers and chains with it and without it, what is saved and what is refused. TAP on
# standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
model=fixtures/shakespeare-5m-i2_s.gguf
speech='First Citizen: before we proceed any further, hear me speak. All: speak, speak. First Citizen:'
run() { "$bin/bn-run" -m "$model" "$@" >"$tmp/out" 2>"$tmp/err"; }
# said PATTERN: on standard error
said() { grep -qE -- "$1" "$tmp/err" || { cat "$tmp/err"; return 1; }; }
member() { sed -n "s/.*\"$1\": \"\\{0,1\\}\\([^,\"]*\\).*/\\1/p" "$2"; }
# same_chain RECEIPT...: all receipts have one chain
same_chain() {
    local receipt
    for receipt in "$@"; do equal "$(member chain "$receipt")" "$(member chain "$1")" || return 1; done
    [ -n "$(member chain "$1")" ]
}

# ---- the same answer ----

run -p "$speech" -n 12 --receipt "$tmp/without"
cp "$tmp/out" "$tmp/answer"
run -p "$speech" -n 12 --prompt-cache "$tmp/cache" --receipt "$tmp/first"
check 'a cache that does not exist is made' test -s "$tmp/cache"
check 'which is reported with its size' said 'prompt cache: [0-9]+ tokens saved, [0-9.]+ MiB'
check 'the answer is that without a cache' cmp "$tmp/out" "$tmp/answer"
before=$(stat -c %i "$tmp/cache")
run -p "$speech" -n 12 --prompt-cache "$tmp/cache" --receipt "$tmp/second" --batch 3 --threads 1
check 'the next run reuses all tokens but the last' said 'prompt cache: 2[0-9] of (2[0-9]) tokens reused'
check 'the answer is the same' cmp "$tmp/out" "$tmp/answer"
check 'the chains of all three receipts are equal' same_chain "$tmp/without" "$tmp/first" "$tmp/second"
check 'the receipt states what was cached' test "$(member cached_tokens "$tmp/second")" -ge 20
check 'a receipt without a cache does not' test -z "$(member cached_tokens "$tmp/without")"
rm -f "$tmp/gone" && mv "$tmp/cache" "$tmp/gone"
check 'it replays without the cache' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/second"
mv "$tmp/gone" "$tmp/cache"
check 'a cache that has the prompt is not written again' equal "$(stat -c %i "$tmp/cache")" "$before"
sed -i '/"cached_tokens"/d' "$tmp/second"
status 5 'a receipt that hides it is refused' "$bin/bn-verify-receipt" "$tmp/second"

sampled=(--temp 0.8 --top-k 40 --repeat-penalty 1.3 --seed 9)
run -p "$speech and now" -n 12 "${sampled[@]}" --receipt "$tmp/without"
run -p "$speech and now" -n 12 "${sampled[@]}" --prompt-cache "$tmp/cache" --prompt-cache-ro --receipt "$tmp/second"
check 'a longer prompt reuses what it shares' said 'prompt cache: 2[0-9] of [0-9]+ tokens reused'
check 'with sampling the chain is the same, too' same_chain "$tmp/without" "$tmp/second"
check 'a read-only cache is not written' equal "$(stat -c %i "$tmp/cache")" "$before"
run -p 'O Romeo, Romeo' -n 2 --prompt-cache "$tmp/cache" --prompt-cache-ro
check 'another prompt reuses nothing and succeeds' said 'prompt cache: 0 of'
run -p "$speech" -n 12 --prompt-cache "$tmp/all" --prompt-cache-all
run -p "$speech$(cat "$tmp/out")" -n 2 --prompt-cache "$tmp/all" --prompt-cache-ro
check '--prompt-cache-all keeps the answer' said 'prompt cache: 3[0-9] of'
run -p "$speech" -n 2 --prompt-cache "$tmp/cache" --profile "$tmp/profile" --trace "$tmp/trace"
check 'a profile and a trace can be taken' test -s "$tmp/profile" -a -d "$tmp/trace"

# Layers that attend to the last positions only, and activations of 16 bits.
for options in '--arch gemma3 --format tq2_0 --window 8' '--arch qwen3 --format q2_0'; do
    # shellcheck disable=SC2086 # words
    other=$("$bin/bn-fixtures" gen -q -o "$tmp" --vocab 320 --size tiny $options | sed 's/^[0-9a-f]*  //')
    for i in 1 2; do
        "$bin/bn-run" -q -m "$other" -p "$speech" -n 8 --prompt-cache "$tmp/$i-${options// /}" --receipt "$tmp/r$i" >"$tmp/out"
        cp "$tmp/1-${options// /}" "$tmp/2-${options// /}"
    done
    check "$options: the chains are equal" same_chain "$tmp/r1" "$tmp/r2"
    check "$options: tokens were cached" test "$(member cached_tokens "$tmp/r2")" -gt 8
    check "$options: the receipt replays" "$bin/bn-verify-receipt" --replay -m "$other" "$tmp/r2"
done

# ---- a conversation ----

chat() { printf '%s\n' "$@" | "$bin/bn-run" chat -v -m "$model" -n 8 --prompt-cache "$tmp/chat" >"$tmp/out" 2>"$tmp/err"; }
chat hello world
cp "$tmp/out" "$tmp/answer"
chat hello world
check 'a conversation reads its cache' said 'prompt cache: [1-9][0-9]* of'
check 'and gets the same answers' cmp "$tmp/out" "$tmp/answer"
check 'a later turn evaluates only what is new' said 'prompt [0-9]+ tokens \([1-9][0-9]* cached\)'

# ---- many prompts that begin alike ----

for end in 'one' 'two' 'three, and more' 'four'; do printf '"%s %s"\n' "$speech" "$end"; done >"$tmp/lines"
"$bin/bn-run" -m "$model" --batch-file "$tmp/lines" -n 6 --sequences 3 --receipts "$tmp/many" -v >"$tmp/out" 2>"$tmp/err"
cp "$tmp/out" "$tmp/answer"
check 'what they share is evaluated once' said 'all prompts begin with the same 2[0-9] tokens'
check 'and is cached for each of them' test "$(grep -cE '"cached_tokens":2[0-9]' "$tmp/out")" -eq 4
run -p "$speech two" -n 6 --receipt "$tmp/without"
check 'an answer has the chain that it has alone' same_chain "$tmp/without" "$tmp/many/1.json"
check 'its receipt replays' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/many/1.json"
for i in 1 2; do
    "$bin/bn-run" -m "$model" --batch-file "$tmp/lines" -n 6 --prompt-cache "$tmp/shared" >"$tmp/out" 2>"$tmp/err"
done
check 'a prompt cache keeps what they share' said 'prompt cache: 2[0-9] of'
check 'and the answers are the same' cmp "$tmp/out" "$tmp/answer"

# ---- what is refused ----

other=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
sum=$(sha256sum <"$tmp/cache")
says 1 "another model's cache is refused" 'is of the model [0-9a-f]{32}, this model is [0-9a-f]{32}' \
    "$bin/bn-run" -m "$other" -p hello -n 1 --prompt-cache "$tmp/cache"
head -c 5000 "$tmp/cache" >"$tmp/short"
says 5 'a truncated one is refused' 'damaged or truncated: its checksum is wrong' "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp/short"
says 4 'another file is refused' 'not a prompt cache' "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp/profile"
says 8 'a folder is refused before the run' 'is a directory, not a file' "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp"
check 'a file that is refused is not changed' equal "$(sha256sum <"$tmp/cache")" "$sum"
check 'nor is a truncated one' equal "$(stat -c %s "$tmp/short")" 5000
says 3 'a read-only cache has to exist' 'cannot open' "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp/none" --prompt-cache-ro
says 3 'a folder that does not exist is reported before the run' 'no/folder: cannot create: No such' \
    "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp/no/folder"
says 2 '--prompt-cache-ro alone' 'needs --prompt-cache FILE' "$bin/bn-run" -p hello -n 1 --prompt-cache-ro
says 2 '--prompt-cache-all with it' 'exclude each other' \
    "$bin/bn-run" -p hello -n 1 --prompt-cache "$tmp/cache" --prompt-cache-ro --prompt-cache-all
: >"$tmp/empty"
says 0 'an empty file is as good as none' 'tokens saved' "$bin/bn-run" -p 'hello world' -n 1 --prompt-cache "$tmp/empty"
