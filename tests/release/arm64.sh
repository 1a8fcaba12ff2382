#!/usr/bin/env bash
# arm64 under qemu-user, from x86-64: programs that are cross-built without shared libraries compute the digests of x86-64, receipts
# made on either verify and replay on the other, unit tests and scripts of tests/cli pass. A processor of the other byte order is
# refused when something is compiled. TAP on standard output.
#
# What emulation cannot do is not run: bn starts other programs only from PATH, where wrappers are, since the kernel does not know
# programs of arm64; perf events, unwinding and readings of the processor (bn-flamegraph, bn-bench).
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(BN_ISA|HF_|MAKE|MFLAGS)')
qemu=$(command -v qemu-aarch64)
if [ -z "$qemu" ] || [ "$(uname -m)" != x86_64 ]; then skip 'arm64' 'needs qemu-aarch64 on x86-64' && exit; fi
units=(engine/test_{bits,budget,chat,digest,file,gguf,hadamard,json,pretokenize,rope,sampler,speculate,team,tokenizer,types}
    lab/test_{statistics,ledger,compare} receipt/test_{keys,receipt,rules} hub/test_hub_cache tools/test_{convert,options})
scripts=(architectures bn_run speculate constrain chat_json fixtures verify_receipt)

# ---- build ----
build=$PWD/${BN_BUILD:-build}
check 'static programs are built for both processors' make -s BUILD="$build" static
arm=$build/static/aarch64/out x86=$build/static/x86_64/out
check 'the source of cmocka' packaging/static/sysroot.sh arm64 "$build/static/cmocka" -- cmocka
has_cmocka() { # one file, into the root of arm64
    local root=$build/static/aarch64/root src=$build/static/cmocka/src/cmocka
    install -D -m 644 -t "$root/usr/include" "$src"/include/*.h &&
        aarch64-linux-gnu-gcc -w -O2 -fPIE -I"$src/include" -DHAVE_{STDLIB,STRING,STRINGS,SETJMP,SIGNAL,TIME,UNISTD,INTTYPES,MALLOC,SYS_TYPES}_H=1 \
            -DHAVE_{STRUCT_TIMESPEC,CLOCK_GETTIME,CLOCK_REALTIME,STRSIGNAL,SIGLONGJMP}=1 -c -o "$tmp/cmocka.o" "$src/src/cmocka.c" &&
        aarch64-linux-gnu-ar rcD "$root/usr/lib/aarch64-linux-gnu/libcmocka.a" "$tmp/cmocka.o"
}
check 'cmocka is built' has_cmocka
export BN_STATIC_ALSO="bn-bench bn-flamegraph bn-git ${units[*]/#/tests/unit/}"
check 'all programs but bn-train, and unit tests, are built for arm64' make -s BUILD="$build" STATIC_ARCHS=aarch64 static

# ---- programs in wrappers ----
out=$tmp/out
mkdir -p "$out" "$tmp/alone"
for program in "$arm"/bn "$arm"/bn-*; do
    name=${program##*/}
    [[ $name == *.map ]] && continue
    mkdir "$tmp/alone/$name" # with no neighbour that bn would try to start
    cp "$program" "$tmp/alone/$name/"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$qemu" "$tmp/alone/$name/$name" >"$out/$name"
    chmod +x "$out/$name"
    says 0 "$name --version" 'instruction sets of this machine: .*' "$out/$name" --version
done
says 0 'NEON is found' 'machine: .*neon' "$out/bn-run" --version

# ---- the same bits ----
ids=$(seq 1 21 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), ($1 * 151 + 7) % 256 }')
same_bits() { # MODEL
    local want isa
    want=$("$x86/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest --isa ref)
    [ -n "$want" ] || return 1
    equal "$("$x86/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest)" "$want" || return 1
    for isa in neon ref; do equal "$("$out/bn-run" logits -q -m "$1" --tokens "$ids" --all --digest --isa "$isa")" "$want" || return 1; done
}
for model in fixtures/*.gguf; do check "${model##*/}: the logits of x86-64" same_bits "$model"; done
while read -r options; do
    mkdir "$tmp/x86" "$tmp/arm"
    # shellcheck disable=SC2086 # words
    "$x86/bn-fixtures" gen -q -o "$tmp/x86" --vocab 320 $options >/dev/null && "$out/bn-fixtures" gen -q -o "$tmp/arm" --vocab 320 $options >/dev/null
    check "$options: the same file" diff -r "$tmp/x86" "$tmp/arm"
    check "$options: the logits of x86-64" same_bits "$tmp/x86/"*.gguf
    rm -r "$tmp/x86" "$tmp/arm"
done <<'END'
--size tiny
--size tiny --format tq1_0
--size tiny --format tq2_0
--arch llama --format q2_0
--arch qwen3 --format pq2_0
--arch gemma3 --format tq2_0 --window 8
--arch minicpm --format tq2_0
--arch qwen35 --size quad --format ptq1_0 --hadamard 64 --tied
--arch maple --size duo --format tq2_0
--size tiny --format f16
END
differs() { ! same_bits_of_two; }
same_bits_of_two() { equal "$("$out/bn-run" logits -q --tokens 1,2,3 --all --digest)" "$("$x86/bn-run" logits -q --tokens 1,2,4 --all --digest)"; }
check 'other tokens have another digest' differs

# ---- README, receipts ----
PATH=$out:$PATH
text=' hath given him to his fathers.
He hath made him a great king, and'
check 'bn run: the text of README' equal "$("$out/bn" run -q 'The LORD' -n 16 --receipt "$tmp/arm.json")" "$text"
"$x86/bn-run" -q 'The LORD' -n 16 --receipt "$tmp/x86.json" >"$tmp/text"
for isa in neon ref; do says 0 "a receipt of x86-64 replays on arm64, $isa" 'verified, level: replay' "$out/bn" verify-receipt "$tmp/x86.json" --replay --isa "$isa" --threads 1; done
says 0 'a receipt of arm64 replays on arm64' 'verified, level: replay' "$out/bn-verify-receipt" "$tmp/arm.json" --replay
says 0 'a receipt of arm64 replays on x86-64' 'verified, level: replay' "$x86/bn-verify-receipt" "$tmp/arm.json" --replay
says 0 'and says where it was made' 'aarch64|arm64|neon' cat "$tmp/arm.json"
refuses() { sed '0,/"ids": *\[\([0-9]*\)/s//"ids": [1\1/' "$1" >"$tmp/false.json" && ! cmp -s "$1" "$tmp/false.json" && ! "$2" "$tmp/false.json" --replay; }
check 'a changed receipt is refused on x86-64' refuses "$tmp/arm.json" "$x86/bn-verify-receipt"
check 'and on arm64' refuses "$tmp/x86.json" "$out/bn-verify-receipt"
says 0 'a JSON schema' '"age"' "$out/bn" run 'A person:' --json-schema '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}'

# ---- tests ----
for unit in "${units[@]}"; do
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 3600 "$qemu" "$arm/tests/unit/$unit" >"$tmp/log" 2>&1
    status=$?
    n=$(grep -c '^ok' "$tmp/log")
    check "unit: $unit, $n tests" test "$status" -eq 0 -a "$n" -gt 0
    grep -a '^not ok' "$tmp/log" | sed 's/^/# /'
done
for script in "${scripts[@]}"; do
    OUT=$out timeout 3600 bash "tests/cli/$script.sh" >"$tmp/log" 2>&1
    status=$?
    n=$(grep -ac '^ok' "$tmp/log")
    check "tests/cli/$script.sh, $n tests" test "$status" -eq 0 -a "$n" -gt 0
    grep -aA3 '^not ok' "$tmp/log" | sed 's/^/# /'
done

# ---- the other byte order ----
compiles() { "$@" -std=c11 -ffreestanding -fsyntax-only -DBN_INTERNAL -Iengine -I. -x c engine/bn.h; }
check 'this byte order compiles' compiles aarch64-linux-gnu-gcc
says 1 'the other is refused' 'bn needs a little-endian processor' compiles gcc -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
if command -v s390x-linux-gnu-gcc >/dev/null; then
    says 1 's390x is refused' 'bn needs a little-endian processor' compiles s390x-linux-gnu-gcc
else
    skip 's390x is refused' 'no s390x-linux-gnu-gcc'
fi
