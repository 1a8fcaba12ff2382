#!/usr/bin/env bash
# Older processors, emulated. One without AVX must use the reference, execute no instruction that it lacks, and compute
# the same bits as here, where checkkern judges them (without FMA, libm computes it in software). One with only AVX2 must use
# that table. Of AVX2 only the integer kernels run: QEMU 7.2 reads 16 bytes for the 4 of a scalar FMA, which guard pages
# detect. TAP on standard output.
# shellcheck disable=SC2154,SC2317 # tests/tap.sh sets tmp; functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
checkkern=${OUT:-build/gcc}/tests/checkkern/checkkern
# shellcheck source=tests/tap.sh
. tests/tap.sh
if [ "$(uname -m)" != x86_64 ]; then skip 'old cpu' 'only on x86-64' && exit; fi
if ! command -v qemu-x86_64 >/dev/null; then skip 'old cpu' 'no qemu-x86_64' && exit; fi
if sanitized address undefined thread; then skip 'old cpu' 'sanitizers do not run under emulation' && exit; fi
case " ${CFLAGS:-} " in *-march=* | *-mavx* | *-mfma*) skip 'old cpu' 'built for this processor only' && exit ;; esac

on() { qemu-x86_64 -cpu "$1" "$checkkern" "${@:2}" 2>/dev/null; } # CPU, arguments of checkkern
tables() { on "$1" --list | grep -v -e '^ ' -e 'not supported' | paste -sd ' '; }
passes() {
    on "$@" >"$tmp/checks" && [ "$(grep -c '^ok ' "$tmp/checks")" -ge 12 ] && return
    grep -A 1 '^not ok' "$tmp/checks"
    return 1
}
same_bits() {
    "$checkkern" --quick --digest --isa=ref >"$tmp/here" && on "$1" --quick --digest >"$tmp/there" &&
        [ "$(wc -l <"$tmp/there")" -ge 24 ] && cmp "$tmp/here" "$tmp/there"
}
check 'Nehalem has the reference alone' equal "$(tables Nehalem)" ref
check 'Haswell has AVX2' equal "$(tables Haswell)" 'ref avx2'
check 'Haswell passes the checks of integer kernels' passes Haswell --quick --function=ternary_gem
check 'Nehalem computes the same bits in each slot' same_bits Nehalem
