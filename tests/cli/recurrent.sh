#!/usr/bin/env bash
# Models with recurrent layers, whose state cannot be shortened: conversations, prompt caches, batches, drafts and a server reuse
# snapshots of it, with the same answers as without snapshots. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
if ! command -v python3 >/dev/null; then
    skip 'recurrent layers' 'python3 is not installed'
    exit 0
fi
# The template of Qwen3.5: the prompt opens a think block, and the history has no thoughts.
template="{{ '<|im_start|>' }}{% if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% else %}{{- '<think>\\n' }}"
model=$tmp/qwen35.gguf
python3 tests/cli/edit_vocabulary.py fixtures/quad-qwen35-q2_0-v331-tied-42.gguf "$model" qwen2 "$template" '300=<|im_start|>' \
    '301=<|im_end|>' '302=<|endoftext|>' '303=<think>' '304=</think>'
text='a b c d e f g h i j k l m n o p q r s t u v w x y z.'
# Less than one state: no snapshots.
none=(--snapshots 1)
run() { "$bin/bn-run" -m "$model" "$@" >"$tmp/out" 2>"$tmp/err"; }
said() { grep -qE -- "$1" "$tmp/err" || { cat "$tmp/err"; return 1; }; }
member() { sed -n "s/.*\"$1\": \"\\{0,1\\}\\([^,\"]*\\).*/\\1/p" "$2"; }
same_chain() { equal "$(member chain "$1")" "$(member chain "$2")" && [ -n "$(member chain "$1")" ]; }
replays() { "$bin/bn-verify-receipt" --replay -m "$model" "$1"; }

# ---- conversations ----

# chat NAME INPUT ARGUMENTS...: leaves $tmp/NAME, and the tokens of each prompt that were evaluated and cached.
chat() {
    printf '%b' "$2" | "$bin/bn-run" chat -v -m "$model" -n 8 "${@:3}" >"$tmp/$1" 2>"$tmp/err"
    grep -oE 'prompt [0-9]+ tokens?( \([0-9]+ cached\))?' "$tmp/err" |
        awk '{ c = $4 ~ /cached|\(/ ? substr($4, 2) + 0 : 0; print $2 - c, c }' >"$tmp/$1.work"
}
evaluated() { awk '{ n += $1 } END { print n + 0 }' "$tmp/$1.work"; }
cached() { awk -v n="$2" 'NR == n { print $2 }' "$tmp/$1.work"; }
for think in on off; do
    for input in "hello $text\nand then $text\nwhy\n" "hello $text\nand then $text\n/regen\n" \
        "hello $text\nand then $text\n/undo\nor else $text\n"; do
        chat with "$input" --think "$think" --receipts "$tmp/receipts"
        chat without "$input" --think "$think" "${none[@]}"
        check "think $think, ${input##*n/}: the answers are the same" cmp "$tmp/with" "$tmp/without"
        check 'three prompts' equal "$(wc -l <"$tmp/with.work")" 3
        check 'the third one reuses the second' test "$(cached with 3)" -gt 40
        check 'fewer tokens are evaluated' test "$(evaluated with)" -lt "$(evaluated without)"
        check 'the receipt of the last answer replays' replays "$tmp/receipts/2.json"
        rm -rf "$tmp/receipts"
    done
done
check 'a third answer after /undo reuses the first turn' test "$(cached with 3)" -gt 40
chat with "hello $text\nand then $text\n/regen\n"
check '/regen evaluates the tokens of the template only' test "$(sed -n '3s/ .*//p' "$tmp/with.work")" -lt 20

# ---- prompt caches ----

run --system "$text $text" -p 'one' -n 4 --prompt-cache "$tmp/cache"
check 'a cache is made' said 'prompt cache: [0-9]+ tokens saved'
run --system "$text $text" -p 'two three' -n 4 --prompt-cache "$tmp/cache" --prompt-cache-ro --receipt "$tmp/r1"
check 'another question reuses the system message' said 'prompt cache: [1-9][0-9]+ of'
run --system "$text $text" -p 'two three' -n 4 --receipt "$tmp/r2" "${none[@]}"
check 'with the same chain' same_chain "$tmp/r1" "$tmp/r2"
check 'and its receipt replays' replays "$tmp/r1"
run --system "$text $text" -p 'one' -n 4 --prompt-cache "$tmp/other" "${none[@]}"
check 'without snapshots no file is made' test ! -e "$tmp/other"

# ---- batches ----

for n in 1 2 3 4 5; do echo "\"$text $text $n\""; done >"$tmp/lines"
run --batch-file "$tmp/lines" -n 4 --sequences 2 --receipts "$tmp/many"
check 'the common beginning is evaluated once' equal "$(grep -cE '"cached_tokens":[1-9][0-9]' "$tmp/out")" 5
cp "$tmp/out" "$tmp/answers"
run --batch-file "$tmp/lines" -n 4 --sequences 1 "${none[@]}"
check 'the answers are those of one after the other' equal "$(grep -o '"chain":"[^"]*' "$tmp/out")" "$(grep -o '"chain":"[^"]*' "$tmp/answers")"
check 'the last receipt replays' replays "$tmp/many/4.json"

# ---- drafts ----

draft() { run -p "$text $text $text" -n 200 --template raw --ignore-end "$@"; }
draft --receipt "$tmp/plain"
for how in '--speculate ngram' "--draft $model" "--draft $model --temp 0"; do
    # shellcheck disable=SC2086 # words
    draft $how --draft-always --receipt "$tmp/receipt"
    check "$how: tokens are drafted" said 'drafted [1-9]'
    check "$how: the chain is the same" same_chain "$tmp/plain" "$tmp/receipt"
    check "$how: its receipt replays" replays "$tmp/receipt"
done
cp "$tmp/receipt" "$tmp/edited"
sed -i '/"name": "delta/,/}/s/"ops": \([0-9]*\)/"ops": 1\1/' "$tmp/edited"
check 'the receipt was edited' test "$(cmp "$tmp/receipt" "$tmp/edited" | wc -l)" -eq 1
status 5 'a receipt with other work of the state is refused' "$bin/bn-verify-receipt" "$tmp/edited"

# ---- a server ----

option=()

# turn N: the N-th turn of a conversation of one client; leaves $tmp/reply.
turn() {
    local i messages="{\"role\": \"system\", \"content\": \"$text\"}"
    for ((i = 1; i <= $1; i++)); do
        messages+=",{\"role\": \"user\", \"content\": \"$i $text\"}"
        [ "$i" -eq "$1" ] || messages+=',{"role": "assistant", "content": "<think>x</think>yes"}'
    done
    replies 200 '"content":' /v1/chat/completions "{\"max_tokens\": 6, \"temperature\": 0, \"messages\": [$messages]}"
}
chain() { grep -o '"chain":"[^"]*' "$tmp/reply"; }
reused() { grep -o '"cached_tokens":[0-9]*' "$tmp/reply" | sed "s/.*://"; }
defaults=(-m "$model" --sequences 2)
for kind in with without; do
    start "${option[@]}"
    option=("${none[@]}")
    for n in 1 2 3 2; do
        check "$kind snapshots: turn $n is answered" turn "$n"
        chain >>"$tmp/$kind.chains"
        reused >>"$tmp/$kind.reused"
    done
done
start --think off --receipts "$tmp/served"
check 'a server can be told not to think' turn 2
check 'its receipt has the choice' grep -rq '"qwen35-no-think"' "$tmp/served"
stop_server
says 2 'but a template that cannot think is refused' 'has no thinking' "$bin/bn-serve" --port 0 --think on
check 'the answers are the same' cmp "$tmp/with.chains" "$tmp/without.chains"
check 'each turn reuses the one before' equal "$(awk 'NR > 1 && $1 > 40' "$tmp/with.reused" | wc -l)" 3
check 'without snapshots none does' equal "$(awk '$1 > 0' "$tmp/without.reused" | wc -l)" 0
