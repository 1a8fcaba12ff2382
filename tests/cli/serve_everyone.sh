#!/usr/bin/env bash
# bn-serve: 32 clients at once through all APIs that generate, with the chains that they have alone, and receipts that replay.
# TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh

start --receipts "$tmp/receipts" --sequences 6 --batch 32
timeout 500 python3 tests/serve/everyone.py "$url" >"$tmp/results" 2>&1
ended=$?
grep -v ^requests "$tmp/results" >"$tmp/verdicts"
verdicts "$tmp/verdicts"
check 'all APIs were asked' equal "$ended $(grep -c ^pass "$tmp/results")" '0 6'
stop_server
n=$(sed -n 's/^requests //p' "$tmp/results")
"$bin/bn-verify-receipt" --batch "$tmp/receipts" --model "$model" --replay >"$tmp/verified" 2>&1
check 'every receipt replays' equal "$? $(tail -1 "$tmp/verified" | cut -d';' -f 1)" "0 $n receipts: $n verified"

start --sequences 6
status 1 'an answer that is not the same is noticed' timeout 500 python3 tests/serve/everyone.py "$url" --spoil
