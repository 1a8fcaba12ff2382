#!/usr/bin/env bash
# The page of bn-crossval (--html, report): well-formed, the same bytes for the same result, safe against hostile names, with
# the numbers of the JSON document. Also bn-crossval bench, without assertions on speed. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
ids=192,32,59,115,215,215,308,286
# shellcheck source=tests/tap.sh
. tests/tap.sh
has() { check "$1" grep -qF -- "$3" "$2"; }
has_not() { lacks "$1" "$3" cat "$2"; }

# well_formed TITLE FILE: as XML, so every SVG in it too; and as HTML, whose checker is older than SVG in HTML
well_formed() {
    local text
    text=$(xmllint --noout "$2" 2>&1; xmllint --html --noout "$2" 2>&1 | grep ' error : ' | grep -vE 'Tag (svg|path|circle|rect|text) invalid')
    check "$1 is well-formed" equal "$text" ''
    # Names of namespaces are only names; nothing is downloaded from there.
    text=$(sed 's/xmlns="[^"]*"//g' "$2" | grep -nEi '(src|href|action|data|srcset|poster)="?[^#"]|url\(|@import|<(script|link|iframe|object|embed|img|base|form)')
    check "$1 loads nothing" equal "$text" ''
}

# ---- pages of a pass, a failure, three engines ----

export SOURCE_DATE_EPOCH=1700000000
page() { # NAME STATUS REFERENCE...
    local name=$1 want=$2 refs=() got; shift 2
    for r in "$@"; do refs+=(--ref "$r"); done
    "$xval" ladder --json --tokens $ids -n 4 --trace always "${refs[@]}" --html "$tmp/$name.html" >"$tmp/$name.json" 2>"$tmp/err"; got=$?
    check "$name: a page is written" equal "$got $(cat "$tmp/err")" "$want "
    well_formed "$name" "$tmp/$name.html"
    check "$name: report makes the same page of the JSON" cmp <("$xval" report "$tmp/$name.json") "$tmp/$name.html"
}
page pass 0 oracle
page fail 1 'oracle --fault silu'
page three 1 oracle bn 'oracle --fault silu'
page broken 1 'exit 7'
page exact 0 bn

"$xval" ladder -q --tokens $ids -n 4 --trace always --ref oracle --html "$tmp/again.html" >/dev/null
without_command() { grep -v '<th scope="row">command</th>' "$1"; }
check "the same input gives the same page again" cmp <(without_command "$tmp/pass.html") <(without_command "$tmp/again.html")

has "the page of a pass begins with its verdict" "$tmp/pass.html" '<h1>agree: 8 tokens, 1 reference</h1>'
has "the page of a failure names the operation" "$tmp/fail.html" '<h1>oracle --fault silu: DIFFERS from rung first on; ffn_act of layer 0 is the first out of tolerance'
has "a failure is marked in the plot" "$tmp/fail.html" 'first: ffn_act, layer 0'
has_not "a failure nowhere says that engines agree" "$tmp/fail.html" '<h1>agree'
has "a reference that failed does not agree" "$tmp/broken.html" '<h1>exit 7: FAILED, no agreement: '
has "and its verdict is bad" "$tmp/broken.html" 'class="verdict bad"'
has "the odd one out is named" "$tmp/three.html" '<h1>odd one out: oracle --fault silu</h1>'
has "equal bits need no plot" "$tmp/exact.html" 'Zero at each of the 8 points.'
has "the policy forbids loading" "$tmp/pass.html" "default-src 'none'"
for fact in '<th scope="row">commit</th>' '<th scope="row">machine</th>' '<th scope="row">command</th>' '<th scope="row">model sha256</th>' bn-reference; do
    has "provenance: $fact" "$tmp/pass.html" "$fact"
done
has "the model's digest" "$tmp/pass.html" "$(sha256sum fixtures/built-in-i2_s.gguf | cut -c 1-64)"
for plot in 'aria-label="Direction of the logits' 'aria-label="Largest difference' 'aria-label="what each operation'; do
    has "plot: $plot" "$tmp/pass.html" "$plot"
done

# The page has every limit's value, bound and margin as the document spells it.
missing=0 seen=0
while read -r number; do
    seen=$((seen + 1))
    grep -qF "title=\"$number\"" "$tmp/fail.html" || missing=$((missing + 1))
done < <(sed -nE 's/^ *"(value|min|max|margin|nrmse_mean)": (-?[0-9.e+-]+),?$/\2/p' "$tmp/fail.json")
check "the page has the numbers of the JSON" test "$seen" -gt 30 -a "$missing" -eq 0

# ---- hostile names ----

bad=$'x\' onload=alert(1) "<script>alert(1)</script>]]><!--&amp;\001\033[31m\xff\xe2\x80\xae</style><svg/onload=1>'
cp fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf "$tmp/<script>\"]]>'&.gguf"
"$xval" ladder -q -m "$tmp/<script>\"]]>'&.gguf" --tokens 1,2,3 --ref ": $bad" --ref 'oracle' --html "$tmp/hostile.html" >/dev/null 2>&1
well_formed "hostile" "$tmp/hostile.html"
has "hostile: markup is text" "$tmp/hostile.html" '&quot;&lt;script&gt;alert(1)&lt;/script&gt;]]&gt;&lt;!--&amp;amp;\u{1}\u{1b}[31m'
has "hostile: a character that reorders is shown" "$tmp/hostile.html" '\u{202e}'
has "hostile: the name of the model" "$tmp/hostile.html" '&lt;script&gt;&quot;]]&gt;&#39;&amp;.gguf'
has_not "hostile: no script" "$tmp/hostile.html" '<script|<svg/|<!--'
check "hostile: the page is UTF-8" iconv -f utf-8 -t utf-8 "$tmp/hostile.html"
# The same with a document from another program: hostile names in each of its texts.
sed -E '/"schema"/!s#: "[^"]*"#: "<script>\\u0001\\"]]>\x27\&"#' "$tmp/three.json" >"$tmp/all.json"
"$xval" report "$tmp/all.json" -o "$tmp/all.html"
well_formed "every text hostile" "$tmp/all.html"
has_not "every text hostile: no script" "$tmp/all.html" '<script'
# Unexpected kinds and sizes.
for change in 's/"ops?": "[^"]*"/"op": [1]/' 's/: [0-9.e-]+(,?)$/: "x"\1/' 's/: [0-9.e-]+(,?)$/: -1e300\1/' 's/"layer": [0-9]+/"layer": 4e9/' 's/"(ids|here|there|rungs|limits|operations|pairs)": \[/"\1x": [/'; do
    sed -E "$change" "$tmp/three.json" >"$tmp/odd.json"
    rm -f "$tmp/odd.html"
    "$xval" report "$tmp/odd.json" -o "$tmp/odd.html"
    well_formed "a document changed by $change" "$tmp/odd.html"
done
says 4 "a document of another kind" 'schema is not bn.crossval/1' "$xval" report <(echo '{"schema": "bn.bench/1"}')
says 4 "no document" "unexpected 'o', expected null" "$xval" report <(echo 'nothing')
says 3 "no file" 'none.json' "$xval" report "$tmp/none.json"
says 2 "no operand" 'RESULT.json' "$xval" report

# ---- bench ----

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

