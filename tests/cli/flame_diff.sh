#!/usr/bin/env bash
# bn-flamegraph diff: a planted regression is found and fails the gate, equal files pass, a gate without data fails; the formats of
# the result; refused input. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
cd "$tmp" || exit 1
fg=$bin/bn-flamegraph

# Runs of about 10000 samples that differ a little: run NAME HOT SORT
run() {
    local name=$1 hot=$2 sort=$3 i
    for i in 1 2 3 4; do
        {
            echo "main;forward;gemv $((6000 + 20 * ((i * 7) % 5)))"
            echo "main;forward;softmax $((hot + 10 * ((i * 3) % 5)))"
            echo "main;forward;norm $((2000 + 15 * ((i * 2) % 5)))"
            echo "main;sample;$sort $((900 + 8 * i))"
            echo "main;page_fault_[k] 40"
        } >"$name$i.folded"
    done
}
run old 1000 sort
run new 1600 sort
run other 1000 partial_sort
diff_() { "$fg" diff "$@"; }

# ---- the table and the verdict ----
says 0 "a planted regression is found" '^ +10\.18 +15\.23 +\+5\.05\* .* softmax$' diff_ old?.folded --vs new?.folded
says 0 "it is called a change" '^CHANGED$' diff_ old?.folded --vs new?.folded
says 1 "the gate fails, and names it" '^FAILED: softmax gained 5\.05 points, more than 1$' diff_ old?.folded --vs new?.folded --fail-above 1
says 0 "a limit above it passes" '^PASSED: no significant gain over 6 points' diff_ old?.folded --vs new?.folded --fail-above 6
says 0 "less is not a gain" '^PASSED' diff_ new?.folded --vs old?.folded --fail-above 20
says 1 "of the others' shares, when one has less" 'FAILED: gemv' diff_ new?.folded --vs old?.folded --fail-above 1
says 0 "that is no more work" '^(PASSED|UNDECIDED)' diff_ new?.folded --vs old?.folded --fail-above 1 --same-work
says 1 "more work is" 'FAILED: softmax gained 5\.96 % of the weight before' diff_ old?.folded --vs new?.folded --fail-above 1 --same-work
says 0 "the total is judged too, with its interval" '^total    \+5\.96 %\* \(95 %: \+[0-9.]+ to \+[0-9.]+\)$' diff_ old?.folded --vs new?.folded --same-work
says 0 "without it the total has no interval, and it says why" '^total    \+5\.96 % \(no interval: needs --same-work\)$' diff_ old?.folded --vs new?.folded
says 0 "both sides are named" '^before   old1.folded and 3 more: 4 runs, [0-9]+ samples$' diff_ old?.folded --vs new?.folded
says 0 "the three largest changes come first" '^top 3    \+5\.05\* softmax$' diff_ old?.folded --vs new?.folded
printf 'main;p;a 1000\nmain;p;b 1000\nmain;q 8000\n' >calls
printf 'main;p;a 1400\nmain;p;b 1400\nmain;q 7200\n' >calls_more
says 0 "a gate of selves" '^PASSED' diff_ calls --vs calls_more --fail-above 6
says 1 "a gate of totals" '^FAILED: p gained 8' diff_ calls --vs calls_more --fail-above 6 --by total
says 0 "of the same files a limit of 0 is not decided" '^UNDECIDED: no significant gain over 0 points, but changes under' diff_ old?.folded --vs old?.folded --fail-above 0
says 0 "and nothing changed" '^NO CHANGE FOUND$' diff_ old?.folded --vs old?.folded
says 1 "unless one may have been missed, with --strict" '^FAILED: no significant gain over 1 points, but changes under [0-9.]+ are not detectable$' \
    diff_ old?.folded --vs old?.folded --fail-above 1 --strict
says 0 "which depends on the limit" '^PASSED: no significant gain over 3 points$' diff_ old?.folded --vs old?.folded --fail-above 3 --strict
says 0 "what is gone stays" ' gone +sort$' diff_ old?.folded --vs other?.folded
says 0 "what is new is marked" ' new +partial_sort$' diff_ old?.folded --vs other?.folded
says 1 "what is new is a gain" 'FAILED: partial_sort gained 9' diff_ old?.folded --vs other?.folded --fail-above 5
says 0 "it says what it could have found" '^smallest detectable changes: [0-9.]+ to [0-9.]+ points$' diff_ old?.folded --vs old?.folded

# ---- edges of the limit: exactly 50 and 60 of 100 ----
printf 'main;f 5000\nmain;g 5000\n' >half
printf 'main;f 6000\nmain;g 4000\n' >sixty
status 0 "at the limit it passes" diff_ half --vs sixty --fail-above 10.0001
status 1 "above it fails" diff_ half --vs sixty --fail-above 9.9999
says 0 "a single run a side says what it cannot tell" 'nothing is known of how runs differ' diff_ half --vs sixty

# ---- a gate without data ----
printf 'main;f 3\nmain;g 2\n' >few
says 1 "too few samples fail a gate" '^FAILED: nothing could be judged' diff_ few --vs few --fail-above 50
says 0 "without a gate it says so" '^NOT JUDGED' diff_ few --vs few
says 1 "weights of single runs fail a gate" 'FAILED: nothing could be judged: weights need two runs' diff_ half --vs sixty --same-work --fail-above 50
echo 'main;g 100' >without
says 1 "a run without weight is refused" 'run 2 after has no weight' diff_ half --vs half without --root f --fail-above 50
echo 'main;f 0' >zero
says 4 "a file without any is malformed" 'no stack' diff_ half --vs zero --fail-above 50

# ---- forms ----
says 2 "no other form" "'x.folded' is for folded" diff_ half --vs sixty -o x.folded
says 2 "nor a document" "'x.json' is for json, but the output is text" diff_ half --vs sixty -o x.json
says 0 "the verdict is printed too when a file is written" 'CHANGED' diff_ half --vs sixty -o out.txt
check "a picture" sh -c "'$fg' diff old?.folded --vs other?.folded -q -o diff.svg && grep -q '<svg' diff.svg && grep -q 'before 0.00 %, after' diff.svg"
if command -v python3 >/dev/null; then check "it is XML" python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("diff.svg")'; fi
mkdir -p sides && cp old1.folded sides
diff_ sides/old1.folded --vs other?.folded -q -o sides.svg
says 0 "its title names both sides" '>other[0-9]+.folded and [0-9]+ more vs old1.folded<' cat sides.svg
says 0 "and its subtitle has runs and total" '; 4 vs 1 runs, total [+-]' cat sides.svg
status 1 "a gate ends a picture, too" diff_ old?.folded --vs other?.folded --fail-above 5 -q -o failed.svg
says 0 "which has the verdict" '>FAILED: partial_sort gained' cat failed.svg
same() { diff_ old?.folded --vs new?.folded "$@" >a; mv -f x.svg a.svg 2>/dev/null; diff_ old?.folded --vs new?.folded "$@" >b; cmp a b && { [ ! -e a.svg ] || cmp a.svg x.svg; }; }
check "the same text twice" same
check "the same JSON twice" same --json
check "the same picture twice" same -q -o x.svg
lacks "no colours but on a terminal" $'\x1b' diff_ old?.folded --vs new?.folded
says 0 "colours where asked" $'\x1b\\[31m' diff_ old?.folded --vs new?.folded --color always
says 0 "--top" 'and [0-9]+ more' diff_ old?.folded --vs new?.folded --top 1
lacks "--min" page_fault diff_ old?.folded --vs new?.folded --min 1
says 0 "a view" '^ +100\.00 +100\.00 .* forward$' diff_ old?.folded --vs new?.folded --root forward --by total
check "a side from standard input" sh -c "'$fg' diff half --vs - <sixty | grep -q CHANGED"

# ---- the same work, for different times ----
# model NAME HOT GENERATIONS...: a recording of a model with a run for each, in which a generation takes 1000 + HOT
model() {
    local name=$1 hot=$2 r list='' runs=''
    shift 2
    for r in "$@"; do
        list+="${list:+, }$r"
        runs+="${runs:+, }{\"node\": [2, 3], \"self\": [$((r * 1000 + r * r % 7)), $((r * hot))], \"samples\": [$((r * 1000)), $((r * hot))]}"
    done
    cat >"$name.json" <<END
{"schema": "bn.stacks/1", "unit": "ns", "what": "cpu", "about": {"workload": {"repetitions": [$list], "prompt": "${prompt:-2+2=}", "n_predict": 1, "tokens": 4, "ids_sha256": "ab", "threads": 1}},
 "kinds": ["code"], "texts": ["", "gemv", "main", "softmax"], "frames": {"kind": [0, 0, 0], "name": [2, 1, 3], "module": [0, 0, 0], "file": [0, 0, 0], "line": [0, 0, 0]},
 "nodes": {"depth": [1, 2, 2], "frame": [0, 1, 2]}, "runs": [$runs]}
END
}
model short 1000 10 12
model short2 1000 11
model long 1000 20 26 24
model slow 1300 31 33 35
says 0 "runs of more generations are no more work" '^NO CHANGE FOUND$' diff_ short.json short2.json --vs long.json --same-work
says 0 "weights are those of a generation" '^after    long.json: 3 runs, [0-9]+ samples, 2\.000 us a generation$' diff_ short.json short2.json --vs long.json --same-work
says 1 "a slower generation is found, however many there are" 'FAILED: softmax gained 1[45]\.[0-9]+ % of the weight before' \
    diff_ short.json short2.json --vs slow.json --same-work --fail-above 5
says 0 "without --same-work nothing is divided" '^before   short.json: 2 runs, 44000 samples, 22\.00 us each$' diff_ short.json --vs long.json
prompt=other model other 1000 10 12
says 2 "other prompts are other work" 'other.json differs from the first file in its prompt' diff_ short.json --vs other.json --same-work
says 2 "also on one side" 'its prompt' diff_ short.json other.json --vs long.json --same-work
says 2 "a program is not a generation" 'is not a recording of a model, other files are not' diff_ short.json --vs old1.folded --same-work
says 2 "nor the other way" "is a recording of a model, other files are not" diff_ old1.folded --vs short.json --same-work
sed 's/"repetitions": \[10, 12\]/"repetitions": [10]/' short.json >unknown.json
says 2 "numbers that are missing" 'unknown.json lacks the number of generations' diff_ short.json --vs unknown.json --same-work
says 2 "a name that says another format" "'x.pb' is for pprof" diff_ half --vs sixty -o x.pb

# ---- what is refused ----
says 0 "two files are two sides" "$(diff_ half --vs sixty | tail -1)" diff_ half sixty
says 2 "three are not" 'two sides are required' diff_ half sixty few
says 2 "nothing before" 'two sides are required' diff_ --vs half sixty
says 2 "nothing behind" 'two sides are required' diff_ half sixty --vs
says 2 "three sides" 'more than once' diff_ half --vs sixty --vs few
says 2 "standard input twice" 'only once' diff_ - --vs -
says 2 "an invalid limit" 'fail-above' diff_ half --vs sixty --fail-above much
says 3 "a file that is not there" 'nowhere' diff_ half --vs nowhere
says 4 "a file of another format" 'line 1' diff_ half --vs "$fg"
says 3 "a root that is not there" 'nothere' diff_ half --vs sixty --root nothere
