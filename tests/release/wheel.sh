#!/usr/bin/env bash
# The Python wheel: two folders give the same bytes, the archive is what its RECORD says, it installs by pip into a folder, and
# into a bare Debian without libcrypto and libpcre2, where its tests pass. TAP on standard output.
# BN_DEBIAN_MIRROR: where mmdebstrap gets packages, by default what the machine's apt uses.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
bin=$(cd "${OUT:-build/gcc}" && pwd)
unset PYTHONPATH BN_LIBRARY BN_MODEL BN_ISA BN_DEVICE
export PYTHONDONTWRITEBYTECODE=1

# ---- the commit, built twice ----
for place in first/bn another-folder; do
    mkdir -p "$tmp/$place"
    git archive HEAD | tar -x -C "$tmp/$place"
    check "make wheel in $place" env -u MAKEFLAGS -u MFLAGS SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" \
        make -s -C "$tmp/$place" -j"$(nproc)" BUILD=build CC=gcc wheel
done
wheel=$(echo "$tmp"/first/bn/build/release/bn-*.whl)
name=${wheel##*/}
check "the name has version, platform and machine" grep -qxE "bn-[0-9.]+-py3-none-manylinux_2_[0-9]+_$(uname -m).whl" <<<"$name"
check "both have the same bytes" cmp "$wheel" "$tmp/another-folder/build/release/$name"

# ---- what is inside ----
record() { # every member is in RECORD with its digest and size, and nothing else is
    python3 - "$1" <<'END'
import base64, csv, hashlib, io, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = wheel.namelist()
    own = next(name for name in names if name.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(own).decode()))}
    assert sorted(rows) == sorted(names) and len(set(names)) == len(names), "members"
    for name in names:
        data = wheel.read(name)
        digest = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert rows[name] == (["", ""] if name == own else [digest, str(len(data))]), name
END
}
check "every file is in RECORD, with its digest" record "$wheel"
python3 - "$wheel" "$tmp/edited.whl" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for entry in old.infolist():
        data = old.read(entry)
        new.writestr(entry, data.replace(b"sha256=", b"sha256=A", 1) if entry.filename.endswith("RECORD") else data)
END
says 1 "an edited digest is found" 'AssertionError: bn' record "$tmp/edited.whl"
check "pip installs it without network" python3 -m pip install -q --no-index --no-cache-dir --disable-pip-version-check \
    --target "$tmp/site" "$wheel"
libbn=$tmp/site/bn/libbn.so
for file in "$libbn" "$tmp/site/bn/bn-verify-receipt"; do
    needed=$(readelf -dW "$file" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | grep -v '^ld-linux' | sort | xargs)
    check "${file##*/} needs the C library alone" equal "$needed" 'libc.so.6 libm.so.6'
    newest=$(objdump -T "$file" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
    check "and no newer one than the name says" test "${newest#GLIBC_2.}" -le "$(sed -E 's/.*manylinux_2_([0-9]+)_.*/\1/' <<<"$name")"
done
grep -oE '\bbn_[a-z0-9_]+\(' engine/bn.h | tr -d '(' | grep -v '_fn$' | sort -u >"$tmp/declared"
nm -D --defined-only "$libbn" | awk '{ print $3 }' | sort -u >"$tmp/exported"
check "libbn.so exports the functions of bn.h and no other" diff "$tmp/declared" "$tmp/exported"

# ---- in use ----
use() { PYTHONPATH=$tmp/site python3 "$@"; }
check "it is imported, and generates" use -c 'import bn; assert bn.Model().generate("The LORD", max_tokens=4).tokens'
cat >"$tmp/maps.py" <<'END'
import bn
bn.Model().generate("The LORD", max_tokens=4)
print([line.split()[-1] for line in open("/proc/self/maps") if "libcrypto" in line or "libpcre2" in line])
import hashlib, ssl  # Python's own libcrypto comes second
assert hashlib.sha256(b"a").hexdigest().startswith("ca978112") and bn.Model().generate("The LORD", max_tokens=4).tokens
END
says 0 "it loads no libcrypto, and agrees with Python's own" '^\[\]$' use "$tmp/maps.py"
python3 packaging/python/tests/cases.py "$bin/bn-run" fixtures/built-in-i2_s.gguf >"$tmp/expected.json"

if ! command -v mmdebstrap >/dev/null || [ "$(id -u)" -ne 0 ]; then
    skip "a bare Debian" "no mmdebstrap, or not root"
    exit
fi
root=$tmp/root
# shellcheck disable=SC2086 # none, or one
check "a bare Debian is made" mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --include=python3,python3-pip,python3-pytest bookworm "$root" \
    ${BN_DEBIAN_MIRROR:-}
mkdir -p "$root/bn" && cp -R packaging/python/tests fixtures engine/bn.h "$tmp/expected.json" "$wheel" "$root/bn"
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
inside() { env -i PATH=/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 BN_FIXTURES=/bn/fixtures BN_EXPECTED=/bn/expected.json \
    BN_HEADER=/bn/bn.h chroot "$root" "$@"; }
check "pip installs it there" inside python3 -m pip install -q --no-index --break-system-packages "/bn/$name"
find "$root" \( -name 'libcrypto.so*' -o -name 'libssl.so*' -o -name 'libpcre2-8.so*' \) -delete
status 1 "that Debian has no libcrypto any more" inside /usr/bin/python3 -c 'import ssl'
says 0 "the tests pass there, with the tokens of bn-run" '^[0-9]+ passed, 1 skipped in' inside /usr/bin/python3 -m pytest -q -p no:cacheprovider /bn/tests
sed -i -E 's/"ids": \[([0-9]+), [0-9]+/"ids": [\1, 1/' "$root/bn/expected.json"
says 1 "another token is found" 'FAILED.*tokens_are_those_of_bn_run' inside /usr/bin/python3 -m pytest -q -p no:cacheprovider /bn/tests -k bn_run
