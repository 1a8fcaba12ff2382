#!/usr/bin/env bash
# bn-bench top: frames and documents of a running bn-run and bn-serve, and of recorded profiles; the screen and its keys, ends of
# all kinds.
# TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
export LC_ALL=C XDG_RUNTIME_DIR=$tmp/run
unset BN_MODEL BN_THREADS NO_COLOR
mkdir -m 700 "$tmp/run"
nano=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
pids=()
stop_all() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    pids=()
}
finish() { stop_all; tap_end; }
trap finish EXIT
# begin ARGUMENTS...: a bn-run that generates for an hour, or until it is stopped; sets $pid
yes '{"prompt": "To be"}' | head -n 100000 >"$tmp/requests"
begin() {
    "$bin/bn-run" -q --batch-file "$tmp/requests" -n 1000 --ctx 1024 --ignore-end "$@" >/dev/null 2>"$tmp/log" &
    pid=$!
    pids+=("$pid")
}
end() {
    kill -"$1" "$pid"
    wait "$pid" 2>/dev/null
}
top() { "$bin/bn-bench" top "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; }
# Whether a frame or document of these arguments has a line of this pattern.
shows() {
    local pattern=$1
    shift
    top "$@" && grep -qE -- "$pattern" "$tmp/out"
}
has() { grep -qE -- "$2" "$1" || { echo "no $2 in:"; cat "$1"; return 1; }; }
narrow() { ! grep -E '.{81}' "$1"; }
# holds EXPRESSION: of the JSON document d
holds() { python3 -c "import json,sys; d = json.load(open('$tmp/out')); t = d['total']; sys.exit(not ($1))"; }

# ---- nothing to show ----
says 3 'without a program there is a hint' 'hint: start a program with --live' "$bin/bn-bench" top
says 3 'also with a number that no program has' 'hint: start a program with --live' "$bin/bn-bench" top 4194304
echo '{"prompt": 1}' >"$tmp/other"
says 4 'another document is refused' 'other: the document is not a bn.profile/1' "$bin/bn-bench" top "$tmp/other"
says 4 'with what records one' 'hint: bn-bench profile --json' "$bin/bn-bench" top "$tmp/other"
says 4 'another file is refused' 'README.md: is not a live profile' "$bin/bn-bench" top README.md
says 4 'with the same hint' 'hint: bn-bench profile --json' "$bin/bn-bench" top README.md
says 4 'a folder is refused' 'is not a regular file' "$bin/bn-bench" top "$tmp"
says 2 'which --live-file does not replace' 'exists and is not a live profile' \
    "$bin/bn-run" -q -m "$nano" -p a -n 1 --live-file "$tmp/other"
check 'and does not change' equal "$(cat "$tmp/other")" '{"prompt": 1}'
says 2 '--profile needs a profile of its own' 'cannot be combined with --live' \
    "$bin/bn-run" -q -m "$nano" -p a -n 1 --live --profile "$tmp/profile.json"
check 'nothing is left behind' test -z "$(ls "$tmp/run/bn" 2>/dev/null)"

# ---- the bits ----
"$bin/bn-run" -q -p 'ROMEO:' -n 60 -t 2 --json >"$tmp/plain.json"
"$bin/bn-run" -q -p 'ROMEO:' -n 60 -t 2 --json --live --live-level kernel >"$tmp/live.json"
chain() { grep '"chain"' "$1"; }
check 'an answer has the same bits with --live' equal "$(chain "$tmp/live.json")" "$(chain "$tmp/plain.json")"
check 'the file of a program that has ended is gone' test -z "$(ls "$tmp/run/bn")"

# ---- one frame ----
begin --live
wait_for shows QkvProjection --once
check 'the only program is shown' has "$tmp/out" "^bn-run generate $pid  running"
check 'with its model' has "$tmp/out" 'built-in-i2_s.gguf'
check 'its rates' has "$tmp/out" '^output [0-9.]+ tok/s  prompt [0-9.]+ tok/s  [0-9.]+ passes/s'
check 'its sequences' has "$tmp/out" 'sequences 8/8  queue [0-9]+'
check 'categories' has "$tmp/out" '^- Attention +[0-9.]+% #* +[0-9.]+[num]?s '
check 'and bricks with the critical path' has "$tmp/out" '^  DownProjection .* [0-9.]+% +[0-9.]+[num]?s$'
check 'a frame fits into 80 columns' narrow "$tmp/out"
check 'a frame is ASCII in the locale C' bash -c "! grep -P '[^\\x00-\\x7F]' '$tmp/out'"
wait_for shows '^  \+ Layer 0' --once --pass
check '--pass shows the layers of a pass' has "$tmp/out" '^- Pass +100.0%'
check 'which fits, too' narrow "$tmp/out"
check 'a process number selects' shows QkvProjection "$pid" --once
check 'so does a path' shows QkvProjection "$tmp/run/bn/$pid" --once
check '--list names it' shows "^$pid +bn-run generate" --list

says 2 'the list is not a document' '--list is not a form of --json' "$bin/bn-bench" top --list --json

# ---- documents ----
top --once --json
check 'a document is bn.profile/1' holds "d['schema'] == 'bn.profile/1' and d['pid'] == $pid and d['state'] == 'running'"
check 'the bricks add up to the time of all bricks' holds \
    "sum(b['exclusive_ns'] for b in t['bricks']) == t['bricks_ns'] > 0"
check 'shares add up to 1' holds "abs(sum(b['share_of_sum'] for b in t['bricks']) - 1) < 1e-9"
check 'each measured pass has one embedding for each thread that takes part' holds \
    "0 < t['measured_passes'] <= [b['count'] for b in t['bricks'] if b['name'] == 'Embedding'][0] <= t['measured_passes'] * d['n_threads']"
check 'there are not more of them than passes' holds "t['measured_passes'] <= t['passes']"
check 'the critical path is not longer than the work' holds \
    "0 < d['pass']['path_ns'] <= d['pass']['work_ns'] and d['pass']['parallelism'] >= 1"
check 'the load is there' holds "d['load']['sequences'] == 8 and d['dropped'] == 0"
"$bin/bn-bench" top --json -i 50 2>/dev/null | head -n 3 >"$tmp/lines"
check 'documents come one a line' python3 -c "
import json
a, b, c = [json.loads(line) for line in open('$tmp/lines')]
assert a['total']['passes'] < c['total']['passes'] and c['refresh']['seconds'] < c['total']['seconds']"

# ---- budget ----
"$bin/bn-bench" profile -m "$nano" -q -p 1 -n 20 -r 1 --json >"$tmp/budget.json"
check '--budget compares with a profile' shows '^  DownProjection .* [0-9.]+$' --once --budget "$tmp/budget.json"
check 'in 80 columns' narrow "$tmp/out"
says 4 'another document is refused' 'is not a bn.profile/1' "$bin/bn-bench" top --budget "$tmp/plain.json"

# ---- a recorded profile: the same views, pass by pass ----
"$bin/bn-bench" profile -m "$nano" -q -p 4 -n 3 -r 1 -t 2 --level kernel --json >"$tmp/recorded.json"
profile=$tmp/recorded.json
check 'a document is shown' shows '^bn-bench profile  recorded  [0-9:]+  nano-bitnet-b1.58-i2_s-42.gguf  [a-z0-9]+ x2$' "$profile" --once
check 'its last pass' has "$tmp/out" '^pass 3 of 3: 1 token from position 5 on$'
check 'its bricks since the start, with the critical path and slack' has "$tmp/out" '^  DownProjection .* [0-9.]+% +[0-9.]+[num]?s$'
check 'its kernels' has "$tmp/out" '^  ternary_gemv_'
check 'in 80 columns' narrow "$tmp/out"
check 'the tree of a pass' shows '^  \+ Layer 0' "$profile" --once --pass
check 'a budget' shows '^  DownProjection .* 1$' "$profile" --once --budget "$profile"
top "$profile"
check 'without a terminal there is a frame for each pass' equal "$(grep -E '^pass [0-9] of' "$tmp/out")" \
    "$(printf 'pass 1 of 3: 4 tokens from position 0 on\npass 2 of 3: 1 token from position 4 on\npass 3 of 3: 1 token from position 5 on')"
top "$profile" --json
check 'or a document' equal "$(wc -l <"$tmp/out")" 3
check 'whose numbers are those of the profile' python3 - "$profile" "$tmp/out" <<'EOF'
import json, sys
p = json.load(open(sys.argv[1]))["profile"]
frames = [json.loads(line) for line in open(sys.argv[2])]
brick, kernel, index = (p["event_columns"].index(c) for c in ("brick", "kernel", "pass"))
events = [e for thread in p["events"] for e in thread]
total = {b["name"]: b for b in frames[-1]["total"]["bricks"]}
for b in p["summary"]["bricks"]:
    assert all(total[b["name"]][key] == b[key] for key in ("count", "inclusive_ns", "exclusive_ns", "bytes")), b
assert sum(k["ns"] for k in frames[-1]["total"]["kernels"]) == sum(k["ns"] for k in p["summary"]["kernels"])
for i, frame in enumerate(frames):
    assert frame["state"] == "recorded" and frame["pass"]["number"] == i + 1 and "pid" not in frame
    assert frame["total"]["passes"] == i + 1 and frame["refresh"]["passes"] == 1
    assert frame["refresh"]["tokens"] == frame["pass"]["tokens"] == p["passes"][i][3]
    counts = sum(b["count"] for b in frame["refresh"]["bricks"])
    assert counts == sum(e[index] == i and e[kernel] == -1 for e in events), (i, counts)
EOF
"$bin/bn-run" -q -m "$nano" -p 'To be' -n 4 --profile "$tmp/run.json" >/dev/null
check 'a profile of bn-run' shows '^bn-run generate  recorded  .* nano-bitnet-b1.58-i2_s-42.gguf' "$tmp/run.json" --once
"$bin/bn-bench" profile -m "$nano" -q -p 2 -n 2 -r 1 --level layer --json >"$tmp/layer.json"
check 'one of layers has no tree' shows 'no tree: an execution graph needs|pass 2 of 2' "$tmp/layer.json" --once --pass
check 'but its bricks' shows '^  Layer ' "$tmp/layer.json" --once
spoiled() { # title, message, sed program
    sed -E "$3" "$profile" >"$tmp/spoiled.json"
    says 4 "$1 is refused" "$2" "$bin/bn-bench" top --once "$tmp/spoiled.json"
}
spoiled 'a document without events' 'spoiled.json: the profile holds no events' 's/"events": \[/"event": [/'
spoiled 'one with events of another pass' 'list of events is missing or malformed' '0,/^( *\[[0-9]+, -?[0-9]+, -?[0-9]+, )[0-9]+((, [0-9]+){8}\],?)$/s//\1777\2/'
spoiled 'a graph' 'is not a bn.profile/1' 's,"bn.profile/1","bn.graph/1",'
sed -E 's,"name": "fixtures/nano[^"]*","name": "\\u001b[31mred",' "$profile" >"$tmp/spoiled.json"
top "$tmp/spoiled.json" --once
check 'control characters of a document are escaped' has "$tmp/out" '\\x1B\[31mred'
recorded_screen() { timeout 300 python3 tests/pty/screen.py "$bin/bn-bench" top "$profile" >"$tmp/out" 2>&1; }
TERM=vt100 check 'on a terminal keys go from pass to pass' recorded_screen <<'EOF'
wait pass 3 of 3
wait QkvProjection
wait n, b next pass, back
send n
wait pass 3 of 3
send b
wait pass 2 of 3: 1 token from position 4 on
send b
wait pass 1 of 3: 4 tokens from position 0 on
send b
wait pass 1 of 3
send \t
wait ^pass 1  .*share
wait [+] Layer 0
send n
wait ^pass 2  .*share
send p
wait recorded
send q
EOF
check 'and the terminal is as it was' has "$tmp/out" '^settings restored$'

# ---- the screen ----
# screen SCRIPT: what the terminal shows at the end goes to $tmp/out
screen() { timeout 300 python3 tests/pty/screen.py "$bin/bn-bench" top -i 100 >"$tmp/out" 2>&1; }
restored() { has "$tmp/out" "^$1\$" && has "$tmp/out" '^settings restored$' && has "$tmp/out" '^cursor shown$'; }
for terminal in vt100 xterm-256color; do
    export TERM=$terminal
    check "$terminal: keys change the view" screen <<'EOF'
wait bn-run .* running
wait QkvProjection
show
send \t
wait [+] Layer 0
send \x1bOB\x1bOB\x1bOB\r
wait [-] Layer 0
wait ActivationQuantize
send \x1bOD
wait [+] Layer 0
send s
wait sort: order
send c
wait c now
send p
wait paused
send p
wait running
send ?
wait this help
send ?
wait Layer 0
send \t
wait QkvProjection
send \x1bOA\x1bOA\x1bOA\x1bOA\x1bOA\x1bOA\r
wait ^[+] [ANFHO]
send q
EOF
    check "$terminal: all lines of the frame are there" has "$tmp/out" '^\|brick \(now\) +share +time'
    check "$terminal: q leaves the terminal as it was" restored 'exit 0'
done
for signal in INT:130 TERM:143; do
    check "SIG${signal%:*} ends it" screen <<EOF
wait QkvProjection
signal ${signal%:*}
EOF
    check "and leaves the terminal as it was" restored "exit ${signal#*:}"
done
check 'a window of any size' screen <<'EOF'
wait QkvProjection
size 12 40
wait ^q quit  p pause  s sort: time  c since$
size 50 132
wait RmsNorm
wait tab pass
size 3 20
wait ^bn-run generate
size 1 1
size 24 80
wait tab pass
send q
EOF
check 'restores the terminal' restored 'exit 0'
NO_COLOR=1 TERM=xterm-256color check 'it works without colours' screen <<'EOF'
wait QkvProjection
send q
EOF
for terminal in dumb no-such-terminal; do
    TERM=$terminal check "TERM=$terminal gives frames of text" screen <<'EOF'
wait QkvProjection
wait RmsNorm
signal INT
EOF
    check 'and nothing of the terminal changes' restored 'exit 130'
done
export TERM=vt100
check 'it reports that the program was killed' screen <<EOF
wait QkvProjection
run kill -KILL $pid
wait ^bn-run generate $pid  ended
wait the process has ended; this is its last state
wait QkvProjection
send q
EOF
check 'and the terminal is as it was' restored 'exit 0'
wait "$pid" 2>/dev/null
check 'the last state of a killed program can be read' shows "^bn-run generate $pid  ended" "$pid" --once

# ---- several programs ----
begin --live --live-level kernel
first=$pid
wait_for shows QkvProjection "$first" --once
check 'the next program removes the file of a killed one' equal "$(ls "$tmp/run/bn")" "$first"
begin --live --live-level layer
wait_for shows Layer "$pid" --once
says 2 'of two programs one must be named' "2 programs publish their profile: .*($first $pid|$pid $first)" \
    "$bin/bn-bench" top --once
check 'kernels are shown at their level' shows '^- Kernels' "$first" --once
check 'by name' has "$tmp/out" '^  [a-z0-9_]+_(ref|avx|amx|neon)[a-z0-9]* '
check 'at the level of layers there is no tree of a pass' shows 'no tree: an execution graph needs' "$pid" --once --pass
"$bin/bn-bench" top "$pid" -i 50 >"$tmp/frames" &
reader=$!
wait_for has "$tmp/frames" Layer
end TERM
check 'frames of text end with the program' wait "$reader"
check 'the last one reports it' has "$tmp/frames" "^bn-run generate $pid  ended"
stop_all

# ---- bn-serve ----
"$bin/bn-serve" -q -m "$nano" --port 0 --template instruct -t 1 --sequences 3 --live-file "$tmp/serve" >"$tmp/address" 2>/dev/null &
pids+=("$!")
wait_for grep -q http "$tmp/address"
check 'a server without requests is idle' shows '^bn-serve [0-9]+  idle' "$tmp/serve" --once
check 'and no pass has run' has "$tmp/out" 'no pass has run yet'
curl -sS -m 120 -H 'Content-Type: application/json' -d '{"prompt": "To be", "max_tokens": 9, "temperature": 0}' \
    "$(grep -oE 'http://.*' "$tmp/address")/v1/completions" >"$tmp/answer"
answered() { top --once --json "$tmp/serve" && holds "d['load']['answers'] == 1 and d['load']['running'] == 0"; }
wait_for answered
check 'answers of a server are counted' holds "d['load'] == {'sequences': 3, 'running': 0, 'waiting': 0, 'answers': 1}"
check 'and its tokens' holds "t['output_tokens'] >= 8 and t['tokens'] > t['output_tokens'] and t['passes'] >= 8"
top --once "$tmp/serve"
check 'its frame has the bricks' has "$tmp/out" '^  QkvProjection'
check 'and its queue' has "$tmp/out" 'sequences 0/3  queue 0'
