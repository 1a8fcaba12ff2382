#!/usr/bin/env bash
# bn-run chat on a terminal: the line editor, its history, messages of several lines, paste, completion, Ctrl-C and Ctrl-D.
# TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
pty=$bin/tests/pty/pty
export XDG_STATE_HOME=$tmp/state TERM=xterm
unset NO_COLOR
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
    printf '%s\n' "$script" | env -C "$tmp" "$pty" "${option[@]}" "$bin/bn-run" chat "$@" >"$tmp/raw" 2>"$tmp/err"
    status=$?
    tr -d '\r' <"$tmp/raw" >"$tmp/out"
}
ended() { [ "$status" -eq "$1" ] || { echo "status $status, not $1"; cat "$tmp/out" "$tmp/err"; return 1; }; }
has() { grep -qF -- "$2" "$1" || { echo "no '$2' in:"; cat "$1"; return 1; }; }
hasnt() { ! grep -F -- "$2" "$1"; }
lacks_escape() { ! grep -q $'\e' "$1"; }
same() { [ "$(cat "$1")" = "$(cat "$2")" ] || diff "$1" "$2"; }

# What the program writes before it reads a line: bracketed paste on, the prompt.
at='expect \e[?2004h> '

# ---- the ends ----

typed 'expect Ctrl-D ends
expect > 
send \x04'
check 'Ctrl-D at the prompt ends with 0' ended 0
check 'the greeting names the model' has "$tmp/out" 'built-in-i2_s.gguf, template raw'
check 'and says what a base model does' has "$tmp/out" 'this is a base model: it continues text'
check 'and with what its answers are made' has "$tmp/out" 'answers are made with -n 128 --temp 0.7'
check 'the prompt of the shell begins on a line of its own' equal "$(tail -c 1 "$tmp/out" | od -An -c | tr -d ' ')" '\n'
typed 'send \x04'
check 'one that is typed too early counts too' ended 0
typed "$at
send \x03
expect press Ctrl-C again, or Ctrl-D, to leave
$at
send \x03"
check 'Ctrl-C at the prompt ends with 130, when it is pressed twice' ended 130
check 'on a line of its own too' equal "$(tail -c 1 "$tmp/out" | od -An -c | tr -d ' ')" '\n'
typed "$at
send \x03\x03"
check 'also when it is pressed twice at once' ended 130
typed "$at
send nonsense
expect nonsense
send \x03
expect ^C
$at
send more
expect more
send \x03
expect ^C
$at
send /stats\n
expect 0 turns
$at
send \x03
expect press Ctrl-C again
$at
send /bye\n"
check 'on a line with text it clears the line' ended 0
check 'and none of it is said' hasnt "$tmp/out" 'tok/s'

# ---- lines ----

chat 'ROMEO:\nROMEO:\n' -n 7
cp "$tmp/out" "$tmp/wanted"
# A typing error, corrected with the left arrow; then the previous line, by the up arrow.
typed "$at
send ROMO:\e[D\e[DE
expect E
send \n
$at
send \e[A
expect ROMEO:
send \n
$at
send /bye\n" -o -n 7
check 'lines are edited' ended 0
sed '1,/^-- output$/d' "$tmp/out" >"$tmp/answers"
check 'and recalled' same "$tmp/answers" "$tmp/wanted"
check 'a line of statistics follows each answer' equal "$(grep -c '^.*\[prompt .*then 7 tokens .*, cut; context' "$tmp/out")" 2
typed "$at
send ROMEO:\n
$at
send /set stats off\n
$at
send JULIET:\n
$at
send /bye\n" -n 7
check '/set stats off turns it off' equal "$(grep -c ', cut; context' "$tmp/out")" 1
typed "$at
send \e[A\e[A
expect JULIET:
send \x03
$at
send /bye\n" -n 7
check 'the history outlives the program' ended 0
check 'its file is readable by its owner only' equal "$(stat -c %a "$tmp/state/bn/chat-history")" 600
check 'and has each message once' equal "$(grep -c JULIET "$tmp/state/bn/chat-history")" 1
chmod 644 "$tmp/state/bn/chat-history"
cp "$tmp/state/bn/chat-history" "$tmp/history"
typed "$at
send \e[A
send secret\n
$at
send /bye\n" -n 7 --no-history
check '--no-history neither reads it' hasnt "$tmp/out" /bye.secret
check 'nor writes it' cmp "$tmp/history" "$tmp/state/bn/chat-history"
typed "$at
send open\n
$at
send /bye\n" -n 7
check 'a file that others can read is closed to them' equal "$(stat -c %a "$tmp/state/bn/chat-history")" 600
{ head -n 1 "$tmp/state/bn/chat-history"; printf 'line\\040%d\n' {0..2499}; } >"$tmp/long"
cp "$tmp/long" "$tmp/state/bn/chat-history"
typed "$at
send /bye\n"
check 'a long history loses its beginning' equal "$(sed -n 2p "$tmp/state/bn/chat-history")" 'line\0401501'
check 'and keeps its end' equal "$(tail -n 2 "$tmp/state/bn/chat-history" | head -n 1)" 'line\0402499'
echo 'no history' >"$tmp/state/bn/chat-history"
typed "$at
send /bye\n"
check 'a damaged history is not an error' ended 0
rm "$tmp/state/bn/chat-history"
mkdir "$tmp/state/bn/chat-history"
typed "$at
send a\n
$at
send b\n
$at
send /bye\n" -n 1
check 'a history that cannot be written is one warning' equal "$(grep -c 'warning:.*--no-history turns' "$tmp/out")" 1
rmdir "$tmp/state/bn/chat-history"

# ---- messages of several lines ----

# said TITLE SCRIPT: what is typed is the message "one\ntwo".
chat '' -p 'one
two' -n 7
cp "$tmp/out" "$tmp/wanted"
said() {
    typed "$at
$2
send \n
$at
send /bye\n" -o -n 7
    sed '1,/^-- output$/d' "$tmp/out" >"$tmp/answers"
    check "$1" same "$tmp/answers" "$tmp/wanted"
}
said 'Alt-Enter begins a new line' 'send one\e\r
expect \n
send two'
said 'so does a backslash at the end of a line' 'send one\\\n
expect ... 
send two'
said 'a block is one message' 'send """one\n
expect ... 
send two"""'
said 'with its marks on lines of their own, too' 'send """\n
expect ... 
send one\n
expect ... 
send two\n
expect ... 
send """'
said 'what is pasted is not sent by its line ends' 'send \e[200~one\rtwo\e[201~
expect two'
said 'and can be edited' 'send \e[200~one\rtw\x1b\x07\e[201~
expect tw
send o'
long=$(printf 'word%.0s ' {1..400})
typed "$at
send \e[200~$long\e[201~\e[A\e[B
expect word
send \x03
$at
send /bye\n" -n 1
check 'a long line is not lost or damaged by the arrows' ended 0
typed "$at
send \"\"\"one\n
expect ... 
send \x03
expect ^C
$at
send /stats\n
expect 0 turns
$at
send /bye\n"
check 'Ctrl-C leaves a block' ended 0

# ---- commands ----

typed "$at
send /he\t
expect lp
send \n
expect /regen
$at
send /s\t
expect /system
expect /show
send e\t\x08 te\t
expect mperature
send 0.5\n
$at
send /set\n
expect temperature       0.5
$at
send /save $tmp/sta\t
expect te/
send \x03
$at
send /bye\n"
check 'Tab completes commands, settings and names of files' ended 0
typed "$at
send /cler\n
expect did you mean /clear?
$at
send /bye\n"
check 'an unknown command does not end the program' ended 0

# ---- Ctrl-C during an answer ----

# No process reads the pipe of the answer, so the answer cannot have ended when Ctrl-C is typed.
typed 'expect Ctrl-D ends
expect > 
send hello\n
begun
send \x03
drain
expect stopped; context
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
typed "expect Ctrl-D ends
expect > 
send hello\n
begun
send \x03
drain
expect stopped; context
expect > 
send /receipt $tmp/stopped.json\n
expect wrote
expect > 
send /bye\n" -o --template instruct
check 'a stopped answer has a receipt' "$bin/bn-verify-receipt" --replay "$tmp/stopped.json"

# ---- other terminals ----

typed "size 5 20
$at
send one two three four five six seven
expect seven
size 20 60
send  eight
expect eight
send \n
$at
send /bye\n" -o -n 7
sed '1,/^-- output$/d' "$tmp/out" >"$tmp/answers"
chat '' -p 'one two three four five six seven eight' -n 7
check 'a window that changes its size changes no message' same "$tmp/answers" "$tmp/out"
# What a terminal of 24 columns shows, without the bytes that move a word: "word ESC[nG ESC[K newline word".
lines() { sed -z -E 's/[^\n ]*\x1b\[[0-9]+G\x1b\[K\n/\n/g; s/\x1b\[\?2004l//' "$tmp/out" | sed '1,/one two three/d; /^\[prompt/,$d'; }
widest() { awk '{ if (length($0) > n) n = length($0) } END { print n }' "$1"; }
NO_COLOR=1 typed 'size 24 24
expect Ctrl-D ends
expect > 
send one two three\n
expect tok/s
send /bye\n' -n 90 --temp 0.5 --seed 7
lines >"$tmp/lines"
chat '' -p 'one two three' -n 90 --temp 0.5 --seed 7
check 'an answer is wrapped between words' equal "$(tr -s ' ' '\n' <"$tmp/lines" | grep .)" "$(tr -s ' ' '\n' <"$tmp/out" | grep .)"
check 'no line is wider than the terminal' test "$(widest "$tmp/lines")" -le 24
check 'a pipe gets lines as they are' test "$(widest "$tmp/out")" -gt 24
TERM=dumb typed 'expect Ctrl-D ends
expect > 
send ROMEO:\n
expect > 
send /bye\n' -n 7
check 'TERM=dumb works' ended 0
check 'without escape sequences' lacks_escape "$tmp/out"
NO_COLOR=1 typed "$at
send ROMEO:\n
$at
send /bye\n" -n 7
check 'NO_COLOR has no colours' hasnt "$tmp/out" $'\e[2m'
