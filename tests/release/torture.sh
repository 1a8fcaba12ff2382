#!/usr/bin/env bash
# What tests/cli/faults.sh, kills.sh, oom.sh and serve_soak.sh do a sample of, in full: some hours. TAP on standard output.
# BN_FAULT_POSITIONS (400): a class with at most N calls fails in each of them. BN_KILLS (200) of each program that
# writes files. SOAK_SECONDS (7200): 32 clients that come, go, break off and send garbage.
# shellcheck disable=SC2154 # tests/tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
OUT=$(cd "${OUT:-build/gcc}" && pwd)
export OUT BN_KILLS=${BN_KILLS:-200} BN_FAULT_POSITIONS=${BN_FAULT_POSITIONS:-400}
BN_FAULT_PARALLEL=$(nproc)
export BN_FAULT_PARALLEL
# shellcheck source=tests/tap.sh
. tests/tap.sh
# Of a long log, what failed: check shows the last lines.
failures() { "$@" >"$tmp/log" 2>&1 || { grep -A 4 '^not ok' "$tmp/log"; tail -n 3 "$tmp/log"; return 1; }; }
check 'each call fails' failures env BN_FAULT_SHARE=1 tests/cli/faults.sh
check 'allocations fail in all programs' failures env BN_OOM_POSITIONS=200 tests/cli/oom.sh
check 'kills of each program that writes' failures tests/cli/kills.sh
for test in train convert download_faults; do check "kills in $test.sh" failures "tests/cli/$test.sh"; done
check 'a soak' python3 tests/soak/serve.py "$OUT" fixtures/nano-bitnet-b1.58-i2_s-42.gguf 1 --clients 32 \
    --seconds "${SOAK_SECONDS:-7200}"
