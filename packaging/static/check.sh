#!/usr/bin/env bash
# Usage: check.sh PROGRAM ARCH
# Fails unless PROGRAM is of ARCH (x86_64, aarch64), needs no interpreter and no shared library, has an address that the kernel
# chooses, no executable stack, and no memory that is both written and executed.
set -euo pipefail
program=$1
case $2 in x86_64) machine=X86-64 ;; *) machine=AArch64 ;; esac
text=$(readelf -hldW "$program")
bad() { echo "static: $program $1" >&2 && exit 1; }
grep -qE "Machine: .*$machine" <<<"$text" || bad "is not for $2"
! grep -qE ' INTERP |program interpreter' <<<"$text" || bad "has an interpreter"
! grep -q '(NEEDED)' <<<"$text" || bad "needs $(grep -o 'Shared library.*' <<<"$text" | paste -sd ' ')"
grep -qE 'Type: +DYN' <<<"$text" || bad "has fixed addresses"
grep -qE 'GNU_STACK .* RW ' <<<"$text" || bad "has an executable stack"
! grep -qE 'LOAD .* RWE ' <<<"$text" || bad "has memory that is written and executed"
