#!/usr/bin/env bash
# Think blocks, on a small model with a few tokens renamed to the marks of ChatML, so that its answers have a think block:
# the prompts of both Qwen forms, --think, /think, the history of a conversation, the terminal, receipts. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if ! command -v python3 >/dev/null; then
    skip "think blocks" "python3 is not installed"
    exit 0
fi
marks=('2041=<|im_start|>' '2042=<|im_end|>' '2043=<|endoftext|>')
# model NAME TEMPLATE EDITS...
model() {
    python3 tests/cli/edit_vocabulary.py fixtures/shakespeare-5m-i2_s.gguf "$tmp/$1.gguf" qwen2 "$2" "${marks[@]}" "${@:3}"
}
has() { grep -qF -- "$2" "$1" || { echo "no '$2' in:"; cat "$1"; return 1; }; }
hasnt() { ! grep -F -- "$2" "$1"; }
# run NAME [COMMAND] ARGUMENTS...
run() {
    case $2 in
    tokenize | chat) "$bin/bn-run" "$2" -q -m "$tmp/$1.gguf" "${@:3}" ;;
    *) "$bin/bn-run" generate -q -m "$tmp/$1.gguf" "${@:2}" ;;
    esac
}
# prompt_ids NAME ARGUMENTS...: those of a run. text_ids NAME TEXT: those of a text with its special tokens.
prompt_ids() { run "$@" -n 1 --json | grep -o '"prompt_ids": *\[[^]]*' | tr -cd '0-9,'; }
text_ids() { run "$1" tokenize --special --no-bos --ids -p "$2"; }
# turn ROLE TEXT: with the line feed after it.
turn() { printf '<|im_start|>%s\n%s<|im_end|>\n.' "$1" "$2"; }
hello=$(turn user hello)
hello=${hello%.}
open='<|im_start|>assistant
'

# What both templates have in common, and what tells them apart.
qwen3="{{ '<|im_start|>' }}{% if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
qwen35="$qwen3{% else %}{{- '<think>\\n' }}"

# ---- the form whose prompt opens the block ----

# The greedy answer to hello: token 288 becomes its closing tag.
model qwen35 "$qwen35" '2044=<think>' '288=</think>'
check 'the prompt ends with the open tag' equal "$(prompt_ids qwen35 -p hello)" "$(text_ids qwen35 "$hello$open<think>
")"
check 'without thinking it ends with an empty block' equal "$(prompt_ids qwen35 -p hello --think off)" "$(text_ids qwen35 "$hello$open<think>

</think>

")"
run qwen35 -p hello -n 32 --json >"$tmp/on.json"
run qwen35 -p hello -n 32 --json --think off >"$tmp/off.json"
check 'thinking is on by default' has "$tmp/on.json" '"think": true'
check '--think off is off' has "$tmp/off.json" '"think": false'
check 'the end of the turn stops' has "$tmp/on.json" '"stop": "end"'
check 'after <|im_end|>' equal "$(grep -o '"ids": *\[[^]]*' "$tmp/on.json" | tr -d ' ' | grep -c ',2042$')" 1
run qwen35 -p hello -n 32 >"$tmp/piped"
check 'in a pipe the block is text' has "$tmp/piped" '</think>'
check 'without escape sequences' hasnt "$tmp/piped" $'\e'
model small "$qwen3{% if enable_thinking is defined and enable_thinking is true %}{{- '<think>\\n' }}" '2044=<think>' '288=</think>'
run small -p hello -n 1 --json >"$tmp/small.json"
check 'a template that thinks on request does not by default' has "$tmp/small.json" '"think": false'
check 'and does with --think on' equal "$(prompt_ids small -p hello --think on)" "$(prompt_ids qwen35 -p hello)"

# ---- the form in which the model opens the block ----

model qwen3 "$qwen3" '2044=<think>' '288=</think>'
check 'nothing follows the role' equal "$(prompt_ids qwen3 -p hello)" "$(text_ids qwen3 "$hello$open")"
check 'without thinking the block is empty' equal "$(prompt_ids qwen3 -p hello --think off)" "$(prompt_ids qwen35 -p hello --think off)"
run qwen3 -p hello --json -n 1 >"$tmp/on.json"
check 'thinking is on by default there too' has "$tmp/on.json" '"think": true'
model plain "{{ '<|im_start|>' }}"
check 'ChatML without a switch has no block' equal "$(prompt_ids plain -p hello)" "$(text_ids plain "$hello$open")"
status 2 'and cannot be told to think' run plain -p hello -n 1 --think on
check 'but not to think' run plain -p hello -n 1 --think off

# ---- conversations ----

thoughts=$(sed 's/<\/think>.*//' "$tmp/piped")
said=$(sed 's/.*<\/think>//' "$tmp/piped")
check 'the answer has both' test -n "$thoughts" -a -n "$said"
second() { tail -n +2 "$1"; }
# follow N OPENING: the answer of N tokens to the conversation in $history.
history="$hello$open$said<|im_end|>
$(turn user king)"
history=${history%.}
follow() { run qwen35 --tokens "$(text_ids qwen35 "$history$open$2")" -n "$1"; }
printf 'hello\nking\n' | run qwen35 chat -n 16 >"$tmp/out"
check 'the first answer is that of generate' equal "$(sed -n 1p "$tmp/out")" "$(cat "$tmp/piped")"
printf 'hello\n/think off\nking\n' | run qwen35 chat -n 16 >"$tmp/off"
check 'the history has no thoughts' equal "$(second "$tmp/out")" "$(follow 16 '<think>
')"
check '/think off puts an empty block in' equal "$(second "$tmp/off")" "$(follow 16 '<think>

</think>

')"
printf 'hello\nking\n' | run qwen35 chat -n 3 >"$tmp/cut"
history="$hello$open<|im_end|>
$(turn user king)"
history=${history%.}
check 'thoughts that were cut off are dropped as well' equal "$(second "$tmp/cut")" "$(follow 3 '<think>
')"
printf '/think maybe\n' | "$bin/bn-run" chat -q -m "$tmp/qwen35.gguf" 2>"$tmp/err"
check '/think takes on or off' has "$tmp/err" 'the command /think takes on or off'

# ---- on a terminal ----

# shown ARGUMENTS...: what a terminal gets.
shown() { : | TERM=xterm "$bin/tests/pty/pty" env "$@" | tr -d '\r' >"$tmp/shown"; }
shown -u NO_COLOR "$bin/bn-run" -q -m "$tmp/qwen35.gguf" -p hello -n 32
check 'the block is dimmed' has "$tmp/shown" $'\e[2m'"$thoughts</think>"$'\e[0m'"$said"
shown NO_COLOR=1 "$bin/bn-run" -q -m "$tmp/qwen35.gguf" -p hello -n 32
check 'but not with NO_COLOR' hasnt "$tmp/shown" $'\e[2m'
shown -u NO_COLOR "$bin/bn-run" -q -m "$tmp/qwen35.gguf" -p hello -n 3
check 'a block that is cut off ends plain' has "$tmp/shown" $'\e[0m'
shown -u NO_COLOR "$bin/bn-run" -q -m "$tmp/qwen35.gguf" -p hello -n 32 --think off
check 'an answer without a block is plain' hasnt "$tmp/shown" $'\e[2m'
# The first token of the answer becomes the opening tag.
first=$(run qwen3 -p hello -n 4 --json | grep -o '"ids": *\[[^]]*' | tr -cd '0-9,' | cut -d, -f1)
third=$(run qwen3 -p hello -n 4 --json | grep -o '"ids": *\[[^]]*' | tr -cd '0-9,' | cut -d, -f3)
model opens "$qwen3" "$first=<think>" "$third=</think>"
shown -u NO_COLOR "$bin/bn-run" -q -m "$tmp/opens.gguf" -p hello -n 4
check 'a block that the model opens is dimmed after its tag' has "$tmp/shown" $'<think>\e[2m'
check 'to its end' has "$tmp/shown" $'</think>\e[0m'
# The first token is one character of two bytes.
model accent "$qwen3" "$first=é"
shown -u NO_COLOR "$bin/bn-run" -q -m "$tmp/accent.gguf" -p hello -n 4
check 'a character at the beginning of an answer is not split' has "$tmp/shown" 'é'

# ---- receipts ----

run qwen35 -p hello -n 4 --think off --receipt "$tmp/r.json" >/dev/null
check 'a receipt has the choice' has "$tmp/r.json" '"think":'
check 'and the template' has "$tmp/r.json" '"qwen35-no-think"'
check 'and replays' "$bin/bn-verify-receipt" -q --replay --model "$tmp/qwen35.gguf" "$tmp/r.json"
"$bin/bn-run" -q -p x -n 1 --receipt "$tmp/raw.json" >/dev/null
check 'a template without thinking leaves it out' hasnt "$tmp/raw.json" '"think"'
