#!/usr/bin/env bash
# bn-flamegraph record by timers, which need no perf events: both tiers and kinds, shares against the program's own clock, what
# is told of programs that end badly or cannot be recorded so. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
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

for tier in timer itimer; do
    "$flame" record --sampler $tier -o $tier.json -o $tier.folded -- "$sampled/split" 500 >$tier.own 2>$tier.said
    case $? in
    0) ;;
    9)
        skip "$tier" "$(grep -m 1 error: $tier.said)"
        continue
        ;;
    *) not_ok "$tier records" "$(cat $tier.said)" ;;
    esac
    check "$tier: it is the one that was asked for" equal "$(member tier $tier.json)" $tier
    n=$(member samples $tier.json)
    check "$tier: shares are those of the program's own clock" agree $tier.folded $tier.own "$n"
    check "$tier: a wrong share would be found" swapped $tier.folded $tier.own "$n"
    lacks "$tier: the sampler's own thread is not in it" bn-sampler cat $tier.folded
done

if [ ! -s timer.json ]; then
    skip "programs recorded by timers" "they are refused here"
    exit 0
fi
all=perf_event_open,timer_create,setitimer
if "$sampled/deny_perf" EPERM perf_event_open true; then
    check "perf events are refused: the timer is chosen" "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record -o auto.json -- "$sampled/split" 60
    check "it says so" equal "$(member tier auto.json)" timer
    says 0 "the user is told why" 'sampled by timer, since not by cycles, clock: EACCES: ' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record --allow-empty -o told.json -- "$sampled/split" 60
    says 0 "and that fewer samples came" "warning: [0-9]+ of [0-9]+ samples came: timer samples at the operating system's ticks" \
        "$sampled/deny_perf" EACCES perf_event_open "$flame" record --allow-empty -F 20000 -o told.json -- "$sampled/split" 200
    lacks "unless it did" 'samples came' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record --allow-empty -F 50 -o told.json -- "$sampled/split" 400
    says 9 "nothing works: the error names the ways" 'error: nothing here can be sampled: cycles, clock, timer and itimer are refused$' \
        "$sampled/deny_perf" EPERM $all "$flame" record -F 20000 -o none.json -- "$sampled/split" 10
    check "the reasons stand before it, once" equal "$(grep -c 'EPERM: ' tap)" 1
    check "and why" grep -qE '"refused":\{"clock":"EACCES: .*"cycles":"EACCES: ' auto.json
    says 9 "a timer that is refused" "error: timer: timer_create: Operation not permitted" "$sampled/deny_perf" EPERM $all \
        "$flame" record --sampler timer -o none.json -- "$sampled/split" 10
    says 9 "an interval timer that is refused" "error: itimer: setitimer: Operation not permitted" \
        "$sampled/deny_perf" EPERM $all "$flame" record --sampler itimer -o none.json -- "$sampled/split" 10
    check "nothing is written" test ! -e none.json
else
    skip "perf events are refused" "no filter can be installed here"
fi

# ---- wall time ----
check "wall time is recorded" "$flame" record --kind wall --sampler timer -o wall.json -o wall.folded -- "$sampled/threads" 400
# shellcheck disable=SC2016 # awk's own
check "a thread that sleeps has as much as one that works" awk '
    /(^|;)busy;/ {busy += $NF} /(^|;)idle;/ {idle += $NF} END {exit !(busy > 0 && idle > 0.5 * busy && idle < 2 * busy)}' wall.folded
says 9 "the interval timer does not record it" "itimer: it does not record wall" \
    "$flame" record --kind wall --sampler itimer -o none.json -- "$sampled/split" 10

# ---- poor stacks ----
says 0 "stacks that lack callers are told" 'warning: [0-9]+ % of the stacks do not reach the beginning of their thread: ' \
    "$flame" record --sampler timer --unwind fp -o poor.json -- "$sampled/nofp" 150
lacks "others are not" 'do not reach' "$flame" record --sampler timer -o good.json -- "$sampled/split" 150

# ---- programs ----
says 9 "a static program cannot be recorded so" "split-static.* did not load the sampler: it is linked statically" \
    "$flame" record --sampler timer -o none.json -- "$sampled/split-static" 20
check "nothing is written of it" test ! -e none.json
says 0 "a crash is told" "warning: .*/crash was ended by signal 11" \
    "$flame" record --sampler timer -o crash.json -o crash.folded -- "$sampled/crash" 200 segv
check "its samples are kept" grep -q ';before_the_end' crash.folded
check "and how it ended" grep -qF '"end":"was ended by signal 11"' crash.json
says 0 "a program that takes the signal for itself is told" "warning: the program uses the sampler's signal or timer for itself" \
    "$flame" record --sampler itimer --allow-empty -o taken.json -- "$sampled/sigprof" 200
check "the document says it too" equal "$(member note taken.json)" "the program uses the sampler's signal or timer for itself"
# sort cleans up on any signal that would end it, SIGPROF among them, and then ends by it.
seq 1 400000 >numbers
status 0 "a program that ends by the signal lives" "$flame" record --sampler itimer --allow-empty -o sort.json -- sort -rn numbers
check "and says so" grep -q '"status":0' sort.json
