#!/usr/bin/env bash
# bn-flamegraph fold, text and export: output is read back, totals agree in all formats, broken files are refused with the place of
# the fault; perf's own count is compared with the result from `perf script`. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
cd "$tmp" || exit 1
bn=$bin/bn-flamegraph

printf '# unit=ns what=cpu\nmain;slow 7000000\nmain;slow;read_[k] 500000.5\nmain;fast_[i] 2499999.5\n' >a.folded
total() { awk '!/^#/ { sum += $NF } END { printf "%.1f\n", sum }'; }

# ---- round trips ----
for format in json folded; do
    "$bn" export -q --format $format -o "a.$format" a.folded
    check "$format is read back as it was" equal "$("$bn" fold "a.$format")" "$("$bn" fold a.folded)"
    "$bn" export -q --format $format -o again "a.$format"
    check "and written as the same bytes" cmp -s again "a.$format"
done
check "lines are sorted and the total stays" equal "$("$bn" fold a.folded | total)" 10000000.0
"$bn" fold a.folded | tail -n +2 >lines
check "sorted as bytes" env LC_ALL=C sort -c lines
check "two files are added up" equal "$("$bn" fold a.folded a.json | total)" 20000000.0
check "standard input is the file that is not named" equal "$("$bn" fold <a.folded)" "$("$bn" fold a.folded)"

# ---- exports ----
for format in speedscope pprof chrome; do "$bn" export -q -f $format -o "a.$format" a.folded; done
check "pprof's strings are in it" grep -qa nanoseconds a.pprof
check "speedscope's has paths and weights" grep -qF '"weights":[7000000,500000.5,2499999.5]' a.speedscope
check "chrome's is in microseconds" grep -q '"dur":10000,"name":"all"' a.chrome
check "nothing but the result is on standard output" equal "$("$bn" export -f json a.folded | head -c 1)" "{"

# ---- the name of a file says its format ----
for name in json folded speedscope.json pb trace.json; do "$bn" export -q -o "named.$name" a.folded; done
for pair in json:json folded:folded speedscope:speedscope.json pprof:pb chrome:trace.json; do
    check "export -o named.${pair#*:} writes ${pair%:*}" cmp -s "named.${pair#*:}" "a.${pair%:*}"
done
check "standard output gets speedscope's" equal "$("$bn" export -q a.folded)" "$(cat a.speedscope)"
says 2 "an end that says nothing needs --format" "unknown format 'x.foo'" "$bn" export -o x.foo a.folded
says 2 "--format does not contradict a name" "'x.folded' is for folded, but the output is speedscope" \
    "$bn" export -f speedscope -o x.folded a.folded
for format in speedscope chrome; do
    status 0 "but $format may be called .json" "$bn" export -f $format -o plain.json a.folded
    check "and is $format" cmp -s plain.json a.$format
done
says 2 "pprof may not" "'x.json' is for json, but the output is pprof" "$bn" export -f pprof -o x.json a.folded
for format in firefox callgrind; do
    says 2 "$format is not written any more" "error: -f: '$format' is not one of json" "$bn" export -f $format a.folded
done
says 2 "export draws no picture" 'use bn-flamegraph render' "$bn" export -o x.svg a.folded
says 2 "nor makes a table" 'use bn-flamegraph text' "$bn" export -o x.txt a.folded
says 2 "render writes nothing but pictures" 'use bn-flamegraph export --format json' "$bn" render -o x.json a.folded
says 2 "fold nothing but folded text" 'use bn-flamegraph render' "$bn" fold -o x.svg a.folded
says 2 "text nothing but tables" "'x.json' is for json" "$bn" text -o x.json a.folded
check "nothing is written of these" equal "$(echo x.*)" 'x.*'
status 0 "text is a document with --json" "$bn" text --json -o t.json a.folded
status 0 "folded text is a text" "$bn" fold -o t.txt a.folded

# ---- text ----
says 0 "hotspots have functions and shares" '^ *70\.00 .*slow$' "$bn" text a.folded
says 0 "and no interval where the samples are not known" '70\.00 +- ' "$bn" text a.folded
printf '# unit=samples\nmain;slow 70\nmain;fast 30\n' >s.folded
says 0 "with samples they have Wilson's" '^ *70\.00 +8\.8[0-9] +70\.00 +8\.8[0-9] +70  slow' "$bn" text s.folded
says 0 "--top leaves out, and says so" '^and 3 more' "$bn" text --top 1 a.folded
check "--sort total begins with main" equal "$("$bn" text --sort total s.folded | sed -n 4p | awk '{ print $NF }')" main
says 0 "the tree is indented" '^ *70 samples +70\.00 +70\.00      slow$' "$bn" text --tree s.folded
lacks "--min cuts it" fast "$bn" text --tree --min 50 s.folded
says 0 "--root begins there" '^ *70 samples +100\.00.*slow' "$bn" text --tree --root slow s.folded
says 0 "--callers turns it around" '^slow;main 70$' "$bn" fold --callers s.folded
says 2 "turned stacks have no table" 'which lists self times' "$bn" text --callers s.folded
says 0 "they have a tree" '^ *70 samples +70\.00 .*  slow$' "$bn" text --callers --tree s.folded
says 2 "nor pprof" "--callers: not possible with pprof" "$bn" export -f pprof --callers s.folded
status 0 "a page for the browser has them" "$bn" export -q --callers -o turned.speedscope.json s.folded
cat >names.json <<'END'
{"schema": "bn.stacks/1", "unit": "samples", "what": "cpu", "about": {}, "kinds": ["code", "inlined"], "texts": ["", "a.c", "b.c", "main", "part", "x"],
 "frames": {"kind": [0, 1, 0], "name": [4, 4, 3], "module": [5, 5, 5], "file": [1, 2, 1], "line": [12, 0, 3]},
 "nodes": {"depth": [1, 2, 2], "frame": [2, 0, 1]}, "runs": [{"node": [2, 3], "self": [60, 40], "samples": [60, 40]}]}
END
says 0 "two of one name say where they are" '60  part      x  a\.c:12$' "$bn" text names.json
says 0 "as far as is known" '40  part      x  b\.c$' "$bn" text names.json
says 0 "others do not" ' 0  main      x$' "$bn" text names.json
says 0 "--json has the samples" '"self_samples": 70' "$bn" text --json s.folded
says 0 "and reasons for what cannot be had" '"low": "no number of samples' "$bn" text --json a.folded

# ---- refusals ----
printf 'a;b 1\na;b\n' >broken
says 4 "a line without a weight is named" 'broken: line 2 does not end with a weight' "$bn" fold broken
says 4 "so is JSON without stacks" 'no stacks' "$bn" fold a.speedscope
: >empty
says 4 "an empty file has no stacks" 'empty: empty; expected folded stacks, perf script output or JSON$' "$bn" text empty
says 4 "nor has standard input" 'error: standard input: empty; expected folded stacks' "$bn" render
says 4 "standard input that is malformed is called so" 'error: standard input: line 1 ' sh -c "printf 'a;b\n' | '$bn' render"
says 3 "a file that is not there" 'none.json' "$bn" text none.json
says 3 "a root that is not there" "no stack has a frame 'nobody'" "$bn" fold --root nobody a.folded
status 2 "a format that there is not" "$bn" export --format svg a.folded
says 2 "units do not mix" 'cannot add stacks of ns' "$bn" fold a.folded s.folded

# ---- perf ----
cat >work.c <<'END'
volatile double sink;
__attribute__((noinline)) static void inner(int n) { for (int i = 0; i < n; i++) sink += i * 0.5; }
__attribute__((noinline)) static void outer(int n) { inner(n); sink += 1; }
int main(void) { for (int i = 0; i < 100; i++) outer(300000); return 0; }
END
if ! command -v perf >/dev/null; then
    skip "perf's samples" "perf is not installed"
elif ! ${CC:-cc} -O0 -g -o 'a worker' work.c 2>/dev/null; then
    skip "perf's samples" "no compiler"
elif ! perf record -q -o perf.data -e cpu-clock:u -g './a worker' >/dev/null 2>&1; then
    skip "perf's samples" "perf record is not permitted here"
else
    perf script -i perf.data 2>/dev/null >perf.txt
    theirs=$(perf report -i perf.data --stdio 2>/dev/null | sed -nE 's/^# Event count \(approx\.\): ([0-9]+)/\1/p')
    "$bn" fold -q --tags thread perf.txt >perf.folded
    check "the weights are the event count of perf report" equal "$(total <perf.folded)" "$theirs.0"
    check "the samples are those of perf script" \
        equal "$("$bn" text --json -n 1 perf.txt | sed -nE 's/^  "samples": ([0-9]+),/\1/p')" "$(perf script -i perf.data -F period 2>/dev/null | grep -c .)"
    check "the unit is the clock's" equal "$(head -n 1 perf.folded)" "# unit=ns what=cpu"
    check "the thread is the command, with its space" grep -qE '^a worker;.*main;outer;inner [0-9]+$' perf.folded
    "$bn" export -q --format json -o perf.json perf.txt
    check "and as a document it is the same" equal "$("$bn" fold --tags thread perf.json)" "$(cat perf.folded)"
fi
