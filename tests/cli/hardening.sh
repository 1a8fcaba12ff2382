#!/usr/bin/env bash
# Protections against exploits in the built programs, read from the files.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
segments() { readelf -lW "$1"; }
position_independent() { readelf -hW "$1" | grep -q 'Type: *DYN'; }
read_only_relocations() { segments "$1" | grep -q GNU_RELRO && readelf -dW "$1" | grep -qE 'BIND_NOW|FLAGS.*NOW'; }
stack_not_executable() { segments "$1" | grep -q 'GNU_STACK.* RW '; }
# No page is both writable and executable, and code shares no page with data: the first segment, of headers, is not executable.
pages_apart() {
    ! segments "$1" | grep -E 'LOAD|GNU_STACK' | grep -q 'RWE' && segments "$1" | grep -m 1 LOAD | grep -q ' R  '
}
undefined() { nm -D --undefined-only "$1"; }
canaries() { undefined "$1" | grep -q __stack_chk_fail; }
checked_calls() { undefined "$1" | grep -q '_chk@'; }
landing_pads() { [ "$(objdump -d --no-show-raw-insn "$1" | grep -c 'endbr64')" -gt "$2" ]; }
tracked() { readelf -nW "$1" | grep -q 'IBT'; }

plain=yes
case $(basename "$out") in gcc | clang) ;; *) plain= ;; esac
for file in "$out"/bn-* "$out"/crossval/bn-reference; do
    [ -x "$file" ] || continue
    name=$(basename "$file")
    check "$name is position independent" position_independent "$file"
    check "$name has read-only relocations" read_only_relocations "$file"
    check "$name has no executable stack" stack_not_executable "$file"
    check "$name keeps code and data on different pages" pages_apart "$file"
    check "$name has stack canaries" canaries "$file"
    # The oracle is C++: perhaps it calls no function that has a checked form.
    [ -z "$plain" ] || [ "$name" = bn-reference ] || check "$name calls checked functions of the C library" checked_calls "$file"
done
# SECURITY.md: bn-download opens connections, and bn-bench serve, in one file; bn-serve accepts them, by libmicrohttpd.
talks() { undefined "$1" | grep -qE '(curl_[a-z_]+|socket|connect|getaddrinfo|git_(remote|clone|submodule|transport)[a-z_]*)(@|$)'; }
silent() { ! talks "$1"; }
check "bn-download calls functions of the network" talks "$out/bn-download"
for file in "$out"/bn "$out"/bn-*; do
    case $(basename "$file") in
    bn-download | bn-bench) ;;
    *) [ ! -x "$file" ] || check "$(basename "$file") calls no function of the network" silent "$file" ;;
    esac
done
talking_objects() { for o in "$out"/tools/bn-bench.o "$out"/tools/bench/*.o "$out"/tools/bench/*/*.o; do ! objects_talk "$o" || basename "$o"; done; }
objects_talk() { nm -u "$1" | grep -qE ' (curl_[a-z_]+|socket|connect|getaddrinfo)$'; }
check "of bn-bench, one file opens connections" equal "$(talking_objects)" load.o
# They load few libraries, and none that opens connections. Libraries of the C library and of sanitizers do not count.
loaded() { libraries "$1" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libc|libm|libpthread|libdl|lib[a-z]+san)\.so|ld-linux'; }
few() { [ "$(loaded "$1" | wc -l)" -le "$2" ] || { loaded "$1"; return 1; }; }
no_network() { loads_not "$1" 'curl|git2|ssh|krb5|http|tls|libssl'; }
for name in bn-run bn-bench bn-verify-receipt bn-crossval bn-flamegraph bn-fixtures; do
    check "$name loads no library of the network" no_network "$out/$name"
done
for file in "$out"/bn "$out"/bn-*; do
    [ ! -x "$file" ] || [ "$(basename "$file")" = bn-mpi.so ] ||
        check "$(basename "$file") loads neither MPI nor OpenCL" loads_not "$file" 'libmpi|libOpenCL'
done
sanitized address thread undefined || check "bn-run loads at most 8 libraries" few "$out/bn-run" 8
for file in "$out"/bn "$out"/bn-*; do
    [ -x "$file" ] || continue
    name=$(basename "$file")
    if [ "$name" = bn-serve ]; then
        check "$name loads libmicrohttpd" loads "$file" microhttpd
    else
        check "$name does not load libmicrohttpd" loads_not "$file" microhttpd
    fi
done
check "bn-download loads libcurl, as this test can see" loads "$out/bn-download" libcurl
if [ "$(uname -m)" = x86_64 ]; then
    check "indirect jumps land where they may: bn-run" landing_pads "$out/bn-run" 500
    for object in engine/base/json.o kernels/dispatch.o hub/names/registry_data.o; do
        check "$object is marked for indirect branch tracking" tracked "$out/$object"
    done
fi
