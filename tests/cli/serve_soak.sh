#!/usr/bin/env bash
# A short soak of bn-serve: flat memory and descriptors, which the long one (make soak-serve) shows for many more requests. And
# the gate finds memory and descriptors that grow. TAP on standard output.
# shellcheck disable=SC2154 # tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
soak() { timeout 600 python3 tests/soak/serve.py "$bin" fixtures/nano-bitnet-b1.58-i2_s-42.gguf "$@"; }
limit=1024
! sanitized address thread || limit=65536 # freed memory stays in a quarantine, or has a history
says 0 'memory and descriptors stay' 'memory grew by' soak 300 --limit-kib "$limit"
says 1 'receipts without end are found' 'memory grew by [0-9]+ KiB, at most' soak 300 --leak memory --limit-kib 256
says 1 'so are connections that stay open' 'descriptors grew from' soak 100 --leak descriptors --limit-kib "$limit"
