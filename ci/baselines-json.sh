#!/usr/bin/env bash
# Usage: ci/baselines-json.sh RUN.json [IMPLEMENTATION]
# Writes a list of baselines, {"baselines": {PLATFORM: {IMPLEMENTATION: {METRIC: VALUE}}}}, of a document of bn-bench run: the
# fastest decoding test, the peak of memory and, of --score, the accuracy. A list is compared with one of an earlier run or of
# another engine: ci/baselines-json.sh run.json | bn-bench compare crossval/baselines.json -
set -euo pipefail
run=${1:?RUN.json} name=${2:-bn} bench=${OUT:-$(dirname "$0")/../build/gcc}/bn-bench
"$bench" report --format csv "$run" | awk -F, -v platform="linux-$(uname -m)" -v name="$name" '
    $1 ~ /^decode / && $2 == "ns_per_token" && (least == "" || $3 < least) { least = $3; test = $1 }
    $2 == "token_ns" { token[$1] = $3 }
    $1 == "process" && $2 == "peak_rss_bytes" { memory = $3 }
    $2 == "accuracy" { accuracy = $3 }
    END {
        if (least == "") { print "baselines-json: no decoding test in the document" >"/dev/stderr"; exit 1 }
        printf "{\"baselines\": {\"%s\": {\"%s\": {\"throughput_tokens_per_second\": %.6g, \"latency_p50_ms\": %.6g", \
            platform, name, 1e9 / least, token[test] / 1e6
        if (memory != "") printf ", \"memory_usage_mb\": %.6g", memory / 1e6
        if (accuracy != "") printf ", \"accuracy_score\": %.6g", accuracy
        print "}}}}"
    }'
