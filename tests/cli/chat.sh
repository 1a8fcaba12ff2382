#!/usr/bin/env bash
# bn-run chat in a pipe: answers of any length, a full context, messages of several lines, commands, saved conversations,
# receipts. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
model=$PWD/fixtures/shakespeare-5m-i2_s.gguf
# chat INPUT ARGUMENTS...: leaves $status, $tmp/out and $tmp/err. Without --temp it is greedy. The working folder is $tmp,
# because the sandbox permits a conversation the files there.
chat() {
    printf '%b' "$1" | env -C "$tmp" "$bin/bn-run" chat -m "$model" --temp 0 "${@:2}" >"$tmp/out" 2>"$tmp/err"
    status=$?
}
ended() { [ "$status" -eq "$1" ] || { echo "status $status, not $1"; cat "$tmp/out" "$tmp/err"; return 1; }; }
printed() { equal "$(cat "$tmp/out")" "$1"; }
has() { grep -qF -- "$2" "$1" || { echo "no '$2' in:"; cat "$1"; return 1; }; }
hasnt() { ! grep -F -- "$2" "$1"; }
differ() { ! cmp -s "$1" "$2"; }
same() { [ "$(cat "$1")" = "$(cat "$2")" ] || diff "$1" "$2"; }

# ---- answers ----

chat 'hello\n'
check 'an answer ends at the end of its paragraph' printed "$("$bin/bn-run" -q -m "$model" -p hello -n 60 | sed '/^$/q')"
chat 'hello\n' --template instruct --ctx 300
check 'without an end of the turn the context ends it' has "$tmp/err" 'the answer is cut: the context of 300 tokens is full'
check 'which is longer than the limit of generate' test "$(wc -c <"$tmp/out")" -gt 300
chat 'hello\n' -n 3
check '-n limits it' printed "$("$bin/bn-run" -q -m "$model" -p hello -n 3)"
chat 'hello\n' -n -1
check '-n -1 does not' printed "$("$bin/bn-run" -q -m "$model" -p hello -n 60 | sed '/^$/q')"
chat 'hello\n' -n -2
check 'other negative limits are refused' has "$tmp/err" '-n must be -1 or between 1 and'
chat '' -p hello -n 3
check '-p is the first message' printed "$("$bin/bn-run" -q -m "$model" -p hello -n 3)"

# The greedy answer of the base model to this repeats itself until the context is full.
plain() { echo 'Who is there?' | "$bin/bn-run" chat -m "$model" "$@" >"$tmp/out" 2>"$tmp/err"; }
plain --temp 0 --json
check 'an answer of a base model has at most 128 tokens' has "$tmp/out" '"stop":"length"'
check 'that many' equal "$(grep -o '"ids":\[[^]]*' "$tmp/out" | tr -cd , | wc -c)" 127
plain -n -1 --temp 0 --ctx 300
check '-n wins' has "$tmp/err" 'the context of 300 tokens is full'
plain
cp "$tmp/out" "$tmp/wanted"
plain --temp 0.7
check 'its temperature is 0.7' same "$tmp/out" "$tmp/wanted"
plain --temp 0
check '--temp wins' differ "$tmp/out" "$tmp/wanted"
plain --template instruct -n 9
cp "$tmp/out" "$tmp/wanted"
plain --template instruct -n 9 --temp 0
check 'a chat with a template is greedy' same "$tmp/out" "$tmp/wanted"

# ---- the context is full ----

words='one two three four five six seven eight nine ten'
answers() { grep -cE 'prompt [0-9]+ tokens?' "$tmp/err"; }
chat "$words\n$words\n$words\nhello\n" -v --ctx 64 -n 2
check 'a full context drops the oldest turns' has "$tmp/err" 'dropped the '
check 'and every message is answered' equal "$(answers)" 4
check 'which is not an error' ended 0
check 'nothing is rejected' hasnt "$tmp/err" error
# The first turn is dropped: the rest is evaluated as if it were the whole conversation.
chat "$words\n$words\nThe king\n" --ctx 64 -n 1
cp "$tmp/out" "$tmp/whole"
chat "$words\n$words\nThe king\n" --ctx 40 -n 1
check 'without the first turn the answer is another one' test "$(tail -n 1 "$tmp/out")" != "$(tail -n 1 "$tmp/whole")"
check 'two answers without an empty line' equal "$(wc -l <"$tmp/out")" 3
sed -n 3p "$tmp/out" >"$tmp/dropped"
second=$(sed -n 2p "$tmp/out")
"$bin/bn-run" -q -m "$model" -n 1 -p "$words
$second
The king" >"$tmp/wanted"
check 'after that the answers are those of the rest alone' same "$tmp/dropped" "$tmp/wanted"
check 'one turn is one turn' has "$tmp/err" 'dropped the oldest turn'
chat "$words\n$words\n$words\nhello\n/stats\n" --ctx 64 -n 4 --system 'Be brief.'
check 'the system message stays' hasnt "$tmp/err" error
chat "$words $words $words $words $words\nhello\n" -v --ctx 64 -n 4
check 'a message that is too long is an error with both numbers' \
    grep -qE 'error: message too long: [0-9]+ tokens, the context holds 64$' "$tmp/err"
check 'without a hint' hasnt "$tmp/err" hint
check 'the next one is answered' equal "$(answers)" 1
check 'in a pipe the exit status says so' ended 4

chat "$words\n$words $words $words $words $words\n/stats\n" --ctx 64 -n 4
check 'and does not cost the conversation its turns' has "$tmp/err" '1 turn, '
# Without the room for several turns, each of the last 12 would drop one and evaluate all others again.
for _ in {1..16}; do echo "$words"; done >"$tmp/turns"
"$bin/bn-run" chat -m "$model" -v --ctx 80 -n 2 <"$tmp/turns" >/dev/null 2>"$tmp/err"
check 'what is dropped makes room for more than one turn' test "$(grep -c 'dropped the ' "$tmp/err")" -le 8
check 'so that the turns after it evaluate only what is new' test "$(grep -c 'cached)' "$tmp/err")" -ge 8

# ---- messages of several lines ----

chat 'one\\\ntwo\n' -n 7
cp "$tmp/out" "$tmp/wanted"
chat '' -p 'one
two' -n 7
check 'a backslash at the end of a line continues the message' same "$tmp/wanted" "$tmp/out"
for block in '"""one\ntwo"""\n' '"""\none\ntwo\n"""\n' '  """one\ntwo\n"""  \n' '"""one\ntwo'; do
    chat "$block" -n 7
    check "a block is one message: $block" same "$tmp/wanted" "$tmp/out"
done
chat '"""one""" two\n"""\n' -n 7
cp "$tmp/out" "$tmp/wanted"
chat '' -p 'one""" two' -n 7
check 'a block ends at the end of a line' same "$tmp/wanted" "$tmp/out"
chat '"""/bye"""\nhello\n' -n 2
check 'and is never a command' equal "$(wc -l <"$tmp/out")" 2
chat '/system """Be\nbrief."""\n/show\n' -q
check 'a command takes a block' has "$tmp/err" 'system message: Be
brief.'
head -c 1100000 /dev/zero | tr '\0' a >"$tmp/huge"
"$bin/bn-run" chat -m "$model" -q -n 1 <"$tmp/huge" >"$tmp/out" 2>"$tmp/err"
status=$?
check 'a message of more than a MiB is refused' has "$tmp/err" 'error: a message has more than 1048576 bytes'
check 'with the exit status of a limit' ended 4

# ---- commands ----

chat '/foo\n/bye now\n/cler\n' -q
check 'an unknown command is an error' has "$tmp/err" "error: unknown command '/foo'; /help lists them"
check 'and not a message' printed ''
check 'a misspelt one gets a hint' has "$tmp/err" 'did you mean /clear?'
check 'a command without a text gets none' has "$tmp/err" 'the command /bye takes no text'
check 'in a pipe the exit status is that of a usage error' ended 2
chat '//foo\n' -n 5
check 'two slashes send a line that begins with one' printed "$("$bin/bn-run" -q -m "$model" -p /foo -n 5)"
for word in /bye /exit /quit; do
    chat "$word\nhello\n" -q
    check "$word ends the conversation" printed ''
done
chat 'hello\n/clear\nhello\n' -n 4
check '/clear forgets the conversation' equal "$(sed -n 1p "$tmp/out")" "$(sed -n 2p "$tmp/out")"
chat '/help\n' -q
check '/help lists the commands' has "$tmp/err" '/clear'
chat '/system Be brief.\nhello\n/clear\nhello\n' -n 6
head -n 1 "$tmp/out" >"$tmp/system"
tail -n 1 "$tmp/out" >"$tmp/kept"
"$bin/bn-run" -q -m "$model" -n 6 --system 'Be brief.' -p hello >"$tmp/wanted"
check '/system sets the system message' same "$tmp/system" "$tmp/wanted"
check 'and /clear keeps it' same "$tmp/kept" "$tmp/wanted"
chat '/regen\nhello\n/regen\n' -n 4
check '/regen before any answer is a warning' has "$tmp/err" 'there is no answer yet'
check 'later it answers again' equal "$(sed -n 1p "$tmp/out")" "$(sed -n 2p "$tmp/out")"
for seed in 5 6; do
    chat 'hello\n' -n 12 --temp 1 --seed "$seed"
    cat "$tmp/out"
done >"$tmp/wanted"
chat 'hello\n/regen\n' -n 12 --temp 1 --seed 5
check 'with the next seed' same "$tmp/out" "$tmp/wanted"
chat 'hello\n/stats\n' -n 4
check '/stats shows the context and the speed' has "$tmp/err" '1 turn, '
for seed in 5 6; do
    chat 'hello\n' -n 12 --temp 1 --seed "$seed"
    cat "$tmp/out"
done >"$tmp/wanted"
chat 'hello\n/retry\n' -n 12 --temp 1 --seed 5
check '/retry is the same' same "$tmp/out" "$tmp/wanted"
chat 'hello\nworld\n/undo\nworld\n/undo\n/undo\n/undo\nhello\n' -n 6
check '/undo removes the last message and its answer' equal "$(sed -n 2p "$tmp/out")" "$(sed -n 3p "$tmp/out")"
check 'down to none' equal "$(sed -n 1p "$tmp/out")" "$(sed -n 4p "$tmp/out")"
check 'then it warns' has "$tmp/err" 'warning: there is no turn yet'
chat '/set temperature 1\n/set seed 5\n/set n-predict 12\n/set top-k 40\nhello\n'
cp "$tmp/out" "$tmp/wanted"
chat 'hello\n' --temp 1 --seed 5 -n 12 --top-k 40
check '/set sets what the options set' same "$tmp/wanted" "$tmp/out"
chat '/set temp 1.5\n/set max_tokens 9\n/set\n/set n_predict -1\n/set\n' -q
check '/set lists the values' has "$tmp/err" 'temperature       1.5 '
check 'by other names, too' has "$tmp/err" 'n_predict         9 '
check 'and -1 is unlimited' has "$tmp/err" 'n_predict         -1 '
chat '/set temperature 101\n' -q
check 'a value out of its range is an error' has "$tmp/err" 'error: temperature is not a number from 0 to 100'
chat '/set seed x\n' -q
check 'so is one that is not a number' has "$tmp/err" "error: seed takes a number (got 'x')"
chat '/set tempreature 1\n' -q
check 'and an unknown name, with a hint' has "$tmp/err" 'did you mean /set temperature?'
check 'with the exit status of a usage error' ended 2
chat '/save\n' -q
check 'a command without its text is an error' has "$tmp/err" 'error: the command /save needs FILE'
chat '/usr/bin/env is a path\n' -q
check 'a line that is not meant as a command gets a hint' has "$tmp/err" 'hint: //usr/bin/env says it to the model'
chat '/?\n' -q
check '/? lists the commands' has "$tmp/err" '/regen'
check 'in at most 80 columns' equal "$(awk 'length > 80' "$tmp/err")" ''
chat 'hello\n/show chat\n' -n 3 -q
check '/show chat prints the conversation' has "$tmp/err" "assistant: $(sed 's/^//' "$tmp/out")"

# ---- saved conversations ----

chat "hello\nworld\n/save $tmp/talk.json\nagain\n" -n 6 --temp 1 --system 'Be brief.'
cp "$tmp/out" "$tmp/wanted"
check '/save reports what it saved' has "$tmp/err" "saved 2 turns to $tmp/talk.json"
chat "/load $tmp/talk.json\nagain\n"
check '/load continues a conversation as if it had not ended' same "$tmp/out" <(tail -n +3 "$tmp/wanted")
check 'and reports it' has "$tmp/err" 'loaded 2 turns'
check 'its messages have the form of the API' equal \
    "$(python3 -c 'import json, sys; print([m["role"] for m in json.load(open(sys.argv[1]))["messages"]])' "$tmp/talk.json")" \
    "['system', 'user', 'assistant', 'user', 'assistant']"
echo precious >"$tmp/precious"
chat "hello\n/save $tmp/precious\n" -n 2
check '/save does not replace a file of another kind' equal "$(cat "$tmp/precious")" precious
check 'but is an error' ended 2
chat "hello\n/save $tmp/talk.json\n" -n 2
check 'a saved conversation is replaced' ended 0
chat "/save $tmp/none/talk.json\n"
check 'a folder that does not exist is an error' ended 3
chat "one\n/load $tmp/none.json\n/stats\n" -n 2
check 'a file that does not exist is one, too' has "$tmp/err" "$tmp/none.json"
check 'and changes nothing' has "$tmp/err" '1 turn, '
HOME=$tmp chat 'hello\n/save ~/home.json  \n' -n 2
check 'a name can begin with the home folder' test -s "$tmp/home.json"
# edit PYTHON: a saved conversation, changed.
edit() { python3 -c "import json, sys
c = json.load(open(sys.argv[1]))
$1
json.dump(c, open(sys.argv[2], 'w'))" "$tmp/talk.json" "$tmp/edited.json"; }
# refused TITLE MESSAGE PYTHON
refused() {
    edit "$3"
    chat "one\n/load $tmp/edited.json\n/stats\n" -n 2
    check "$1 is refused" has "$tmp/err" "$2"
    check 'and leaves the conversation as it was' has "$tmp/err" '1 turn, '
}
refused "another model's conversation" 'a conversation with another model, other.gguf of ' 'c["model"]["name"] = "other.gguf"'
check 'with a hint' has "$tmp/err" 'hint: /load --any FILE continues it with this model'
chat "/load --any $tmp/edited.json\n/stats\n" -n 2
check 'which works' has "$tmp/err" '1 turn, '
refused 'a file with another model of the same name' 'a conversation with another model' 'c["model"]["bytes"] += 1'
refused 'another document' 'its schema is not bn.run/1' 'c["schema"] = "bn.other/1"'
refused 'a conversation without its last answer' 'the last message is not an answer' 'c["messages"].pop()'
refused 'an unknown role' 'message 1 is not one of the role user' 'c["messages"][0]["role"] = "tool"'
refused 'a message without a text' 'message 2 is not one of the role assistant' 'c["messages"][1]["content"] = 3'
refused 'an unknown setting' 'unknown setting "tmp"' 'c["settings"]["tmp"] = 1'
refused 'a setting out of range' 'top_p is not a number' 'c["settings"]["top_p"] = 2'
refused 'an unknown template' 'its template is unknown' 'c["template"] = "x"'

# ---- receipts ----

# The second answer of a conversation, which reuses what the first one evaluated; then one after a turn was dropped.
chat "/receipt\nhello\nworld\n/receipt $tmp/second.json\n" -n 6 --temp 1
check '/receipt before any answer is a warning' has "$tmp/err" 'there is no answer yet'
check 'later it writes one' has "$tmp/err" "wrote $tmp/second.json"
check 'which can be replayed' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/second.json"
sed -E 's/("ids": \[)[[:space:]]*[0-9]+/\14/' "$tmp/second.json" >"$tmp/forged.json"
status 5 'a forged one cannot' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/forged.json"
chat "$words\n$words\nThe king\n" --ctx 40 -n 4 --receipts "$tmp/receipts"
check '--receipts writes one for each answer' equal "$(cd "$tmp/receipts" && echo -- *)" '-- 0.json 1.json 2.json'
check 'the context was full' has "$tmp/err" 'dropped the oldest turn'
for i in 0 1 2; do
    check "receipt $i can be replayed" "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/receipts/$i.json"
done
cd "$tmp" || exit 1
chat 'hello\n/receipt\n/receipt\n' -n 4
check 'without a name it takes one that is free' test -s receipt.json -a -s receipt-2.json
