#!/usr/bin/env bash
# bn-flamegraph record and doctor: programs by perf events as far as this user may use them, its own run of a model by timers where
# they are refused; percentages compared with the program's own clock and with perf, output and exit status. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/sampled/sampled.sh
. tests/sampled/sampled.sh
chmod 755 "$tmp"
mkdir -m 777 "$tmp/w"
# Copies, since another user may not reach the build folder.
cp "$bin/bn-flamegraph" "$bin/tests/sampled/split" "$bin/tests/sampled/deny_perf" "$tmp"
cd "$tmp/w" || exit 1
flame=$tmp/bn-flamegraph split=$tmp/split deny=$tmp/deny_perf

# weights FOLDED: the weight of stacks with seventy and with thirty
weights() { awk '/;seventy[;_ ]/ {a += $NF} /;thirty[;_ ]/ {b += $NF} END {printf "%.0f %.0f\n", a, b}' "$1"; }
# agree A B OWN_A OWN_B SAMPLES: whether a share is that of the program's own clock: within 5.5 standard deviations
agree() {
    awk -v a="$1" -v b="$2" -v p="$3" -v q="$4" -v n="$5" 'BEGIN {
        if (a + b == 0 || n < 30) exit 1
        e = p / (p + q); s = a / (a + b); d = s > e ? s - e : e - s
        exit !(d <= 5.5 * sqrt(e * (1 - e) / n)) }'
}
own() { sed -E "s/.*\"$1_ns\": ([0-9]+).*/\\1/" "$2"; }
# record_split NAME COMMAND...: records split by a command's prefix
record_split() {
    local name=$1
    shift
    longer 300 enough 60 "$name.json" split_once "$name" "$@"
}
split_once() { # NAME COMMAND... MS
    local name=$1 ms=${!#}
    "${@:2:$#-2}" "$flame" record -F 4999 -o "$name.json" -o "$name.folded" -- "$split" "$ms" >"$name.own" 2>"$name.said"
}
shares_of() {
    local w
    w=$(weights "$1.folded")
    # shellcheck disable=SC2086
    agree $w "$(own seventy "$1.own")" "$(own thirty "$1.own")" "$(samples "$1.json")"
}

mixed_up() {
    local w
    read -r -a w < <(weights all.folded)
    ! agree "${w[1]}" "${w[0]}" "$(own seventy all.own)" "$(own thirty all.own)" "$(samples all.json)"
}

# Until there are some samples, and few: timers may have none in a short time.
some() { longer "$1" "$flame" record "${@:2}"; }

# ---- this user ----
check "doctor --json is a document" sh -c "'$flame' doctor --json | grep -q '\"schema\": \"bn.doctor/1\"'"
says 0 "doctor for people" "^(ok|note) +clock " sh -c "'$flame' doctor || test \$? -eq 1"

# ---- its own run of a model, by timers ----
# until_samples N FILE ARGUMENTS...: records longer until there are enough
until_samples() {
    local tokens=64
    until [ $tokens -gt 100000 ] || enough "$1" "$2" "${@:3}" -n $tokens -o "$2" -o "${2%.json}.folded"; do tokens=$((4 * tokens)); done
}
all=perf_event_open,timer_create
if ! "$deny" EPERM perf_event_open true; then
    skip "perf events are refused" "no filter can be installed here"
elif ! "$deny" EPERM perf_event_open "$flame" record -t 1 --duration 0.3 --allow-empty -o own.json 2>own.said; then
    skip "its own run by timers" "$(grep -m 1 error: own.said)"
else
    for error in EPERM EACCES ENOSYS; do
        "$deny" $error perf_event_open "$flame" record -t 1 --duration 0.3 --allow-empty -o $error.json 2>$error.said
        check "$error: by timers" grep -qE '"tier":"timer"' $error.json
        check "$error: and it says why" grep -qE "\"clock\":\"$error: " $error.json
    done
    check "the user is told why" grep -qE 'sampler: timer; unavailable: clock: EACCES: ' EACCES.said
    check "samples are taken" until_samples 20 own.json "$flame" record --sampler timer -t 1
    check "of the generation" grep -q 'bn_generate;' own.folded
    lacks "not of the sampler's own thread" bn-sampler cat own.folded
    says 0 "fewer samples than were asked for are told" "warning: got [0-9]+ of [0-9]+ samples: timers fire at kernel ticks" \
        "$flame" record --sampler timer -t 1 -F 20000 -n 400 -o told.json
    check "wall time is recorded" until_samples 20 wall.json "$flame" record --kind wall -t 1
    says 9 "perf events do not record it" "clock: it does not record wall" "$flame" record --kind wall --sampler clock -o none.json
    says 9 "a program is not recorded by timers" 'error: timer: .*perf events sample other programs' \
        "$deny" EPERM perf_event_open "$flame" record -o none.json -- cat /nowhere
    cp "$tmp/tap" said
    check "it is not started" test -z "$(grep 'No such file' said)"
    check "and the hint names perf script" grep -q 'hint: .*perf script | bn-flamegraph render' said
    says 9 "for bn-run the hint is the command that records the same by timers" \
        "hint: .*: bn-flamegraph record -m 'x.gguf' -p 'To be' -n '3'$" "$deny" EPERM perf_event_open \
        "$flame" record -o none.json -- bn run -q -m x.gguf --temp 1 'To be' -n 3
    says 9 "nothing works: the error names the ways" 'error: no sampler works: clock and timer are unavailable$' \
        "$deny" EPERM $all "$flame" record -F 20000 -o none.json
    check "the reasons stand before it, once" equal "$(grep -c "EPERM: " "$tmp/tap")" 1
    says 9 "a timer that is refused" "error: timer: timer_create: Operation not permitted" "$deny" EPERM $all \
        "$flame" record --sampler timer -o none.json
    says 1 "doctor: nothing works" "^FAIL +samplers +0 of 3 work" "$deny" EPERM $all "$flame" doctor
    says 9 "the way that was asked for is refused" "error: clock: EPERM: .*PERFMON" "$deny" EPERM perf_event_open \
        "$flame" record --sampler clock -o none.json
    check "and nothing is written" test ! -e none.json
fi

# ---- programs, by perf events ----
clock=0
longer 50 "$flame" record --sampler clock -o probe.json -- "$split" >probe.own 2>/dev/null && clock=1
if [ "$clock" -eq 0 ]; then
    skip "recording by perf events" "perf events are refused here"
    exit 0
fi
check "a program is recorded" record_split all
check "by perf events" grep -qE '"tier":"clock"' all.json
check "shares are those of the program's own clock" shares_of all
# The same bound detects it when the two are exchanged.
check "a wrong share would be found" mixed_up
check "the command is in the document" grep -qF '"300"' all.json
if command -v perf >/dev/null && perf record -q -e cpu-clock:u -c 200003 -g -o perf.data "$split" 300 >perf.own 2>/dev/null; then
    perf script -i perf.data >perf.script 2>/dev/null
    # shellcheck disable=SC2046
    check "perf sees the same" agree $(awk '/^$/ {if (s ~ /seventy/) a++; else if (s ~ /thirty/) b++; s = ""} {s = s $0}
        END {print a, b}' perf.script) "$(own seventy all.own)" "$(own thirty all.own)" "$(grep -c '^$' perf.script)"
else
    skip "perf sees the same" "perf does not record here"
fi
# 60 processes of a fifth of a period each, which have no sample, and one that has.
# shellcheck disable=SC2016
says 0 "a warning tells of threads too short to be sampled" "only [1-7]?[0-9] % of the processor time was sampled" \
    "$flame" record --sampler clock -F 10 -o short.json -- sh -c '"$1" 400 >&2; i=0; while [ $i -lt 60 ]; do "$1" 20 >&2; i=$((i+1)); done' sh "$split"
check "copies of stacks are unwound" some 50 --unwind auto -o dwarf.json -- "$split"
check "they were copied" grep -q -E '"dump_bytes":[1-9]' dwarf.json

# ---- another user ----
# A user without other processes: users have limits, such as the memory that perf may lock.
uid=$((61000 + $$ % 1000))
other="setpriv --reuid $uid --regid $uid --clear-groups"
if [ "$(id -u)" -eq 0 ] && $other true 2>/dev/null; then
    # shellcheck disable=SC2086
    check "a user without rights records" record_split user $other
    check "shares are right for him too" shares_of user
    if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -eq 2 ]; then
        check "by perf events" grep -qE '"tier":"clock"' user.json
        check "without the system's frames, and it says why" \
            grep -qE '"system_refused":"EACCES: kernel.perf_event_paranoid is 2: sysctl -w kernel.perf_event_paranoid=1' user.json
    fi
else
    skip "a user without rights" "only root can become one"
fi

# ---- poor stacks, and a crash ----
says 0 "stacks that lack callers are told" 'warning: [0-9]+ % of the stacks are incomplete: ' \
    longer 200 enough 40 poor.json "$flame" record --unwind fp -o poor.json -- "$bin/tests/sampled/nofp"
lacks "others are not" 'incomplete' longer 200 enough 40 good.json "$flame" record -o good.json -- "$split"
says 0 "a crash is told" "warning: .*/crash was ended by signal 11" \
    longer 200 enough 10 crash.json "$flame" record -o crash.json -o crash.folded -- "$bin/tests/sampled/crash"
check "its samples are kept" grep -q ';before_the_end' crash.folded
check "and how it ended" grep -qF '"end":"was ended by signal 11"' crash.json

# ---- how it ends ----
says 3 "no such program" "nosuch.* cannot start" "$flame" record -o x.json -- ./nosuch
says 2 "no such format" "unknown format 'x.xyz'" "$flame" record -o x.xyz -- true
says 1 "without a sample" "no samples, so no file is written" "$flame" record -F 1 -o x.json -- "$split" 1
check "nothing is written" test ! -e x.json
status 0 "unless that is wanted" "$flame" record -F 1 --allow-empty -o x.json -- "$split" 1
check "then it is" test -s x.json
says 0 "few samples: how much they say" "only [0-9]+ samples: a share of 50 % has an interval of [0-9]+ to" some 40 -o few.json -- "$split"
check "runs are kept apart" some 30 -r 3 -o runs.json -- "$split"
check "there are three" equal "$(grep -o '"status":0' runs.json | wc -l)" 3
says 0 "a table without files" "self .* function" some 150 -- "$split"
says 0 "a program that fails is told" "warning: sh ended with status 7" "$flame" record --allow-empty -o x.json -- sh -c 'exit 7'
# A busy machine may leave a program hardly any processor time within a limit.
limited() {
    local s
    for s in 1 5 60; do "$flame" record --duration $s -o limit.json -- sh -c 'while :; do :; done' && return; done
}
says 0 "a time limit keeps what was recorded" "sh ran into the time limit" limited
check "and writes it" test -s limit.json
# The signal comes when the program has computed for some time.
interrupt() {
    local pid
    # shellcheck disable=SC2016 # the program's own
    "$flame" record -o cut.json -- sh -c 'i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done; echo >started; while :; do :; done' 2>cut.said &
    pid=$!
    wait_for test -s started
    kill -INT "$pid"
    wait "$pid"
    equal "$?" 130
}
set -m # a background job would ignore SIGINT
check "an interrupted recording ends as such" interrupt
set +m
check "what was recorded is kept" grep -q '"end":"was interrupted"' cut.json
