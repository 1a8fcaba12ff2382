#!/usr/bin/env bash
# Text of models on a terminal: control characters are shown, not executed; files and pipes get the exact bytes.
set -u
cd "$(dirname "$0")/../.." || exit 1
run=$(cd "${OUT:-build/gcc}" && pwd)/bn-run
# shellcheck source=tests/tap.sh
. tests/tap.sh
# The output of a command on a terminal, whose line ends are CR LF.
on_terminal() { script -qec "$1" /dev/null </dev/null | tr -d '\r'; }
controls() { LC_ALL=C grep -qaP '[\x00-\x08\x0b-\x1f\x7f]' "$1"; }
none() { [ -s "$1" ] && ! controls "$1"; }

# A window title, a tab, C1 as UTF-8, DEL, letters of both directions and a mark between them.
printf '\033]0;PWN\a\tA\302\2331m\177B \327\251 \342\200\217z' >"$tmp/text"
printf '\\x1B]0;PWN\\x07\tA\\xC2\\x9B1m\\x7FB \327\251 \342\200\217z' >"$tmp/shown"
ids=$("$run" tokenize --no-bos --ids -f "$tmp/text")
"$run" detokenize --tokens "$ids" >"$tmp/pipe"
check "detokenize writes the exact bytes to a file" cmp "$tmp/text" "$tmp/pipe"
on_terminal "'$run' detokenize --tokens $ids" >"$tmp/terminal"
check "detokenize escapes control characters on a terminal" cmp "$tmp/shown" "$tmp/terminal"

# Random weights generate all kinds of tokens.
model=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
generate="'$run' -q -t 1 -m $model --tokens 1,2 -n 60 --temp 5"
bash -c "$generate" >"$tmp/pipe"
on_terminal "$generate" >"$tmp/terminal"
check "generate writes control characters to a file" controls "$tmp/pipe"
check "generate escapes them on a terminal" none "$tmp/terminal"
chat="'$run' chat -q -t 1 -m $model -n 60 --temp 5"
check "chat writes control characters to a file" controls <(bash -c "echo x | $chat")
on_terminal "echo x | $chat" >"$tmp/terminal"
check "chat escapes them on a terminal" none "$tmp/terminal"
