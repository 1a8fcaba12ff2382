#!/usr/bin/env bash
# bn-flamegraph record by timers, without perf events: both tiers and kinds, percentages compared with the program's own clock, and
# the reports about programs that crash or cannot be recorded this way. TAP on standard output.
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

for tier in timer itimer; do
    # shellcheck disable=SC2086 # words without blanks
    split() { "$flame" record --sampler $tier -o $tier.json -o $tier.folded -- "$sampled/split" "$1" >$tier.own 2>$tier.said; }
    longer 300 enough 160 $tier.json split # enough for a wrong share to be 5 standard deviations away
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
        "$flame" record --allow-empty -o auto.json -- "$sampled/split" 60
    check "it says so" equal "$(member tier auto.json)" timer
    says 0 "the user is told why" 'sampler: timer; unavailable: cycles, clock: EACCES: ' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record --allow-empty -o told.json -- "$sampled/split" 60
    says 0 "and that fewer samples came" "warning: got [0-9]+ of [0-9]+ samples: timer samples at kernel ticks" \
        longer 200 "$sampled/deny_perf" EACCES perf_event_open "$flame" record -F 20000 -o told.json -- "$sampled/split"
    # Periods that are long beside any machine's ticks.
    lacks "unless it did" 'warning: got [0-9]+ of' "$sampled/deny_perf" EACCES perf_event_open \
        "$flame" record -F 4 -o told.json -- "$sampled/split" 1300
    check "of which there are some" test "$(samples told.json)" -ge 2
    says 9 "nothing works: the error names the ways" 'error: no sampler works: cycles, clock, timer and itimer are unavailable$' \
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
check "wall time is recorded" recorded 100 wall --kind wall --sampler timer -- "$sampled/threads"
# shellcheck disable=SC2016 # awk's own
check "a thread that sleeps has as much as one that works" awk '
    /(^|;)busy;/ {busy += $NF} /(^|;)idle;/ {idle += $NF} END {exit !(busy > 0 && idle > 0.5 * busy && idle < 2 * busy)}' wall.folded
check "a program that only waits is recorded" "$flame" record --kind wall --sampler timer -o sleep.json -o sleep.folded -- sleep 0.3
lacks "the sampler's library is not in it" 'libbn-sampler' cat sleep.json sleep.folded
says 9 "the interval timer does not record it" "itimer: it does not record wall" \
    "$flame" record --kind wall --sampler itimer -o none.json -- "$sampled/split" 10

# ---- poor stacks ----
says 0 "stacks that lack callers are told" 'warning: [0-9]+ % of the stacks are incomplete: ' \
    recorded 40 poor --sampler timer --unwind fp -- "$sampled/nofp"
lacks "others are not" 'do not reach' recorded 40 good --sampler timer -- "$sampled/split"

# ---- programs ----
says 9 "a static program cannot be recorded so" "split-static.* did not load the sampler: it is statically linked" \
    "$flame" record --sampler timer -o none.json -- "$sampled/split-static" 20
check "nothing is written of it" test ! -e none.json
segv() { "$flame" record --sampler timer -o crash.json -o crash.folded -- "$sampled/crash" "$1" segv; }
says 0 "a crash is told" "warning: .*/crash was ended by signal 11" longer 200 segv
check "its samples are kept" grep -q ';before_the_end' crash.folded
check "and how it ended" grep -qF '"end":"was ended by signal 11"' crash.json
says 0 "a program that takes the signal for itself is told" "warning: the program uses the sampler's signal or timer for itself" \
    "$flame" record --sampler itimer --allow-empty -o taken.json -- "$sampled/sigprof" 300
check "the document says it too" equal "$(member note taken.json)" "the program uses the sampler's signal or timer for itself"
# sort cleans up on any signal that would end it, SIGPROF among them, and then ends by it.
seq 1 400000 >numbers
status 0 "a program that ends by the signal lives" "$flame" record --sampler itimer --allow-empty -o sort.json -- sort -rn numbers
check "and says so" grep -q '"status":0' sort.json

# ---- what is started by a program, during the recording and after it ----
grep=$(command -v grep) env=$(command -v env)
# shellcheck disable=SC2016 # awk's own
all_end_with() { awk -v n="$1" -v want="$2" '$1 ~ /:$/ {all++; right += $2 == want} END {exit !(all == n && right == n)}' "$3"; }
check "a program that starts others is recorded" "$flame" record --sampler timer --allow-empty -o start.json -- \
    sh -c '"$@" >start.said' sh "$sampled/start" "$grep" -c -e libbn-sampler -e "it's" /proc/self/maps
check "so are they, however they are started" all_end_with 14 0 start.said
check "an environment is not changed for them to see" "$flame" record --sampler timer --allow-empty -o start.json -- \
    sh -c 'LD_PRELOAD=/nowhere.so "$@" >start.environ 2>start.errors; env >>start.environ' sh "$sampled/start" "$env"
check "but for what was there before" equal "$(grep -E 'LD_PRELOAD|BN_SAMPLER' start.environ | sort -u)" LD_PRELOAD=/nowhere.so

# owned PATH: whether only this user and root can replace the file.
owned() {
    local path=$1
    while :; do
        case $(stat -c %u "$path") in 0 | "$(id -u)" | "$(stat -c %u /)") ;; *) return 1 ;; esac
        [ "$path" = / ] || [ -k "$path" ] || [ -z "$(find "$path" -maxdepth 0 -perm /022)" ] || return 1
        [ "$path" != / ] || return 0
        path=$(dirname "$path")
    done
}
check "the sampler's library is found" "$flame" record --sampler timer --allow-empty -o maps.json -- \
    sh -c 'grep libbn-sampler /proc/self/maps >library'
library=$(sed -E 's/^[^/]*//; s/ .*//; q' library)
check "it is a file that only its owner can replace" owned "${library:-missing}"
check "in a folder that only its owner can open" equal "$(stat -c '%a %u' "$(dirname "${library:-missing}")")" "700 $(id -u)"
mkdir runtime && chmod 777 runtime
check "a folder that others can write to is not taken" env XDG_RUNTIME_DIR="$tmp/runtime" \
    "$flame" record --sampler timer --allow-empty -o runtime.json -- "$sampled/split" 100
check "nothing was put into it" equal "$(ls runtime)" ""
chmod 700 runtime
if owned "$tmp/runtime"; then
    check "a folder of one's own is" env XDG_RUNTIME_DIR="$tmp/runtime" \
        "$flame" record --sampler timer --allow-empty -o runtime.json -- "$sampled/split" 100
    library=$(echo "$tmp"/runtime/bn-sampler-*/libbn-sampler-*.so)
    check "and holds the library" test -s "$library"
    chmod 700 "$library" && echo wrong >"$library"
    check "one that was damaged is replaced" env XDG_RUNTIME_DIR="$tmp/runtime" \
        "$flame" record --sampler timer --allow-empty -o runtime.json -- "$sampled/split" 100
else
    skip "a folder of one's own is" "$tmp lies in one that others can change"
fi

# A process that stays: it waits at a pipe until the recording is over, then it starts programs, which print their environment.
cat >daemon.sh <<'END'
cd "$1" || exit 1
setsid sh -c 'echo $$ >pid; grep -c libbn-sampler /proc/self/maps >during; echo >ready
    read -r _ <go; "$@" >after; tr "\0" "\n" </proc/$$/environ >own; read -r _ <last' sh "$2" "$3" >/dev/null 2>&1 </dev/null &
read -r _ <ready
echo >started
read -r _ <hold
END
# patient SECONDS COMMAND...: until it succeeds
patient() { local n=$(($1 * 10)); shift; until "$@"; do n=$((n - 1)); [ $n -gt 0 ] || return 1; sleep 0.1; done; }
no_agent() { ! grep -qx bn-sampler /proc/"$1"/task/*/comm; }
feed() { timeout 60 sh -c "echo >'$1'"; }
wait_at() { timeout 60 sh -c "read -r _ <'$1'"; }
for end in ends "is killed"; do
    rm -rf stay && mkdir stay && mkfifo stay/ready stay/started stay/go stay/hold stay/last
    "$flame" record --sampler timer --allow-empty -o stay.json -- sh daemon.sh "$PWD/stay" "$sampled/start" "$env" >/dev/null 2>stay.said &
    recorder=$!
    wait_at stay/started
    [ "$end" = ends ] || kill -KILL $recorder
    [ "$end" != ends ] || feed stay/hold
    wait $recorder 2>/dev/null
    pid=$(cat stay/pid)
    check "the recorder $end: a daemon is left that was recorded" grep -qx '[1-9][0-9]*' stay/during
    check "the sampler's thread leaves it" patient 60 no_agent "$pid"
    feed stay/go
    feed stay/last
    [ "$end" = ends ] || feed stay/hold
    check "it starts programs after that" all_end_with 14 0 stay/after
    lacks "without the sampler in their environment" 'LD_PRELOAD|BN_SAMPLER' cat stay/after
    lacks "or in its own" 'LD_PRELOAD|BN_SAMPLER' cat stay/own
done
