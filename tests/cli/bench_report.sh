#!/usr/bin/env bash
# bn-bench report: a figure is the same in every format, hostile names are escaped, pages are well-formed, small and load nothing,
# and nothing is reported where nothing was measured. The documents are made up (bench_documents.awk). TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
bench=$(cd "${OUT:-build/gcc}" && pwd)/bn-bench
make_document() { awk -v what="$1" -v n="${2:-0}" -f tests/cli/bench_documents.awk; }
for what in run compare kernels trend profile; do make_document $what >"$tmp/$what.json"; done
form() { "$bench" report --format "$@"; }
has() { grep -qF -- "$2" "$1"; }
all_lines() { ! grep -qvE -- "$2" "$1"; }
has_not() { ! grep -qE -- "$2" "$1"; }

# ---- the same figure everywhere ----

for f in text json csv markdown html github-smaller github-bigger; do
    status 0 "$f is written" form "$f" -o "$tmp/$f" "$tmp/run.json"
done
medians=$(tail -n +2 "$tmp/csv" | cut -d, -f 3)
check 'there are six medians' equal "$(wc -l <<<"$medians")" 6
check 'JSON has those of CSV' equal "$(sed -n 's/^ *"median": \(.*\),/\1/p' "$tmp/json")" "$medians"
check 'github-action-benchmark has them, by direction' equal \
    "$(sed -n 's/^ *"value": \(.*\),$/\1/p' "$tmp/github-smaller" "$tmp/github-bigger" | sort)" "$(sort <<<"$medians")"
wrong=''
while IFS=, read -r test metric median _ _ unit _ _ _ high _; do
    exact=$median
    [ "$unit" = 1 ] || exact+=" $unit"
    name=$(sed -E 's/ n=([0-9]+)/ \1 tokens/; s/ d=0//; s/ t=1( |$)/, 1 thread\1/; s/ t=([0-9]+)/, \1 threads/' <<<"$test")
    row=$(awk -F '  +' -v t="$name" -v m="$metric" '$1 == t && $2 == m { print $3 "|" $4 }' "$tmp/text")
    shown=${row%%|*} interval=${row#*|}
    [ -n "$shown" ] && grep -qF "title=\"$exact\">$shown</td><td>$interval</td>" "$tmp/html" || wrong+="html: $test $metric;"
    grep -qF "| $metric | $shown | $interval |" <(sed 's/\\//g' "$tmp/markdown") || wrong+="markdown: $test $metric;"
    grep -qF "\"high\": $high," "$tmp/json" || [ -z "$high" ] || wrong+="high: $test $metric;"
done < <(tail -n +2 "$tmp/csv" | tr -d '\r')
check 'text, Markdown and HTML show each median and its interval alike, HTML beside the exact one' equal "$wrong" ''
# The median of an odd number of samples is one of them: it is recomputed here.
samples() { # TEST METRIC
    python3 -c 'import json, sys
for s in json.load(open(sys.argv[1]))["series"]:
    if s["test"].startswith(sys.argv[2]) and s["metric"] == sys.argv[3]: print(*map(int, sorted(s["samples"])), sep="\n")' "$tmp/run.json" "$@"
}
check 'a median is that of the samples' equal "$(samples process peak_rss_bytes)" "$(awk -F, '$2 == "peak_rss_bytes" { print $3 }' "$tmp/csv")"
middle=$(samples 'decode n=4' ns_per_token | awk '{ x[NR] = $1 } END { printf "%.0f", (x[3] + x[4]) / 2 }')
check 'or between two of them' equal "$(sed -n 2p "$tmp/csv" | cut -d, -f 3)" "$middle"
check 'times below a nanosecond are not zero' test "$(grep 'add 2560' "$tmp/csv" | cut -d, -f 3 | cut -c 1-3)" = 0.4
check 'CSV ends its lines as RFC 4180 has it' equal "$(grep -c "$(printf '\r')$" "$tmp/csv")" "$(wc -l <"$tmp/csv")"
for f in json csv html; do
    env LC_ALL=de_DE.UTF-8 "$bench" report --format $f -o "$tmp/german" "$tmp/run.json"
    check "$f: the same in German, and again" cmp "$tmp/german" "$tmp/$f"
done
check 'no locale but that of characters is ever set' test -z "$(grep -rn 'setlocale(' engine kernels lab hub train tools | grep -v 'setlocale(LC_CTYPE,')"

# ---- the page ----

well_formed() { # TITLE FILE
    local text
    text=$(xmllint --noout "$2" 2>&1; xmllint --html --noout "$2" 2>&1 | grep error | grep -vE 'Tag (svg|path|circle|rect|text|details|summary) invalid')
    check "$1 is well-formed" equal "$text" ''
    text=$(sed 's/xmlns="[^"]*"//g; s/http-equiv//' "$2" | grep -nEi 'https?:|(src|href|action|data|srcset|poster)="?[^#"]|url\(|@import|<(link|iframe|object|embed|img|base|form)')
    check "$1 loads nothing" equal "$text" ''
    check "$1 has one script" equal "$(grep -o '<script' "$2" | wc -l)" 1
    check "$1: its policy allows that script only" has "$2" \
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-$(sed -n '/<script>/,/<\/script>/p' "$2" | sed 's/.*<script>//; s/<\/script>.*//' |
            head -c -1 | openssl dgst -sha256 -binary | base64)'"
}
form html -o "$tmp/all.html" "$tmp"/{run,compare,kernels,trend,profile}.json
well_formed 'a page of everything' "$tmp/all.html"
for plot in 'samples in the order of time' 'changes with their intervals' \
    'medians over the entries' 'time of each brick' 'rate of each kernel'; do
    check "it has the plot: $plot" has "$tmp/all.html" "aria-label=\"$plot"
done
form html -o "$tmp/run.html" "$tmp/run.json"
check 'a page of a run begins with its speed' has "$tmp/run.html" '<h1>decode 4 tokens, 1 thread: 947.9 tok/s'
check 'and has bars' has "$tmp/run.html" 'aria-label="Decoding"'
check 'warm-up is marked' has "$tmp/all.html" '>warm-up<'
check 'every figure has its caption' equal "$(grep -o '<div class="figure' "$tmp/all.html" | wc -l)" "$(grep -o '</h4><p class="what">' "$tmp/all.html" | wc -l)"
for fact in 'Synthetic 9000' 0123456789abcdef0123456789abcdef01234567 "$(sha256sum <"$tmp/run.json" | cut -c 1-64)"; do
    check "provenance: $fact" has "$tmp/all.html" "$fact"
done
check 'coordinates are numbers' has_not "$tmp/all.html" '="[^"]*\b(nan|inf)\b'

make_document many 100000 >"$tmp/many.json"
make_document wide 100000 >"$tmp/wide.json"
for f in many wide; do
    form html -o "$tmp/$f.html" "$tmp/$f.json"
    check "$f: a page of 100000 samples is below 1 MB" test "$(wc -c <"$tmp/$f.html")" -lt 1000000
    check "$f: and is well-formed" xmllint --noout "$tmp/$f.html"
done
check 'the page names what is left out' has "$tmp/wide.html" 'of 2000 rows'

# ---- hostile names ----

bad='</script><script>alert(1)</script>\"]]><!--&\u0001\u001b[31m\u202e, |`*x*\n=1+1\r\n</style>'
safe=$(printf '%s' "$bad" | sed 's/[\\&]/\\&/g')
sed "s#decode n=32 d=0 t=2#$safe#g; s#Synthetic 9000#$safe#g" "$tmp/run.json" >"$tmp/<b>\"&,.json"
sed "s#decode n=32 d=0 t=2#$safe#g" "$tmp/compare.json" >"$tmp/hostile.json"
hostile=("$tmp/<b>\"&,.json" "$tmp/hostile.json")
for f in html markdown csv text json; do
    status 0 "hostile: $f is written" form $f -o "$tmp/h.$f" "${hostile[@]}"
done
form csv -o "$tmp/h.series.csv" "${hostile[0]}"
well_formed 'hostile: the page' "$tmp/h.html"
check 'hostile: the name is text' has "$tmp/h.html" '&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;]]&gt;&lt;!--&amp;\u{1}\u{1b}[31m\u{202e}'
check 'hostile: Markdown has no markup' has_not "$tmp/h.markdown" '<script|[^\\]\*x|[^\\]`'
check 'hostile: the terminal sees no control characters' equal "$(tr -d '\n' <"$tmp/h.text" | LC_ALL=C grep -c '[[:cntrl:]]')" 0
check 'hostile: CSV quotes the field' has "$tmp/h.series.csv" '"</script><script>alert(1)</script>""]]><!--&'
printf '%s' '{"schema": "bn.bench/1", "series": [' >"$tmp/formula.json"
for name in '=1+1' '+1' '-1' '@SUM(A1)' 'a\u001b[31mb' 'plain'; do
    printf '{"test": "%s", "metric": "m%s", "unit": "ns", "better": "lower", "exact": false, "warmup": 0, "samples": [1, 2]},' "$name" "$name"
done | sed 's/,$//' >>"$tmp/formula.json"
echo ']}' >>"$tmp/formula.json"
form csv -o "$tmp/formula.csv" "$tmp/formula.json"
check 'hostile: a spreadsheet finds no formula' equal "$(cat "$tmp"/formula*.csv | grep -cE '(^|,|")[=+@-]')" 0
check 'hostile: formulas become text' equal "$(grep -cE "^'[=+@-]" "$tmp/formula.csv")" 4
check 'hostile: CSV has no controls' equal "$(tr -d '\r' <"$tmp/formula.csv" | grep -c '[[:cntrl:]]')" 0
check 'hostile: they are shown' has "$tmp/formula.csv" 'a\x1B[31mb'
check 'hostile: each series is one record' equal "$(awk 'BEGIN { RS = "\r\n" } { q += gsub(/"/, ""); if (q % 2 == 0) n++ } END { print n }' "$tmp/h.series.csv")" 7
status 0 'hostile: its own JSON is JSON' form text "$tmp/run.json"

# ---- comparisons ----

says 0 'the page begins with the worst verdict' '<h1>B is 5\.3 % slower \([0-9.]+ to [0-9.]+ %\) in ns_per_token of decode 32 tokens, 2 threads: SLOWER' form html "$tmp/compare.json"
says 0 'text says the verdicts first' '^1 REGRESSED, 1 IMPROVED, 1 SAME, 1 INCONCLUSIVE$' form text "$tmp/compare.json"
says 0 'a p-value is never 0' '> ?&lt;1e-4<' form html "$tmp/compare.json"
form html -o "$tmp/compare.html" "$tmp/compare.json"
check 'a reason stands under its row, in the page' equal "$(grep -c '^<tr class="why' "$tmp/compare.html")" 4
check 'and in no column' has_not "$tmp/compare.html" '<th [^>]*>why</th>'
form csv -o "$tmp/c.csv" "$tmp/compare.json"
form json -o "$tmp/c.json" "$tmp/compare.json"
check 'CSV and JSON have the same changes' equal "$(tail -n +2 "$tmp/c.csv" | cut -d, -f 5)" "$(sed -n 's/^ *"change": \(.*\),/\1/p' "$tmp/c.json")"

# ---- rules: each speaks when it has to, and a quiet document is quiet ----

rule() { says 0 "rule $1" "\"rule\": \"$1\"" form json "$2"; }
rule drift "$tmp/run.json"
rule outliers "$tmp/run.json"
rule at-limit "$tmp/kernels.json"
rule room "$tmp/kernels.json"
rule changed "$tmp/trend.json"
change() { sed "$2" "$1" >"$tmp/changed.json"; }
change "$tmp/kernels.json" 's/"limit_ns": 119210/"limit_ns": 183400/'
rule beyond-limit "$tmp/changed.json"
says 0 'as a warning' '"kind": "warn"' bash -c "'$bench' report --format json '$tmp/changed.json' | grep -A3 beyond-limit"
sed 's/"verdict": "REGRESSED"/"verdict": "INCONCLUSIVE"/' "$tmp/compare.json" >"$tmp/open.json"
says 0 'a regression is red' '<div class="verdict bad">' form html "$tmp/compare.json"
says 0 'an inconclusive comparison is amber' '<div class="verdict warn">' form html "$tmp/open.json" "$tmp/changed.json"
change "$tmp/kernels.json" 's/"dirty": false/"dirty": true/; s/"machine": {/"others": {"wall_ns": 1000000000, "cpus": 2, "used_cpus": 0.6, "stolen_cpus": 0}, &/'
rule dirty-build "$tmp/changed.json"
rule busy-machine "$tmp/changed.json"
change "$tmp/kernels.json" 's/"verdict": "valid", "kernel": "ternary_gemv/"verdict": "invalid", "reason": "planted", "kernel": "ternary_gemv/'
rule not-valid "$tmp/changed.json"
change "$tmp/profile.json" 's/"coverage": 0.97/"coverage": 0.5/'
rule coverage "$tmp/changed.json"
printf '%s' '{"schema": "bn.bench/1", "series": [{"test": "a", "metric": "m", "unit": "ns", "better": "lower", "exact": false, "warmup": 0, "samples": [1, 2, 3]}]}' >"$tmp/few.json"
rule few-samples "$tmp/few.json"
sed 's/1, 2, 3/5, 5, 5, 5, 5, 5, 5/' "$tmp/few.json" >"$tmp/equal.json"
rule quantised "$tmp/equal.json"
sed 's/1, 2, 3/100, 103, 101, 102, 100, 104, 101/' "$tmp/few.json" >"$tmp/quiet.json"
form json -o "$tmp/quiet" "$tmp/quiet.json"
check 'a quiet document has no findings' has_not "$tmp/quiet" '"Findings"'
says 0 'and a plain page' 'class="verdict plain"' form html "$tmp/quiet.json"

# ---- two machines ----

for machine in one two; do
    sed "s/\"machine\": {/&\"key\": \"$machine\", \"label\": \"machine $machine\", /; s/decode n=32 d=0 t=2/& of a model with a long name/" "$tmp/run.json" >"$tmp/$machine.json"
done
sed -i 's/"warmup":0,"samples": \[/&9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9, /' "$tmp/two.json"
form text -o "$tmp/machines" "$tmp/one.json" "$tmp/two.json"
sed -n '/^Machines side by side/,/^$/p' "$tmp/machines" >"$tmp/side"
check 'two machines are side by side' has "$tmp/side" 'B'
check 'with the medians of both' test "$(grep -cE '^ +rate +[0-9.]+ tok/s +[0-9.]+ tok/s$' "$tmp/side")" -gt 0
check 'none is left out' has_not "$tmp/side" 'not shown'

# ---- files of a build server ----

status 0 '--dir writes' "$bench" report -q --dir "$tmp/results" "$tmp/run.json" "$tmp/kernels.json"
check 'the files have their names' equal "$(find "$tmp/results" -type f -printf '%f ' | tr ' ' '\n' | sort | xargs)" \
    'performance-report.csv performance-report.html performance-report.json performance-report.md'
check 'the machine is the one that measured' has "$tmp/results/performance-report.json" '"cpu_model": "Synthetic 9000"'
status 2 '--dir chooses its own formats' "$bench" report --dir "$tmp/results" --format csv "$tmp/run.json"
says 3 'a file in place of a folder' 'run.json/performance-report.json: ' "$bench" report --dir "$tmp/run.json" "$tmp/run.json"

# ---- nothing measured, nothing understood ----

: >"$tmp/empty.json"
says 1 'an empty file has no data' 'nothing was measured' form text "$tmp/empty.json"
says 1 'one among others, too' 'empty.json: the file is empty' form text "$tmp/run.json" "$tmp/empty.json"
says 1 'no series' 'nothing was measured' form text <(echo '{"schema": "bn.bench/1", "series": []}')
says 4 'a ledger is read by bn-bench trend' 'bn-bench trend --json \| bn-bench report' form text <(echo '{"schema": "bn.ledger/1", "records": []}')
says 1 'a profile in which no brick ran' 'no brick ran' form text <(sed 's/"count": 960/"count": 0/' "$tmp/profile.json")
says 1 'a format that has nothing to say' 'nothing to write in this format' form csv "$tmp/profile.json"
says 4 'no JSON' 'error: ' form text <(echo '{"schema": ')
says 4 'another schema' 'not one of bn-bench' form text <(echo '{"schema": "bn.receipt/9"}')
says 4 'neither series nor comparisons' 'neither series nor comparisons' form text <(echo '{"schema": "bn.bench/1"}')
says 4 'a series without a unit' "'ns_per_token' of 'decode n=4 d=0 t=1' is malformed" form text <(sed 's/"unit": "ns", //' "$tmp/run.json")
says 4 'a negative time' 'sample 0 is -1' form text <(sed 's/"samples": \[1, 2/"samples": [-1, 2/' "$tmp/few.json")
says 4 'a comparison without a verdict' 'comparison of .* is malformed' form text <(sed 's/"verdict": "SAME", //' "$tmp/compare.json")
says 4 'a profile without bricks' 'no summary' form text <(echo '{"schema": "bn.profile/1", "profile": {}}')
says 4 'a trend with a change beyond its points' 'malformed' form text \
    <(echo '{"schema": "bn.bench/1", "histories": [{"test": "a", "metric": "m", "unit": "ns", "points": [{"median": 1}], "changes": [{"at": 1, "change": 1}]}]}')
# Unexpected kinds and sizes: an error, or a well-formed page.
for what in run compare kernels trend profile; do
    for change in 's/: [0-9.e-]+([,}])/: "x"\1/g' 's/: [0-9.e-]+([,}])/: -1e300\1/g' 's/: [0-9.e-]+([,}])/: 1e300\1/g' 's/: [0-9.e-]+([,}])/: 0\1/g' \
        's/: \[/: [[], /g' 's/: "[^"]*"/: null/g' 's/: "([^"]{9,})"/: ""/g' 's/"warmup":0,"samples": \[[^]]*\]/"warmup": 0, "samples": [1e300, 1e-300, 1e300]/g'; do
        sed -E "$change" "$tmp/$what.json" >"$tmp/odd.json"
        form html -o "$tmp/odd.html" "$tmp/odd.json" 2>"$tmp/err"
        got=$?
        if [ $got -eq 0 ]; then
            check "$what changed by $change: a page" xmllint --noout "$tmp/odd.html"
            check "$what changed by $change: coordinates are numbers" has_not "$tmp/odd.html" ' (x|y|d|cx|cy|width|height)="[^"]*(nan|inf)'
        else
            check "$what changed by $change: an error" test $got -eq 4 -o $got -eq 1
        fi
    done
done
status 3 'no such file' form text "$tmp/none.json"
status 2 'no file is named' form text
status 2 'an unknown format' form pdf "$tmp/run.json"
check 'standard input is a file' test -n "$(form csv - <"$tmp/run.json")"
