#!/usr/bin/env bash
# Programs that write files are killed at moments that are spread over the time that they take, and before their calls
# (tests/faults/torture.py): each file is as before or complete, and the next run works. TAP on standard output. BN_KILLS (2) is
# the number of kills of each. With less than 20, those that tests of their own kill too are left to these.
# shellcheck disable=SC2154 # tests/tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if sanitized address; then
    skip "kills" "a sanitizer replaces malloc"
    exit
fi
kills=${BN_KILLS:-2} jobs=''
[ "$kills" -ge 20 ] || jobs='^bn-run over|second run|serve'
torture() { python3 tests/faults/torture.py "$out" kills "$@"; }
says 1 'a half-written file is found' 'run.json: not complete' torture --kills 2 --jobs 'a second run' --plant torn
torture --kills "$kills" --jobs "$jobs" --parallel "${BN_FAULT_PARALLEL:-1}" | sed '/^1\.\./d' >"$tmp/kills"
cat "$tmp/kills"
tap_n=$((tap_n + $(grep -cE '^(not )?ok' "$tmp/kills"))) tap_failed=$((tap_failed + $(grep -c '^not ok' "$tmp/kills")))
check 'all were run' test "$(grep -c '^ok' "$tmp/kills")" -ge 3
