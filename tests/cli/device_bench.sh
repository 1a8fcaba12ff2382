#!/usr/bin/env bash
# Every program on an OpenCL device: measurements, limits, profiles and their graphs, comparisons with the oracle, a server;
# a fault in a kernel, and a device that is lost. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
unset BN_MODEL BN_ISA BN_THREADS BN_DEVICE
bin=$(cd "${OUT:-build/gcc}" && pwd)
bench=$bin/bn-bench xval=$bin/bn-crossval
export XDG_CACHE_HOME=$tmp/cache
if ! "$bin/bn-run" devices -q >"$tmp/devices" 2>&1 || ! grep -q 'opencl:0' "$tmp/devices"; then
    skip 'every program on a device' "$(head -1 "$tmp/devices")"
    exit
fi
# holds FILE CONDITION: in Python, of the document d
holds() {
    python3 -c "import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not ($2))" "$1"
}
# A timing may be refused on a busy machine (1); an error may not.
runs() {
    "${@:2}" >"$1" 2>"$tmp/err" </dev/null
    [ $? -le 1 ] || ! cat "$tmp/err"
}
one=(--threads 1 --device opencl)

# ---- bench ----

# shellcheck disable=SC2016 # code in Python
series='{s["metric"]: s for s in d["series"] if s["test"].startswith("decode")}'
check 'run measures' runs "$tmp/run.json" "$bench" run "${one[@]}" -p 8 -n 4 --reps 2 --warmup 1 --loads 1 --json
check 'which says what it computed on' holds "$tmp/run.json" \
    "d['machine']['device']['id'] == 'opencl:0' and len(d['machine']['device']['program']) == 64"
check 'and what memory it took there' holds "$tmp/run.json" \
    "${series}['device_bytes']['samples'][0] >= 1e6 and len(${series}['device_bytes']['samples']) == 3"
check 'and gives the tokens of the CPU' runs "$tmp/cpu.json" "$bench" run --threads 1 -p 8 -n 4 --reps 2 --warmup 1 --loads 1 --json
outputs() { python3 -c "import json, sys; print([t.get('output_sha256') for t in json.load(open('$1'))['tests']])"; }
check 'which are compared by their digests' equal "$(outputs "$tmp/run.json")" "$(outputs "$tmp/cpu.json")"
check 'a run of the CPU has no device' holds "$tmp/cpu.json" \
    "'device' not in d['machine'] and d['machine']['key'] != json.load(open('$tmp/run.json'))['machine']['key']"
says 0 'which has no memory there' 'no device' python3 -c "import json
print('no device' if 'device_bytes' not in str(json.load(open('$tmp/cpu.json'))) else '')"
check 'limits are of the device' runs "$tmp/limits.json" "$bench" limits "${one[@]}" -p 8 -n 4 --min-time 0.01 --json
check 'reading, copying, products and launches' holds "$tmp/limits.json" \
    "sorted(l['kind'] for l in d['limits']) == ['copy', 'int8', 'launch', 'read']
    and all(v > 0 for l in d['limits'] for k, v in l.items() if k.endswith('_per_second'))"
check 'and bound its tests' holds "$tmp/limits.json" "all(t['limit_ns'] > 0 for t in d['tests'] if 'limit' in t)"
says 0 'kernels tells where those of a device are' 'profile --device' "$bench" kernels --help
printf '%s\n' 'framework:' '  parts: [run, profile, kernels]' 'hardware:' '  threads: 1' '  device: opencl' >"$tmp/suite.yaml"
says 0 'a suite passes it on' 'run .*--device opencl' "$bench" suite --dry-run "$tmp/suite.yaml"
lacks 'where it is taken' 'kernels .*--device' "$bench" suite --dry-run "$tmp/suite.yaml"
says 0 'a profile of the stacks' 'Team' sh -c "'$bin/bn-flamegraph' record -q --device opencl -n 4 --duration 1 -o '$tmp/f.json' 2>&1 && '$bin/bn-flamegraph' bricks '$tmp/f.json'"

# ---- profiles ----

for level in layer brick kernel; do
    check "a profile of level $level" runs "$tmp/$level.json" "$bench" profile "${one[@]}" -p 8 -n 4 --pairs 1 --level "$level" --json
    says 0 'keeps the rules, but for timing' '^ok +counts' sh -c "\"$bench\" profile --check '$tmp/$level.json' || true"
    lacks "of level $level all that do not depend on the time" '^FAIL +(complete|stamps|sums|counts|summary|plausible)' \
        "$bench" profile --check "$tmp/$level.json"
done
check 'each launch has four times and its sizes' holds "$tmp/kernel.json" \
    "all(l[1] <= l[2] <= l[3] <= l[4] and l[5] % l[7] == 0 and l[6] % l[8] == 0 for l in d['profile']['launches'])
    and d['profile']['launch_columns'][:5] == ['event', 'queued', 'submitted', 'started', 'ended']"
check 'in layers and bricks' holds "$tmp/kernel.json" "{b['name'] for b in d['profile']['summary']['bricks']} >=
    {'QkvProjection', 'AttentionScore', 'OutputProjection', 'GateProjection', 'DownProjection', 'LmHead', 'Embedding'}
    and any(k['name'] == 'ternary_gemv_opencl' for k in d['profile']['summary']['kernels'])"
python3 -c "import json
d = json.load(open('$tmp/kernel.json')); d['profile']['launches'][3][3] += 10**9; json.dump(d, open('$tmp/forged.json', 'w'))"
says 1 'a time that was changed is found' 'FAIL +stamps +launch 3' "$bench" profile --check "$tmp/forged.json"
for graph in tree structure dot json chrome path; do
    check "its graph as $graph" runs "$tmp/graph.$graph" "$bench" profile "${one[@]}" -p 4 -n 2 --pairs 1 --graph "$graph"
done
check 'a graph has groups and their sizes' grep -q '"grid"' "$tmp/graph.json"
check 'every layer is in it' equal "$(grep -c '─ Layer ' "$tmp/graph.tree")" 6
check 'the roofline' runs "$tmp/roofline" "$bench" profile "${one[@]}" -p 4 -n 3 --pairs 1 --roofline
check 'compares with the device' grep -q 'DownProjection.*MAC/s' "$tmp/roofline"

# ---- the oracle ----

ids=$(seq 1 12 | paste -sd,)
head -2 fixtures/prompts.jsonl >"$tmp/two.jsonl"
says 0 'crossval: every operation is that of the oracle' '' "$xval" trace -q --tokens "$ids" --ref oracle --device opencl
says 0 'and of the CPU, to the bit' '' "$xval" trace -q --tokens "$ids" --ref "$xval serve --threads 1" --exact --device opencl
says 0 'the ladder passes' '' "$xval" ladder -q --tokens "$ids" --ref oracle --device opencl -n 4
says 0 'the sweep passes' '' "$xval" sweep -q --prompts "$tmp/two.jsonl" --ref oracle -n 3 --device opencl
check 'bench measures' runs "$tmp/xbench" "$xval" bench -q --ref oracle --positions 8 -p 4 -n 2 --reps 2 --device opencl

# ---- faults ----

# shellcheck disable=SC2034 # tests/opencl/plant.sh reads it
out=$bin
# shellcheck source=tests/opencl/plant.sh
. tests/opencl/plant.sh
if grep -q fsanitize "$bin/flags" || ! plant_build >"$tmp/err" 2>&1; then
    skip 'faults of a device' "$(head -1 "$tmp/err")"
    exit
fi
faulty() { planted XDG_CACHE_HOME="$tmp/faulty" PLANT_EDIT="$1=>$2" "${@:3}"; }
says 5 'a kernel with a fault is refused at opening, by its operation' 'computes rope_n[a-z]* wrongly' faulty \
    'a * sines[i] + b * cosines[i]' 'a * sines[i] - b * cosines[i]' "$bin/bn-run" -q -n 2 --device opencl -p a
says 1 'one that appears in a large model alone is found, by its operation' 'q_rope of layer 4' faulty \
    'a * sines[i] + b * cosines[i]' 'a * sines[i] + (nth == 4 && row.position == 7 ? -b : b) * cosines[i]' \
    "$xval" trace -q --tokens "$ids" --ref oracle --device opencl

# ---- a server ----

# asks SEED: several at a time; prints their texts
asks() {
    local i all=()
    for i in 1 2 3; do
        curl -sS -m 120 -H 'Content-Type: application/json' "$url/v1/completions" \
            -d "{\"prompt\": \"To be $i\", \"max_tokens\": 6, \"seed\": $1}" >"$tmp/answer$i" &
        all+=($!)
    done
    wait "${all[@]}"
    cat "$tmp"/answer[123] | python3 -c "import json, sys
for line in sys.stdin: print(json.loads(line)['choices'][0]['text'])"
}
start
want=$(asks 3)
start --device opencl
check 'a server answers as on the CPU' equal "$(asks 3)" "$want"
id=$(value 'd["id"]' "$tmp/answer1")
check 'with receipts of the device' replies 200 '"backend": ?"opencl"' "/v1/receipts/${id##*-}" ''
body='{"prompt": "To be", "max_tokens": 4, "seed": 5}'
PLANT_LOST=$tmp/lost LD_LIBRARY_PATH=$tmp/plant start --device opencl
check 'a device that is there' replies 200 '"text"' /v1/completions "$body"
touch "$tmp/lost"
check 'and is lost: the request gets 503' replies 503 '"code":"device_lost","message":"the device was lost' /v1/completions "$body"
check 'so do the next ones' replies 503 '"code":"device_lost"' /v1/completions "$body"
check 'a stream too' replies 503 '"code":"device_lost"' /v1/completions '{"prompt": "To be", "max_tokens": 4, "stream": true}'
check 'and its health says so' replies 503 '"status":"device lost"' /health ''
check 'the server says it once' equal "$(grep -c 'the device is lost; start the server again' "$tmp/log")" 1
rm "$tmp/lost"
PLANT_LOST=$tmp/lost LD_LIBRARY_PATH=$tmp/plant start --device opencl --device-lost cpu
check 'told to go on with the CPU' replies 200 '"text"' /v1/completions "$body"
text=$(value 'd["choices"][0]["text"]' "$tmp/reply")
touch "$tmp/lost"
check 'the request that lost it gets 503' replies 503 '"code":"device_lost"' /v1/completions "$body"
check 'and the next one its answer' replies 200 '"text"' /v1/completions "$body"
check 'which is the same' equal "$(value 'd["choices"][0]["text"]' "$tmp/reply")" "$text"
id=$(value 'd["id"]' "$tmp/reply")
check 'with a receipt of the CPU' replies 200 '"backend": ?"cpu"' "/v1/receipts/${id##*-}" ''
check 'several at a time too' equal "$(asks 3)" "$want"
check 'it says so once' equal "$(grep -c 'the CPU goes on' "$tmp/log")" 1
check 'and ends as always' stop_server
