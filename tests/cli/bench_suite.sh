#!/usr/bin/env bash
# bn-bench suite: what a configuration file runs, what is reused, which files are refused, and the report of several models
# and machines. No test depends on the speed of the machine. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
bench=$(cd "${OUT:-build/gcc}" && pwd)/bn-bench
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS RAYON_NUM_THREADS BITNET_SEED
nano=fixtures/nano-bitnet-i2_s-42.gguf
other=fixtures/nano-llama-i2_s-42.gguf
has() { grep -qE -- "$2" "$1"; }
suite() { "$bench" suite "$@"; }
config() { printf '%s\n' "$@" >"$tmp/suite.yaml"; }

# ---- the files that are refused, with the line ----

refused() { # TITLE PATTERN LINE...
    local title=$1 pattern=$2
    shift 2
    config "$@"
    says 4 "refused: $title" "suite.yaml: $pattern" suite --dry-run "$tmp/suite.yaml"
}
refused 'an unknown key' "line 3: unknown key 'framework.iteration'" 'framework:' '  seed: 1' '  iteration: 3'
says 4 'the key that is meant' 'did you mean framework.iterations' suite --dry-run "$tmp/suite.yaml"
refused 'an unknown section' "line 2: unknown key 'frame.iterations'" 'frame:' '  iterations: 3'
refused 'a text in place of a number' 'line 2: framework.iterations: --reps must be .* \(got .many.\)' 'framework:' '  iterations: many'
refused 'a number out of range' 'line 2: framework.iterations: --reps must be (a whole number )?between 1 and 10000' 'framework:' '  iterations: 0'
refused 'a list in place of a value' 'line 2: framework.iterations: a list' 'framework:' '  iterations: [1, 2]'
refused 'an invalid number in a list' "line 2: inference.depths: --depth: 'x' is not" 'inference:' '  depths: [0, x]'
refused 'a value that is not in the list' "line 2: framework.parts: --parts: 'walk' is not one of" 'framework:' '  parts: [run, walk]'
refused 'a duplicate key' "line 3: duplicate key 'framework.seed' \(first in line 2\)" 'framework:' '  seed: 1' '  seed: 2'
refused 'a duplicate section' "line 3: duplicate section 'framework'" 'framework:' '  seed: 1' 'framework:' '  iterations: 2'
refused 'an alias of nothing' 'line 3: not YAML: found undefined alias' 'framework:' '  seed: 1' '  iterations: *a'
refused 'an alias of what holds it' 'line 2: ' 'framework:' '  seed: &a [*a]'
refused 'a tag' 'line 2: a tag' 'framework:' '  seed: !!int 1'
refused 'a second document' 'line 3: a second document' 'framework:' '  seed: 1' '---' 'memory:' '  filter: x'
refused 'deep nesting' 'line 3: nested too deep' 'framework:' '  seed:' '    more: 1'
refused 'a list as the file' 'line 1: expected a section' '- framework'
refused 'an empty value' 'line 2: an empty value' 'framework:' '  seed:'
refused 'an empty file' 'the file has no sections' ''
refused 'what is not YAML' 'line [23]: not YAML' 'framework:' '  seed: [1'
refused 'a confidence in per cent' 'line 2: framework.confidence_level: --confidence must be between 51 and 99.99' 'framework:' '  confidence_level: 95'
refused 'a duplicate model' "inference.models: 'a' is a duplicate" 'inference:' '  models: [a, a]'
{ echo 'framework:'; head -c 70000 /dev/zero | tr '\0' '#'; } >"$tmp/large.yaml"
status 4 'refused: a huge file' suite --dry-run "$tmp/large.yaml"
status 3 'a missing file' suite "$tmp/none.yaml"
status 2 'no file' suite
status 2 '--dry-run prints no document' suite --dry-run --json "$tmp/suite.yaml"

# ---- what a file runs ----

config 'framework:' '  confidence_level: 0.9' '  parts: [run, memory]'
says 0 'the level of intervals is passed on' '^bn-bench run --json --confidence 90 >' suite --dry-run "$tmp/suite.yaml"
says 0 'to run alone' '^bn-bench memory --json >' suite --dry-run "$tmp/suite.yaml"
says 0 'the example of the repository is valid' "^bn-bench run --json --reps 6 .*>run-built-in.json" \
    suite --dry-run baselines/suite.yaml
cat >"$tmp/published.yaml" <<'YAML'
framework:
  iterations: 1000
  warmup_iterations: 100
  confidence_level: 0.95
  timeout_seconds: 300
memory:
  allocation_sizes: [1024, 4096, 1048576, 16777216]
  allocation_patterns: ["sequential", "random", "mixed"]
  tracking_levels: ["none", "basic", "detailed"]
quantization:
  bit_widths: [1.58, 2.0, 4.0, 8.0]
  tensor_sizes: [[1024, 1024], [2048, 2048], [4096, 4096]]
  calibration_samples: [128, 512, 2048]
inference:
  model_sizes: ["7B", "13B", "30B"]
  batch_sizes: [1, 8, 16, 32, 64]
  sequence_lengths: [512, 1024, 2048, 4096]
hardware:
  platforms: ["cpu", "gpu", "neural_engine"]
  devices: ["auto", "m1_pro", "m2_max", "a100"]
reporting:
  formats: ["html", "json", "csv"]
  charts: true
  dashboard: true
  upload_results: false
YAML
suite --dry-run "$tmp/published.yaml" >"$tmp/plan"
check 'a published file is understood: run' has "$tmp/plan" \
    '^bn-bench run --json --reps 1000 --warmup 100 --confidence 95 --sequences 1,8,16,32,64 --n-prompt 512,1024,2048,4096 >run-built-in.json$'
check 'a published file is understood: quant' has "$tmp/plan" \
    '^bn-bench quant --json --shape 1024x1024 --shape 2048x2048 --shape 4096x4096 >quant.json$'
check 'it has four parts' equal "$(wc -l <"$tmp/plan")" 4
says 0 'keys that select nothing are named with the reason' \
    'hardware.platforms, hardware.devices \(a suite measures this machine' suite --dry-run "$tmp/published.yaml"
suite --dry-run "$tmp/published.yaml" 2>"$tmp/warned" >"$tmp/plan"
check 'all of them in one warning' equal "$(sed 's/name its file in inference.models//' "$tmp/warned" | grep -oE '(memory|quantization|inference|hardware|reporting)\.[a-z_]+_?[a-z]*' | wc -l)" 11
check 'one line' equal "$(wc -l <"$tmp/warned")" 1
config 'reporting:' '  charts: [1, any]' '  upload_results: true'
says 0 'whatever its value is' 'reporting.upload_results \(bn-bench opens no connection\)' \
    suite --dry-run "$tmp/suite.yaml"

config 'framework:' '  parts: [run, memory]' '  iterations: 2' '  warmup_iterations: 0' '  min_time_seconds: 0' \
    'memory:' '  filter: "latency 4 KiB"' 'inference:' "  models: [$nano, $other]" \
    '  sequence_lengths: 4' '  decode_lengths: 2' 'hardware:' '  threads: 1' \
    'reporting:' '  formats: [json, html]' 'targets:' '  peak_memory_mib: 100000'
status 0 'a suite runs' suite -q -o "$tmp/results" "$tmp/suite.yaml"
cp "$tmp/tap" "$tmp/first"
check 'a line for each part' has "$tmp/first" '^\[1/3\] run nano-bitnet-i2_s-42 +measured in [0-9.]+ s$'
check 'the models by size: text' has "$tmp/first" '^nano-bitnet-i2_s-42 +[0-9.]+ k +[0-9.]+ k?tok/s'
check 'the models by size: memory' has "$tmp/first" '^nano-bitnet-i2_s-42 +[0-9.]+ k .* [0-9.]+ MiB'
check 'the documents and the formats of the file, no others' equal "$(cd "$tmp/results" && printf '%s ' *)" \
    'memory.json performance-report.html performance-report.json run-nano-bitnet-i2_s-42.json run-nano-llama-i2_s-42.json suite.json '
check 'the report has the models by size' has "$tmp/results/performance-report.html" '<h2 id="models">Models by size'
check 'and is well-formed' xmllint --noout "$tmp/results/performance-report.html"

cp "$tmp/suite.yaml" "$tmp/first.yaml"
config 'framework:' '  parts: run' '  iterations: 2' '  warmup_iterations: 0' 'inference:' "  models: [$nano, $other]" \
    '  sequence_lengths: 4' '  decode_lengths: 2' '  busy_processes: 1' 'hardware:' '  threads: 1'
says 0 'rates next to busy processes have a column' '^model +params +decode +next to busy +prompt' suite -q -o "$tmp/busy" "$tmp/suite.yaml"
cp "$tmp/first.yaml" "$tmp/suite.yaml"
check 'without them there is none' has "$tmp/first" '^model +params +decode +prompt +peak memory'

# ---- cases: any command ----

config 'framework:' '  timeout_seconds: 100' 'inference:' "  models: [built-in, $other]" 'cases:' \
    "  make: fixtures gen --size nano -o $tmp/made" \
    "  made: run -p 0 -n 2 -t 1 -r 2 -m $tmp/made/nano-bitnet-b1.58-i2_s-42.gguf" \
    '  each: run -m MODEL -p 0 -n "2" -t 1 -r 2' \
    "  mine: cmd -r 3 --name mine --extract 'rate=rate ([0-9]+):higher' -- echo 'rate  7' 'rate 7'" \
    '  reference: crossval bench --ref bn -p 4 -n 2 --reps 2 --positions 0' \
    '  set?: run --isa neon -p 0 -n 2 -r 2' '  suite?: run -m /nowhere/model.gguf'
suite --dry-run "$tmp/suite.yaml" >"$tmp/plan"
check 'a case is a command of bn-bench' has "$tmp/plan" "^bn-bench run --json -p 0 -n 2 -t 1 -r 2 -m $tmp/made/.*>made.json$"
check 'or another program' has "$tmp/plan" '^bn-fixtures gen --size nano .*>make.json$'
check 'whose document is asked for' has "$tmp/plan" '^bn-crossval bench --json --ref bn .*>reference.json$'
check 'quotes make one word' has "$tmp/plan" "-- echo 'rate  7' 'rate 7' >mine.json$"
check 'MODEL is each of the models' equal "$(grep -c '>each-' "$tmp/plan")" 2
check 'the built-in one without -m' has "$tmp/plan" '^bn-bench run --json -p 0 -n 2 -t 1 -r 2 >each-built-in.json$'
check 'with cases alone, no other part runs' equal "$(wc -l <"$tmp/plan")" 8
case $(uname -m) in x86_64) skipped=skipped ;; *) skipped='skipped|measured' ;; esac
status 0 'a suite of cases runs' suite -q -o "$tmp/cases" "$tmp/suite.yaml"
cp "$tmp/tap" "$tmp/first"
check 'a step is done' has "$tmp/first" '^\[1/8\] make +done in '
check 'an instruction set that is not there is skipped' has "$tmp/first" "^\[7/8\] set +($skipped)"
check 'a file, too, with the reason' has "$tmp/first" '^\[8/8\] suite~2 +skipped: /nowhere/model.gguf: cannot open'
check 'each case has a row' has "$tmp/first" '^each nano-llama-i2_s-42 +[0-9.]+ k '
check 'the document of all has the medians' python3 - "$tmp/cases/suite.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
s = {(x["test"], x["metric"]): x["samples"] for x in d["series"]}
assert s[("mine: mine", "rate")] == [7], s
assert any(t.startswith("reference: ") for t, _ in s) and ("made: decode n=2 d=0 t=1", "ns_per_token") in s, s
assert [p["state"] for p in d["parts"]][0] == "done"
PY
says 0 'it is compared like any other' '^mine: mine$' "$bench" compare -v "$tmp/cases/suite.json" "$tmp/cases/suite.json"
suite -q -o "$tmp/cases" "$tmp/suite.yaml" >"$tmp/second"
check 'what depends on nothing else is reused' equal "$(grep -c reused "$tmp/second")" 3
check 'other programs run again' equal "$(grep -cE '\] (mine|reference) .* measured in' "$tmp/second")" 2
printf x >>"$tmp/made/nano-bitnet-b1.58-i2_s-42.gguf"
sed -i '/make:/d' "$tmp/suite.yaml"
suite -q -o "$tmp/cases" "$tmp/suite.yaml" >"$tmp/third"
check 'a model that changed is measured again' has "$tmp/third" '\] made +(measured|FAILED)'
sed 's/suite?:/suite:/' "$tmp/suite.yaml" >"$tmp/failed.yaml"
says 1 'without ? what is missing fails' '\] suite~2 +FAILED: /nowhere' suite -q -o "$tmp/cases" "$tmp/failed.yaml"
config 'cases:' '  bad?: cmd -r 1 --warmup 0 -- false'
says 1 'a negative result fails with ?, too' 'bad +FAILED: .*failed with status 1' suite -q -o "$tmp/bad" "$tmp/suite.yaml"
config 'cases:' '  peer?: crossval bench --ref no-such-engine -p 4 -n 2 --reps 2 --positions 0'
says 0 'a reference that is not set up is skipped' 'peer +skipped: no-such-engine: not found' suite -q -o "$tmp/bad" "$tmp/suite.yaml"
mkdir "$tmp/same" && cp "$nano" "$tmp/same"
config 'inference:' "  models: [$nano, $tmp/same/${nano##*/}]" 'cases:' "  text: [run -p 0 -n 2 -t 1 -r 2 --score $tmp/text -m MODEL]"
head -c 300 fixtures/validation.txt >"$tmp/text"
status 0 'files of one name are two parts' suite -q -o "$tmp/text.d" "$tmp/suite.yaml"
check 'each has a document' test -s "$tmp/text.d/text-nano-bitnet-i2_s-42~2.json"
suite -q -o "$tmp/text.d" "$tmp/suite.yaml" >"$tmp/again"
check 'both are reused' equal "$(grep -c reused "$tmp/again")" 2
head -c 200 fixtures/validation.txt >"$tmp/text"
suite -q -o "$tmp/text.d" "$tmp/suite.yaml" >"$tmp/again"
check 'unless a file that an argument names changed' equal "$(grep -c reused "$tmp/again")" 0
contended() { python3 -c 'import json, sys; print(*(p["contended"] for p in json.load(open(sys.argv[1]))["parts"]))' "$1"; }
others() { # CPUS: they used in the document of the first part
    local doc=$tmp/text.d/text-nano-bitnet-i2_s-42.json
    python3 -c 'import json, sys
doc = json.load(open(sys.argv[1]))
doc["others"] = {"wall_ns": 10**9, "cpus": 4, "used_cpus": float(sys.argv[2]), "stolen_cpus": 0, "unavailable": {}}
json.dump(doc, open(sys.argv[1], "w"))' "$doc" "$1"
    suite -q -o "$tmp/text.d" "$tmp/suite.yaml" >"$tmp/again"
}
others 1.1
check 'a suite with a contended document is contended' has "$tmp/text.d/suite.json" '"result_class": "contended"'
check 'and names the part' equal "$(contended "$tmp/text.d/suite.json" | cut -d' ' -f1)" True
others 0.9
check 'less than a quarter of the processors does not count' equal "$(contended "$tmp/text.d/suite.json" | cut -d' ' -f1)" False
config 'cases:' '  late?: cmd -r 1 -- sleep 300' 'framework:' '  timeout_seconds: 1'
says 0 'a time limit skips, too' 'late +skipped: ran into the time limit' suite -q -o "$tmp/bad" "$tmp/suite.yaml"
config 'cases:' '  gone?: nothing here'
says 0 'a program that is not there is skipped' 'gone +skipped: there is no program bn-nothing' suite -q -o "$tmp/bad" "$tmp/suite.yaml"
refused 'a quote that is open' 'line 2: cases.x: .* is not closed' 'cases:' "  x: run -p 'a"
refused 'an option that a command does not have' "line 2: cases.x: unknown option '--n-promt'" 'cases:' '  x: run --n-promt 4'
config 'cases:' '  x: run --help'
status 0 'a case that prints help is a step' suite -q -o "$tmp/bad" "$tmp/suite.yaml"
refused 'a target without a number' "line 2: targets.peak_memory_mib: --target 'memory<=lessMiB'" 'targets:' '  peak_memory_mib: less'
refused 'a section in a case' 'line 3: nested too deep' 'cases:' '  x:' '    y: run'
config 'framework:' '  parts: [limits, score, serve, train, crossval]' 'hardware:' '  threads: 1' '  price_per_hour: 0.5' \
    'inference:' "  models: $nano"
suite --dry-run "$tmp/suite.yaml" >"$tmp/plan"
check 'more parts have command lines of their own' equal "$(cut -d' ' -f1,2 "$tmp/plan" | xargs)" \
    'bn-bench limits bn-bench run bn-bench serve bn-bench train bn-crossval bench'
config 'framework:' '  parts: run' '  iterations: 2' 'inference:' "  models: $nano" '  sequence_lengths: 4' '  decode_lengths: 2' \
    'hardware:' '  threads: 1' '  price_per_hour: 0.5' 'targets:' '  price_per_million_tokens: 1e9' '  joules_per_token: 1e-9'
says 1 'price and energy can be targets' 'target missed  energy fastest<=1e-9J' suite -q -o "$tmp/price" "$tmp/suite.yaml"
check 'the price is met' python3 -c 'import json, sys
assert json.load(open(sys.argv[1]))["targets"][0]["met"]' "$tmp/price/run-nano-bitnet-i2_s-42.json"

# ---- what did not change is reused ----

cp "$tmp/first.yaml" "$tmp/suite.yaml"

suite -q -o "$tmp/results" "$tmp/suite.yaml" >"$tmp/second"
check 'unchanged parts are reused, with their time' equal "$(grep -cE '^\[./3\] .* reused, measured at 20[0-9-]+T[0-9:]+Z$' "$tmp/second")" 3
suite -q --force -o "$tmp/results" "$tmp/suite.yaml" >"$tmp/third"
check '--force measures all' equal "$(grep -c ' measured in ' "$tmp/third")" 3
sed -i 's/decode_lengths: 2/decode_lengths: 3/' "$tmp/suite.yaml"
suite -q -o "$tmp/results" "$tmp/suite.yaml" >"$tmp/fourth"
check 'other settings: only their parts are measured' equal "$(grep -c ' measured in ' "$tmp/fourth")/$(grep -c ' reused' "$tmp/fourth")" 2/1
BN_ISA=ref suite -q -o "$tmp/results" "$tmp/suite.yaml" >"$tmp/fifth"
check 'another environment: all are measured' equal "$(grep -c ' measured in ' "$tmp/fifth")" 3
plant() { # TITLE SED: a document that is of something else is not reused
    suite -q -o "$tmp/results" "$tmp/suite.yaml" >/dev/null
    sed -i "$2" "$tmp/results/memory.json"
    suite -q -o "$tmp/results" "$tmp/suite.yaml" >"$tmp/planted"
    check "$1: measured again" equal "$(grep -c ' measured in ' "$tmp/planted")" 1
}
plant 'another program' 's/"binary_sha256": "./"binary_sha256": "x/'
plant 'another machine' 's/"key": "./"key": "x/'
plant 'another model' 's/"sha256": "./"sha256": "x/'
plant 'a failed run' 's/"exit_code": 0/"exit_code": 1/'
plant 'a damaged document' '1s/{/{{/'

# ---- failures ----

sed 's/peak_memory_mib: 100000/peak_memory_mib: 0.001/' "$tmp/suite.yaml" >"$tmp/missed.yaml"
says 1 'a target that is missed' 'FAILED: .*target missed  memory<=.*MiB: found ' suite -q -o "$tmp/results" "$tmp/missed.yaml"
sed "s#$other#$tmp/none.gguf#" "$tmp/suite.yaml" >"$tmp/failed.yaml"
suite -q -o "$tmp/results" "$tmp/failed.yaml" >"$tmp/sixth"
check 'a part that fails: the exit code' equal $? 1
check 'a part that fails: the reason' has "$tmp/sixth" '^\[2/3\] run none +FAILED: .*none.gguf'
check 'the other parts are measured or reused' has "$tmp/sixth" '^\[3/3\] memory '
check 'its document of an earlier run is not in the report' bash -c "! grep -q nano-llama '$tmp/results/performance-report.json'"
suite -q --json -o "$tmp/results" "$tmp/failed.yaml" >"$tmp/suite.json"
check 'a failed part: the document' has "$tmp/suite.json" '"state": "failed"'
check 'is that of suite.json' cmp "$tmp/suite.json" "$tmp/results/suite.json"
config 'framework:' '  parts: memory' '  timeout_seconds: 1' '  min_time_seconds: 3600'
says 1 'a part that takes too long' 'FAILED: .*time limit' suite -q -o "$tmp/late" "$tmp/suite.yaml"
config 'framework:' '  parts: memory' '  min_time_seconds: 0' 'memory:' '  filter: "latency 4 KiB"' 'targets:' '  first_token_ms: 1'
says 4 'a target without a measurement' 'targets.first_token_ms needs the part run' suite -q -o "$tmp/nothing" "$tmp/suite.yaml"

# ---- the table of a machine ----

says 0 'the suite of a machine is valid' '^bn-bench run --json -m .* --isa avx2 >avx2.json$' suite --dry-run baselines/machine.yaml
config 'cases:' "  one: run -p 4 -n 2 -t 1 -r 2 -m $nano" '  two?: run --isa neon -m /nowhere' '  three?: crossval bench --ref bn -p 4 -n 2 --reps 2 --positions 0'
export BN_BASELINES=$tmp/base BN_MACHINE_OUT=$tmp/machine
status 0 'ci/machine.sh measures, and writes the page' ci/machine.sh "$tmp/suite.yaml"
kept=$(ls "$tmp"/base/*/machine/suite.json)
check 'whether others disturbed a case without a document is unknown' equal "$(contended "$kept" | cut -d' ' -f2)" None
say() { sed -Ei "0,/\"contended\": (true|false|null)/s//\"contended\": $2/" "$1"; } # FILE VALUE: of the first case
say "$BN_MACHINE_OUT/suite.json" true
says 0 'a case that others disturbed is measured again' '\] one +measured' ci/machine.sh "$tmp/suite.yaml"
say "$BN_MACHINE_OUT/suite.json" false
says 0 'another one is not' '\] one +reused' ci/machine.sh "$tmp/suite.yaml"
say "$kept" true && ci/machine.sh page >/dev/null
check 'the page names it' has "$tmp/base/machines.md" '^\*\*Other processes disturbed one(, three)? of .*cpu-[0-9a-f]+\.\*\*$'
say "$kept" false && ci/machine.sh page >/dev/null
lacks 'and no other' 'disturbed one' cat "$tmp/base/machines.md"
check 'the page has a column for this machine' has "$tmp/base/machines.md" '^\| one: decode 2 tokens, 1 thread \| rate \| [0-9.]+ tok/s \|$'
mkdir -p "$tmp/base/other-64cpu-ffff/machine"
sed 's/"key": "[^"]*"/"key": "ffff"/; s/"label": "[^"]*cpu-[^"]*"/"label": "other-64cpu-ffff"/' "$kept" >"$tmp/base/other-64cpu-ffff/machine/suite.json"
status 0 'the page alone' ci/machine.sh page
check 'another machine is next to it' has "$tmp/base/machines.md" '^\| one: prompt 4 tokens, 1 thread \| rate \| [0-9.]+ tok/s \| [0-9.]+ tok/s \|$'
check 'both are named' has "$tmp/base/machines.md" '^\| B \| other-64cpu-ffff '
says 0 'the folder is not one of ledgers' 'no run is saved' "$bench" baseline list --ledger "$tmp/base"
config 'cases:' '  one: run -m /nowhere'
status 1 'a case that fails: its exit code' ci/machine.sh "$tmp/suite.yaml"
check 'and nothing is kept' grep -q '"one: decode' "$kept"
unset BN_BASELINES BN_MACHINE_OUT

# ---- several machines ----

run=$tmp/results/run-nano-bitnet-i2_s-42.json
sed 's/"key": "[^"]*"/"key": "ffff"/; s/"label": "[^"]*cpu-[^"]*"/"label": "another-machine-64cpu-ffff"/' "$run" >"$tmp/far.json"
"$bench" report "$run" "$tmp/far.json" >"$tmp/machines"
check 'machines side by side: a table' has "$tmp/machines" '^Machines side by side$'
check 'the finding names them' has "$tmp/machines" 'another-machine-64cpu-ffff\)'
check 'each machine has a column' has "$tmp/machines" '^B +another-machine-64cpu-ffff +[0-9]+ +[0-9.]+ GiB'
check 'a row for each series, in 80 columns' has "$tmp/machines" '^decode 3 tokens, 1 thread +rate +[0-9.]+ tok/s +[0-9.]+ tok/s$'
sed 's/ n=3 / n=4 /g' "$tmp/far.json" >"$tmp/farther.json"
"$bench" report "$run" "$tmp/farther.json" >"$tmp/machines"
check 'what a machine did not measure is a dash' has "$tmp/machines" '^decode 4 tokens, 1 thread +rate +- +[0-9.]+ tok/s$'
lacks 'documents of one machine have no such table' 'Machines side by side' "$bench" report "$run" "$run"
"$bench" report --format html -o "$tmp/machines.html" "$run" "$tmp/far.json"
check 'the page has it' has "$tmp/machines.html" '<h2 id="medians">'
check 'and is well-formed' xmllint --noout "$tmp/machines.html"
