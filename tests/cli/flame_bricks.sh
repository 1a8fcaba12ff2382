#!/usr/bin/env bash
# bn-flamegraph bricks: measured times of profiles, sums, and whether samples agree with them. On a busy machine the program reports
# that it cannot compare. So no test requires agreement, only that the result is reported. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
. tests/tap.sh
flame() { "$bin/bn-flamegraph" "$@"; }
field() { # name, file: the first number of that name in a document
    sed -nE "s/^ *\"$1\": ([0-9]+),?\$/\1/p" "$2" | head -n 1
}

"$bin/bn-run" -q -p 'ROMEO:' -n 8 -t 2 --profile "$tmp/p.json" --profile-level kernel >/dev/null 2>&1
"$bin/bn-run" -q -p 'ROMEO:' -n 8 -t 2 --profile "$tmp/layer.json" --profile-level layer >/dev/null 2>&1
# One processor gets one thread.
threads=$(field n_threads "$tmp/p.json")
says 0 'a profile as a table' 'ternary_gemv_' flame bricks "$tmp/p.json"
says 0 'phases are told apart' ' decode$' flame bricks "$tmp/p.json"
says 0 'layers when they are wanted' ' layer 01$' flame text --tree --min 0 --tags layer,brick "$tmp/p.json"
says 0 'threads when they are wanted' " thread $((threads - 1))\$" flame text --tree --min 0 --tags thread,brick "$tmp/p.json"
says 0 'of layers only' ' Layer$' flame bricks "$tmp/layer.json"

flame bricks --json "$tmp/p.json" >"$tmp/bricks.json"
wall=$(field wall_ns "$tmp/p.json")
check 'the whole is the wall time of all threads, to the nanosecond' equal "$(field whole "$tmp/bricks.json")" $((threads * wall))
sum=$(awk -F'[:,]' '/"self"/ { s += $2 } END { printf "%.0f", s }' "$tmp/bricks.json")
check 'exclusive times add up to it' equal "$sum" $((threads * wall))
flame bricks --json "$tmp/p.json" "$tmp/layer.json" >"$tmp/two.json"
check 'two profiles are two runs' equal "$(field runs "$tmp/two.json")" 2
check 'and their times are added' equal "$(field whole "$tmp/two.json")" $((threads * wall + threads * $(field wall_ns "$tmp/layer.json")))

status 1 'a profile alone cannot agree' flame bricks --check "$tmp/p.json"
echo 'main;work 12' >"$tmp/plain.folded"
says 3 'samples without measured times' 'no measured times' flame bricks "$tmp/plain.folded"
sed 's/"dropped": 0/"dropped": 3/' "$tmp/p.json" >"$tmp/dropped.json"
says 1 'a profile that dropped events is not whole' 'dropped' flame bricks "$tmp/dropped.json"
sed 's/"wall_ns": [0-9]*/"wall_ns": 5000/' "$tmp/p.json" >"$tmp/short.json"
says 4 'more time in bricks than there was' 'take longer than the thread' flame bricks "$tmp/short.json"

# A model, recorded now.
work=(-n 8 -t 2 --min-samples 250 -r 2)
flame record -q "${work[@]}" --level kernel -o "$tmp/r.json" >"$tmp/said" 2>&1
case $? in
9) skip 'a model is recorded' 'nothing samples here' ;;
0)
    ok 'a model is recorded'
    flame bricks "$tmp/r.json" >"$tmp/table" 2>&1
    code=$?
    case $(grep -cE '^(they agree|they do not agree|not compared): ' "$tmp/table") in
    1) ok 'there is one verdict' ;;
    *) not_ok 'there is one verdict' "$(cat "$tmp/table")" ;;
    esac
    want=0
    grep -q '^they do not agree' "$tmp/table" && want=1
    check 'the exit status says it too' equal "$code" "$want"
    want=1
    grep -q '^they agree' "$tmp/table" && want=0
    status "$want" 'what was not compared does not agree' flame bricks --check "$tmp/r.json"
    says 0 'bricks are rows' ' LmHead$' grep LmHead "$tmp/table"
    says 0 'kernels are rows by their functions' 'ternary_gemv_.*by its function' cat "$tmp/table"
    # The function of a sample is the kernel that the profiler names for that moment, on any machine. Chance does not reach the bound
    # of a tenth.
    read -r other both < <(sed -nE 's/^kernels: in ([0-9]+) of ([0-9]+) samples.*/\1 \2/p' "$tmp/table")
    if [ "${both:-0}" -lt 20 ]; then
        skip "functions are those of the profiler's kernels" 'too few samples: the machine is busy'
    else
        check "functions are those of the profiler's kernels, but for $other of $both" [ $((10 * other)) -le "$both" ]
    fi
    says 0 'the workload stands with it' '"ids_sha256": ?"[0-9a-f]{64}"' cat "$tmp/r.json"
    flame record -q -n 4 -t 1 --min-samples 50 --level layer -o "$tmp/layers.json"
    says 0 'one thread, level of layers' ' Layer$' flame bricks "$tmp/layers.json"
    flame record -q -n 4 -t 1 --min-samples 50 --level off -o "$tmp/off.json"
    says 3 'without bricks there is nothing to show' 'no measured times' flame bricks "$tmp/off.json"
    ;;
*) not_ok 'a model is recorded' "$(cat "$tmp/said")" ;;
esac
