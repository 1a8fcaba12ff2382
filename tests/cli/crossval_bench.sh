#!/usr/bin/env bash
# bn-crossval bench, without assertions on speed; and what bn-bench report makes of documents of bn-crossval. TAP on standard
# output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
# shellcheck source=tests/tap.sh
. tests/tap.sh

"$xval" bench --json --ref 'bn --isa ref' -p 4 -n 2 --reps 3 --threads 1 >"$tmp/bench.json"
check "bench: two engines" equal "$(grep -c '"status": "measured"' "$tmp/bench.json")" 2
# Of three samples the median is the middle one. The ratio is Hodges and Lehmann's of the three pairs: the logarithms' Walsh
# averages have their median between the third and the fourth of six. Three rounds have no interval.
check "bench: the figures follow from the samples" python3 - "$tmp/bench.json" <<'END'
import json, math, sys
doc = json.load(open(sys.argv[1]))
assert doc["schema"] == "bn.crossval/1" and len(doc["series"]) == 4 and len(doc["comparisons"]) == 2
samples = {s["test"]: s["samples"] for s in doc["series"]}
for c in doc["comparisons"]:
    theirs, own = samples[c["test"]], samples[c["test"].replace("reference bn --isa ref", "bn")]
    d = [math.log(o / t) for o, t in zip(own, theirs)]
    walsh = sorted((d[i] + d[j]) / 2 for i in range(3) for j in range(i, 3))
    assert math.isclose(c["change"], math.exp((walsh[2] + walsh[3]) / 2) - 1, rel_tol=1e-9), c
    assert c["a"]["median"] == sorted(theirs)[1] and c["b"]["median"] == sorted(own)[1], c
    assert c["verdict"] == "INCONCLUSIVE" and c["low"] is None, c
END
bench() { "$xval" bench -p 4 -n 2 --threads 1 "$@"; }
says 0 "bench: text has the ratio and its interval" '^prompt +bn --isa ref +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[0-9.e+]+ - [0-9.e+]+ +[A-Z]+' \
    env COLUMNS=100 "$xval" bench --ref 'bn --isa ref' -p 4 -n 2 --reps 6 --threads 1
says 0 "bench: too few rounds have no interval" '2 pairs are too few' bench --ref 'bn --isa ref' --reps 2
says 1 "bench: a reference that cannot is said" 'oracle: the reference does not have the capability' bench --ref oracle --reps 2
says 1 "bench: a capable reference is measured, another one is skipped" '"status": "skipped"' \
    "$xval" bench --json --ref oracle --ref bn -p 4 -n 0 --reps 2 --threads 1
says 1 "bench: one that fails" 'toy_reference.sh: has a vocabulary of 5' bench --ref tests/protocol/toy_reference.sh --reps 2
hello='{"id":1,"ok":true,"protocol":"bn.reference/1","name":"c","version":"1","commit":null,"capabilities":["bench"]}'
says 1 "bench: an answer without times" '"reason": "its answer to bench has no prompt_ns' "$xval" bench --json -m fixtures/shakespeare-5m-i2_s.gguf -p 4 -n 2 --reps 2 --timeout 600 \
    --ref "read x; echo '$hello'; read x; echo '{\"id\":2,\"ok\":true,\"n_vocab\":2048,\"n_ctx\":512}'; read x; echo '{\"id\":3,\"ok\":true,\"prompt_ns\":0}'; cat >/dev/null"

# The gate. The ratios are beyond what any machine measures.
says 0 "gate: a low ratio passes" '^gate: pass; .* at least 1e-06 times' bench --ref bn --reps 2 --fail-below 0.000001
says 1 "gate: a high ratio fails" '^gate: FAIL; .* at least 1e\+06 times' bench --ref bn --reps 2 --fail-below 1000000
says 1 "gate: no data is a failure" '^gate: FAIL, no data' bench --ref oracle --reps 2 --fail-below 0.000001
"$xval" bench --json --ref bn --ref 'bn --isa ref' -p 4 -n 2 --reps 6 --threads 1 --fail-below 1000000 >"$tmp/gate.json"
check "gate: the exit status with --json is the same" equal $? 1
says 0 "gate: it is in the document" '"status": "fail"' cat "$tmp/gate.json"
says 0 "bn-bench report shows the engines" '^prompt n=4 t=1 reference bn --isa ref +ns_per_token' \
    "$out/bn-bench" report "$tmp/gate.json"
says 0 "and compares them" '^decode n=2 t=1 reference bn --isa ref$' "$out/bn-bench" report "$tmp/gate.json"
says 0 "as a page, too" 'reference bn --isa ref' "$out/bn-bench" report --format html "$tmp/gate.json"
"$xval" ladder --json --tokens 1,2,3 --ref oracle --ref 'oracle --fault silu' >"$tmp/ladder.json"
says 0 "bn-bench report shows a ladder: agreement" '^engines-agree +oracle$' \
    "$out/bn-bench" report "$tmp/ladder.json"
says 0 "and difference" 'engines-differ oracle --fault silu: does not agree' "$out/bn-bench" report "$tmp/ladder.json"
echo '{"schema": "bn.crossval/1", "references": []}' >"$tmp/empty.json"
says 1 "a ladder without references fails for want of data" 'nothing was compared' "$out/bn-bench" report "$tmp/empty.json"
says 2 "bench: no reference" 'no reference is given' "$xval" bench

