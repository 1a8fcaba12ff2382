#!/usr/bin/env bash
# Usage: build.sh PROGRAMS FOLDER
# Writes the wheel of `import bn` into FOLDER. PROGRAMS has libbn.so and bn-verify-receipt, which need the C library alone. The
# tag is of the newest version of that library which one of them needs. Needs no network and no module beyond Python's own.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$1 folder=$2
version=$(sed -nE 's/^VERSION = "(.*)".*/\1/p' packaging/python/bn/_library.py)
fail() { echo "wheel: $*" >&2; exit 1; }
[ "$(packaging/version.sh)" = "$version" ] || fail "bn/_library.py has another version than engine/bn.h"

files=("$programs/libbn.so" "$programs/bn-verify-receipt")
needed=$(readelf -dW "${files[@]}" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux.*)$' || true)
[ -z "$needed" ] || fail "it would need $(echo "$needed" | sort -u | xargs)"
case $(readelf -hW "${files[0]}") in
*X86-64*) machine=x86_64 ;;
*AArch64*) machine=aarch64 ;;
*) fail "no tag for this machine" ;;
esac
minor=$(readelf -VW "${files[@]}" | grep -oE 'Name: GLIBC_2\.[0-9]+' | sed 's/.*\.//' | sort -n | tail -n 1)

# What is linked into the two comes with its terms.
licences=("dist-info/licenses/LICENSE=LICENSE")
for package in libssl-dev libpcre2-dev libseccomp-dev; do
    terms=/usr/share/doc/$package/copyright
    [ -s "$terms" ] || fail "no $terms"
    licences+=("dist-info/licenses/$package.txt=$terms")
done
mkdir -p "$folder"
python3 packaging/python/wheel.py packaging/python/bn "$version" "py3-none-manylinux_2_${minor}_$machine" "$folder" \
    libbn.so="${files[0]}" bn-verify-receipt="${files[1]}" built-in.gguf=fixtures/built-in-i2_s.gguf "${licences[@]}"
