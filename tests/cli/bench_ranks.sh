#!/usr/bin/env bash
# bn-bench under mpirun: run and train measure the joined job, the other commands are refused, and a report has the documents of
# several numbers of ranks in one table. TAP on standard output. No test depends on the speed of the machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/mpi/mpirun.sh
. tests/mpi/mpirun.sh
bench=$out/bn-bench
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
has_mpi || { skip 'ranks' 'mpirun or bn-mpi.so is missing'; exit; }
asks() { python3 -c 'import json, sys; d = [json.load(open(f)) for f in sys.argv[2:]]; print(eval("(" + sys.argv[1] + ")"))' "$@"; } # EXPRESSION FILE...
measure() { mpi "$2" "$bench" "${@:3}" --json >"$tmp/$1"; } # FILE RANKS ARGUMENTS...
series='{(s["test"], s["metric"]): s for s in x["series"]}'

# ---- what is refused ----
for command in kernels limits memory 'ab -- true --vs true'; do
    # shellcheck disable=SC2086 # words
    says 2 "${command%% *}: refused" 'mpirun started 2 copies, and bn-bench [a-z]+ does not divide its work' mpi 2 "$bench" $command
done
run=(run -q -p 8 -n 4 -t 1 -r 3 --warmup 0)
for more in '-t 1,2' '-d 0,4' '-b 4,8' '--concurrent 2' '--busy 1' '--score validation'; do
    # shellcheck disable=SC2086 # words
    says 2 "run $more: refused" '2 ranks measure tests of one session only' mpi 2 "$bench" "${run[@]}" $more
done
says 9 'a model that cannot be divided' 'cannot be divided among 2 ranks' \
    mpi 2 "$bench" "${run[@]}" -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf
says 3 'a model that is missing' 'none: cannot open: No such file' mpi 2 "$bench" "${run[@]}" -m "$tmp/none"

# ---- run ----
for n in 1 2; do check "run: $n ranks" measure run$n.json $n "${run[@]}" --sequences 1,2; done
files=("$tmp/run1.json" "$tmp/run2.json")
check 'one document, of the same outputs' equal "$(asks '[[t.get("output_sha256") for t in x["tests"]] for x in d][0] ==
    [t.get("output_sha256") for t in d[1]["tests"]]' "${files[@]}")" True
check 'it has the number of ranks' equal "$(asks '[x["settings"].get("ranks") for x in d]' "${files[@]}")" '[None, 2]'
check 'each token exchanges the same bytes' equal "$(asks "[len(set(s['samples'])) == 1 and s['exact'] and s['samples'][0] > 1000
    for x in d for k, s in $series.items() if k[1] == 'exchange_bytes_per_token']" "${files[@]}")" '[True, True, True]'
check 'in some time' equal "$(asks "[min(s['samples']) > 0 for x in d for k, s in $series.items() if k[1] == 'exchange_ns_per_token']" \
    "${files[@]}")" '[True, True, True]'
check 'the bytes read are those of the whole' equal "$(asks "len({${series}['decode n=4 d=0 t=1', 'bytes_per_token']['samples'][0]
    for x in d})" "${files[@]}")" 1
check 'what is known of one rank only is null' equal "$(asks "[t['unavailable']['cpu_ns_per_token'] for t in d[1]['tests'] if 'threads' in t][0],
    d[1]['others'], sum(s['metric'] in ('peak_rss_bytes', 'share_of_bandwidth') for s in d[1]['series'])" "${files[@]}")" \
    "('known of the first rank only', None, 0)"
says 0 'the text is printed once' '^ranks +2, each with 1 thread$' mpi 2 "$bench" "${run[@]}"
check 'with one table' equal "$(grep -c '^decode ' "$tmp/tap")" 1
says 0 'and what a token exchanges' '^exchange .* MB and .* ms per token: decode' mpi 2 "$bench" "${run[@]}"
says 1 'a target that is missed' 'missed +decode>=100000000000' mpi 2 "$bench" "${run[@]}" --target 'decode>=100000000000'
says 0 'threads have a default' '^ranks +2, each with [0-9]+ thread' mpi 2 "$bench" run -q -p 0 -n 2 -r 1 --warmup 0

# ---- train ----
train=(train -q --shape 1x128 --vocab 300 --context 32 --micro-batch 64 --batch 256 -r 3)
if [ -x "$out/bn-train" ]; then
    for n in 1 2 3; do check "train: $n ranks" measure train$n.json $n "${train[@]}" -t 1; done
    files=("$tmp"/train[123].json)
    check 'the weights are those of one rank' equal "$(asks 'len({t["weights_sha256"] for x in d for t in x["tests"] if t["name"].startswith("step")})' \
        "${files[@]}")" 1
    check 'the bytes are exact' equal "$(asks "[s['exact'] and s['samples'][0] > 1000 for x in d for k, s in $series.items()
        if k[1] == 'exchange_bytes_per_token']" "${files[@]}")" '[True, True]'
    check 'times of one rank are left out' equal "$(asks '[t["name"].split()[0] for t in d[1]["tests"]]' "${files[@]}")" "['optimiser', 'step']"
    for more in '-t 1,2' '--context 32,64 -t 1' '--batch 64 -t 1'; do
        # shellcheck disable=SC2086 # words
        says 2 "train $more: refused" '2 ranks measure one test, with a micro-batch or more for each' mpi 2 "$bench" "${train[@]}" $more
    done
    says 2 'a shape that bn-train refuses' 'the width is 100, expected a multiple of 128' mpi 2 "$bench" train -q --shape 1x100 -t 1
    says 0 'the tables' '^ +[0-9]+ +[0-9]+ .* -$' mpi 2 "$bench" "${train[@]}"
else
    skip 'train' 'bn-train was not built: no OpenBLAS'
fi

# ---- one table ----
made() { # FILE NS: the document with this time in all samples, or of a step 256 times as much
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
for s in d["series"]:
    if s["metric"] in ("ns_per_token", "ns_per_step"):
        s["samples"] = [float(sys.argv[2]) * (256 if s["metric"] == "ns_per_step" else 1)] * len(s["samples"])
    if s["metric"] == "exchange_ns_per_token": s["samples"] = [125000.0] * len(s["samples"])
print(json.dumps(d))' "$tmp/$1.json" "$2" >"$tmp/$1.made"
}
made run1 1000000
made run2 625000
table() { "$bench" report "$@" | sed -n '/^Ranks$/,/^$/p'; }
says 0 'one rank' '^decode 4 tokens, 1 thread +1 +1000 tok/s +100.0 % +- +-$' table "$tmp"/run[12].made
says 0 'two: four fifths of twice the rate, a fifth of the time exchanging' \
    '^decode 4 tokens, 1 thread +2 +1600 tok/s +80.0 % +[0-9.]+ KiB +20.0 %$' table "$tmp"/run[12].made
check 'no table of one rank' equal "$(table "$tmp/run1.json")" ''
check 'no efficiency without one rank' equal "$(table "$tmp/run2.json" | awk '/^decode 4 tokens, 1 thread  *2/ { print $9 }')" -
says 9 'compare does not mix them' 'other settings' "$bench" compare "$tmp/run1.json" "$tmp/run2.json"
if [ -x "$out/bn-train" ]; then
    made train1 1000000
    made train2 500000
    says 0 'steps of training' '^ +2 +2000 tok/s +100.0 % ' table "$tmp"/train[12].made
fi
