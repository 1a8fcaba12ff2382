#!/usr/bin/env bash
# The functions of kernels/ in machine code, one name a line, for tests: of the objects of this build, and of the kernels for
# arm where the cross compiler is installed. Not of cpu.c and dispatch.c, which compute nothing.
set -eu
cd "$(dirname "$0")/../.."
# Builds for debugging and with sanitizers inline little: their parts of kernels have the class of their callers.
case $(basename "${OUT:-build/gcc}") in gcc | clang) ;; *) exit 77 ;; esac
functions() { # nm, objects
    "$@" --defined-only --format=posix | awk '$2 ~ /^[tTwW]$/ && $1 !~ /^_(sub_[ID]|GLOBAL_)_/ {sub(/\..*/, "", $1); print $1}'
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mapfile -t objects < <(find "${OUT:-build/gcc}/kernels" -name '*.o' ! -name cpu.o ! -name dispatch.o)
[ ${#objects[@]} -gt 0 ] || exit 1
functions nm "${objects[@]}"
cross=aarch64-linux-gnu
if [ "$(uname -m)" = x86_64 ] && command -v $cross-gcc >/dev/null; then
    for file in kernels/arm/*.c kernels/ref_*.c; do
        $cross-gcc -std=gnu11 -O2 -I. -Iengine -march=armv8.2-a+dotprod -c -o "$tmp/$(basename "$file" .c).o" "$file"
    done
    functions $cross-nm "$tmp"/*.o
fi
