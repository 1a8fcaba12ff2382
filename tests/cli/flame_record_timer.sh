#!/usr/bin/env bash
# bn-flamegraph record by timers, without perf events: programs that sample themselves, percentages compared with the program's own
# clock, and the reports about programs that crash or cannot be recorded this way. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/sampled/sampled.sh
. tests/sampled/sampled.sh
flame=$bin/bn-flamegraph sampled=$bin/tests/sampled
cd "$tmp" || exit 1

# member NAME FILE: the first one of that name, a number or a text
member() { grep -oE "\"$1\": ?(\"[^\"]*\"|[0-9.e+-]+)" "$2" | head -n 1 | sed -E 's/^[^:]*: ?"?//; s/"$//'; }
# agree FOLDED OWN SAMPLES: whether seventy's share is that of the program's own clock: within 5.5 standard deviations
agree() {
    awk -v p="$(member "${4:-seventy}_ns" "$2")" -v q="$(member "${5:-thirty}_ns" "$2")" -v n="$3" '
        /;seventy[;_ ]/ {a += $NF} /;thirty[;_ ]/ {b += $NF}
        END {
            if (a + b == 0 || n < 30) exit 1
            e = p / (p + q); s = a / (a + b); d = s > e ? s - e : e - s
            exit !(d <= 5.5 * sqrt(e * (1 - e) / n)) }' "$1"
}
swapped() { ! agree "$@" thirty seventy; }
# recorded N NAME ARGUMENTS... PROGRAM: NAME.json and NAME.folded of the program, whose last argument is a time in milliseconds
recorded() { longer 200 enough "$1" "$2.json" "$flame" record -o "$2.json" -o "$2.folded" "${@:3}"; }

split() { "$flame" record --sampler timer -o timer.json -o timer.folded -- "$sampled/split" "$1" >timer.own 2>timer.said; }
longer 300 enough 160 timer.json split # enough for a wrong share to be 5 standard deviations away
case $? in
0)
    check "it is the one that was asked for" equal "$(member tier timer.json)" timer
    n=$(member samples timer.json)
    check "shares are those of the program's own clock" agree timer.folded timer.own "$n"
    check "a wrong share would be found" swapped timer.folded timer.own "$n"
    lacks "the sampler's own thread is not in it" bn-sampler cat timer.folded
    ;;
9) skip "timer" "$(grep -m 1 error: timer.said)" ;;
*) not_ok "timer records" "$(cat timer.said)" ;;
esac

if [ ! -s timer.json ]; then
    skip "programs recorded by timers" "they are refused here"
    exit 0
fi
all=perf_event_open,timer_create
if "$sampled/deny_perf" EPERM perf_event_open true; then
    check "perf events are refused: the timer is chosen" "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record --allow-empty -o auto.json -- "$sampled/split" 60
    check "it says so" equal "$(member tier auto.json)" timer
    says 0 "the user is told why" 'sampler: timer; unavailable: cycles, clock: EACCES: ' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record --allow-empty -o told.json -- "$sampled/split" 60
    says 0 "and that fewer samples came" "warning: got [0-9]+ of [0-9]+ samples: timers fire at kernel ticks" \
        longer 200 "$sampled/deny_perf" EACCES perf_event_open "$flame" record -F 20000 -o told.json -- "$sampled/split"
    # Periods that are long beside any machine's ticks.
    lacks "unless it did" 'warning: got [0-9]+ of' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record -F 4 -o told.json -- "$sampled/split" 1300
    check "of which there are some" test "$(samples told.json)" -ge 2
    says 9 "nothing works: the error names the ways" 'error: no sampler works: cycles, clock and timer are unavailable$' \
        "$sampled/deny_perf" EPERM $all "$flame" record -F 20000 -o none.json -- "$sampled/split" 10
    check "the reasons stand before it, once" equal "$(grep -c 'EPERM: ' tap)" 1
    check "and why" grep -qE '"refused":\{"clock":"EACCES: .*"cycles":"EACCES: ' auto.json
    says 9 "a timer that is refused" "error: timer: timer_create: Operation not permitted" "$sampled/deny_perf" EPERM $all \
        "$flame" record --sampler timer -o none.json -- "$sampled/split" 10
    for program in cat "$(command -v cat)"; do
        says 9 "a program that is not of bn is not recorded: $program" 'error: timer: .*cat is not a program of bn; other programs can' \
            "$sampled/deny_perf" EPERM perf_event_open "$flame" record -o none.json -- "$program" /nowhere
        cp tap said
        check "it is not started" test -z "$(grep 'No such file' said)"
        check "and the hint names perf script" grep -q 'hint: .*perf script | bn-flamegraph render' said
    done
    check "nothing is written" test ! -e none.json
else
    skip "perf events are refused" "no filter can be installed here"
fi

# ---- wall time ----
check "wall time is recorded" recorded 100 wall --kind wall --sampler timer -- "$sampled/threads"
# shellcheck disable=SC2016 # awk's own
check "a thread that sleeps has as much as one that works" awk '
    /(^|;)busy;/ {busy += $NF} /(^|;)idle;/ {idle += $NF} END {exit !(busy > 0 && idle > 0.5 * busy && idle < 2 * busy)}' wall.folded
says 9 "perf events do not record it" "clock: it does not record wall" \
    "$flame" record --kind wall --sampler clock -o none.json -- "$sampled/split" 10

# ---- poor stacks ----
says 0 "stacks that lack callers are told" 'warning: [0-9]+ % of the stacks are incomplete: ' \
    recorded 40 poor --sampler timer --unwind fp -- "$sampled/nofp"
lacks "others are not" 'do not reach' recorded 40 good --sampler timer -- "$sampled/split"

# ---- programs ----
segv() { "$flame" record --sampler timer -o crash.json -o crash.folded -- "$sampled/crash" "$1" segv; }
says 0 "a crash is told" "warning: .*/crash was ended by signal 11" longer 200 segv
check "its samples are kept" grep -q ';before_the_end' crash.folded
check "and how it ended" grep -qF '"end":"was ended by signal 11"' crash.json

# ---- programs of bn sample themselves ----
export PATH=$bin:$PATH
generate() { "$flame" record --sampler timer -o own.json -o own.folded -- "$@" -q -p x -n "$tokens" -t 1 >/dev/null; }
for program in bn-run "bn run"; do
    tokens=100
    until [ $tokens -gt 100000 ] || { read -ra words <<<"$program" && enough 20 own.json generate "${words[@]}"; }; do tokens=$((4 * tokens)); done
    check "$program samples itself" grep -q 'bn_run_generate;.*bn_generate;' own.folded
    check "$program is named" grep -qE '"texts":.*"bn-run"' own.json
done
says 0 "without a recording nothing is started" '^0$' sh -c "sleep 2 | bn-run -n 1 >/dev/null 2>&1 & sleep 0.2; cat /proc/\$!/task/*/comm | grep -c bn-sampler; kill \$!"
status 0 "a log that is not one is left alone" env BN_SAMPLER_LOG="$tmp/own.json" bn-run -q -p x -n 1
check "as it was" equal "$(head -c 1 own.json)" '{'
