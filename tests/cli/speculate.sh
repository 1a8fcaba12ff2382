#!/usr/bin/env bash
# bn-run --speculate and --draft: the same answers, chains and receipts as without them. Nothing here depends on which
# is faster: --draft-always drafts regardless of the time. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
model=fixtures/shakespeare-5m-i2_s.gguf
text='First Citizen: speak, speak, I say. All: speak, speak, I say. First Citizen: speak, speak,'
run() { "$bin/bn-run" -m "$model" -p "$text" -n 40 "$@" >"$tmp/out" 2>"$tmp/err"; }
said() { grep -qE -- "$1" "$tmp/err" || { cat "$tmp/err"; return 1; }; }
member() { sed -n "s/.*\"$1\": \"\\{0,1\\}\\([^,\"]*\\).*/\\1/p" "$2"; }
same_chain() { equal "$(member chain "$1")" "$(member chain "$2")" && [ -n "$(member chain "$1")" ]; }
replays() { "$bin/bn-verify-receipt" --replay -m "$model" "$1"; }

# Greedy; a sample of all tokens; a sample with everything. The repeat penalty sees the accepted tokens only.
i=0
for sampling in '--temp 0' '--temp 0.8' '--temp 0.9 --top-k 30 --top-p 0.95 --min-p 0.02 --repeat-penalty 1.2' \
    '--temp 0 --presence-penalty 0.2 --frequency-penalty 0.1' '--temp 0.8 --frequency-penalty -0.5 --logit-bias 11=-100'; do
    i=$((i + 1))
    # shellcheck disable=SC2086 # words
    run $sampling --receipt "$tmp/plain$i"
    cp "$tmp/out" "$tmp/answer"
    for how in '--speculate ngram' '--speculate ngram --draft-always' "--draft $model --draft-always --draft-max 5" \
        "--draft $model --batch 3 --draft-always" '--speculate ngram --draft-always --repack always'; do
        # shellcheck disable=SC2086 # words
        run $sampling $how --receipt "$tmp/receipt"
        check "$sampling $how: the answer is the same" cmp "$tmp/out" "$tmp/answer"
        check "$sampling $how: so is the chain" same_chain "$tmp/plain$i" "$tmp/receipt"
        check "$sampling $how: its receipt replays without drafts" replays "$tmp/receipt"
    done
    # shellcheck disable=SC2086 # words
    run $sampling --draft "$model" --draft-always --receipt "$tmp/receipt"
    check "$sampling: the model drafts for itself without a mistake" \
        equal "$(member drafted "$tmp/receipt")" "$(member accepted "$tmp/receipt")"
    check "$sampling: the receipt of a plain run has no drafts" test -z "$(member drafted "$tmp/plain$i")"
done
run --speculate ngram --draft-always
check 'the number of drafted and accepted tokens is reported' said 'drafted [0-9]+ tokens in [0-9]+ passes?, [0-9]+ accepted'
run --speculate ngram --draft-always --json
check 'also as JSON' test "$(member drafted_tokens "$tmp/out")" -ge "$(member accepted_tokens "$tmp/out")"
run --speculate ngram --draft-always --profile "$tmp/profile" --profile-level kernel
check 'passes with drafts can be profiled' grep -q '"passes"' "$tmp/profile"
run --speculate ngram --draft-always --prompt-cache "$tmp/cache"
run --speculate ngram --draft-always --prompt-cache "$tmp/cache" --receipt "$tmp/receipt"
check 'together with a prompt cache the chain is the same' same_chain "$tmp/plain1" "$tmp/receipt"
check 'and the receipt replays' replays "$tmp/receipt"

# Layers that attend to the last positions only: what they read is stated, too.
other=$("$bin/bn-fixtures" gen -q -o "$tmp" --vocab 320 --size tiny --arch gemma3 --format tq2_0 --window 8 | sed 's/^[0-9a-f]*  //')
"$bin/bn-run" -q -m "$other" -p "$text" -n 30 --draft "$other" --draft-always --draft-max 4 --receipt "$tmp/receipt" >"$tmp/out"
status 0 'a receipt of local layers replays' "$bin/bn-verify-receipt" --replay -m "$other" "$tmp/receipt"

# ---- a receipt cannot claim drafts that were not made ----

# refused EDIT: the edited receipt, sealed again by its maker, is refused by the rules of work
edited() { sed "$1" "$tmp/good" >"$tmp/edited" && ! cmp -s "$tmp/good" "$tmp/edited"; }
run --speculate ngram --draft-always --receipt "$tmp/good"
check 'the receipt to edit is right' "$bin/bn-verify-receipt" "$tmp/good"
for edit in '/"drafts": {/,/}/d' 's/"accepted": [0-9]*/"accepted": 0/' 's/"drafted": [0-9]*/"drafted": 7/'; do
    check "edit $edit" edited "$edit"
    status 5 'an edited receipt is refused' "$bin/bn-verify-receipt" "$tmp/edited"
done

# ---- a conversation ----

printf 'hello\nhello\n' | "$bin/bn-run" chat -m "$model" -n 20 >"$tmp/answer" 2>"$tmp/err"
for how in '--speculate ngram' "--draft $model"; do
    # shellcheck disable=SC2086 # words
    printf 'hello\nhello\n' | "$bin/bn-run" chat -v -m "$model" -n 20 $how --draft-always >"$tmp/out" 2>"$tmp/err"
    check "chat $how: the answers are the same" cmp "$tmp/out" "$tmp/answer"
    check "chat $how: -v reports drafts" said 'drafted [0-9]+ token'
done

# ---- what is refused ----

says 2 'a draft model with another vocabulary' 'vocabulary' "$bin/bn-run" -m "$model" -p hello --draft fixtures/nano-bitnet-b1.58-i2_s-42.gguf
says 3 'a draft model that does not exist' 'no-such.gguf' "$bin/bn-run" -p hello --draft no-such.gguf
says 2 'two ways at once' 'exclude each other' "$bin/bn-run" -p hello --draft "$model" --speculate ngram
says 2 'an unknown way' 'none, ngram|none\|ngram|ngram' "$bin/bn-run" -p hello --speculate magic
says 2 'a trace, whose rows would not be those of positions' 'cannot be combined' \
    "$bin/bn-run" -p hello --speculate ngram --trace "$tmp/trace"
says 2 'drafts that are too long' 'draft-max must be between 1 and 64' "$bin/bn-run" -p hello --speculate ngram --draft-max 65
