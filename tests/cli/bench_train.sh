#!/usr/bin/env bash
# bn-bench train: its document and what reads it, the same bits for each number of threads, and faults that it has to find,
# planted by another program in the place of bn-train. TAP on standard output. No test depends on the speed of the machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
# shellcheck source=tests/tap.sh
. tests/tap.sh
bench=$out/bn-bench
small=(train -q --shape 1x128 --vocab 300 --context 32 --micro-batch 128)

# ---- faults ----
# A program that answers as bn-train does: $tmp/step is a step, $tmp/end-T what it says at its end with T threads.
mkdir "$tmp/bin"
ln "$bench" "$tmp/bin/bn-bench" 2>/dev/null || cp "$bench" "$tmp/bin/bn-bench"
alone=$tmp/bin/bn-bench
says 9 'without bn-train there is a message' 'bn-train is not next to this program' "$alone" "${small[@]}"
cat >"$tmp/bin/bn-train" <<'END'
#!/bin/sh
for word; do case $word in --threads=*) t=${word#*=} ;; esac; done
cd "${0%/bin/*}" || exit 1
cat run
while read -r _; do n=$((n + 1)); sed "s/NOISE/$n/g" "step-$t"; done
cat "end-$t"
END
chmod +x "$tmp/bin/bn-train"
plant() { # PASSES FORWARD BACKWARD STEP LOSS WEIGHTS-OF-2-THREADS
    cat >"$tmp/run" <<END
{"schema": "bn.training/1", "flop_per_token": 1000000, "library": {"core": "X", "name": "Y"}, "parameters": {}, "settings": {"heads": 1, "head_width": 64}, "threads": 1}
END
    for t in 1 2; do
        echo "{\"ns\": $4NOISE, \"passes_ns\": $1, \"forward_ns\": $2, \"backward_ns\": $3, \"reduce_ns\": 1000000, \"optimiser_ns\": 10000000, \"loss\": $5}" >"$tmp/step-$t"
        echo '{"memory": {"masters_bytes": 1, "moments_bytes": 1, "ternary_bytes": 1, "gradients_bytes": 1, "activations_bytes": 1, "peak_rss_bytes": 1}, "weights_sha256": "abc"}' >"$tmp/end-$t"
    done
    sed -i "s/abc/$6/" "$tmp/end-2"
}
planted() { # STATUS TITLE PATTERN ARGUMENTS...
    local want=$1 title=$2 pattern=$3
    shift 3
    says "$want" "$title" "$pattern" "$alone" train --shape 1x128 --context 32 --batch 256 -r 3 --warmup 0 "$@"
}
plant 800000000 200000000 400000000 90000000 5.5 abc
planted 0 'a result without a fault' '^ +900' -t 1
planted 0 'the phases of two threads are divided by two' '^ +200' -t 2
planted 0 'the rate of each thread is half of theirs' '^ +284 +142 ' -t 1,2
plant 500000000 200000000 400000000 90000000 5.5 abc
planted 1 'phases longer than the passes' 'INVALID: .*the phases take 601000000 ns, more than the 500000000 ns of the passes' -t 1
plant 8000000000 200000000 400000000 90000000 5.5 abc
planted 1 'passes longer than the step' 'INVALID: .*passes and optimiser take 8010000000 ns' -t 1
plant 800000000 200000000 400000000 90000000 null abc
planted 1 'a loss that is not a number' 'INVALID: .*the loss is not finite' -t 1
plant 800000000 200000000 400000000 90000000 5.5 def
planted 1 'weights that depend on the number of threads' 'INVALID: .*the weights are def, with t=1 they are abc' -t 1,2
planted 0 'which one number does not show' '^step .*, 2 threads' -t 2
plant 800000000 200000000 400000000 90000000 5.5 abc
sed -i s/5.5/5.25/ "$tmp/step-2"
planted 1 'a loss that depends on it' 'INVALID: .*step 1: the loss is 5.25, with t=1 it is 5.5' -t 1,2
plant 800000000 200000000 1000 90000000 5.5 abc
planted 1 'a rate above the float peak' 'INVALID: .*more than 1.05 times the measured peak' -t 1
plant 800000000 1000 400000000 90000000 5.5 abc
planted 0 'a forward pass above it is marked' '^ +forward 1x128x384, context 32, batch 256, 1 thread: implausible: it is' -t 1
planted 0 'in the document too' '"implausible": "it is [0-9.]+ times' -t 1 --json
echo '{"ns": 5}' >"$tmp/step-1"
planted 4 'a step without its times' 'a step has no forward_ns' -t 1
echo '{"schema": "x"}' >"$tmp/run"
planted 4 'another schema' "the schema is 'x', expected bn.training/1" -t 1
printf '#!/bin/sh\nexit 3\n' >"$tmp/bin/bn-train"
planted 1 'a program that ends' 'bn-train: ended with status 3' -t 1

# ---- options ----
for shape in 6 6x 6x128x x128 6x128x384x2 0x128 -1x128 6X128; do
    says 2 "an invalid shape: $shape" "error: --shape: " "$bench" train "--shape=$shape"
done
says 0 'the default shape' '6x256x768' "$bench" train -q --vocab 300 --context 16 --batch 64 -r 3 --warmup 0 -t 1
status 2 'no steps' "$bench" "${small[@]}" -r 0

# ---- a measurement ----
[ -x "$out/bn-train" ] || { skip 'a measurement' 'bn-train was not built: no OpenBLAS'; exit 0; }
says 2 'a shape that bn-train refuses' 'bn-train: the width is 100, expected a multiple of 128' "$bench" train -q --shape 1x100 -t 1
says 2 'a duplicate test' 'duplicate' "$bench" "${small[@]}" --shape 1x128x384 -t 1
measure() { "$bench" "${small[@]}" -r 3 --warmup 1 -t 1,2 --batch 256,512 --json >"$tmp/$1.json"; }
check 'a document' measure a
check 'has what it promises' python3 - "$tmp/a.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
tests = {t['name']: t for t in d['tests']}
series = {(s['test'], s['metric']): s for s in d['series']}
runs = [n.split(' ', 1)[1] for n in tests if n.startswith('step ')]
assert d['command'] == 'train' and len(runs) == 4 and all(t['verdict'] == 'valid' for t in d['tests'])
for run in runs:
    step, t = series['step ' + run, 'ns_per_step'], tests['step ' + run]
    assert step['warmup'] == 1 and len(step['samples']) == 4
    phases = [series[p + ' ' + run, 'ns_per_step'] for p in ('forward', 'backward', 'reduce', 'optimiser')]
    wait = series['step ' + run, 'wait_ns_per_step']['samples']
    for i in range(4): # each is rounded down
        assert sum(p['samples'][i] for p in phases) + wait[i] <= step['samples'][i]
    for p, part in ('forward', 1 / 3), ('backward', 2 / 3), ('step', 1):
        assert abs(tests[p + ' ' + run]['flop'] / (t['flop_per_token'] * t['batch'] * part) - 1) < 1e-9
    m = {k: series['memory ' + run, k]['samples'][0] for k in ('masters_bytes', 'moments_bytes', 'ternary_bytes',
        'gradients_bytes', 'activations_bytes', 'peak_rss_bytes')}
    n = sum(t['parameters'].values())
    assert 4 * n <= m['masters_bytes'] < 4 * n + 64 * 30 and m['moments_bytes'] == 2 * m['masters_bytes']
    assert sum(v for k, v in m.items() if k != 'peak_rss_bytes') < m['peak_rss_bytes']
    assert t['library']['core'] and len(t['weights_sha256']) == 64
assert len({tests['step ' + r]['weights_sha256'] for r in runs}) == 2 # one for each batch
END
check 'another document' measure b
"$bench" compare -v "$tmp/a.json" "$tmp/b.json" >"$tmp/compared" 2>&1
check 'compare pairs their series' grep -q 'step 1x128x384, context 32, batch 512, 2 threads' "$tmp/compared"
check 'report reads them' "$bench" report --format html -o "$tmp/report.html" "$tmp/a.json" "$tmp/b.json"
check '--html FILE is the same' "$bench" report --html "$tmp/page.html" "$tmp/a.json" "$tmp/b.json"
check 'to the byte' cmp "$tmp/page.html" "$tmp/report.html"
says 2 'but not with another format' 'html cannot be combined with --format' "$bench" report --html "$tmp/page.html" --format text "$tmp/a.json"
check 'and shows the phases' grep -q 'backward 1x128x384 c=32 b=512 t=2' "$tmp/report.html"
check 'baseline saves it' "$bench" baseline save main "$tmp/a.json" --ledger "$tmp/ledger" --allow-dirty --allow-stale --allow-contended --reason test
says 0 'and trend lists it' 'optimiser 1x128x384' "$bench" trend --ledger "$tmp/ledger"
says 0 'the tables fit 80 columns' '^step ' bash -c "'$bench' ${small[*]} -r 3 --batch 256 -t 1 >'$tmp/table' && cat '$tmp/table'"
check 'all of them' awk 'length > 80 && !/^machine/ { print; bad = 1 } END { exit bad }' "$tmp/table"
for head in 'a step' 'rate '; do check "table: $head" grep -q "^$head" "$tmp/table"; done
