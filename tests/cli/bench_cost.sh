#!/usr/bin/env bash
# bn-bench run: what a token costs. Energy is read from a made-up folder of counters, whose files are FIFOs with another number at each
# reading; faults are planted in them. Price and energy reach targets, report, compare, baseline and trend. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
bench=$(cd "${OUT:-build/gcc}" && pwd)/bn-bench
nano=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS BN_POWERCAP
small=(run -q -m "$nano" -p 0 -n 2 -t 1 -r 3 --warmup 0)
member() { (cd "$tmp" && python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
s = {x["metric"]: x["samples"] for x in d["series"] if x["test"].startswith("decode")}
t = [x for x in d["tests"] if x["name"].startswith("decode")][0]
print(eval(sys.argv[2]))' "$@"); }

# ---- energy ----
zone=$tmp/powercap/intel-rapl:0
mkdir -p "$zone" "$tmp/powercap/intel-rapl:0:0"
echo package-0 >"$zone/name"
writer=''
code=0
trap 'code=$?; kill $writer 2>/dev/null; (exit $code); tap_end' EXIT
counts() { # STEP RANGE: each reading is a STEP more, modulo RANGE
    [ -z "$writer" ] || { kill "$writer"; wait "$writer"; } 2>/dev/null
    rm -f "$zone"/*_uj
    mkfifo "$zone/energy_uj"
    [ "$2" = none ] || echo "$2" >"$zone/max_energy_range_uj"
    # A write that finds no reader is repeated, so that no reading is empty. The pause lets the reader see the end.
    (
        trap '' PIPE
        for ((n = 1000000; ; n += $1)); do
            exec 3>"$zone/energy_uj"
            until echo $((n % ${2/none/1000000000})) >&3; do sleep 0.001; done
            exec 3>&-
            sleep 0.001
        done 2>/dev/null
    ) &
    writer=$!
}
measure() { # FILE OPTIONS...
    local file=$1
    shift
    BN_POWERCAP=$tmp/powercap "$bench" "${small[@]}" --json "$@" >"$tmp/$file" 2>"$tmp/err"
}
# A reader may miss some numbers: joules are a multiple of the step.
is_multiple='len(s["joules_per_token"]) >= 3 and all(x > 0 and abs(x / 0.0025 - round(x / 0.0025)) < 1e-6 for x in s["joules_per_token"])'
counts 5000 65532610987
check 'energy is measured' measure run.json --target 'energy<=1000000J'
check 'its joules are those of the counter' equal "$(member run.json "$is_multiple")" True
check 'the target has data' equal "$(member run.json 'd["targets"][0]["met"], d["targets"][0]["found"] > 0')" '(True, True)'
check 'the document names the folder' equal "$(member run.json 'd["settings"]["powercap"]')" "$tmp/powercap"
says 1 'a target that is missed' 'missed +energy<=0.001mJ: found .*J, decode 2 tokens' env BN_POWERCAP="$tmp/powercap" "$bench" "${small[@]}" \
    --target 'energy<=0.001mJ'
says 0 'the doctor counts the packages' 'energy +counters of 1 packages' env BN_POWERCAP="$tmp/powercap" "$bench" doctor
counts 5000 500000
check 'a counter that begins again' measure wrapped.json -r 60
check 'is continued' equal "$(member wrapped.json "$is_multiple")" True
unknown() { # TITLE REASON OPTIONS...: no figure, and a target that is missed
    local title=$1 reason=$2
    check "$title: a target without data is missed" equal "$(measure lacks.json --target 'energy<=1000000J'; echo $?)" 1
    check "$title: no figure" equal "$(member lacks.json '"joules_per_token" in s, t["joules_per_token"]')" '(False, None)'
    check "$title: the reason" equal "$(member lacks.json 't["unavailable"]["joules_per_token"]')" "$reason"
}
counts 5000 none
echo 999 >"$zone/max_energy_range_uj"
unknown 'beyond its range' 'a counter of energy went back, or is beyond its range'
counts -5000 none
unknown 'backwards' 'a counter of energy went back, or is beyond its range'
kill "$writer"
rm "$zone/energy_uj"
echo 5 >"$zone/energy_uj"
unknown 'at rest' 'too short for the counters of energy'
echo none >"$zone/energy_uj"
unknown 'not a number' 'no package has a counter'

# ---- counters of the processor: a figure, or null with the reason ----
for metric in cycles_per_token cache_misses_per_token cache_hit_rate; do
    check "$metric: a figure or a reason" equal "$(member run.json "len(s['$metric']) == 3 if '$metric' in s else \
        t['$metric'] is None and len(t['unavailable']['$metric']) > 10")" True
done
check 'a hit rate is a share' equal "$(member run.json 'all(0 <= x <= 1 for x in s.get("cache_hit_rate", []))')" True

# ---- price ----
# 3.6 per hour are 1e-6 per million tokens and nanosecond.
check 'a price' measure price.json --price-per-hour 3.6 --target 'price<=1000000'
check 'is that of the time' equal "$(member price.json 'd["price_per_hour"] == 3.6 and all(abs(p / t * 1e6 - 1) < 1e-9 for p, t in zip(s["price_per_million_tokens"], s["ns_per_token"]))')" True
says 1 'a price that is missed' 'missed +price<=0.0000001: found ' "$bench" "${small[@]}" --price-per-hour 3.6 --target 'price<=0.0000001'
says 1 'a target without a price' 'missed +price<=1: found no data' "$bench" "${small[@]}" --target 'price<=1'
says 2 'a price has no unit' 'price has no unit' "$bench" "${small[@]}" --target 'price<=1J'

# ---- what reads both ----
made() { # FILE PRICE JOULES: a run with these medians
    python3 - "$tmp/price.json" "$@" >"$tmp/$1" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["series"] = [s for s in d["series"] if s["test"].startswith("decode") and s["metric"] in ("ns_per_token", "price_per_million_tokens")]
d["series"].append(dict(d["series"][1], metric="joules_per_token", unit="J"))
d["others"] = {"wall_ns": 1, "cpus": 2, "used_cpus": 0, "stolen_cpus": 0}
d["program"]["binary_sha256"] = sys.argv[2].encode().hex().ljust(64, "0") # another program
for s, at in zip(d["series"], (1e6, float(sys.argv[3]), float(sys.argv[4]))):
    s["warmup"], s["samples"] = 0, [at * (1 + i / 10000) for i in range(20)]
print(json.dumps(d))
PY
}
made a.json 0.1 0.25
made b.json 0.2 0.25
made c.json 0.1 0.5
for metric in price_per_million_tokens joules_per_token; do
    says 0 "report: $metric" "^decode .*$metric +[0-9.]+ m?(price|J)" "$bench" report "$tmp/a.json"
    says 0 "report as JSON: $metric" "\"metric\": \"$metric\"" "$bench" report --format json "$tmp/a.json"
done
says 1 'compare finds a higher price' '0.1001 price +0.2002 price +\+100.0 % +REGRESSED' "$bench" compare -v "$tmp/a.json" "$tmp/b.json"
says 1 'and more energy' '0.2502 J +0.5005 J +\+100.0 % +REGRESSED' "$bench" compare -v "$tmp/a.json" "$tmp/c.json"
ledger=(--ledger "$tmp/ledger" --allow-dirty --allow-stale --allow-contended --reason test)
for file in a b c; do "$bench" baseline save main "$tmp/$file.json" "${ledger[@]}" >/dev/null 2>&1; done
says 1 'baseline check finds the price' 'price_per_million_tokens' "$bench" baseline check "$tmp/b.json" --ledger "$tmp/ledger"
says 1 'and the energy' 'joules_per_token' "$bench" baseline check "$tmp/c.json" --ledger "$tmp/ledger"
says 0 'trend has the price' 'price_per_million_tokens +0.1001 price' "$bench" trend --ledger "$tmp/ledger"
says 0 'and the energy' 'joules_per_token +0.5005 J' "$bench" trend --ledger "$tmp/ledger"
