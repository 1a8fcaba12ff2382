#!/usr/bin/env bash
# Measures the built programs on this machine and saves the run in baselines/, under NAME (main): ci/update-baselines.sh
# [NAME] [-- ARGUMENTS of bn-bench run]. The sources must be those of a commit. Then prints what to commit. Each record of the
# ledger has the digest of the model that was measured, in its member model_sha256.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${OUT:-build/gcc}/bn-bench
name=main
if [ $# -gt 0 ] && [ "$1" != -- ]; then
    name=$1
    shift
fi
[ $# -eq 0 ] || shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$bench" run --json "$@" >"$tmp/run.json"
"$bench" baseline save "$name" "$tmp/run.json"
git status --short baselines
