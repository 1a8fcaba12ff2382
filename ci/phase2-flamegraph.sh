#!/usr/bin/env bash
# Builds bn-flamegraph and records the two baseline workloads: pictures, pages and an index in docs/baselines/perf/flamegraphs.
#
#     ci/phase2-flamegraph.sh [MODEL [DIR]] [OPTIONS]
#     ci/phase2-flamegraph.sh --committed [OPTIONS]
#
# Arguments and options are those of bn-flamegraph baseline, which searches for a model when none is named. "-" means an
# argument that is not given. --committed records what the repository has: the built-in model and a random model of the
# 2B shape (ci/phase2-2b.sh). Installs nothing and needs no privilege. Environment variables: BITNET_SKIP_BUILD=1 (do not
# build), BITNET_SEED, BITNET_FLAMEGRAPH_TOOL (auto, cycles, clock, timer; names of other programs mean auto),
# BN_MODEL, BN_THREADS, OUT (build/gcc).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-build/gcc}
committed=
[ "${1:-}" != --committed ] || { committed=1 && shift; }
for argument; do
    case $argument in
    -h | --help)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    esac
done
case ${BITNET_FLAMEGRAPH_TOOL:-} in
cargo-flamegraph | flamegraph | samply | perf)
    echo "phase2-flamegraph: note: BITNET_FLAMEGRAPH_TOOL=$BITNET_FLAMEGRAPH_TOOL: other samplers are not used; using auto" >&2
    export BITNET_FLAMEGRAPH_TOOL=auto
    ;;
esac
if [ "${BITNET_SKIP_BUILD:-0}" != 1 ]; then
    make --no-print-directory -s "$out/bn-flamegraph" ${committed:+"$out/bn-fixtures"} >&2
elif [ ! -x "$out/bn-flamegraph" ]; then
    echo "phase2-flamegraph: error: BITNET_SKIP_BUILD=1, but $out/bn-flamegraph does not exist" >&2
    exit 3
fi
if [ -n "$committed" ]; then
    second=$(ci/phase2-2b.sh)
    set -- --model fixtures/built-in-i2_s.gguf --model "$second" "$@"
fi
exec "$out/bn-flamegraph" baseline "$@"
