#!/usr/bin/env bash
# Writes docs/baselines/perf/phase1_quant_probe.txt: which kernels ran on the quantized weights for one token, as bn-run counts
# them: ci/phase1-quant-probe.sh [MODEL]. The default of MODEL is the built-in model. Environment variables: OUT
# (build/gcc), PHASE1_OUT (the file).
set -euo pipefail
cd "$(dirname "$0")/.."
run=${OUT:-build/gcc}/bn-run
file=${PHASE1_OUT:-docs/baselines/perf/phase1_quant_probe.txt}
model=()
[ $# -eq 0 ] || model=(-m "$1")
tmp=$(mktemp)
trap 'rm -f "$tmp" "$tmp.json"' EXIT
{
    echo "# $("$run" --version | head -n 1), $(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //')"
    echo "# BITNET_TRACE_QUANT=1 bn-run${1:+ -m MODEL} -p test -n 1"
    calls=$(BITNET_TRACE_QUANT=1 "$run" "${model[@]}" -p test -n 1 --receipt "$tmp.json" 2>&1 >/dev/null | grep '^quant_dispatch: ')
    echo "# model sha256 $(tr -d ' \n' <"$tmp.json" | sed -E 's/.*"model":\{[^{}]*"sha256":"([0-9a-f]{64})".*/\1/')"
    echo "$calls"
} >"$tmp"
mkdir -p "$(dirname "$file")"
cp "$tmp" "$file"
echo "phase1-quant-probe: $file" >&2
