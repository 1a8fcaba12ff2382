#!/usr/bin/env bash
# bn-bench ab from the command line. The commands print known numbers, so no test depends on the speed of the
# machine. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
export tmp
ab() { # arguments; leaves $status, $tmp/out, $tmp/err
    "$bin/bn-bench" ab -q -v "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
shown() { "$@" || { cat "$tmp/out" "$tmp/err"; return 1; }; }
ended() { shown [ "$status" -eq "$1" ]; }
has() { shown grep -qE -- "$2" "$tmp/$1"; }

# cost.sh FACTOR: prints a cost that drifts by 1 % per run, on both sides, with noise of 0.3 %.
cat >"$tmp/cost.sh" <<'SH'
n=$(cat "$tmp/n"); n=$((n + 1)); echo "$n" >"$tmp/n"
awk -v n="$n" -v f="$1" 'BEGIN { c = f * 100 * (1 + n / 100) * (1 + 0.003 * ((n * 37 % 19) / 9.5 - 1));
    print "warming: cost 1"; printf "cost %.4f\nrate %.4f\n", c, 1e4 / c }'
SH
drifting() { # factor of B, options...
    local factor=$1
    shift
    echo 0 >"$tmp/n"
    ab --no-control --output-only -r 12 "$@" -- sh "$tmp/cost.sh" 1 --vs sh "$tmp/cost.sh" "$factor"
}
drifting 1.05 --extract 'cost=cost ([0-9.]+)'
check 'a cost 5 % higher, under drift, is a negative result' ended 1
check 'REGRESSED' has out '^command +cost .* REGRESSED( |$)'
check 'by the last of the numbers printed' has out '^command +cost .* \+[456]\.[0-9]+ '
check 'the smallest change that would be found is shown' has out 'MDE [0-9.]+ %'
check 'and the verdict is a sentence' has out '^B is [456]\.[0-9] % larger \([0-9.]+ to [0-9.]+ %\) in cost: WORSE'
drifting 1.05 --extract 'rate=^rate ([0-9.]+)$:higher'
check 'a rate that is lower has regressed, too' has out '^command +rate .* REGRESSED( |$)'
drifting 0.95 --extract 'cost=cost ([0-9.]+)'
check 'a cost 5 % lower is good' ended 0
check 'IMPROVED' has out '^command +cost .* IMPROVED( |$)'
drifting 1 --extract 'cost=cost ([0-9.]+)'
check 'the same command twice is not a negative result' ended 0
check 'and no change' has out '^command +cost .* (SAME|INCONCLUSIVE)'
drifting 1 -r 3 --extract 'cost=cost ([0-9.]+)'
check 'three rounds show nothing' has out '^command +cost .* INCONCLUSIVE( |$)'
check 'which is not a failure' ended 0
drifting 1 -r 3 --extract 'cost=cost ([0-9.]+)' --strict
check 'unless it is asked for' ended 1

ab -r 2 --no-control -- sh -c "echo 'it is'" '' a=b --vs true
check 'commands are shown as a shell takes them' grep -qF "sh -c 'echo '\\''it is'\\''' '' a=b" "$tmp/out"

# The order: warm-up first, A twice a round.
log() { ab -r 2 --warmup 1 --no-control --shell -- "echo a >>$tmp/log" --vs "echo b >>$tmp/log"; }
: >"$tmp/log"
log
check 'how many rounds there were' has out "^session  2 rounds of A, B, A' .* after 1 of warm-up;"
check 'wall time, CPU time and memory are compared' has out '^command +wall_ns .*INCONCLUSIVE'
check 'memory, too' has out '^command +max_rss_bytes '
check '3 rounds ran A six times' test "$(grep -c a "$tmp/log")" -eq 6
check 'B three times' test "$(grep -c b "$tmp/log")" -eq 3

# Failures.
ab -r 2 -- true --vs sh -c 'echo oh no >&2; exit 3'
check 'a command that fails' ended 1
check 'is quoted' has err '^bn-bench: error: command B failed with status 3 \(round 1\): oh no$'
ab -r 2 -- true --vs sh -c 'kill -SEGV $$'
check 'one that is killed' has err 'command B was killed by signal 11 \(round 1\)'
ab -r 2 --timeout 5 -- true --vs sleep 1000
check 'a command that does not end gives no data' ended 1
check 'it is said which, and when' has out '^no verdict: command B exceeded --timeout 5 s \(round 1\)$'
check 'and no number is shown' has out '^A  true$'
ab -- "$tmp/none" --vs true
check 'a command that is not there' ended 3

ab -r 2 -- false --vs true
check 'what failed is named as it was typed' has err '^bn-bench: error: command A failed with status 1 \(round 1(, repeated run)?\)$'

# The primary metric decides; the others count when their regression is critical.
# shellcheck disable=SC2016 # the script's own arguments
printf 'echo wall 100; echo small "$1"; echo fat "$2"' >"$tmp/metrics.sh"
extracts=(--extract 'wall=wall ([0-9]+)' --extract 'small=small ([0-9.]+)' --extract 'fat_bytes=fat ([0-9]+)')
metrics() { # small of B, fat of B, options... Two rounds of something that varies show nothing.
    local small=$1 fat=$2
    shift 2
    ab -r 8 --warmup 0 --no-control --output-only "${extracts[@]}" "$@" -- sh "$tmp/metrics.sh" 1 100 --vs sh "$tmp/metrics.sh" "$small" "$fat"
}
metrics 1.1 100
check 'every metric decides unless one is named' ended 1
metrics 1.1 100 --metric wall
check 'one that is named decides alone' ended 0
check 'which is said' has out '^decides  --metric NAME, else printed numbers, else wall_ns'
check 'and the verdict is its' has out '^A and B are the same in wall$'
metrics 1.2 100 --metric wall
check 'a warning of another one is reported' has out '^command +small .*REGRESSED \(warning\)'
check 'and passes' ended 0
metrics 1 200 --metric wall
check 'a critical one does not pass' ended 1
check 'and is reported' has out '^command +fat_bytes .*REGRESSED \(critical\)'
check 'as the verdict' has out '^B is 100\.0 % larger in fat_bytes: WORSE \(critical\) \(2 series: 1 REGRESSED, 1 SAME\)$'
metrics 1 100 --metric none
check 'an unknown metric' has err "error: --metric: no series has the metric 'none'"
ab -r 2 --warmup 0 --no-control -- true --vs true
check 'without a name the elapsed time decides' has out '^undecided: 2 pairs are too few'

# Missing numbers.
ab -r 2 --no-control --output-only --extract 'x=x ([0-9]+)' -- echo x 1 --vs echo y 1
check 'a number that one side lacks gives no data' ended 1
check 'which is said' has out '^    command x: missing in B$'
check 'in the sentence, too' has out '^nothing could be compared: missing in B$'
ab -r 2 --no-control --output-only --extract 'x=x ([0-9]+)' -- echo y --vs echo y
check 'one that both lack is a mistake' ended 1
check 'which names it' has err "error: --extract: neither command printed a match for 'x'"
ab -r 6 --no-control --output-only --extract 'x=x ([0-9]+)' -- sh -c 'echo x 5 >&2' --vs sh -c 'echo x 5 >&2'
check 'standard error is read, too' has out '^command +x +5\.000 +5\.000 +[+-]?0.00 % +SAME( |$)'

# Documents.
doc() { # name, test, metric, exact, samples
    printf '{"schema": "bn.bench/1", "series": [%s]}\n' "$(series "${@:2}")" >"$tmp/$1.json"
}
series() { printf '{"test": "%s", "metric": "%s", "unit": "ns", "better": "lower", "exact": %s, "warmup": 0, "samples": [%s]}' "$@"; }
doc a decode ns_per_token false 10,12,11
doc b decode ns_per_token false 13,9,14
ab -r 6 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'series are compared by their medians' has out '^decode +ns_per_token +11\.00 ns +13\.00 ns +\+18\.2 % +REGRESSED'
check 'and a regression has a severity' has out ' REGRESSED \(critical\)'
printf '{"schema": "bn.thresholds/1", "levels": [{"metric": "*", "warning_percent": 1, "critical_percent": 5}]}' >"$tmp/levels"
ab -r 6 --no-control --output-only --series --thresholds "$tmp/levels" -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'by the levels that are given' has out ' REGRESSED \(critical\)'
ab --thresholds "$tmp/none" -- true --vs true
check 'which have to be there' ended 3
doc a decode bytes true 1000
doc b decode bytes true 1001
ab -r 1 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'exact ones need one round' has out '^decode +bytes .* REGRESSED'
printf '{"series": [%s]}' "$(series decode token_jitter_ns false 10,11,12)" >"$tmp/a.json"
printf '{"series": [%s]}' "$(series decode token_jitter_ns false 13,14,15)" >"$tmp/b.json"
ab -r 6 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'a change within the drift of its metric is not a regression' has out '^decode +token_jitter_ns .* SAME( |$)'
printf '{"series": [%s]}' "$(series decode bytes true 1000)" >"$tmp/a.json"
printf '{"series": [%s, %s]}' "$(series decode bytes true 1000)" "$(series prompt bytes true 7)" >"$tmp/b.json"
ab -r 2 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'different sets of series give no data' ended 1
check 'what is missing is reported' has out '^prompt +bytes +- +7 ns +- +INCONCLUSIVE( |$)'
check 'what is missing is reported, in full' has out '^    prompt bytes: only in B$'
check 'what is there is compared' has out '^decode +bytes .* SAME( |$)'
ab -r 2 --no-control --series --filter decode -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'a filter leaves the others out' ended 0
check 'all of them' [ "$(grep -cE '^decode .*SAME' "$tmp/out")" -eq 1 ]
ab -r 2 --no-control --series --filter nothing -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'a filter without a match fails' ended 1
ab -r 1 --series -- echo hello --vs cat "$tmp/b.json"
check 'an invalid document' ended 4
check 'names the side' has err "error: the output of command A is not a bn-bench document with series"
ab -r 2 --json --no-control --output-only --series -- cat "$tmp/b.json" --vs cat "$tmp/b.json"
check 'there is a document' ended 0
for member in '"schema": "bn.bench/1"' '"command": "ab"' '"slots": ' '"comparisons": ' '"test": "A: decode"' '"test": "B: prompt"' \
    "\"side\": \"A'\"" '"verdict": "SAME"' '"warmup": true' '"steal_ns": '; do
    check "with $member" has out "$member"
done
check 'its slots are all there' test "$(grep -c '"side": ' "$tmp/out")" -eq 9
check 'and all that is null says why' test "$(grep -c ': null' "$tmp/out")" -gt 0

# What is printed without -v: three lines.
brief() { # options and commands...
    "$bin/bn-bench" ab -q "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
printed() { printf '{"series": [%s]}' "$1" >"$tmp/$2.json"; }
printed "$(series 'decode n=16 d=0 t=1' ns_per_token false 1000,1100,1200)" a
printed "$(series 'decode n=16 d=0 t=1' ns_per_token false 1300,900,1400)" b
compared=(--no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json")
brief -r 6 "${compared[@]}"
check 'three lines' [ "$(wc -l <"$tmp/out")" -eq 3 ]
check 'A: its figure, and the command' has out "^A  1\.100 us  cat $tmp/a\.json$"
check 'B: the same' has out "^B  1\.300 us  cat $tmp/b\.json$"
check 'the verdict, with the readable name of the test' has out \
    '^B is 18\.2 % slower in ns_per_token of decode 16 tokens, 1 thread: SLOWER \(critical\)$'
check 'the exit code does not change' ended 1
brief -r 6 --no-control --output-only --series -- cat "$tmp/b.json" --vs cat "$tmp/a.json"
check 'the other way round it is faster' has out '^B is 15\.4 % faster in ns_per_token of .*: FASTER$'
brief -r 6 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/a.json"
check 'no difference' has out '^A and B are the same in ns_per_token of decode 16 tokens, 1 thread$'
brief -r 2 --no-control --output-only --series -- cat "$tmp/a.json" --vs cat "$tmp/b.json"
check 'undecided, with the reason' has out '^undecided in .*: 2 pairs are too few for an interval; at least 6 are needed$'
brief -r 6 --filter '16 tokens' "${compared[@]}"
check 'a filter may be a part of the readable name' has out '^B is 18'
brief -r 6 --filter 'n=16' "${compared[@]}"
check 'or of the key' has out '^B is 18'
echo 0 >"$tmp/n"
brief --no-control --output-only -r 12 --extract 'cost=cost ([0-9.]+)' -- sh "$tmp/cost.sh" 1 --vs sh "$tmp/cost.sh" 1.05
check 'figures that vary have an interval' has out '^A  [0-9.]+ \([0-9.]+ to [0-9.]+\)  sh '
brief -r 2 --json "${compared[@]}"
check 'documents keep the key' has out '"test": "decode n=16 d=0 t=1"'

# The control is timed unless --no-control is given.
ab -r 2 --json --output-only --series -- cat "$tmp/b.json" --vs cat "$tmp/b.json"
check 'the control is timed' has out '"spin": [1-9][0-9]*'
check 'exact values have a verdict despite noise' ended 0

# Misuse.
for args in '' '-- true' '-- true --vs' '-- --vs true' '-- true --vs true --vs true' '-r 0 -- true --vs true' \
    '--margin 0 -- true --vs true' '--extract x -- true --vs true' '--extract x=y -- true --vs true' '--extract x=( -- true --vs true' \
    '--extract x=(1) --extract x=(1) -- true --vs true' '--output-only -- true --vs true' \
    '--timeout soon -- true --vs true'; do
    # shellcheck disable=SC2086
    ab $args
    check "misuse: $args" ended 2
done
