#!/usr/bin/env bash
# The NEON kernels on a machine without them: checkkern is built for AArch64 and runs under qemu-user. For its digests it
# holds every slot against the reference there, bit for bit, between guard pages; the digests of all outputs are those of
# this machine's reference, which checkkern judges here, so it need not be judged under emulation again.
# On AArch64 checkkern runs directly, and there is nothing to compare with. TAP on standard output.
# shellcheck disable=SC2154,SC2317 # tests/tap.sh sets tmp; functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
cross=aarch64-linux-gnu-gcc
out=${OUT:-build/gcc}
here=$out/tests/checkkern/checkkern
there=$(dirname "$out")/$cross/tests/checkkern/checkkern
# shellcheck source=tests/tap.sh
. tests/tap.sh
if ! command -v "$cross" >/dev/null; then skip neon 'no aarch64 cross compiler' && exit; fi
if ! command -v qemu-aarch64 >/dev/null; then skip neon 'no qemu-aarch64' && exit; fi
if [ "$(uname -m)" != x86_64 ]; then skip neon 'only from x86-64' && exit; fi

# builds COMPILER PROGRAM: the flags of the outer make (sanitizers, -march) are not for the other processor.
builds() {
    env -u MAKEFLAGS -u MFLAGS -u LDFLAGS CFLAGS=-O2 make --no-print-directory -s "CC=$1" "BUILD=$(dirname "$out")" "$2"
}
differing() { cut -d ' ' -f 1,3 | sort -u | cut -d ' ' -f 1 | uniq -d; } # of lines "slot table digest": slots with several
same_bits() {
    [ "$(cut -d ' ' -f 1 "$tmp/arm" "$tmp/x86" | sort | uniq -d | wc -l)" -ge 24 ] &&
        equal "$(cat "$tmp/arm" "$tmp/x86" | differing)" ''
}
check 'neon: builds' builds "$cross" "$there"
[ -x "$here" ] || check 'neon: builds here' builds "${CC:-gcc}" "$here"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$there" --isa=neon --quick --digest >"$tmp/arm"
check 'neon: equals the reference under emulation' test "$?" -eq 0
grep '^#' "$tmp/arm"
check 'neon: the reference has digests' "$here" --isa=ref --quick --digest
cp "$tmp/tap" "$tmp/x86"
check "neon: the slots have the reference's digests" same_bits
check 'neon: a changed digest is found' equal "$(sed 's/^exp neon ./exp neon x/' "$tmp/arm" "$tmp/x86" | differing)" exp
