#!/usr/bin/env bash
# Older processors, emulated. One without AVX must use the reference, execute no instruction that it lacks, and compute
# the same bits as here, where checkkern judges them (without FMA, libm computes it in software). One with only AVX2 must use that table. Of AVX2 only the
# integer kernels run: QEMU 7.2 reads 16 bytes for the 4 of a scalar FMA, which guard pages detect.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gcc}
checkkern=$out/tests/checkkern/checkkern
skip() {
    echo "ok 1 - old cpu # SKIP $*"
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "only on x86-64"
command -v qemu-x86_64 >/dev/null || skip "no qemu-x86_64"
case $(basename "$out") in *-address* | *-undefined* | *-thread*) skip "sanitizers do not run under emulation" ;; esac
case " ${CFLAGS:-} " in *-march=* | *-mavx* | *-mfma*) skip "built for this processor only" ;; esac
[ -x "$checkkern" ] || make --no-print-directory -s "CC=${CC:-gcc}" "$checkkern" >/dev/null || exit 1

failed=0
n=0
check() { # status, text
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $n - old cpu: $2"; else echo "not ok $n - old cpu: $2"; failed=1; fi
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
on() { # cpu, arguments of checkkern
    local cpu=$1
    shift
    qemu-x86_64 -cpu "$cpu" "$checkkern" "$@" 2>/dev/null
}
tables() { on "$1" --list | grep -v -e '^ ' -e 'not supported' | tr '\n' ' '; }
[ "$(tables Nehalem)" = "ref " ]
check $? "Nehalem has the reference alone"
[ "$(tables Haswell)" = "ref avx2 " ]
check $? "Haswell has AVX2"
on Haswell --quick --function=i2s_gem >"$work/tap" && [ "$(grep -c '^ok ' "$work/tap")" -ge 12 ]
check $? "Haswell passes $(grep -c '^ok ' "$work/tap") checks"
grep -A 1 '^not ok' "$work/tap"

"$checkkern" --quick --digest --isa=ref >"$work/here"
on Nehalem --quick --digest >"$work/there"
check $? "Nehalem makes digests"
[ "$(wc -l <"$work/there")" -ge 24 ] && cmp "$work/here" "$work/there"
check $? "Nehalem computes the same bits in $(wc -l <"$work/there") slots"
echo "1..$n"
exit "$failed"
