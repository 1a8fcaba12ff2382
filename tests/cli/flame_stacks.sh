#!/usr/bin/env bash
# Do recorded stacks reach from the start of a thread to the running function, with all callers? For programs with and without frame
# pointers, and for the threads of a model. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/sampled/sampled.sh
. tests/sampled/sampled.sh
cd "$tmp" || exit 1
once() { "$bin/bn-flamegraph" record -q -F 1999 -o "$1.json" -o "$1.folded" "${@:2}" >/dev/null; }
record() { longer 300 enough 300 "$1.json" once "$@"; } # NAME ARGUMENTS... PROGRAM
# The percentage of a recording's samples whose stacks are right.
rooted() { grep -oE '"rooted_share":[0-9.e-]+' "$1.json" | cut -d: -f2 | awk '{ print int(100 * $1) }'; }
# The percentage of weight of folded lines that match a pattern. Where the C library has no debug information, its functions that
# start a thread have no names; these frames are left out.
weight() {
    sed -E 's/^(\[libc[^];]*\];)+//' "$1.folded" |
        awk -v p="$2" '/^#/ { next } { all += $NF } $0 ~ p { some += $NF } END { print (all > 0 ? int(100 * some / all) : "none") }'
}

if ! record probe --sampler clock -- "$bin/tests/sampled/split"; then
    skip "stacks" "perf events are refused here"
    exit 0
fi
check "a program that hardly does anything but call" record calls -- "$bin/tests/sampled/calls"
check "its stacks are whole" test "$(rooted calls)" -ge 95
check "inner is seen" test "$(weight calls ';inner')" -ge 50
check "and who called it, also while its frame is made or gone" test "$(weight calls '^main;inner')" -le 2
check "by frame pointers alone" record pointers --unwind fp -- "$bin/tests/sampled/calls"
check "callers are missing" test "$(weight pointers '^main;inner')" -ge 3

check "a program whose middle has no frame pointers" record nofp -- "$bin/tests/sampled/nofp"
check "is seen from end to end" test "$(rooted nofp)" -ge 95
check "by frame pointers alone" record broken --unwind fp -- "$bin/tests/sampled/nofp"
check "it is not" test "$(rooted broken)" -le 50

check "a model with two threads" once team -t 2 -n 4 --min-samples 300
check "the stacks of both are whole" test "$(rooted team)" -ge 90
check "both begin where their work does" test "$(weight team '^(main|bn_cli_main|team_worker)')" -ge 85
check "what stands around main is not shown" test "$(weight team '(^|;)(_start|__libc_start|clone3?;)')" -eq 0
