#!/usr/bin/env bash
# bn-run chat: answers of any length, a full context, commands; and on a terminal the line editor, Ctrl-C and Ctrl-D. TAP on
# standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
pty=$bin/tests/pty/pty
# chat INPUT ARGUMENTS...: leaves $status, $tmp/out and $tmp/err.
chat() {
    printf '%b' "$1" | "$bin/bn-run" chat "${@:2}" >"$tmp/out" 2>"$tmp/err"
    status=$?
}
# typed SCRIPT [-o] ARGUMENTS...: the output of the terminal goes to $tmp/out, with line ends as in files.
typed() {
    local script=$1 option=()
    shift
    [ "${1:-}" != -o ] || { option=(-o); shift; }
    printf '%s\n' "$script" | "$pty" "${option[@]}" "$bin/bn-run" chat "$@" >"$tmp/raw" 2>"$tmp/err"
    status=$?
    tr -d '\r' <"$tmp/raw" >"$tmp/out"
}
ended() { [ "$status" -eq "$1" ] || { echo "status $status, not $1"; cat "$tmp/out" "$tmp/err"; return 1; }; }
printed() { equal "$(cat "$tmp/out")" "$1"; }
has() { grep -qF -- "$2" "$1" || { echo "no '$2' in:"; cat "$1"; return 1; }; }
hasnt() { ! grep -F -- "$2" "$1"; }
same() { [ "$(cat "$1")" = "$(cat "$2")" ] || diff "$1" "$2"; }

# ---- answers ----

chat 'hello\n'
check 'an answer ends at the end of its paragraph' printed "$("$bin/bn-run" -q -p hello -n 60 | sed '/^$/q')"
chat 'hello\n' --template instruct --ctx 300
check 'without an end of the turn the context ends it' has "$tmp/err" 'the answer is cut: the context of 300 tokens is full'
check 'which is longer than the limit of generate' test "$(wc -c <"$tmp/out")" -gt 300
chat 'hello\n' -n 3
check '-n limits it' printed "$("$bin/bn-run" -q -p hello -n 3)"
chat 'hello\n' -n -1
check '-n -1 does not' printed "$("$bin/bn-run" -q -p hello -n 60 | sed '/^$/q')"
chat 'hello\n' -n -2
check 'other negative limits are refused' has "$tmp/err" '-n must be -1 or between 1 and'
chat '' -p hello -n 3
check '-p is the first message' printed "$("$bin/bn-run" -q -p hello -n 3)"

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
"$bin/bn-run" -q -n 1 -p "$words
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

# ---- commands ----

chat '/foo\n/bye now\n/cler\n' -q
check 'an unknown command is an error' has "$tmp/err" "error: unknown command '/foo'; /help lists them"
check 'and not a message' printed ''
check 'a misspelt one gets a hint' has "$tmp/err" 'did you mean /clear?'
check 'a command without a text gets none' has "$tmp/err" 'the command /bye takes no text'
check 'in a pipe the exit status is that of a usage error' ended 2
chat '//foo\n' -n 5
check 'two slashes send a line that begins with one' printed "$("$bin/bn-run" -q -p /foo -n 5)"
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
"$bin/bn-run" -q -n 6 --system 'Be brief.' -p hello >"$tmp/wanted"
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

# ---- on a terminal ----

typed 'expect Ctrl-D ends
expect > 
send \x04'
check 'Ctrl-D at the prompt ends with 0' ended 0
check 'the greeting names the model' has "$tmp/out" 'shakespeare-5m-i2_s.gguf, template raw'
check 'and says what a base model does' has "$tmp/out" 'this is a base model: it continues text'
check 'the prompt of the shell begins on a line of its own' equal "$(tail -c 1 "$tmp/out" | od -An -c | tr -d ' ')" '\n'
typed 'send \x04'
check 'one that is typed too early counts too' ended 0
typed 'expect Ctrl-D ends
expect > 
send \x03'
check 'Ctrl-C at the prompt ends with 130' ended 130
check 'on a line of its own too' equal "$(tail -c 1 "$tmp/out" | od -An -c | tr -d ' ')" '\n'

chat 'ROMEO:\nROMEO:\n' -n 7
cp "$tmp/out" "$tmp/wanted"
# A typing error, corrected with the left arrow; then the previous line, by the up arrow.
typed 'expect Ctrl-D ends
expect > 
send ROMO:\e[D\e[DE
expect E
send \n
expect \n> 
send \e[A
expect ROMEO:
send \n
expect > 
send /bye\n' -o -n 7
check 'lines are edited' ended 0
sed '1,/^-- output$/d' "$tmp/out" >"$tmp/answers"
check 'and recalled' same "$tmp/answers" "$tmp/wanted"

# No process reads the pipe of the answer, so the answer cannot have ended when Ctrl-C is typed.
typed 'expect Ctrl-D ends
expect > 
send hello\n
begun
send \x03
drain
expect > 
send /stats\n
expect 1 turn
expect > 
send /bye\n' -o --template instruct
check 'Ctrl-C stops an answer, and the program continues' ended 0
sed '1,/^-- output$/d' "$tmp/out" >"$tmp/answers"
chat 'hello\n' --template instruct
check 'the answer is shorter' test "$(wc -c <"$tmp/answers")" -lt "$(wc -c <"$tmp/out")"
check 'nothing of it is lost' equal "$(tr -d '\n' <"$tmp/answers")" \
    "$(head -c "$(($(wc -c <"$tmp/answers") + 9))" "$tmp/out" | tr -d '\n' | head -c "$(tr -d '\n' <"$tmp/answers" | wc -c)")"
typed 'expect Ctrl-D ends
expect > 
send hello\n
begun
send \x03
drain
expect > 
send \x03' -o --template instruct
check 'a second Ctrl-C, at the prompt, ends with 130' ended 130
