#!/usr/bin/env bash
# bn-run --batch-file: each line is answered as it would be alone, in order, with its receipt; bad files change nothing.
# TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
model=fixtures/shakespeare-5m-i2_s.gguf
run() { "$bin/bn-run" -m "$model" "$@" >"$tmp/out" 2>"$tmp/err"; }
said() { grep -qE -- "$1" "$tmp/err" || { cat "$tmp/err"; return 1; }; }
# of LINE MEMBER FILE: a member of one line of answers
of() { sed -n "$1p" "$3" | grep -oE "[{,]\"$2\":(\"([^\"\\\\]|\\\\.)*\"|\\[[^]]*\\]|[^,}]*)" | head -1 | cut -d: -f2-; }

# ---- the same answers as alone ----

cat >"$tmp/in" <<'END'
"ROMEO:"
{"id": "second", "prompt": "JULIET:\nWhat", "n_predict": 9, "temperature": 0.9, "seed": 5, "top_k": 50}

{"id": [3], "tokens": [40, 41, 42], "n_predict": 20, "stop": ["\n"], "repeat_penalty": 1.2}
{"prompt": "First Citizen: before we proceed any further, hear me speak.", "n_predict": 1}
"ROMEO: I"
END
run --batch-file "$tmp/in" -n 14 --sequences 2 --batch 4 --receipts "$tmp/receipts/all" --logprobs --show-top 2
cp "$tmp/out" "$tmp/two"
check 'there is a line for each line that is not empty' test "$(wc -l <"$tmp/two")" -eq 5
check 'which standard error counts' said '5 prompts, [0-9]+ tokens generated at .* up to 2 at a time'
check 'they are in order' equal "$(grep -oE '"index":[0-9]+' "$tmp/two" | tr -d '\n')" \
    '"index":0"index":1"index":2"index":3"index":4'
check 'an id is given back as it came' equal "$(of 3 id "$tmp/two")" '[3]'

# alone LINE ARGUMENTS...: the chain of a run by itself is that of the line
alone() {
    local line=$1 chain
    shift
    chain=$("$bin/bn-run" -m "$model" --json "$@" 2>"$tmp/err" | sed -n 's/.*"chain": "\(.*\)".*/\1/p')
    [ -n "$chain" ] && equal "$(of "$line" chain "$tmp/two")" "\"$chain\""
}
check 'a plain text has the chain that it has alone' alone 1 -p 'ROMEO:' -n 14
check 'so has one with a sampler of its own' \
    alone 2 -p 'JULIET:
What' -n 9 --temp 0.9 --seed 5 --top-k 50
check 'one of tokens that stops at a text' alone 3 --tokens 40,41,42 -n 20 --stop '
' --repeat-penalty 1.2
check 'one that needs several pieces of the batch' \
    alone 4 -p 'First Citizen: before we proceed any further, hear me speak.' -n 1
check 'one that waited for its turn' alone 5 -p 'ROMEO: I' -n 14

for sequences in 1 3 5; do
    run --batch-file "$tmp/in" -n 14 --sequences $sequences --threads 1 --logprobs --show-top 2
    check "$sequences at a time give the same chains" \
        equal "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/out")" "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/two")"
done
echo '{"prompt": "ROMEO:", "n_predict": -1}' | run --batch-file - -n 2 --ctx 20
check 'n_predict -1 is unlimited' equal "$(of 1 stop "$tmp/out")" '"context"'
run --batch-file - -n 14 <"$tmp/in"
check 'standard input is a file too' test "$(wc -l <"$tmp/out")" -eq 5
check 'log-probabilities come only on request' equal "$(of 1 logprobs "$tmp/out")" ''
check 'a line without an id gets none' equal "$(of 1 id "$tmp/out")" ''
sum_of() { awk '{sum += $NF} END {printf "%.6f", sum}'; }
score() { "$bin/bn-run" score -m "$model" --tokens "$1" --per-token | head -n -4 | sum_of; }
# near A B: equal but for rounding
near() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a - b < 1e-4 && b - a < 1e-4)}' || { echo "$1 and $2"; return 1; }; }
whole=$(score "40,41,42,$(of 3 ids "$tmp/two" | tr -d '[]')")
prompt=$(score 40,41,42)
ours=$(of 3 logprobs "$tmp/two" | tr -d '[]' | tr ',' '\n' | sum_of)
check 'their sum is what score says' near "$(awk -v a="$ours" -v b="$prompt" 'BEGIN {print a + b}')" "$whole"

# ---- receipts ----

check 'there is a receipt for each line' test "$(find "$tmp/receipts/all" -name '*.json' | wc -l)" -eq 5
for i in 0 1 2 3 4; do
    check "receipt $i replays" "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/receipts/all/$i.json"
done
check 'they say that passes were shared' grep -q '"generations": 2' "$tmp/receipts/all/1.json"
sed 's/"generations": 2/"generations": 1/' "$tmp/receipts/all/1.json" >"$tmp/edited"
status 5 'a receipt that denies it fails' "$bin/bn-verify-receipt" "$tmp/edited"

run --batch-file "$tmp/in" -n 14 --sequences 5 --repack always --receipts "$tmp/receipts/packed"
check 'with packed copies the chains are the same' \
    equal "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/out")" "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/two")"
check 'a screened head serves several heads' grep -qE '"screened": [1-9]' "$tmp/receipts/packed/4.json"
check 'and its receipt replays' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/receipts/packed/4.json"

# The model is open when the list of prompts is.
cp "$model" "$tmp/changing.gguf"
mkfifo "$tmp/fifo"
"$bin/bn-run" -m "$tmp/changing.gguf" --batch-file "$tmp/fifo" -n 4 --receipts "$tmp/receipts/changed" >"$tmp/out" 2>"$tmp/err" &
exec 9>"$tmp/fifo"
printf x | dd of="$tmp/changing.gguf" bs=1 seek=1000000 conv=notrunc 2>/dev/null
echo '"ROMEO:"' >&9
exec 9>&-
wait $!
check 'no receipt for a model that was changed meanwhile' equal "$? $(find "$tmp/receipts/changed" -name '*.json' | wc -l)" '5 0'
check 'as the error says' said 'error: the file of the model was changed'

# ---- penalties and biases ----

cat >"$tmp/changed" <<'END'
{"prompt": "ROMEO:", "presence_penalty": 0.5, "frequency_penalty": 0.25}
{"prompt": "ROMEO:", "logit_bias": {"11": -100, "25": 2, "7": 0}, "temperature": 0.8, "seed": 3}
"ROMEO:"
{"prompt": "ROMEO:", "presence_penalty": 0, "logit_bias": {}}
END
run --batch-file "$tmp/changed" -n 30 --logit-bias 11=100 --receipts "$tmp/receipts/changed_1" --sequences 1
cp "$tmp/out" "$tmp/two"
check 'penalties of a line are those that it has alone' \
    alone 1 -p ROMEO: -n 30 --presence-penalty 0.5 --frequency-penalty 0.25 --logit-bias 11=100
check 'its biases are in place of those of the command line' \
    alone 2 -p ROMEO: -n 30 --logit-bias 25=2 --logit-bias 11=-100 --temp 0.8 --seed 3
check 'which a line without them has' alone 3 -p ROMEO: -n 30 --logit-bias 11=100
check 'unless it has none' alone 4 -p ROMEO: -n 30
for how in '--threads 1' '--sequences 3 --threads 2'; do
    # shellcheck disable=SC2086 # words
    run --batch-file "$tmp/changed" -n 30 --logit-bias 11=100 --receipts "$tmp/receipts/changed_2" $how
    check "with $how the chains are the same" \
        equal "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/out")" "$(grep -oE '"chain":"[0-9a-f]+"' "$tmp/two")"
done
check 'their receipts replay together' "$bin/bn-verify-receipt" --batch "$tmp/receipts/changed_2" --replay -m "$model"
check 'what changes nothing is not in a receipt' equal \
    "$(grep -lE 'presence|frequency|logit_bias|"7"' "$tmp"/receipts/changed_2/*.json | sed 's/.*changed_2//' | tr '\n' ' ')" \
    '/0.json /1.json /2.json '

# ---- what is refused ----

# refused PATTERN LINE...: nothing runs, and the message says why
refused() {
    local pattern=$1 status
    shift
    printf '%s\n' "$@" >"$tmp/bad"
    run --batch-file "$tmp/bad" -n 4
    status=$?
    [ $status -ne 0 ] && [ ! -s "$tmp/out" ] && said "$pattern"
}
check 'a line that is not JSON is named' refused 'bad: line 2: ' '"a"' 'b'
check 'a number is not a prompt' refused 'line 1: not a JSON string or object' 7
check 'a line without a prompt' refused 'line 1: 0 of prompt, messages and tokens' '{"n_predict": 3}'
check 'a line with two' refused '2 of prompt, messages and tokens' '{"prompt": "a", "tokens": [1]}'
check 'a member that nobody knows' refused 'unknown member "tempreature"' '{"prompt": "a", "tempreature": 1}'
check 'a number out of range' refused 'top_p is not a number from 0 to 1' '{"prompt": "a", "top_p": 2}'
check 'a penalty out of range' refused 'presence_penalty is not a number from -2 to 2' '{"prompt": "a", "presence_penalty": -2.5}'
check 'one that is a text' refused 'frequency_penalty is not a number from -2 to 2' '{"prompt": "a", "frequency_penalty": "1"}'
for bias in '[11, 1]' '{"x": 1}' '{"011": 1}' '{"": 1}' '{"1": "1"}' '{"-1": 1}' '{"12345678901": 1}' 7; do
    check "the bias $bias" refused 'line 1: logit_bias is not an object of token ids' "{\"prompt\": \"a\", \"logit_bias\": $bias}"
done
check 'a bias out of range' refused 'logit_bias has -100.5, not in -100..100' '{"prompt": "a", "logit_bias": {"11": -100.5}}'
check 'one of no token' refused 'line 2: logit_bias has token 99999999' '"a"' '{"prompt": "a", "logit_bias": {"99999999": 1}}'
check 'too many of them' refused 'logit_bias has 1025 tokens, at most 1024' \
    "{\"prompt\": \"a\", \"logit_bias\": {$(seq -f '"%.0f": 1' -s ', ' 1025)}}"
check 'two of one token' refused 'duplicate name' '{"prompt": "a", "logit_bias": {"11": 1, "11": 2}}'
check 'no token at all' refused 'n_predict is not a whole number' '{"prompt": "a", "n_predict": 0}'
check 'a fraction of a token' refused 'n_predict is not a whole number' '{"prompt": "a", "n_predict": 1.5}'
check 'a stop that is not a text' refused 'stop is not a text or a list of texts' '{"prompt": "a", "stop": [1]}'
check 'an id outside the vocabulary' refused 'token 0 is 99999999' '{"tokens": [99999999]}'
check 'messages without a template' refused 'messages need a chat template' \
    '{"messages": [{"role": "user", "content": "a"}]}'
check 'an empty prompt' refused 'bad: line 2: the prompt has no tokens' '"a"' '{"prompt": ""}'
check 'an empty file' refused 'no requests'
status 2 'a prompt next to the file is a mistake' run --batch-file "$tmp/in" -p a
status 2 'so are receipts without the file' run -p a --receipts "$tmp/x"
status 2 'one receipt for many lines too' run --batch-file "$tmp/in" --receipt "$tmp/x"
check 'whose message names the option that works' said '--receipts DIR'
