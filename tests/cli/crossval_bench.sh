#!/usr/bin/env bash
# bn-crossval bench, without assertions on speed; and what bn-bench report makes of documents of bn-crossval. TAP on standard
# output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
# shellcheck source=tests/tap.sh
. tests/tap.sh

"$xval" bench --json --ref 'bn --isa ref' -p 4 -n 2 --reps 3 --threads 1 --positions 24 >"$tmp/bench.json"
# Of three samples the median is the middle one. The ratio is Hodges and Lehmann's of the three pairs: the logarithms' Walsh
# averages have their median between the third and the fourth of six. Three rounds have no interval, and one value has none.
check "bench: the figures follow from the samples" python3 - "$tmp/bench.json" <<'END'
import json, math, sys
doc = json.load(open(sys.argv[1]))
assert doc["schema"] == "bn.crossval/1" and doc["engine"] == "bn" and len(doc["comparisons"]) == 4
costs = {"prompt n=4": "ns_per_token", "decode n=2": "ns_per_token", "open": "load_ns", "process": "peak_rss_bytes"}
series = {(s["test"], s["metric"]): s for s in doc["series"]}
assert len(series) == 2 * len(costs) + 4, series.keys()
for c in doc["comparisons"]:
    theirs, own = (series[t, c["metric"]]["samples"] for t in (c["test"], c["test"].replace("reference bn --isa ref", "bn")))
    assert c["metric"] == costs[c["test"].split(" t=")[0]] and c["better"] == "lower", c
    n = 1 if c["metric"] == "peak_rss_bytes" else 3
    assert len(own) == len(theirs) == n, c
    d = [math.log(o / t) for o, t in zip(own, theirs)]
    walsh = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i, n))
    assert math.isclose(c["change"], math.exp((walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2) - 1, rel_tol=1e-9), c
    assert c["a"]["median"] == sorted(theirs)[n // 2] and c["b"]["median"] == sorted(own)[n // 2], c
    assert c["verdict"] == "INCONCLUSIVE" and c["low"] is None, c
    assert n > 1 or min(own + theirs) > 1 << 20, c
text = lambda engine, metric: series["text n=24 t=1 " + engine, metric]
ref = "reference bn --isa ref"
assert text(ref, "agreement")["samples"] == [1] and text(ref, "agreement")["better"] == "higher"
assert text(ref, "kld")["samples"] == [0] and text(ref, "kld")["better"] == "lower"
accuracy = text("bn", "accuracy")["samples"][0]
assert [accuracy] == text(ref, "accuracy")["samples"] and abs(accuracy * 23 - round(accuracy * 23)) < 1e-9 and 0 < accuracy < 1
assert doc["references"][0]["result"] == "agree" and "unavailable" not in doc["references"][0]
assert doc["program"]["binary_sha256"] and doc["machine"]["key"] and doc["settings"]["prompt_tokens"] == 4
END
bench() { COLUMNS=120 "$xval" bench -p 4 -n 2 --threads 1 --positions 12 "$@"; }
says 0 "bench: text has the ratio and its interval" \
    'oracle +[0-9.]+ tok/s +[0-9.]+ % +[0-9.e+]+ +[0-9.e+]+ - [0-9.e+]+ +[A-Z]+' bench --ref oracle --reps 6
says 0 "bench: too few rounds have no interval" '2 pairs$|2 pairs are too few' bench --ref bn --reps 2
says 0 "bench: the ratio says which way is better" 'above 1 bn is better' bench --ref bn --reps 2
says 0 "bench: memory has one value" 'memory bn: one value of each engine has no interval' bench --ref bn --reps 2
says 0 "bench: the oracle agrees" 'oracle +100\.0 %' bench --ref oracle --reps 2
says 0 "bench: a reference that computes something else is named" '^oracle --fault silu: DIFFERS from rung positions on' \
    bench --ref 'oracle --fault silu' --reps 2
lacks "bench: without a text there is no agreement" '^agreement' bench --ref bn --reps 2 --positions 0
says 0 "bench: one token has no next one to agree on" '^memory' bench --ref bn --reps 2 --positions 1
says 3 "bench: a text that is not there" 'none.txt' bench --ref bn -f "$tmp/none.txt"

# canned CAPABILITIES OPEN BENCH: a reference whose answers have these members
cat >"$tmp/canned.sh" <<'END'
i=0
while read -r line; do
    i=$((i + 1)) members=
    case $line in
    *'"hello"'*) members=",\"protocol\":\"bn.reference/1\",\"name\":\"c\",\"capabilities\":$1" ;;
    *'"open"'*) members=",\"n_vocab\":2048,\"n_ctx\":512$2" ;;
    *'"bench"'*) members=$3 ;;
    esac
    echo "{\"id\":$i,\"ok\":true$members}"
    case $line in *'"close"'*) exit 0 ;; esac
done
END
canned() { echo "sh $tmp/canned.sh '$1' '${2:-}' '${3:-}'"; }
trained=(-m fixtures/shakespeare-5m-i2_s.gguf --reps 2)
times=',"prompt_ns":4000,"decode_ns":2000'
bench --json "${trained[@]}" --ref "$(canned '[]')" >"$tmp/cannot.json"
check "bench: without the capability the exit status is 1" equal $? 1
check "and each figure that is missing has its reason" python3 - "$tmp/cannot.json" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))
r = doc["references"][0]
assert r["unavailable"].keys() == {"ns_per_token", "peak_rss_bytes", "agreement", "kld", "accuracy"}, r["unavailable"]
assert all(r[name] is None for name in r["unavailable"])
assert "capability bench" in r["unavailable"]["ns_per_token"] and "cannot give logits" in r["unavailable"]["agreement"]
assert any(s["metric"] == "load_ns" and "reference" in s["test"] for s in doc["series"])
END
says 1 "bench: one that cannot, and one that can" 'sh .*canned.sh: the reference does not have the capability|not measured' \
    bench "${trained[@]}" --ref "$(canned '[]')" --ref bn
bench --json "${trained[@]}" --ref "$(canned '["bench"]' ',"open_ns":777' "$times,\"peak_bytes\":12345678")" >"$tmp/knows.json"
check "bench: what a reference knows better is taken from it" equal "$? $(grep -cE '"samples": \[(12345678|777, 777)\]' "$tmp/knows.json")" "0 2"
bench --json "${trained[@]}" --ref "$(canned '["bench"]' ',"open_ns":null' "$times,\"peak_bytes\":null")" >"$tmp/null.json"
check "bench: what it cannot know is null, with the reason" equal \
    "$? $(grep -cE '"(load_ns|peak_rss_bytes)": (null|"the reference cannot know it")' "$tmp/null.json")" "0 4"
says 1 "bench: one that fails" 'has a vocabulary of 5,' bench --ref tests/protocol/toy_reference.sh --reps 2
says 1 "bench: an answer without times" '"ns_per_token": "its answer to bench has no prompt_ns' bench --json "${trained[@]}" --ref "$(canned '["bench"]' '' ',"prompt_ns":0')"

# The memory is that of all processes of the reference: this one has 64 MiB in a child.
printf 'import time\nx = bytearray(64 << 20)\nopen("%s", "w").write("x")\ntime.sleep(1000)\n' "$tmp/held" >"$tmp/hold.py"
printf '#!/bin/sh\npython3 "%s" </dev/null >/dev/null 2>&1 &\nread -r _ <"%s"\n"%s" serve\nkill $!\n' "$tmp/hold.py" "$tmp/held" "$xval" >"$tmp/two.sh"
mkfifo "$tmp/held"
chmod +x "$tmp/two.sh"
bench --json --ref "$tmp/two.sh" --reps 2 --positions 0 >"$tmp/two.json"
check "bench: the memory of a child counts" python3 - "$tmp/two.json" <<'END'
import json, sys
series = json.load(open(sys.argv[1]))["series"]
assert next(s for s in series if s["test"].startswith("process") and "two.sh" in s["test"])["samples"][0] > 64 << 20
END

lacks "bn-bench report: a bench without a text says nothing of agreement" 'no_data|engines agree' "$out/bn-bench" report "$tmp/two.json"

# Agreement is a series like others: a baseline that was saved with a sound reference finds one that computes something else.
# shellcheck disable=SC2016 # the script expands it
printf '#!/bin/sh\nexec "%s" serve ${FAULT:+--fault $FAULT}\n' "$out/crossval/bn-reference" >"$tmp/engine.sh"
chmod +x "$tmp/engine.sh"
for fault in '' silu; do
    FAULT=$fault bench --json --ref "$tmp/engine.sh" --reps 2 --positions 64 >"$tmp/engine$fault.json"
done
saved() { "$out/bn-bench" baseline "$@" --ledger "$tmp/ledgers"; }
status 0 "baseline: a bench is saved" saved save main "$tmp/engine.json" --allow-dirty --allow-stale --allow-contended --reason test
says 0 "baseline: the same agreement passes" 'STABLE' saved check "$tmp/engine.json"
says 1 "baseline: agreement that falls below the level is found" '^ +1 +0\.[0-9]+ +-[0-9.]+ % +REGRESSED \(critical\)' \
    saved check -v "$tmp/enginesilu.json"

# The gate. The ratios are beyond what any machine measures.
says 0 "gate: a low ratio passes" '^gate: pass; .* at least 1e-06 times' bench --ref bn --reps 2 --fail-below 0.000001
says 1 "gate: a high ratio fails" '^gate: FAIL; .* at least 1e\+06 times' bench --ref bn --reps 2 --fail-below 1000000
says 1 "gate: no data is a failure" '^gate: FAIL, no data' bench "${trained[@]}" --ref "$(canned '[]')" --fail-below 0.000001
"$xval" bench --json --ref bn --ref 'bn --isa ref' -p 4 -n 2 --reps 6 --threads 1 --fail-below 1000000 >"$tmp/gate.json"
check "gate: the exit status with --json is the same" equal $? 1
says 0 "gate: it is in the document" '"status": "fail"' cat "$tmp/gate.json"
says 0 "bn-bench report shows the engines" '^prompt 4 tokens, 1 thread, reference bn --isa ref +ns_per_token' \
    "$out/bn-bench" report "$tmp/gate.json"
says 0 "and compares them" '^decode 2 tokens, 1 thread, reference bn --isa ref$' "$out/bn-bench" report "$tmp/gate.json"
says 0 "as a page, too" 'reference bn --isa ref' "$out/bn-bench" report --format html "$tmp/gate.json"
"$xval" ladder --json --tokens 1,2,3 --ref oracle --ref 'oracle --fault silu' >"$tmp/ladder.json"
says 0 "bn-bench report shows a ladder: agreement" '^. ladder . oracle . agree . - . [0-9.]+e-' "$out/bn-bench" report --format markdown "$tmp/ladder.json"
says 0 "and difference" 'differ .*ffn_act of layer 0' "$out/bn-bench" report "$tmp/ladder.json"
head -n 1 fixtures/prompts.jsonl >"$tmp/prompts.jsonl"
"$xval" sweep --json --prompts "$tmp/prompts.jsonl" --ref oracle -n 2 >"$tmp/sweep.json"
status 0 "a bench, a ladder and a sweep are one page" "$out/bn-bench" report --format html -o "$tmp/page.html" \
    "$tmp/bench.json" "$tmp/ladder.json" "$tmp/sweep.json"
check "with engines, and a row for each reference and prompt" equal \
    "$(grep -c '<h2 id="engines">' "$tmp/page.html") $(grep -oE '(bench|ladder|sweep).json: (bench|ladder|speaker)<' "$tmp/page.html" | sort | uniq -c | tr -s ' \n' ' ')" \
    '1  1 bench.json: bench< 2 ladder.json: ladder< 1 sweep.json: speaker< '
echo '{"schema": "bn.crossval/1", "references": []}' >"$tmp/empty.json"
says 1 "a ladder without references fails for want of data" 'nothing was compared' "$out/bn-bench" report "$tmp/empty.json"
says 2 "bench: no reference" 'no reference is given' "$xval" bench

