#!/usr/bin/env bash
# bn-bench compare, baseline and trend from the command line: a test plants the cause of each refusal. Documents and their times
# are made up; repositories are temporary. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
bin=$(cd "${OUT:-build/gcc}" && pwd)
source tests/tap.sh
unset BN_LEDGER
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
    GIT_COMMITTER_EMAIL=a@b
bench() { "$bin/bn-bench" "$@"; }
compare() { bench compare -v "$@"; }
stable='^(no difference larger than [0-9.]+ % was found|no difference that matters was found|A and B are the same)'
baseline() { bench baseline "$@"; }

mkdir "$tmp/repo"
cd "$tmp/repo" || exit 1
git init -q -b main .
mkdir engine docs
echo one >engine/a.c
git add engine && git commit -q -m one
head=$(git rev-parse HEAD)
zeros=0000000000000000000000000000000000000000

# document FILE LEVEL [NAME=VALUE...]: a run whose times are LEVEL per cent of the usual ones. Samples differ a little, in the same
# way each time.
document() {
    local file=$1 level=$2 commit=$head dirty=false changed=0 key=k label=toy others=0.1 model=m threads=1 suite=run class='' \
        created=2026-01-02T03:04:05Z flat=100 binary=b$2 peak=1000 loading=10000 extra='' series='' i
    shift 2
    [ $# -eq 0 ] || local "$@"
    local decode='' rate='' other=''
    for i in 3 7 1 9 4 6 2 8 5 0; do
        decode=$decode,$((level * 1000 + i)) rate=$rate,$((100000000 / level + i)) other=$other,$((flat * 70 + i))
    done
    series='{"test":"decode","metric":"ns_per_token","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":['${decode#,}']},
        {"test":"decode","metric":"tokens_per_second","unit":"1/s","better":"higher","exact":false,"warmup":0,"samples":['${rate#,}']},
        {"test":"decode","metric":"bytes","unit":"bytes","better":"lower","exact":true,"warmup":0,"samples":[4096]}'
    series=$series',
        {"test":"process","metric":"peak_rss_bytes","unit":"bytes","better":"lower","exact":false,"warmup":0,"samples":['$peak']},
        {"test":"load","metric":"load_ns","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":['$loading']}'
    series=$series${extra:+,$extra}
    [ "$flat" = 0 ] || series=$series',
        {"test":"prompt","metric":"ns","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":['${other#,}']}'
    cat >"$file" <<END
{"schema":"bn.bench/1","command":"$suite","created":"$created",${class:+"\"result_class\":\"$class\","}
 "program":{"version":"0","commit":"$commit","dirty":$dirty,"compiler":"gcc","flags":"-O2","binary_sha256":"$binary"},
 "git":{"branch":"main","changed_sources":$changed},"settings":{"threads":[$threads],"reps":5},"model":{"sha256":"$model"},
 "machine":{"key":"$key","label":"$label","load_milli":[9000,0,0],"cpus_usable":2},
 "others":{"wall_ns":1000000000,"cpus":2,"used_cpus":$others,"stolen_cpus":0},"series":[$series]}
END
}
docs=$tmp/docs
mkdir "$docs"
document "$docs/a.json" 100
document "$docs/same.json" 101
document "$docs/slow.json" 130
document "$docs/fast.json" 80
document "$docs/short.json" 100 flat=0

says 0 'a ledger without runs says so' '^no run is saved in .*; bn-bench baseline save NAME' baseline list --ledger "$tmp/empty"
# ---- compare ----
says 0 'a small difference of two sessions is stable' '5 STABLE, 1 SAME' compare "$docs/a.json" "$docs/same.json"
says 0 'and passes with --strict too' "$stable" compare --strict "$docs/a.json" "$docs/same.json"
says 0 'so does a document against itself' "$stable" compare --strict "$docs/a.json" "$docs/a.json"
says 0 'they are said not to be taken in turn' 'did not run in turn: changes below 8 % may be drift' \
    compare "$docs/a.json" "$docs/same.json"
says 1 'a large one is a regression, and critical' 'ns_per_token.*REGRESSED \(critical\)' compare "$docs/a.json" "$docs/slow.json"
says 0 'more drift may be allowed' 'STABLE' compare --drift 50 "$docs/a.json" "$docs/slow.json"
says 0 'the other way round it is an improvement' '2 IMPROVED' compare "$docs/slow.json" "$docs/a.json"
says 1 'a rate that fell has a minus' 'tokens_per_second .* -23\.[01] % +REGRESSED' compare "$docs/a.json" "$docs/slow.json"
says 1 'also in the reason' 'tokens_per_second: -23\.[01] % \.\. -23\.[01] % is beyond' compare "$docs/a.json" "$docs/slow.json"
bench compare --json "$docs/a.json" "$docs/slow.json" >"$docs/fell.json" 2>/dev/null
check 'in JSON' grep -qE '"change": -0\.23' "$docs/fell.json"
says 0 'and in the report of it' 'tokens_per_second .* -23\.[01] % +REGRESSED' bench report "$docs/fell.json"
says 0 'the other way round both have the opposite sign' 'tokens_per_second .* \+30\.0 % +IMPROVED' compare "$docs/slow.json" "$docs/a.json"
document "$docs/mild.json" 112
says 1 'a time per token is judged as a rate: 12 % more is a warning' 'ns_per_token.*REGRESSED \(warning\)' compare "$docs/a.json" "$docs/mild.json"
document "$docs/worse.json" 120
says 1 '20 % more is critical' 'ns_per_token.*REGRESSED \(critical\)' compare --fail-on critical "$docs/a.json" "$docs/worse.json"
says 0 '--fail-on lets it pass' 'tokens_per_second.*REGRESSED \(warning\)' compare --fail-on critical "$docs/a.json" "$docs/mild.json"
status 1 'but not a warning that is asked for' compare --fail-on warning "$docs/a.json" "$docs/mild.json"
says 1 'a series that is missing fails' '^    prompt ns: missing in B$' compare "$docs/a.json" "$docs/short.json"
says 0 'one that is new is told' '^    prompt ns: only in B$' compare "$docs/short.json" "$docs/a.json"
document "$docs/fat.json" 100 binary=other peak=2000
says 1 'memory that doubled is critical' 'peak_rss_bytes: single values: 100\.0 % worse, above the critical$' compare --fail-on critical "$docs/a.json" "$docs/fat.json"
document "$docs/slack.json" 100 binary=other loading=30000
says 1 'so is a model that opens in three times the time' 'load_ns: single values: 200\.0 % worse, above the critical level$' \
    compare --fail-on critical "$docs/a.json" "$docs/slack.json"

# ---- each level, by its number: on exact values, on single values, and on samples with statistics ----
# scored ACCURACY[,ACCURACY...] [EXACT] [METRIC] [BETTER]: a series of a score.
scored() { echo '{"test":"score text","metric":"'"${3:-accuracy}"'","unit":"1","better":"'"${4:-higher}"'","exact":'"${2:-true}"',"warmup":0,"samples":['"$1"']}'; }
rounds() { local x; for x in 1 2 3 4 5 6; do printf '%s,' $(($1 + x)); done | sed 's/,$//'; }
peaks() { echo '{"test":"round","metric":"peak_rss_bytes","unit":"bytes","better":"lower","exact":false,"warmup":0,"samples":['"$(rounds "$1")"']}'; }
# planted BEFORE AFTER [OPTION...]: compares two documents that differ in one series.
planted() {
    document "$docs/before.json" 100 "extra=$1"
    document "$docs/after.json" 100 binary=other "extra=$2"
    shift 2
    compare "$docs/before.json" "$docs/after.json" "$@"
}
says 0 'the same accuracy is the same' "$stable" planted "$(scored 0.3)" "$(scored 0.3)" --strict
says 1 'accuracy: 0.006 less is critical' ': (SLOWER|WORSE) \(critical\)' planted "$(scored 0.3)" "$(scored 0.294)" --fail-on critical
says 1 '0.003 less is a warning' ': (SLOWER|WORSE) \(warning\)' planted "$(scored 0.3)" "$(scored 0.297)" --fail-on warning
status 0 'which is not critical' planted "$(scored 0.3)" "$(scored 0.297)" --fail-on critical
says 1 'any difference is a change' 'accuracy .*REGRESSED$' planted "$(scored 0.3)" "$(scored 0.299)"
status 0 'but less than 0.002 is not a warning' planted "$(scored 0.3)" "$(scored 0.299)" --fail-on warning
says 1 'an accuracy of nothing is critical' ': (SLOWER|WORSE) \(critical\)' planted "$(scored 0.3)" "$(scored 0)" --fail-on critical
says 0 'a better one is an improvement' 'IMPROVED' planted "$(scored 0.3)" "$(scored 0.4)"
many=0.3001,0.3002,0.3,0.2999,0.3003,0.2998,0.3004,0.2997
says 1 'accuracy of several samples: 0.006 less is critical' 'medians of 8 and 8 samples: 0\.0059' \
    planted "$(scored $many false)" "$(scored 0.2941,0.294,0.2942,0.294,0.2941,0.2943,0.294,0.2941 false)" --fail-on critical
says 1 'nll: 0.02 more is critical' ': (SLOWER|WORSE) \(critical\)' planted "$(scored 4.5 true nll lower)" "$(scored 4.52 true nll lower)" --fail-on critical
says 1 'perplexity: 0.7 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    planted "$(scored 90 true perplexity lower)" "$(scored 90.63 true perplexity lower)" --fail-on warning
says 1 'memory of a process: 21 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    compare --fail-on warning "$docs/a.json" <(document /dev/stdout 100 binary=other peak=1210)
status 0 '20 % is not' compare "$docs/a.json" <(document /dev/stdout 100 binary=other peak=1200)
says 1 'memory of rounds: 25 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    planted "$(peaks 100000)" "$(peaks 125000)" --fail-on warning
says 1 '35 % more is critical' ': (SLOWER|WORSE) \(critical\)' planted "$(peaks 100000)" "$(peaks 135000)" --fail-on critical
says 0 '3 % more is stable' "$stable" planted "$(peaks 100000)" "$(peaks 103000)" --strict
loads() { peaks "$1" | sed 's/"round"/"load cold"/; s/peak_rss_bytes/load_ns/; s/"unit":"bytes"/"unit":"ns"/'; }
says 1 'opening the model, from several rounds: 20 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    planted "$(loads 100000)" "$(loads 120000)" --fail-on warning
says 1 '30 % more is critical' ': (SLOWER|WORSE) \(critical\)' planted "$(loads 100000)" "$(loads 130000)" --fail-on critical
says 0 '3 % more is stable' "$stable" planted "$(loads 100000)" "$(loads 103000)" --strict
says 0 'the same, measured again, is stable' "$stable" planted "$(loads 100000)" "$(loads 100000)" --strict
says 1 'a single latency: 16 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    compare --fail-on warning "$docs/a.json" <(document /dev/stdout 100 binary=other loading=11600)
says 1 '26 % more is critical' ': (SLOWER|WORSE) \(critical\)' \
    compare --fail-on critical "$docs/a.json" <(document /dev/stdout 100 binary=other loading=12600)
says 1 'latencies with statistics: 20 % more is a warning' ': (SLOWER|WORSE) \(warning\)' \
    compare --fail-on warning "$docs/a.json" <(document /dev/stdout 100 binary=other flat=120)
says 1 '30 % more is critical' ': (SLOWER|WORSE) \(critical\)' \
    compare --fail-on critical "$docs/a.json" <(document /dev/stdout 100 binary=other flat=130)
echo '{"schema":"bn.thresholds/1","levels":[{"metric":"ns","drift_percent":50,"warning_percent":1,"critical_percent":2},
    {"metric":"*","warning_percent":15,"critical_percent":25}]}' >"$docs/levels.json"
says 0 'a metric may have its own drift' "$stable" \
    compare --thresholds "$docs/levels.json" "$docs/a.json" <(document /dev/stdout 100 binary=other flat=130)

for what in key=other:another.machine threads=2:other.settings model=other:another.model; do
    document "$docs/unlike.json" 100 "${what%%:*}"
    says 9 "${what##*:} is refused, and named" "not alike: ${what##*:}" compare "$docs/a.json" "$docs/unlike.json"
    status 0 'unless told' compare --unlike "$docs/a.json" "$docs/unlike.json"
done
document "$docs/busy.json" 130 others=0.7
says 1 'times of a busy machine give no data' 'failed: no data: every time and rate is inconclusive' compare "$docs/a.json" "$docs/busy.json"
says 1 'and it is said why' 'ns_per_token and 3 more: other processes used 0\.7 of 2 CPUs during$' compare "$docs/a.json" "$docs/busy.json"
says 1 'memory is judged on a busy machine too' 'peak_rss_bytes: single values: 100\.0 % worse, above the critical$' \
    compare "$docs/a.json" <(document /dev/stdout 100 others=2 peak=2000)
says 0 'and a document is like itself' "$stable" compare --strict "$docs/busy.json" "$docs/busy.json"
document "$docs/twin.json" 130 binary=b100
says 0 'a program that is the same, byte for byte, did not change' 'tokens_per_second: both runs are of the same$' compare "$docs/a.json" "$docs/twin.json"
status 1 'which --strict does not let pass' compare --strict "$docs/a.json" "$docs/twin.json"
echo '{"schema":"bn.thresholds/1","levels":[{"metric":"*","warning_percent":50,"critical_percent":60}]}' >"$docs/levels.json"
says 1 'levels come from a file' 'ns_per_token.*REGRESSED$' compare --thresholds "$docs/levels.json" "$docs/a.json" "$docs/slow.json"
echo '{"schema":"bn.thresholds/1","levels":[{"metrik":"*"}]}' >"$docs/levels.json"
status 4 'whose mistakes are found' compare --thresholds "$docs/levels.json" "$docs/a.json" "$docs/slow.json"
status 3 'a document that is not there' compare "$docs/a.json" "$docs/none.json"
says 4 'an invalid document' 'not a bn-bench result' compare "$docs/a.json" <(echo '{}')

# points THROUGHPUT LATENCY: values without samples, with their own levels.
points() {
    echo '{"baselines":{"linux-x86_64":{"c":{"throughput_tokens_per_second":'"$1"',"latency_p50_ms":'"$2"'}}},"thresholds":{
        "critical":{"throughput_decrease_percent":15,"latency_increase_percent":25},
        "warning":{"throughput_decrease_percent":8,"latency_increase_percent":15}}}'
}
points 100 100 >"$docs/points.json"
says 0 'single values: levels are met at their numbers' 'latency_p50_ms: single values: 25\.0 % worse, above the$' \
    compare --fail-on critical "$docs/points.json" <(points 85 125)
says 1 'a warning is a regression' 'throughput_tokens_per_second: single values: 15\.0 % worse,$' compare "$docs/points.json" <(points 85 100)
says 1 'and exceeded beyond' 'tok/s +84\.90 tok/s +-15\.1 % +REGRESSED \(critical\)' compare --fail-on critical "$docs/points.json" <(points 84.9 125)
says 0 'within the levels they are stable' "$stable" compare --strict "$docs/points.json" <(points 92 115)
says 1 'they cannot be saved' 'values without samples' baseline save main "$docs/points.json"

# A list of values as other projects keep it, with all their keys: THROUGHPUT LATENCY MEMORY ACCURACY.
seed() {
    echo '{"baselines":{"linux-x86_64":{"c":{"throughput_tokens_per_second":'"$1"',"latency_p50_ms":'"$2"',"memory_usage_mb":'"$3"',
        "accuracy_score":'"$4"'}}},"thresholds":{"critical":{"throughput_decrease_percent":15,"latency_increase_percent":25,
        "memory_increase_percent":30,"accuracy_decrease":0.005},"warning":{"throughput_decrease_percent":8,
        "latency_increase_percent":15,"memory_increase_percent":20,"accuracy_decrease":0.002}}}'
}
seed 100 100 100 0.9987 >"$docs/seed.json"
says 0 'at their warning levels, values are stable' "$stable" compare --strict "$docs/seed.json" <(seed 92 115 120 0.9967)
for fault in 'throughput:91 100 100 0.9987:84 100 100 0.9987' 'latency:100 116 100 0.9987:100 126 100 0.9987' \
    'memory:100 100 121 0.9987:100 100 131 0.9987' 'accuracy:100 100 100 0.9966:100 100 100 0.9936'; do
    IFS=: read -r name warns fails <<<"$fault"
    # shellcheck disable=SC2086 # four values
    says 1 "$name: a warning" ': (SLOWER|WORSE) \(warning\)' compare --fail-on warning "$docs/seed.json" <(seed $warns)
    # shellcheck disable=SC2086
    says 1 "$name: critical" ': (SLOWER|WORSE) \(critical\)' compare --fail-on critical "$docs/seed.json" <(seed $fails)
done

# A run becomes such a list, and is compared with one.
list() { env OUT="$bin" "$top/ci/baselines-json.sh" "$@"; }
"$bin/bn-bench" run --json -q -p 0 -n 4 -t 1 -r 2 --score validation --score-tokens 64 >"$docs/own.json"
list "$docs/own.json" mine >"$docs/own-list.json"
says 0 'a run becomes a list of values' '"mine": {"throughput_tokens_per_second": [0-9.]+, "latency_p50_ms": .*"memory_usage_mb": .*"accuracy_score"' \
    cat "$docs/own-list.json"
says 0 'which is compared with a list' "$stable" compare --strict "$docs/own-list.json" <(list "$docs/own.json" mine)
says 1 'a slower one is found' ': SLOWER' compare "$docs/own-list.json" \
    <(list "$docs/own.json" mine | sed 's/per_second": [0-9.]*/per_second": 1/')
"$bin/bn-bench" run --json -q -p 4 -n 0 -t 1 -r 2 >"$docs/prompt.json"
says 1 'a run without decoding has none' 'no decoding test' list "$docs/prompt.json"

# ---- save: what it refuses ----
document "$docs/bad.json" 100 dirty=true
says 1 'a program of a dirty tree' 'differs from its commit' baseline save main "$docs/bad.json"
says 2 '--allow-dirty wants a reason' '--reason TEXT is missing' baseline save --allow-dirty main "$docs/bad.json"
document "$docs/bad.json" 100 changed=2
says 1 'sources that were changed when it ran' 'sources in the working directory' baseline save main "$docs/bad.json"
document "$docs/bad.json" 100 commit=$zeros
says 1 'a program of another commit' "is of commit 000000000000, and ${head:0:12}" baseline save main "$docs/bad.json"
document "$docs/bad.json" 100 commit=
says 1 'a program of no commit' 'built outside a repository' baseline save main "$docs/bad.json"
document "$docs/bad.json" 100 others=0.5
says 1 'a busy machine' 'not saved: other processes used 0.5 of 2 CPUs during the run' baseline save main "$docs/bad.json"
document "$docs/bad.json" 100 class=contended
says 1 'a run that says it was contended' 'contended' baseline save main "$docs/bad.json"
document "$docs/bad.json" 100 class=invalid
says 1 'a run marked invalid, with every override' 'invalid' \
    baseline save --allow-dirty --allow-stale --allow-contended --reason x main "$docs/bad.json"
echo two >engine/a.c
says 1 'sources that are changed now' 'sources in the working directory' baseline save main "$docs/a.json"
git checkout -q engine/a.c
says 2 'a name that is a path' 'a name may only contain' baseline save ../x "$docs/a.json"
document "$docs/bad.json" 100 label=../../x
says 4 'a machine that is a path' 'not usable as a file name' baseline save main "$docs/bad.json"
check 'nothing was saved by all that' test ! -e baselines/toy/run.json
says 2 'no action' 'missing action: save, list, show, check or promote' baseline
says 2 'an unknown action' 'save, list, show, check or promote' baseline keep
says 2 'operands that are missing' 'expected NAME FILE' baseline save main
says 1 'checking without a baseline fails' "no baseline 'main'" baseline check "$docs/a.json"
says 1 'so does a trend without runs' 'no saved run' bench trend

# ---- save, check, promote ----
echo note >docs/note
says 0 'a first run is the baseline; other files may have changed' 'main  promoted' baseline save main "$docs/a.json"
rm docs/note
says 0 'a run like it passes' "$stable" baseline check --strict "$docs/same.json"
says 1 'what does not pass is not saved by check' 'REGRESSED' baseline check "$docs/slow.json" --save-baseline next
check 'indeed' test "$(baseline list | grep -c next)" -eq 0
says 0 'what passes is' 'saved as next: .* promoted' baseline check "$docs/fast.json" --save-baseline next
baseline check --json -q "$docs/fast.json" --save-baseline next >"$docs/out.json"
check 'with one document on standard output' equal "$(grep -c '"schema": "bn.bench' "$docs/out.json")" 1
document "$docs/scored.json" 100 "extra=$(scored 0.3)"
document "$docs/mistaken.json" 100 "extra=$(scored 0.294)"
status 0 'a run with an accuracy is saved' baseline save scored "$docs/scored.json"
says 1 'one whose accuracy is 0.006 lower does not pass' ': (SLOWER|WORSE) \(critical\)' \
    baseline check --baseline scored --fail-on critical "$docs/mistaken.json"
says 0 'a trend has the accuracy, too' 'accuracy' bench trend --name scored
says 1 'one that regressed does not' '2 REGRESSED' baseline check "$docs/slow.json"
says 1 'nor one that lacks a series' 'B lacks series of A' baseline check "$docs/short.json"
says 1 'nor another name' "no baseline 'other'" baseline check --baseline other "$docs/a.json"
document "$docs/unlike.json" 100 threads=2
says 9 'other settings are refused' 'other settings' baseline check "$docs/unlike.json"
document "$docs/unlike.json" 100 model=other
says 9 'another model is refused' 'another model' baseline check "$docs/unlike.json"
document "$docs/unlike.json" 100 key=j label=other
says 9 'another machine is refused' 'no baseline of this machine, only of toy' baseline check "$docs/unlike.json"
says 0 'a faster run is saved, not promoted' 'main  saved' baseline save main "$docs/fast.json"
says 1 'a slower one is saved as what it is' 'main  regressed' baseline save main "$docs/slow.json"
id() { baseline list | awk -v state="$1" '$2 == state && $3 == "main" { print $1; exit }'; }
says 1 'it cannot be promoted' 'regressed: it cannot become a baseline' baseline promote "$(id regressed)"
says 0 'the faster one can' 'promoted' baseline promote --reason 'merged' "$(id saved)"
says 1 'now what was the baseline regressed' 'REGRESSED' baseline check "$docs/a.json"
says 3 'an unknown run' 'no run' baseline promote 123456789abc
says 3 'an id that is too short' 'six digits' baseline promote 1
status 0 'with a reason a dirty run is saved' baseline save --allow-dirty --reason 'to see' side <(document /dev/stdout 100 dirty=true)
says 0 'and the reason is shown' 'reason +to see' baseline show side
says 0 'and what was allowed is recorded' '"dirty"' baseline show --json side
says 0 'list has them all' 'regressed +main' baseline list
says 3 'show of an unknown name' 'no baseline and no run' baseline show nobody
document "$docs/b.json" 80
document "$docs/later.json" 79
baseline save line "$docs/slow.json" >/dev/null 2>&1
baseline save line "$docs/a.json" >/dev/null 2>&1
baseline save line "$docs/later.json" >/dev/null 2>&1
ids=$(baseline list | awk '$3 == "line" { print $1 }')
status 0 'of two candidates the better one is promoted' baseline promote "$(sed -n 3p <<<"$ids")"
says 1 'which the other one is compared with' 'regressed against the baseline' baseline promote "$(sed -n 2p <<<"$ids")"

# ---- the file ----
file=baselines/toy/run.json
check 'a record is a line' test "$(wc -l <"$file")" -gt 8
status 0 'the ledger is JSON that other programs read' python3 -m json.tool "$file"
says 0 'a report reads its histories' '^[0-9]+ series over time' bash -c "'$bin/bn-bench' trend --json --ledger baselines | '$bin/bn-bench' report -"
cp "$file" "$docs/kept"
sed -i 's/80004/80003/' "$file"
says 5 'a number that was changed is noticed' 'record [0-9]+ was changed' baseline list
says 5 'by check' 'was changed' baseline check "$docs/a.json"
says 5 'by save' 'was changed' baseline save main "$docs/a.json"
says 5 'by trend' 'was changed' bench trend
sed '3d' "$docs/kept" >"$file"
says 5 'a record that was removed' 'does not follow' baseline list
echo '{' >"$file"
status 4 'an invalid file' baseline list
cp "$docs/kept" "$file"
# A limit of 1 KiB on files simulates a full disk: writing fails after it.
full() { (trap '' XFSZ; ulimit -f 1; bench baseline "$@"); }
says 8 'a full disk is an error' 'cannot write' full save main "$docs/b.json"
check 'and leaves the ledger as it was' cmp "$file" "$docs/kept"
check 'and nothing else' equal "$(ls baselines/toy)" run.json
n=$(baseline list | wc -l)
for i in 1 2 3 4 5 6; do baseline save "p$i" "$docs/b.json" >/dev/null 2>&1 & done
wait
check 'of savings at once none is lost' equal "$(baseline list | wc -l)" $((n + 6))

# ---- trend ----
export BN_LEDGER=$tmp/history
for i in $(seq 1 13); do
    document "$docs/run.json" $((100 + 20 * (i > 11))) commit=$zeros
    baseline save -q --allow-stale --reason history late "$docs/run.json" >/dev/null 2>&1
done
lacks 'two slower runs are not a change yet' 'worse|better' bench trend
export BN_LEDGER=$tmp/longer
for i in $(seq 1 16); do
    # a change of 5 % in the middle; the other series only varies.
    document "$docs/run.json" $((100 + 5 * (i > 9) + i % 2)) flat=$((100 + i * 7 % 4)) commit=${zeros:2}$((i + 10)) \
        created="$(printf '2026-01-%02dT00:00:00Z' "$i")"
    baseline save -q --allow-stale --reason history main "$docs/run.json" >/dev/null 2>&1
done
says 0 'a step is found, with its date' 'worse \(by [45].* since' bench trend --metric ns_per_token
says 0 'and the commits that would confirm it' 'to confirm it: ci/bench-gate.sh 0' bench trend --metric ns_per_token
lacks 'what only wavers is not' 'worse|better' bench trend --test prompt
says 0 'in JSON too' '"date": "2026-01-10T00:00:00Z"' bench trend --json --metric ns_per_token
says 1 'an unknown suite' 'no saved run' bench trend --suite none
export BN_LEDGER=$tmp/exact
for accuracy in 0.9987 0.9987 0.9987 0.9927; do
    document "$docs/run.json" 100 binary=$accuracy "extra=$(scored $accuracy)"
    baseline save -q main "$docs/run.json" >/dev/null 2>&1
done
says 0 'an accuracy that fell once is a change, with no more runs' 'worse \(by 0\.601 % since' \
    bench trend --metric accuracy
says 0 'in JSON too' '"at": 3' bench trend --json --metric accuracy
lacks 'what did not change is not one' 'worse|better' bench trend --metric bytes

# ---- ci: the gate in a repository whose programs are scripts, which print documents that are made up ----
mkdir -p "$tmp/gate/ci" "$tmp/gate/build/gcc" && cd "$tmp/gate" || exit 1
cp "$top"/ci/{bench-gate,bench-ci,commits}.sh ci/
ln -s "$bin/bn-bench" build/gcc/bn-bench
git init -q -b main . && echo build >.gitignore
printf 'build/gcc/bn-bench: program\n\tmkdir -p build/gcc && cp program $@ && chmod +x $@\n' >Makefile
# LEVEL [TIMES...]: a commit whose program is that fast, and whose times between tokens are these in turn.
version() {
    local level=$1
    shift
    [ $# -gt 0 ] || set -- 1000
    # shellcheck disable=SC2016 # the program expands it
    document document "$level" extra='{"test":"decode","metric":"token_ns","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":[$x]},
        {"test":"decode","metric":"token_jitter_ns","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":[70]}'
    {
        echo '#!/bin/bash'
        echo "times=($*)"
        # shellcheck disable=SC2016 # the program expands it
        echo 'n=$(cat "$0.n" 2>/dev/null || echo 0) && x=${times[n % ${#times[@]}]} && echo $((n + 1)) >"$0.n"'
        echo 'cat <<END' && cat document && echo END
    } >program
    rm document
    git add . && git commit -q -m "$level $*"
}
version 100 700 1500 900 2100 1100 500 1900 1300
version 100 1900 600 1700 800 2000 1400 500 900
version 100
version 101
version 130
gate() { BENCH_ROUNDS=8 BENCH_AB='--no-control --warmup 0' ci/bench-gate.sh "$@"; }
gate3() { BENCH_ROUNDS=3 BENCH_AB='--no-control --warmup 0' ci/bench-gate.sh "$@"; } # too few for an interval
says 1 'a commit that is slower does not pass the gate' 'status 1; artefacts' gate HEAD~1
check 'its artefacts name the commits' grep -q "\"head\": \"$(git rev-parse HEAD)\"" build/bench-gate/gate.json
check 'and have the verdict' grep -q '"verdict": "REGRESSED"' build/bench-gate/ab.json
check 'and results for github-action-benchmark' python3 -c "import json; assert json.load(open('build/bench-gate/github-smaller.json'))[0]['value']"
says 0 'one that is within the margin does' 'status 0; artefacts' gate HEAD~2 HEAD~1
says 0 'and one that is faster' 'status 0; artefacts' gate HEAD HEAD~1
says 1 'a gate without data fails' 'no data: ns_per_token, decode is undecided' gate3 HEAD~2 HEAD~1
check 'and says so in its artefacts' grep -q '"status": 1' build/bench-gate/gate.json
says 1 'each metric needs its own data' 'no data: token_ns, decode is undecided' gate HEAD~4 HEAD~3
check 'others were decided then' grep -q ',token_jitter_ns,.*,SAME,' build/bench-gate/comparisons.csv
says 1 'a metric that no run has is not decided' 'no data: joules, no run has it is undecided' \
    env BENCH_METRICS='ns_per_token joules' BENCH_ROUNDS=8 BENCH_AB='--no-control --warmup 0' ci/bench-gate.sh HEAD~2 HEAD~1
says 0 'what the gate requires can be chosen' 'status 0; artefacts' \
    env BENCH_METRICS=token_jitter_ns BENCH_ROUNDS=8 BENCH_AB='--no-control --warmup 0' ci/bench-gate.sh HEAD~4 HEAD~3
nightly() { BENCH_BASE_MANUAL=$1 BENCH_ROUNDS=8 BENCH_AB='--no-control --warmup 0' ci/bench-ci.sh; }
says 1 'the night after a slower commit fails' 'status 1; artefacts' nightly HEAD~1
check 'and has an issue to open' equal "$(head -n 1 build/bench-gate/issue.md)" 'performance: critically slower'
check 'which names both commits' grep -q "^$(git rev-parse HEAD), compared with $(git rev-parse HEAD~1)" build/bench-gate/issue.md
git checkout -q HEAD~1
says 0 'the night after one that is not slower passes' 'status 0; artefacts' nightly HEAD~1
check 'and opens no issue' test ! -e build/bench-gate/issue.md
git checkout -q main
echo 'all: ; false' >Makefile
git commit -q -a -m broken
says 10 'one that does not build is named' "head .* does not build" gate HEAD~1
check 'nothing is left' equal "$(git worktree list | wc -l)" 1
cd "$top" || exit 1
says 2 'the gate wants a commit' 'usage' ci/bench-gate.sh
says 3 'one that there is' 'no such commit' ci/bench-gate.sh no-such-commit
