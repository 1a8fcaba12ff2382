#!/usr/bin/env bash
# bn-bench from the command line: its tables, misuse, and what it must never do. Its documents are tested by
# tests/unit/tools/test_bench_document.c. No test depends on the speed of the machine. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
# shellcheck source=tests/tap.sh
. tests/tap.sh
nano=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
run() { # arguments; leaves $status, $tmp/out, $tmp/err
    "$bin/bn-bench" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
shown() { cat "$tmp/out" "$tmp/err"; return 1; }
ended() { [ "$status" -eq "$1" ] || shown; }
has() { grep -qE -- "$2" "$tmp/$1" || shown; }
has_not() { ! grep -qE -- "$2" "$tmp/$1" || shown; }
lines() { [ "$(grep -cE -- "$1" "$tmp/out")" -eq "$2" ] || shown; }

fast=(--min-time 0 --set 64K -m "$nano")
run kernels "${fast[@]}" -t 1 --isa all
check 'kernels succeeds' ended 0
check 'it names the machine first' grep -qE '^machine ' <(head -n 1 "$tmp/out")
check 'it measures reading' has out '^reads 64 KiB +1 +[0-9.]+ GB/s'
for kernel in ternary_gemv t5_gemv ternary_gemm f16_gemm i8_gemm attn_scores attn_values softmax rmsnorm quantize \
    ternary_gemv ternary_gemm quantize16 \
    relu2_mul add; do
    check "$kernel is timed" has out "^${kernel}_ref "
done
for kind in gelu:pair-gemma3-q2_0-v331-w8-p2 silu:nano-minicpm-q2_0-v331-longrope-tied; do
    "$bin/bn-bench" kernels "${fast[@]}" -m "fixtures/${kind#*:}-42.gguf" -t 1 --filter mul >"$tmp/own"
    check "the activation of the model is timed: ${kind%:*}" has own "^${kind%:*}_mul_"
    check 'no other one' has_not own '^relu2_mul'
done
check 'attention has three contexts' lines '^attn_values_ref .* ctx=(128|1024|4096) ' 3
check 'attention of a prompt has 32 queries' lines '^attn_(scores|values)_ref .*32 queries ctx=2048 ' 2
check 'plain C is compared with no limit' lines '_ref .* %' 0
run kernels "${fast[@]}" -t 1,2,2 --filter add
check 'threads are counted once' lines '^add_' 2
[ "$("$bin/bn-bench" --version | sed -n 's/^instruction.*: //p')" = ref ] ||
    check 'others are compared with one' has out '^add_.* [0-9]+%c$'
run kernels "${fast[@]}" -t 1 --filter 'ternary_gemm_ref'
check 'a filter without a match is an error' ended 2
check 'and is named' has err "error: --filter: no row has 'ternary_gemm_ref'"
run kernels --set 1G
check 'a set too large' ended 2
run kernels --min-time soon
check 'an invalid time' ended 2
run kernels --isa mmx
check 'an unknown instruction set' ended 2
run kernels -m "$tmp/none"
check 'a missing model' ended 3

run limits -m "$nano" -p 8 -n 3 -t 1 --min-time 0
check 'limits succeeds' ended 0
check 'it reports the bytes of a token' has out '^a token +reads [0-9.]+ KiB at depth 0: weights .* head .* KV cache '
check 'it has a row for each test' lines '^(prompt|decode) +[0-9]+ +0 +1 ' 2
run limits -m "$nano" -p 8 -n 3 -t 1 --min-time 0 --isa ref
check 'plain C has no limit' lines 'no limit: plain C' 1
run limits -m "$nano" -p 0 -n 0
check 'nothing to measure' ended 2

run run -m "$nano" -p 0 -n 3 -t 1,2 -r 1 --warmup 0 --sequences 1,3 -d 0,5
check 'run of several sequences' ended 0
check 'its table shows them' has out '^decode +3 x3 +5 +2 '
run run -m "$nano" -p 0 -n 3 -t 1 -r 1 --warmup 0 --sequences 1,3 --json
check 'they give the output of one' test "$(grep -oE '"output_sha256": "[0-9a-f]*"' "$tmp/out" | sort -u | wc -l)" -eq 1
check 'and one series each' has out '"name": "decode n=3 d=0 t=1 seq=3"'
run run -m "$nano" -p 0 -n 3 -t 1 -r 1 --warmup 0 --sequences 9 -b 8
check 'more of them than the batch holds' ended 2
run run -m "$nano" -p 4 -n 3 -t 1 -r 1 --warmup 0 --busy 1
check 'run next to a busy process' ended 0
check 'its tests have rows of their own' lines '^(prompt|decode) +[0-9]+ +0 +1 +[01] ' 4
run run -m "$nano" -p 0 -n 3 -t 1 -r 1 --warmup 0 --busy 1 --target 'decode>=0.001' --target 'decode busy=1<=0.001'
check 'a target names tests next to busy processes' has out 'missed +decode busy=1<=0.001: .*, 1 busy neighbour'
check 'other targets do not mean them' has out 'met +decode>=0.001: found .*, decode 3 tokens, 1 thread$'
# Busy processes end with the program, however it ends. They are its children, and have the same name.
gone() { ! kill -0 "$1" 2>"$tmp/err" || grep -q '^State:.*Z' "/proc/$1/status" 2>>"$tmp/err"; }
for signal in TERM KILL; do
    "$bin/bn-bench" run -m "$nano" -p 0 -n 64 -t 1 -r 10000 --busy 2 >"$tmp/out" 2>"$tmp/err" </dev/null &
    bench=$!
    children() { loops=$(cat "/proc/$bench/task/$bench/children" 2>>"$tmp/err") && [ "$(wc -w <<<"$loops")" -eq 2 ]; }
    for ((i = 0; i < 600; i++)); do
        children && break
        sleep 0.1
    done
    check "it has two busy processes (SIG$signal)" children
    kill -s "$signal" "$bench"
    wait "$bench" 2>>"$tmp/err"
    for ((i = 0; i < 600; i++)); do
        left=''
        for loop in $loops; do gone "$loop" || left+=" $loop"; done
        [ -n "$left" ] || break
        sleep 0.1
    done
    check "they end with it (SIG$signal)" [ -z "$left" ]
done

run run -p 4 -n 3 -d 0,5 -t 1 -r 2
check 'run succeeds' ended 0
check 'it has a line for each test' lines '^(prompt|decode) +[0-9]' 4
check 'of the built-in model' has out '^model +built-in-i2_s.gguf, opened in '
check 'and no p95 of six tokens' has out '^decode +3 +0 +1 .* - +[0-9.]+ +[0-9]+ %$'
check 'the table has no batches where there is one' lines '^test +tokens +depth +t +tok/s ' 1
run run -p 4,9 -n 2 -b 2,128 -t 1 -r 6 --warmup 1 -q
check 'prompts have a line for each batch' lines '^prompt +(4|9)/(2|128) +0 +1 ' 4
check 'tokens are decoded one by one' lines '^decode +[0-9]' 1
check 'six samples have an interval' has out ' 95 % interval '
check 'and are counted' has out '^samples +6 per row, in turn, after 1 warm-up$'
run run -p 0 -n 2 -d 0,8 -t 1 -r 2 -q
check 'of two there is the range' has out ' min – max '
run run -p 4 -n 2 -t 1 -r 2 --timeout 0.000001 -q
check 'a sample that takes too long is a negative result' ended 1
check 'without a number' lines '^(prompt +4|decode +2) +0 +1 +TIMEOUT$' 2
check 'and says why' has out 'decode 2 tokens, 1 thread: a sample took more than --timeout: .* of 3 tokens'
run run -p 4 -n 2 -t 1 -r 1 --timeout 0.000001 -q --json
check 'in the document, too' grep -q '"verdict": "timeout"' "$tmp/out"
check 'with exit code 1' ended 1
check 'and no series' has_not out '"ns_per_token"'
run run -m "$nano" --loads 3 -p 4 -n 0 -t 1 -r 1 -q --json
check 'a file can be opened thrice' [ "$(grep -A5 '"load_ns"' "$tmp/out" | grep -cE '"samples": \[[0-9.]+, [0-9.]+, [0-9.]+\]')" -eq 1 ]
run run -p 0 -n 3 -t 1 -r 2 --concurrent 1,2 -q
check 'concurrent generations' ended 0
check 'have a row of their own' lines '^(decode +3|concurrent +3 x2) +0 +1 ' 2
check 'with their fairness' has out '^concurrent 2 generations, 3 tokens, 1 thread: fairness (0\.[5-9]|1\.0)'
run run -p 0 -n 3 -t 1 -r 2 --concurrent 2 --timeout 0.000001 -q
check 'those that take too long have no figures' lines '^(decode +3|concurrent +3 x2) +0 +1 +TIMEOUT$' 2
check 'and that is a negative result' ended 1
run run -p 0 -n 24 --generate 4+3 -t 1 -r 2 -q --json
check 'a prompt and its answer in one call' ended 0
cat >"$tmp/check.py" <<'END'
import json, statistics, sys
doc = json.load(open(sys.argv[1]))
series = {(s["test"], s["metric"]): s["samples"] for s in doc["series"]}
def near(a, b):
    assert abs(a - b) <= 1e-6 * abs(b) + 1e-6, (a, b)
for t in doc["tests"]:
    if t["name"] == "tokenize": continue
    for name in ["joules", "cycles", "instructions", "cache_misses"]:
        name += "_per_token"
        assert (t["name"], name) in series or t["unavailable"][name]
    times = series.get((t["name"], "token_ns"), [])
    rounds = len(series[t["name"], "ns_per_token"])
    for k in range(rounds):
        one = times[k * len(times) // rounds:(k + 1) * len(times) // rounds]
        if t["test"] == "generate":
            assert len(one) == t["answer"] - 1
        if len(one) >= 3:
            near(series[t["name"], "token_jitter_ns"][k], max(1, statistics.median(abs(a - b) for a, b in zip(one, one[1:]))))
        if len(one) >= 20:
            p95 = sorted(one)[21] + 0.85 * (sorted(one)[22] - sorted(one)[21])
            near(series[t["name"], "token_spread_ns"][k], max(1, p95 - statistics.median(one)))
assert ("generate n=4+3 d=0 t=1 b=128", "ns_per_token") in series
assert len(series["tokenize", "tokenize_ns_per_token"]) == 3
END
check 'its numbers agree with its samples' python3 "$tmp/check.py" "$tmp/out"
for pair in 4 4+ +4 4+0 0+4 4+3x x; do
    run run --generate "$pair"
    check "an invalid pair: $pair" ended 2
done
head -c 3000 fixtures/validation.txt >"$tmp/text"
value() { sed -n "s/^ *\"$1\": \([-0-9.e]*\),*\$/\1/p" "$tmp/score" | head -n 1 | cut -c 1-9; }
scored() { grep -A5 "\"metric\": \"$1\"" "$tmp/out" | sed -n 's/^ *"samples": \[\(.*\)\]$/\1/p' | cut -c 1-9; }
"$bin/bn-run" score -q --json -f "$tmp/text" >"$tmp/score"
run run -p 4 -n 0 -t 1 -r 1 -q --json --score "$tmp/text"
check 'a text can be scored' ended 0
check 'as bn-run scores it: accuracy' [ "$(scored accuracy)" = "$(value accuracy)" ]
check 'perplexity' [ "$(scored perplexity)" = "$(value perplexity)" ]
check 'nll' [ "$(scored nll)" = "$(value nll_mean)" ]
cp "$tmp/out" "$tmp/first"
run run -p 4 -n 0 -t 2 -r 1 -q --json --isa ref --score "$tmp/text"
for name in nll perplexity accuracy; do
    check "$name is the same with other threads and instructions" [ "$(grep -A5 "\"$name\"" "$tmp/out")" = "$(grep -A5 "\"$name\"" "$tmp/first")" ]
done
cat >"$tmp/plant.py" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))
for s in doc["series"]:
    if s["metric"] == "accuracy":
        s["samples"] = [s["samples"][0] - 0.006]
json.dump(doc, sys.stdout)
END
python3 "$tmp/plant.py" "$tmp/first" >"$tmp/planted"
run compare --fail-on critical "$tmp/first" "$tmp/planted"
check 'an accuracy of a run that is 0.006 lower fails' ended 1
check 'as critical' has out ': WORSE \(critical\)'
cp "$tmp/first" "$tmp/out"
check 'which are exact series' grep -q '"test": "score text"' "$tmp/out"
run run -p 4 -n 0 -t 1 -r 1 -q --score validation --score-tokens 64
check 'the built-in text has a name' has out '^score +validation, 63 tokens: nll [0-9.]+ \+- [0-9.]+, perplexity [0-9.]+, accuracy [0-9.]+ %$'
run run -p 4 -n 0 -t 1 -r 1 -q --score "$tmp/none"
check 'a text that does not exist' ended 3
echo -n >"$tmp/empty"
run run -p 4 -n 0 -t 1 -r 1 -q --score "$tmp/empty"
check 'an empty text' ended 2
met=(--target 'decode>=0.001' --target 'prompt n=4>=0.001 tok/s' --target 'first-token<=10000s' --target 'memory<=1000GB'
    --target 'load<=10000s' --target 'nll<=100' --target 'accuracy>=0 %' --target 'tokenize>=0.001')
run run -p 4,8 -n 3 -t 1 -r 2 -q --score validation --score-tokens 64 "${met[@]}"
check 'targets that are reached' ended 0
check 'have a line each' lines '^target   met     ' 8
check 'with what was found and wanted' has out '^target   met     decode>=0\.001: found [0-9.]+ tok/s, decode 3 tokens, 1 thread$'
check 'words restrict the tests' has out 'prompt n=4>=.*, prompt 4 tokens, 1 thread$'
for target in 'decode>=1e12' 'first-token<=1ns' 'memory<=1kB' 'load<=1ns' 'accuracy>=99%' 'perplexity<=1' 'nll<=0.001' 'token<=1ns'; do
    run run -p 4 -n 3 -t 1 -r 1 -q --score validation --score-tokens 64 --target 'decode>=0.001' --target "$target"
    check "a target that is missed: $target" ended 1
    check 'is named' has out "^target   missed  $target: found [0-9.]"
done
for target in 'accuracy>=0' 'generate>=0' 'decode t=7>=0' 'token-p95<=10000s' 'token-spread<=10000s'; do
    run run -p 4 -n 3 -t 1 -r 1 -q --target "$target"
    check "a target without data is missed: $target" ended 1
    check 'and has no data' has out "^target   missed  $target: found no data"
done
run run -p 4 -n 3 -t 1 -r 1 -q --timeout 0.000001 --target 'decode>=0'
check 'so is that of an invalid test' has out '^target   missed  decode>=0: found no data'
run run -p 4 -n 3 -t 1 -r 1 --json --target 'decode>=1e12' --target 'prompt>=0'
check 'a target is missed with --json too' ended 1
check 'and is in the document' [ "$(python3 -c 'import json,sys; print([t["met"] for t in json.load(open(sys.argv[1]))["targets"]])' "$tmp/out")" = '[False, True]' ]
check 'and on standard error' has err 'warning: target missed  decode>=1e12: found '
for target in speed\>=3 decode 'decode>3' 'decode>=3ms' 'load<=3' 'memory<=x' 'decode=3' '>=3' 'decode>=-1' 'decode>=nan'; do
    run run --target "$target"
    check "an invalid target: $target" ended 2
    check 'is named' has err "error: --target '$target'"
done
run run -p 4 -n 2 -t 1 -r 5 --warmup 1 -q --confidence 90 --price-per-hour 0.5
check 'five samples have an interval of 90 %' has out ' 90 % interval '
check 'a million tokens have a price' lines '^price    [0-9.e-]+ per million tokens: (prompt 4|decode 2) tokens, ' 2
run run -p 4 -n 2 -t 1 -r 5 --warmup 1 -q --confidence 10
check 'an invalid confidence' ended 2
run run -b 0
check 'a batch of nothing' ended 2
run run -r some
check 'an invalid number of samples' ended 2
run run -m "$nano" -p 4 -n 0 -t 1 -r 1 -q
check 'of another model' has out '^model +fixtures/nano'
check 'without decoding' has_not out '^decode'
check '-q is quiet' test ! -s "$tmp/err"
run run -p 0 -n 0
check 'nothing to do is an error' ended 2
for list in 1,x "1," ,1 -1 9999999999 1.5 ''; do
    run run -p "$list"
    check "an invalid list: '$list'" ended 2
    check 'its message names the option' has err '^bn-bench: error: -p: '
done
run run -t 0
check 'no threads' ended 2
run run -r 0
check 'no samples' ended 2
run run -p 4 -n 0 -d 99999
check 'deeper than the context' ended 4
run run --json -p 4 -d 99999
check 'with --json there is a document of the error' has out '"schema":"bn.error/1"'
if "$bin/tests/sampled/deny_perf" EPERM clone3 true; then
    "$bin/tests/sampled/deny_perf" EPERM clone3 "$bin/bn-bench" run -p 4 -n 0 -t 2 >"$tmp/out" 2>"$tmp/err"
    status=$?
    check 'threads that the system refuses give no figures' ended 9
fi
"$bin/bn-bench" run --json -q -m "$nano" -p 4 -n 2 -t 1 -r 6 --price-per-hour 0.5 >"$tmp/price.json" 2>"$tmp/err"
run report "$tmp/price.json"
check 'the price is a series: report' has out 'price_per_million_tokens +[0-9]'
run compare -v "$tmp/price.json" "$tmp/price.json"
check 'and compare' has out 'price_per_million_tokens .*STABLE'
run run -m "$nano" -m fixtures/built-in-i2_s.gguf
check 'two models where one is meant are an error' ended 2
check 'which names both' has err "error: option --model is given twice, expected one MODEL: '.*nano.*' and '.*built-in"
run
check 'a command must be named' ended 2
