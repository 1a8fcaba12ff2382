#!/usr/bin/env bash
# The NEON kernels on a machine without them: checkkern is built for AArch64 and runs under qemu-user. For its digests it
# holds every slot against the reference there, bit for bit, between guard pages; the digests of all outputs are those of
# this machine's reference, which checkkern judges here, so it need not be judged under emulation again.
# On AArch64 checkkern runs directly, and there is nothing to compare with.
set -u
cd "$(dirname "$0")/../.." || exit 1
cross=aarch64-linux-gnu-gcc
out=${OUT:-build/gcc}
here=$out/tests/checkkern/checkkern
there=$(dirname "$out")/$cross/tests/checkkern/checkkern
skip() {
    echo "ok 1 - neon # SKIP $*"
    exit 0
}
command -v "$cross" >/dev/null || skip "no aarch64 cross compiler"
command -v qemu-aarch64 >/dev/null || skip "no qemu-aarch64"
[ "$(uname -m)" = x86_64 ] || skip "only from x86-64"

failed=0
check() { # number, text; the status of the last command
    if [ "$3" -eq 0 ]; then echo "ok $1 - $2"; else echo "not ok $1 - $2"; failed=1; fi
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The flags of the outer make (sanitizers, -march) are not for the other processor.
for target in "$there $cross" "$here ${CC:-gcc}"; do
    [ -x "${target%% *}" ] && [ "${target##* }" != "$cross" ] && continue
    env -u MAKEFLAGS -u MFLAGS -u LDFLAGS CFLAGS=-O2 make --no-print-directory -s "CC=${target##* }" \
        "BUILD=$(dirname "$out")" "${target%% *}" >"$work/make" 2>&1 || { cat "$work/make"; check 1 "neon: builds" 1; exit 1; }
done
check 1 "neon: builds" 0

qemu-aarch64 -L /usr/aarch64-linux-gnu "$there" --isa=neon --quick --digest >"$work/arm"
check 2 "neon: equals the reference under emulation" "$?"
grep '^#' "$work/arm"
"$here" --isa=ref --quick --digest >"$work/x86"
check 3 "neon: the reference has digests" "$?"
# Reads lines "slot table digest"; prints the slots that have more than one digest.
differing() { cut -d ' ' -f 1,3 | sort -u | cut -d ' ' -f 1 | uniq -d; }
cat "$work/arm" "$work/x86" >"$work/all"
slots=$(sort "$work/arm" "$work/x86" | cut -d ' ' -f 1 | uniq -d | wc -l)
different=$(differing <"$work/all")
[ -z "$different" ] && [ "$slots" -ge 24 ]
check 4 "neon: $slots slots have the reference's digest" "$?"
[ -z "$different" ] || echo "# differing: $different"
[ "$(sed 's/^exp neon ./exp neon x/' "$work/all" | differing)" = exp ]
check 5 "neon: a changed digest is found" "$?"
echo 1..5
exit "$failed"
