#!/usr/bin/env bash
# bn-serve under load: tests/serve/load.py. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
timeout 1200 python3 tests/serve/load.py "$bin" fixtures/shakespeare-5m-i2_s.gguf "$tmp" >"$tmp/results" 2>&1
status=$?
verdicts "$tmp/results"
check 'all were run' equal "$status $(wc -l <"$tmp/results")" '0 21'
