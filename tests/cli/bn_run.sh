#!/usr/bin/env bash
# bn-run with small trained models: the output of each command, and the error of each kind of misuse. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# is DESCRIPTION STATUS OUTPUT COMMAND...: the command ends with STATUS and prints OUTPUT (final newlines aside).
is() {
    local what=$1 status=$2 want=$3 got ended
    shift 3
    got=$("$@" 2>"$tmp/err" </dev/null)
    ended=$?
    if [ "$ended" -eq "$status" ] && [ "$got" = "$want" ]; then ok "$what"; else
        not_ok "$what" "status $ended, expected $status" "$(printf '\ngot      %q\nexpected %q\n' "$got" "$want")" "$(cat "$tmp/err")"
    fi
}
# tells DESCRIPTION STATUS TEXT COMMAND...: the command ends with STATUS, and its standard error contains TEXT.
tells() {
    local what=$1 status=$2 want=$3
    shift 3
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    local ended=$?
    if [ "$ended" -eq "$status" ] && grep -qF -- "$want" "$tmp/err"; then ok "$what"; else
        not_ok "$what" "status $ended, not $status; or no $want in:" "$(cat "$tmp/err")"
    fi
}
# The built-in model may be trained again; the words that are expected here are of a model that stays as it is.
model=fixtures/shakespeare-5m-i2_s.gguf
bn_run() { "$bin/bn-run" "$@"; }
run() { "$bin/bn-run" "$@" -q -m "$model"; }
piped() { printf '%b' "$1" | "$bin/bn-run" "${@:2}" -q -m "$model"; }
threads_of() { sed -n 's/.*"threads": \([0-9]*\).*/\1/p' "$1" | tail -n 1; }

text=' O, I am not sure of'
is 'greedy' 0 "$text" run -p ROMEO: -n 7
is 'a stop text ends it and is not shown' 0 ' O, I am' run -p ROMEO: -n 30 --stop ' not'
is 'a stop text over several tokens' 0 ' O, I am' run -p ROMEO: -n 30 --stop ' not sure of'
is 'a stop token, which is not shown' 0 ' O' run -p ROMEO: -n 30 --stop-id 11
is 'text from standard input' 0 "$text" piped 'ROMEO:' -f - -n 7
is 'one final newline of a file is dropped, so that it gives what -p gives' 0 "$text" piped 'ROMEO:\n' -f - -n 7
is 'only one' 0 "$(run -p $'ROMEO:\n' -n 7)" piped 'ROMEO:\n\n' -f - -n 7
is 'a text that is piped in needs no option' 0 "$text" piped 'ROMEO:\n' -n 7
is 'tokenize takes every byte of a file' 0 845,268 piped 'ROMEO:\n' tokenize --ids -f -
is 'and of piped input' 0 845,268 piped 'ROMEO:\n' tokenize --ids
is 'score reads piped input' 0 'tokens 2, scored 1' bash -c "printf ROMEO: | '$bin/bn-run' score -q | head -n 1"
is 'a prompt without an option' 0 "$text" run -n 7 ROMEO:
is 'as the first word' 0 "$text" "$bin/bn-run" ROMEO: -n 7 -q -m "$model"
is 'without a model it is the built-in one' 0 "$(bn_run -m fixtures/built-in-i2_s.gguf -n 7 ROMEO: 2>/dev/null)" bn_run -n 7 ROMEO:
is 'a single word after the name of the command' 0 "$(run -p Hello -n 3)" "$bin/bn-run" generate Hello -n 3 -q -m "$model"
tells 'a misspelt command is not a prompt' 2 'hint: did you mean tokenize?' bn_run tokenise
is 'a limit of -1 ends with the context' 0 'prompt 2 tokens, stopped: context' \
    bash -c "'$bin/bn-run' -m '$model' ROMEO: -n -1 --ctx 60 2>&1 >/dev/null | sed -E 's/.*(prompt 2 tokens).*(stopped: .*)/\\1, \\2/'"
is 'the same text as with a limit' 0 "$(run ROMEO: -n 900 --ctx 60)" run ROMEO: -n -1 --ctx 60
tells 'other negative limits are refused with the range' 2 'error: -n must be -1 or between 1 and 16777216 (got -5)' bn_run -p x -n -5
tells 'a number in another form too' 2 "error: --n-predict must be -1 or a whole number between 1 and 16777216 (got '1e3')" bn_run -p x --n-predict=1e3
tells 'a stop token outside the vocabulary' 2 '--stop-id has token 99999, outside the vocabulary' run -p x --stop-id 99999
tells 'and one of twenty digits' 2 '(got 99999999999999999999)' bn_run -p x -n 99999999999999999999
tells 'one token has no rate' 0 'prompt 1 token, then 1 token, ' bn_run --tokens 64 -n 1 -t 1
tells 'one thread is not plural' 0 ', 1 thread; stopped: length' bn_run --tokens 64 -n 1 -t 1
tells '-v names the model' 0 'bn-run: model built-in-i2_s.gguf: bitnet-b1.58, ' bn_run -v -p x -n 1
tells '-v shows the session' 0 'bn-run: 1 thread, instruction set ref, context of 1024 tokens, batches of 128, opened in ' bn_run -v -p x -n 1 -t 1 --isa ref
tells '-v shows the template and the sampling' 0 'bn-run: template raw; temperature 0.5, top-k 3, ' bn_run -v -p x -n 1 --temp 0.5 --top-k 3
is '-v leaves details to -vv' 0 '' bash -c "'$bin/bn-run' -v -p x -n 1 2>&1 >/dev/null | grep -E 'tensors:|call'; true"
tells '-vv shows the kernels' 0 'ternary_gemv_ref' bn_run -vv -p x -n 2 --isa ref
tells '-v works in tokenize too' 0 'bn-run: model built-in' bn_run tokenize -v -p x
is 'tokens in place of a text' 0 "$text" run --tokens 845,25 -n 7
is 'the same seed, the same tokens' 0 "$(run -p ROMEO: -n 20 --temp 1 --seed 9)" run -p ROMEO: -n 20 --temp 1 --seed 9 --isa ref -t 1
is 'top-k 1 is greedy' 0 "$text" run -p ROMEO: -n 7 --temp 1 --top-k 1
is 'a bias of -100 forbids a token' 0 $' O that\nsunder the' run -p ROMEO: -n 7 --logit-bias 11=-100
is 'one of 100 forces it' 0 ',,,' run -p ROMEO: -n 3 --logit-bias 4=1.5 --logit-bias 11=100
is 'a penalty ends a repetition' 0 "that's the" bash -c "'$bin/bn-run' -q -m '$model' -p ROMEO: -n 30 --frequency-penalty 2 | tail -c 11"
is 'a negative one makes it' 0 ' O, O, O, O, O,' run -p ROMEO: -n 10 --presence-penalty -2
is 'a prompt does not count' 0 ' king' run -p 'the king, the king, the' -n 1 --presence-penalty 2 --frequency-penalty 2
changes=(-p ROMEO: -n 40 --temp 0.7 --presence-penalty 0.4 --frequency-penalty 0.3 --logit-bias '11=-4' --json)
many=$(run "${changes[@]}" --isa ref -t 1 | grep -E '"(ids|chain)"')
for how in '-t 2' '-t 1 --repack always' '--speculate ngram --draft-always -t 2'; do
    # shellcheck disable=SC2086 # words
    is "penalties and biases with $how: the same tokens, the same chain" 0 "$many" \
        bash -c '"$@" | grep -E "\"(ids|chain)\""' - "$bin/bn-run" -q -m "$model" "${changes[@]}" $how
done
tells 'a penalty out of range' 2 '--presence-penalty must be between -2 and 2 (got 2.5)' bn_run -p x --presence-penalty 2.5
tells 'the other one' 2 '--frequency-penalty must be between -2 and 2 (got -3)' bn_run -p x --frequency-penalty -3
for bias in 5 5= =5 5=x -5=1 5:1 99999999999=1; do
    tells "the bias $bias" 2 "error: --logit-bias: '$bias' is not a token id, = and a number" bn_run -p x --logit-bias="$bias"
done
tells 'a bias out of range' 2 'error: logit_bias has 101, not in -100..100' bn_run -p x --logit-bias 5=101
tells 'of no token' 2 'error: logit_bias has token 99999999, outside' bn_run -p x --logit-bias 99999999=1
tells 'two of one token, in a chat' 2 'error: logit_bias has token 5 twice' bn_run chat -p x --logit-bias 5=1 --logit-bias 5=2
is 'the context ends it' 0 " O, I am" run -p ROMEO: -n 30 --ctx 5
many=$(run -p ROMEO: -n 70 --json --repack never | grep -E '"(ids|chain)"')
is 'packed weights and a screened head: the same tokens, the same chain' 0 "$many" \
    bash -c "'$bin/bn-run' -q -m '$model' -p ROMEO: -n 70 --json --repack always --receipt '$tmp/packed.json' | grep -E '\"(ids|chain)\"'"
is 'and a receipt that says so and replays' 0 'pass  head-work             70 heads screened' \
    bash -c "'$bin/bn-verify-receipt' -v --replay -m '$model' '$tmp/packed.json' | grep -oE 'pass  head-work +70 heads screened'; exit \${PIPESTATUS[0]}"
is 'ids' 0 845,25 run tokenize --ids -p ROMEO:
is 'and back' 0 ROMEO: run detokenize --tokens 845,25
is 'lines of JSON, an empty one too' 0 $'[64]\n[]\n[65]' piped '"a"\n\n"b"\n' tokenize --jsonl
is 'a line that is no JSON string' 4 '' piped '{}\n' tokenize --jsonl
digest=$(run logits --tokens 845,25,533,11 --all --digest --isa ref -t 1 --batch 1)
is 'one digest of logits for every way of computing them' 0 "$digest" run logits --tokens 845,25,533,11 --all --digest
is 'chat' 0 $' of the\n of the' piped 'hello\n/clear\nhello\n/exit\nhello\n' chat -n 2 --temp 0

: >"$tmp/empty"
is 'an empty file is a prompt without tokens' 2 '' run -f "$tmp/empty"
is 'and nothing to score' 1 '' run score -f "$tmp/empty"
is 'no text at all' 2 '' run -n 3
tells 'which shows the usage in short' 2 'Usage: bn-run [generate]' run -n 3
tells 'two texts' 2 'error: -p and -f both give a text' bn_run -p x -f y
tells 'an empty name of a model' 2 'error: -m: empty model name' bn_run -m '' -p x
tells 'in inspect too' 2 'error: --model: empty model name' bn_run inspect --model=
bn_run inspect --ctx 200 --max-memory 1M >"$tmp/inspected"
is 'inspect says what does not fit' 0 1 grep -c '^The context does not fit into memory' "$tmp/inspected"
is 'inspect counts the context' 0 1 grep -c '^keys and values of 200 tokens ' "$tmp/inspected"
is 'in JSON too' 0 '"verdict": "no"' grep -o '"verdict": "no"' <(bn_run inspect --json --max-memory 1M)
is 'what fits' 0 1 grep -c '^The model fits' <(bn_run inspect)
tells 'a context that does not fit' 10 'are available' bn_run -p x -n 1 --max-memory 1M
tells 'an option of llama.cpp is not help' 2 'here: bn-run -m hf:microsoft/bitnet' bn_run -hf microsoft/bitnet
tells 'a number of GPU layers is not a number of tokens' 2 'it is --device auto here' bn_run -ngl 99 -p x
tells 'the size of the context has another name' 2 'here: bn-run --ctx 4096' bn_run -c 4096 -p x
tells 'also with =' 2 'here: bn-run --temp 0.5' bn_run --temperature=0.5 -p x
tells 'a command of ollama is one here' 2 'here: bn download list --cached' bn_run list
tells 'a context over the model'"'"'s is not shown smaller' 4 'a context of 4096 tokens is too large, the model'"'"'s is 1024' bn_run inspect --ctx 4096
is 'a text is an argument of tokenize' 0 "$(bn_run tokenize --ids -p hello)" bn_run tokenize --ids hello
is 'of score' 0 "$(bn_run score -p 'To be or not')" bn_run score 'To be or not'
is 'of logits' 0 "$(bn_run logits --digest -p 'To be')" bn_run logits --digest 'To be'
tells 'two texts for tokenize' 2 '-p and the argument both give a text' bn_run tokenize -p a b
tells 'an unknown option that begins like a hidden one' 2 "error: unknown option '--dump-logit-steps'" bn_run --dump-logit-steps 4 -p x
tells 'a prompt that is too long' 4 'error: prompt too long: 6 tokens, the context holds 2' bn_run -p 'ROMEO: ROMEO:' --ctx 2
tells 'its hint works' 4 'hint: use a shorter text, or a larger context (--ctx, at most 1024)' bn_run -p 'ROMEO: ROMEO:' --ctx 2
is 'text and tokens' 2 '' run -p x --tokens 1
is 'tokens and a system message' 2 '' run --tokens 1 --system x
is 'a token outside the vocabulary' 2 '' run --tokens 2048
is 'a stop text that is not UTF-8' 2 '' run -p x --stop $'\x87'
is 'a context over the model'"'"'s' 4 '' run -p x --ctx 99999
is 'a prompt over the context' 4 '' run -p 'ROMEO: ROMEO:' --ctx 2
is 'an instruction set of another machine' 9 '' run -p x --isa "$([ "$(uname -m)" = aarch64 ] && echo avx2 || echo neon)"
is 'a receipt in a folder that is not there, before anything runs' 3 '' run -p x --receipt "$tmp/none/r.json"
is 'a model that is not there' 3 '' bn_run -q -m "$tmp/none.gguf" -p x

: >"$tmp/target"
ln -s target "$tmp/link"
run -p x -n 1 --receipt "$tmp/link" >/dev/null
is 'a link stays a link' 0 target readlink "$tmp/link"
is 'and its target has the receipt' 0 '' "$bin/bn-verify-receipt" -q "$tmp/target"
is 'a device is written to, not replaced' 0 '' run logits -p x -o /dev/null
is 'it still is one' 0 'character special file' stat -c %F /dev/null
cpu=$(taskset -cp $$ | sed -E 's/.*: *([0-9]+).*/\1/')
is 'more threads than cores are not used' 0 "$text" taskset -c "$cpu" "$bin/bn-run" -m "$model" -p ROMEO: -n 7 -t 8 --receipt "$tmp/one.json"
cp "$tmp/err" "$tmp/warned"
is 'a warning says so' 0 'bn-run: warning: 8 threads asked for, but this process may use 1 core: using 1 thread' head -n 1 "$tmp/warned"
is 'a receipt says how many threads there were' 0 1 threads_of "$tmp/one.json"
deny=$bin/tests/sampled/deny_perf
if "$deny" EPERM clone3 true; then
    is 'threads that the system refuses are done without' 0 "$text" "$deny" EPERM clone3 "$bin/bn-run" -q -m "$model" -p ROMEO: -n 7 -t 2
fi
echo '{"require": ["replay"]}' >"$tmp/policy"
is 'a policy may demand the replay' 0 '' "$bin/bn-verify-receipt" -q --policy "$tmp/policy" --replay -m "$model" "$tmp/one.json"
is 'and it must not be missing' 1 'FAIL  replay                required by the policy: not asked for (--replay)' \
    bash -c "'$bin/bn-verify-receipt' -q --policy '$tmp/policy' '$tmp/one.json' | grep '^FAIL'; exit \${PIPESTATUS[0]}"

# ---- variables and options of other toolchains' scripts ----
is 'BITNET_TRACE_TIMING prints a line for each token' 0 3 bash -c "BITNET_TRACE_TIMING=1 '$bin/bn-run' -q -m '$model' -p x -n 3 2>&1 >/dev/null |
    grep -cE '^timing: embed_us=[0-9.]+ forward_us=[0-9.]+ logits_us=[0-9.]+ sample_us=[0-9.]+ total_us=[0-9.]+$'"
is 'and before them the time of the tokenizer' 0 1 bash -c "'$bin/bn-run' -q -m '$model' -p x -n 2 --timing 2>&1 >/dev/null | head -n 1 | grep -cE '^timing: tokenize_us=[0-9.]+ tokens=[1-9][0-9]*$'"
is 'which JSON has too' 0 1 bash -c "'$bin/bn-run' -q -m '$model' -p x -n 1 --json | grep -cE '\"tokenize_ns\": [1-9][0-9]*,$'"
is 'but not of tokens that were given' 0 2 bash -c "'$bin/bn-run' -q -m '$model' --tokens 1,2 -n 1 --json | grep -cE '\"tokenize_ns\": (null,|\"the prompt was given as tokens\")$'"
is 'and with 0 none' 1 0 bash -c "BITNET_TRACE_TIMING=0 '$bin/bn-run' -q -m '$model' -p x -n 3 2>&1 >/dev/null | grep -c timing"
is 'BITNET_TRACE_QUANT names the kernels of the receipt' 0 "$(run -p x -n 2 --receipt "$tmp/k.json" >/dev/null
    sed -nE 's/^ *"name": "([a-z0-9_]+_(ref|avx2|avxvnni|avx512vnni|avx512vbmi|amx|neon))".*/\1/p' "$tmp/k.json" | sort -u)" \
    bash -c "BITNET_TRACE_QUANT=1 '$bin/bn-run' -q -m '$model' -p x -n 2 2>&1 >/dev/null | sed -nE 's/^quant_dispatch: kernel=([^ ]+) calls=[1-9][0-9]* .*/\1/p' | sort -u"
# sums: "equal" when the calls of kernels that multiply ternary weights are as many by tensors as by kernels
sums() { awk '/ kernel=(ternary|t5|columns)/ { split($0, c, "calls="); n[/ tensor=/] += c[2] + 0; seen += / tensor=.* type=I2_S / } END { print (n[0] == n[1] && seen > 0) ? "equal" : n[0] "/" n[1] }'; }
for repack in never always; do
    is "each kernel with its tensors, --repack $repack" 0 equal echo "$("$bin/bn-run" -q -p 'To be or' -n 4 --kernels --repack $repack 2>&1 >/dev/null | sums)"
done
is 'every matrix is there' 0 43 bash -c "'$bin/bn-run' -q -p x -n 1 --kernels 2>&1 >/dev/null | sed -n 's/^quant_dispatch: tensor=\([^ ]*\) type=[A-Z0-9_]* kernel=.*/\1/p' | sort -u | wc -l"
is 'a file with them' 0 '' env OUT="$bin" PHASE1_OUT="$tmp/phase1.txt" ci/phase1-quant-probe.sh
is 'has facts and kernels' 0 3 grep -c '^#' "$tmp/phase1.txt"
is 'threads from RAYON_NUM_THREADS' 0 1 bash -c "RAYON_NUM_THREADS=1 '$bin/bn-run' -q -m '$model' -p x -n 1 --json | sed -n 's/^ *\"threads\": //p' | tr -d ,"
is 'where 0 leaves the choice to the program' 0 "$text" env RAYON_NUM_THREADS=0 "$bin/bn-run" -q -m "$model" -p ROMEO: -n 7
tells 'a value that is wrong names its variable' 2 'error: RAYON_NUM_THREADS must be between 1 and 1024 (got 5000)' env RAYON_NUM_THREADS=5000 "$bin/bn-run" -p x
tells 'strict: no model is named' 2 'error: --strict: no model is named' env BITNET_STRICT_MODE=1 "$bin/bn-run" -p x
is 'strict: nothing is wrong' 0 "$text" "$bin/bn-run" -q --strict -m fixtures/shakespeare-5m-i2_s.gguf -p ROMEO: -n 7 -t 1
tells 'strict: a warning is an error' 2 'error: --strict: a warning is an error' \
    taskset -c "$cpu" "$bin/bn-run" --strict -m fixtures/shakespeare-5m-i2_s.gguf -p ROMEO: -n 7 -t 8
is 'greedy decoding is greedy' 0 "$text" run -p ROMEO: -n 7 --assert-greedy
tells 'sampling is not' 1 'error: not greedy: ' bn_run -p ROMEO: -n 7 --temp 5 --assert-greedy
is 'the best tokens of each step' 0 "$(run -p ROMEO: -n 3 --json | tr -d ' \n' | grep -oE '"ids":\[[^]]*' | grep -oE '[0-9]+')" \
    bash -c "'$bin/bn-run' -q -m '$model' -p ROMEO: -n 3 --json --show-top 2 | tr -d ' \n' | grep -oE '\[\{\"id\":[0-9]+' | grep -oE '[0-9]+'"
tells 'are part of the document only' 2 'error: --show-top needs --json' bn_run -p x --show-top 2
is 'a seed from the environment' 0 "$(run -p x -n 5 --temp 1 --seed 7)" env BITNET_SEED=7 "$bin/bn-run" -q -m "$model" -p x -n 5 --temp 1
is 'which an option precedes' 0 "$(run -p x -n 5 --temp 1 --seed 7)" env BITNET_SEED=8 "$bin/bn-run" -q -m "$model" -p x -n 5 --temp 1 --seed 7
tells 'a PROMPT that is the name of a file is refused' 2 "error: 'fixtures/shakespeare-5m-i2_s.gguf' is a file, not a text" \
    "$bin/bn-run" fixtures/shakespeare-5m-i2_s.gguf
is 'but not by -p' 0 "$(printf README.md | "$bin/bn-run" -q -m "$model" -n 5 -f -)" "$bin/bn-run" -q -m "$model" -n 5 -p README.md
for name in model.gguf hf:owner/repo maple; do
    tells "$name is not a message" 2 "error: '$name' is the name of a model, not a text" "$bin/bn-run" chat "$name"
    tells "nor a PROMPT" 2 'hint: -m MODEL selects a model' "$bin/bn-run" "$name"
done
is 'a PROMPT of one word' 0 "$(run -p hello -n 5)" run hello -n 5
is 'also after options' 0 "$(run -p hello -n 5)" run -n 5 hello
tells 'but a misspelt command is named' 2 'hint: did you mean tokenize? a PROMPT of this word needs -p' "$bin/bn-run" tokenise
tells 'and one of ollama' 2 'hint: here: bn download; a PROMPT of this word needs -p' "$bin/bn-run" pull
tells 'words need quotes' 2 'hint: a PROMPT of several words needs quotes' "$bin/bn-run" to be
for command in tokenize score logits\ --digest 'embed --pooling mean' 'chat -n 5 --seed 3'; do
    # shellcheck disable=SC2086
    is "$command TEXT is $command -p TEXT" 0 "$(run $command -p 'To be')" run $command 'To be'
done
tells 'one of them' 2 'error: -p and the argument both give a text' "$bin/bn-run" score -p x y
is 'help COMMAND is COMMAND --help' 0 "$("$bin/bn-run" chat --help)" "$bin/bn-run" help chat
