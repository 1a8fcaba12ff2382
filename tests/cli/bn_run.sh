#!/usr/bin/env bash
# bn-run on the model that it carries: what each command prints, and how each kind of misuse ends. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
# is DESCRIPTION STATUS OUTPUT COMMAND...: the command ends with STATUS and prints OUTPUT (final newlines aside).
is() {
    local what=$1 status=$2 want=$3 got
    shift 3
    count=$((count + 1))
    got=$("$@" 2>"$tmp/err" </dev/null)
    local ended=$?
    if [ "$ended" -eq "$status" ] && [ "$got" = "$want" ]; then
        echo "ok $count - $what"
    else
        echo "not ok $count - $what"
        printf '# status %s, expected %s\n# got      %q\n# expected %q\n' "$ended" "$status" "$got" "$want"
        sed 's/^/# /' "$tmp/err"
    fi
}
run() { "$bin/bn-run" -q "$@"; }
piped() { printf '%b' "$1" | "$bin/bn-run" "${@:2}" -q; }
threads_of() { sed -n 's/.*"threads": \([0-9]*\).*/\1/p' "$1" | tail -n 1; }

text=' O, I am not sure of'
is 'greedy' 0 "$text" run -p ROMEO: -n 7
is 'a stop text ends it and is not shown' 0 ' O, I am' run -p ROMEO: -n 30 --stop ' not'
is 'a stop text over several tokens' 0 ' O, I am' run -p ROMEO: -n 30 --stop ' not sure of'
is 'a stop token, which is not shown' 0 ' O' run -p ROMEO: -n 30 --stop-id 11
is 'text from standard input' 0 "$text" piped 'ROMEO:' -f - -n 7
is 'tokens in place of a text' 0 "$text" run --tokens 845,25 -n 7
is 'the same seed, the same tokens' 0 "$(run -p ROMEO: -n 20 --temp 1 --seed 9)" run -p ROMEO: -n 20 --temp 1 --seed 9 --isa ref -t 1
is 'top-k 1 is greedy' 0 "$text" run -p ROMEO: -n 7 --temp 1 --top-k 1
is 'the context ends it' 0 " O, I am" run -p ROMEO: -n 30 --ctx 5
many=$(run -p ROMEO: -n 70 --json --repack never | grep -E '"(ids|chain)"')
is 'packed weights and a screened head: the same tokens, the same chain' 0 "$many" \
    bash -c "'$bin/bn-run' -q -p ROMEO: -n 70 --json --repack always --receipt '$tmp/packed.json' | grep -E '\"(ids|chain)\"'"
is 'and a receipt that says so and replays' 0 'pass  head-work             70 heads screened' \
    bash -c "'$bin/bn-verify-receipt' -v --replay '$tmp/packed.json' | grep -oE 'pass  head-work +70 heads screened'; exit \${PIPESTATUS[0]}"
is 'ids' 0 845,25 run tokenize --ids -p ROMEO:
is 'and back' 0 ROMEO: run detokenize --tokens 845,25
is 'lines of JSON, an empty one too' 0 $'[64]\n[]\n[65]' piped '"a"\n\n"b"\n' tokenize --jsonl
is 'a line that is no JSON string' 4 '' piped '{}\n' tokenize --jsonl
digest=$(run logits --tokens 845,25,533,11 --all --digest --isa ref -t 1 --batch 1)
is 'one digest of logits for every way of computing them' 0 "$digest" run logits --tokens 845,25,533,11 --all --digest
is 'chat' 0 $' of the\n of the' piped 'hello\n/clear\nhello\n/exit\nhello\n' chat -n 2

: >"$tmp/empty"
is 'an empty file is a prompt without tokens' 2 '' run -f "$tmp/empty"
is 'and nothing to score' 1 '' run score -f "$tmp/empty"
is 'no text at all' 2 '' run -n 3
is 'text and tokens' 2 '' run -p x --tokens 1
is 'tokens and a system message' 2 '' run --tokens 1 --system x
is 'a token outside the vocabulary' 2 '' run --tokens 2048
is 'a stop text that is not UTF-8' 2 '' run -p x --stop $'\x87'
is 'a context over the model'"'"'s' 4 '' run -p x --ctx 99999
is 'a prompt over the context' 4 '' run -p 'ROMEO: ROMEO:' --ctx 2
is 'an instruction set of another machine' 9 '' run -p x --isa "$([ "$(uname -m)" = aarch64 ] && echo avx2 || echo neon)"
is 'a receipt in a folder that is not there, before anything runs' 3 '' run -p x --receipt "$tmp/none/r.json"
is 'a model that is not there' 3 '' run -m "$tmp/none.gguf" -p x

: >"$tmp/target"
ln -s target "$tmp/link"
run -p x -n 1 --receipt "$tmp/link" >/dev/null
is 'a link stays a link' 0 target readlink "$tmp/link"
is 'and its target has the receipt' 0 '' "$bin/bn-verify-receipt" -q "$tmp/target"
is 'a device is written to, not replaced' 0 '' run logits -p x -o /dev/null
is 'it still is one' 0 'character special file' stat -c %F /dev/null
cpu=$(taskset -cp $$ | sed -E 's/.*: *([0-9]+).*/\1/')
is 'more threads than cores are not used' 0 "$text" taskset -c "$cpu" "$bin/bn-run" -p ROMEO: -n 7 -t 8 --receipt "$tmp/one.json"
cp "$tmp/err" "$tmp/warned"
is 'a warning says so' 0 'bn-run: warning: 8 threads asked for, but this process may use 1 core: using 1 thread' head -n 1 "$tmp/warned"
is 'a receipt says how many threads there were' 0 1 threads_of "$tmp/one.json"
deny=$bin/tests/sampled/deny_perf
if "$deny" EPERM clone3 true; then
    is 'threads that the system refuses are done without' 0 "$text" "$deny" EPERM clone3 "$bin/bn-run" -q -p ROMEO: -n 7 -t 2
fi
echo '{"require": ["replay"]}' >"$tmp/policy"
is 'a policy may demand the replay' 0 '' "$bin/bn-verify-receipt" -q --policy "$tmp/policy" --replay "$tmp/one.json"
is 'and it is missed' 1 'FAIL  replay                required by the policy: not asked for (--replay)' \
    bash -c "'$bin/bn-verify-receipt' -q --policy '$tmp/policy' '$tmp/one.json' | grep '^FAIL'; exit \${PIPESTATUS[0]}"
