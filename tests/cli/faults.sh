#!/usr/bin/env bash
# Calls of the system fail in whole programs that read and write files (tests/faults/torture.py): the exit code, the message, the
# files, what stays open. TAP on standard output. BN_FAULT_SHARE (60) takes each 60th of the runs that BN_FAULT_POSITIONS (2) for
# each command and fault give; tests/release/torture.sh takes all of all.
# shellcheck disable=SC2154 # tests/tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if sanitized address; then
    skip "faults" "a sanitizer replaces malloc"
    exit
fi
torture() { python3 tests/faults/torture.py "$out" faults "$@"; }
plant() { torture --jobs 'bn-run$' --faults write --positions 1 --plant "$1"; }
says 1 'a half-written file is found' 'r.json: not complete' plant torn
says 1 'so is a temporary one' 'r.json.tmp-0123456789abcdef: left behind' plant leftover
says 1 'so is another exit code' 'exit 1: bn-run: error: ' plant code
says 1 'so are descriptors and memory' 'descriptors stay open' plant leak
# A model that shrinks while it is mapped, which the sandbox would not permit; one that ends within a page shows zeros, without SIGBUS.
cp fixtures/nano-bitnet-b1.58-i2_s-42.gguf "$tmp/whole.gguf"
"$out/bn-run" -q -m "$tmp/whole.gguf" -p ROMEO -n 2 --receipt "$tmp/r.json" --prompt-cache "$tmp/whole.cache" >"$tmp/text"
# shrinks FAULT PROGRAM ARGUMENTS...: its exit codes, for each file that it maps
shrinks() {
    local at codes='' fault=$1
    shift
    for at in 1 2 3 4; do
        cp "$tmp/whole.gguf" "$tmp/m.gguf"
        cp "$tmp/whole.cache" "$tmp/cache"
        [ ! -d "$tmp/whole" ] || { rm -rf "$tmp/folder" && cp -r "$tmp/whole" "$tmp/folder"; }
        timeout 60 env BN_FAULT="$fault" BN_FAULT_AT=$at BN_FAULT_FOLDER="$tmp" BN_NO_SANDBOX=1 LD_PRELOAD="$out/tests/faults/faults.so" BN_THREADS=1 \
            "$out/$1" "${@:2}" 2>"$tmp/err" >/dev/null </dev/null
        codes+=$?
        [ "$fault" != shrink ] || [ "${codes: -1}" != 8 ] || grep -q 'error: .*(SIGBUS)$' "$tmp/err" || codes+='without a message'
    done
    echo "$codes"
}
cd "$tmp" || exit 1
check 'bn-run: a model that shrinks is 8' equal "$(shrinks shrink bn-run -m m.gguf -p a -n 2)" 8000
check 'one that loses its end is 5, as with a receipt' equal "$(shrinks trim bn-run -m m.gguf -p a -n 2)" 5000
check 'so does a prompt cache that shrinks' equal "$(shrinks shrink bn-run -m m.gguf -p ROMEO -n 2 --prompt-cache cache)" 8080
check 'a model that changed is not one of another cache' equal "$(shrinks trim bn-run -m m.gguf -p ROMEO -n 2 --prompt-cache cache | cut -c 1)" 5
check 'bn-run inspect, which maps it twice' equal "$(shrinks shrink bn-run inspect -m m.gguf)" 8800
check 'it does not describe zeros' equal "$(shrinks trim bn-run inspect -m m.gguf | cut -c 2-)" 800
check 'bn-verify-receipt' equal "$(shrinks shrink bn-verify-receipt --model m.gguf r.json)" 8000
check 'a receipt is not refused because of it' equal "$(shrinks trim bn-verify-receipt --model m.gguf r.json)" 8000
check 'bn-convert' equal "$(shrinks shrink bn-convert m.gguf --to pq2_0 -o o.gguf)" 8000
check 'zeros are not converted' equal "$(shrinks trim bn-convert m.gguf --to pq2_0 -o o.gguf)" 8000
cp whole.gguf m.gguf
says 8 'bn-serve' '[(]SIGBUS[)]$' timeout 60 env BN_FAULT=shrink BN_FAULT_AT=1 BN_FAULT_FOLDER="$tmp" BN_NO_SANDBOX=1 LD_PRELOAD="$out/tests/faults/faults.so" \
    "$out/bn-serve" -m m.gguf --port 0
cd "$OLDPWD" || exit 1
if command -v node >/dev/null; then
    node tests/convert/folder.mjs "$tmp/whole.gguf" "$tmp/whole" trits pairs template
    check 'safetensors are 8, a JSON file in a page is malformed' equal "$(shrinks shrink bn-convert "$tmp/folder" --to pq2_0 -o "$tmp/o.gguf")" 4484
    check 'and their zeros' equal "$(shrinks trim bn-convert "$tmp/folder" --to pq2_0 -o "$tmp/o.gguf" | cut -c 3)" 8
else
    skip 'safetensors' 'no node'
fi
says 0 'bn-download goes on after a short write' 'short-write' torture --jobs '^bn-download$' --faults short-write --positions 3
says 0 'and does not fill what another process cuts off' 'trim' torture --jobs '^bn-download$' --faults shrink,trim --positions 1

# ---- all programs that write, a sample ----
torture --positions "${BN_FAULT_POSITIONS:-2}" --share "${BN_FAULT_SHARE:-60}" --parallel "${BN_FAULT_PARALLEL:-1}" | sed '/^1\.\./d' >"$tmp/faults"
count() { [ "$(grep -c '^ok' "$tmp/faults")" -gt 20 ]; }
cat "$tmp/faults"
tap_n=$((tap_n + $(grep -cE '^(not )?ok' "$tmp/faults"))) tap_failed=$((tap_failed + $(grep -c '^not ok' "$tmp/faults")))
check 'many were run' count
