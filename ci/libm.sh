#!/usr/bin/env bash
# Usage: ci/libm.sh [FILE...]
# The results of libm's logarithm, exponential and their kind depend on its version and on the processor. This reports
# object files and archives that call such a function. Without arguments it checks what promises the same bits on every
# machine: the libraries that run, train, download and join, and the programs that write models, answers and receipts.
# lab/stats, lab/compare, lab/report, bn-bench, bn-crossval and bn-flamegraph only measure; they may use libm.
set -u
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-build/gcc}
# Rounded exactly, by IEEE 754 or because no rounding is needed.
exact='sqrt|fma|rint|nearbyint|lrint|llrint|round|lround|llround|floor|ceil|trunc|fabs|fmin|fmax|fmod|fdim|remainder|ldexp|scalbn|scalbln|frexp|modf|copysign|nextafter|logb|ilogb|finite|isinf|isnan|signbit'
if [ $# -eq 0 ]; then
    shopt -s nullglob
    set -- "$out"/libbn{,hub,mpi}.a "$out"/libcli.a "$out"/lab/{kit,receipt,verify}/*.o \
        "$out"/tools/{convert,fixtures,run,serve,train,download,verify-receipt}/{,*/}*.o
    [ ! -e "$out/libbntrain.a" ] || set -- "$@" "$out/libbntrain.a"
fi
libm=$(${CC:-gcc} -print-file-name=libm.so.6)
[ -e "$libm" ] || { echo "libm: $libm: not found" >&2; exit 1; }
calls=$({
    nm -D --defined-only "$libm" | awk '$2 != "A" { sub(/@.*/, "", $3); print "libm", $3 }'
    nm -uA "$@" | awk '{ print $1, $NF }'
} | awk -v exact="^($exact)(f|l|f32|f64)?\$" '$1 == "libm" { libm[$2] = 1; next } $2 in libm && $2 !~ exact { print "libm: not the same bits on every machine: " $1, $2 }')
[ -z "$calls" ] || { echo "$calls" >&2; exit 1; }
