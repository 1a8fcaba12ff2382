#!/usr/bin/env bash
# Writes ci/inference.json, the receipt of a run of the built-in model, then checks it by ci/receipt-policy.json and replays it
# on one thread with the reference kernels. OUT: where the programs are (build/gcc).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${OUT:-build/gcc}
"$bin/bn-run" -q -p 'To be, or not to be' -n 32 --receipt ci/inference.json
"$bin/bn-verify-receipt" --policy ci/receipt-policy.json ci/inference.json
"$bin/bn-verify-receipt" --replay --isa ref --threads 1 ci/inference.json
