#!/usr/bin/env bash
# The static programs: archives made twice, in different folders, have the same bytes; programs of x86-64 run in a root that has no
# libc, no shell and no file, those of arm64 under qemu, with the same results. What checks them finds a dynamic program. BN_STATIC
# names a folder of archives that are made already, which are then not made twice. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/release/shared/archives.sh
. tests/release/shared/archives.sh
certificates=
needs_root 'static programs'

# ---- the archives ----
if [ -n "${BN_STATIC:-}" ]; then
    archives=$BN_STATIC
    skip 'archives made twice have the same bytes' 'BN_STATIC is set'
else
    export BN_DEBIAN_CACHE=${BN_DEBIAN_CACHE:-$tmp/cache}
    make -s dist BUILD="$tmp/dist" >"$tmp/log" 2>&1
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    for place in one/bn another-folder; do
        mkdir -p "$tmp/$place"
        tar -xzf "$tmp"/dist/release/bn-*.tar.gz -C "$tmp/$place" --strip-components=1
        check "make static in $place" make -s -C "$tmp/$place" static
    done
    archives=$tmp/one/bn/build/release
    for archive in "$archives"/*linux*.tar.gz; do
        check "${archive##*/} has the same bytes in another folder" cmp "$archive" "$tmp/another-folder/build/release/${archive##*/}"
    done
fi
for arch in x86_64 aarch64; do
    mkdir "$tmp/$arch"
    check "the archive of $arch" tar -xzf "$archives/bn-$version-linux-$arch.tar.gz" -C "$tmp/$arch" --strip-components=1
    for program in bn bn-run bn-serve bn-verify-receipt bn-download; do
        check "$arch: $program is one file" packaging/static/check.sh "$tmp/$arch/$program" "$arch"
    done
    for file in LICENSE README licenses/libssl-dev licenses/libc6-dev licenses/curl; do
        check "$arch: $file" test -s "$tmp/$arch/$file"
    done
    lacks "$arch: no name of a folder of this machine" "$tmp|$PWD" strings -a "$tmp/$arch/bn-run"
done
says 1 'a dynamic program is found' 'has an interpreter' packaging/static/check.sh "$(command -v openssl)" x86_64
says 1 'a shared library is found' 'needs Shared library' packaging/static/check.sh "$(ldconfig -p | sed -n 's/.*x86-64) => \(.*libz.so.1\)$/\1/p' | head -n 1)" x86_64
says 1 'a program of another processor is found' 'is not for aarch64' packaging/static/check.sh "$tmp/x86_64/bn" aarch64
printf '#include <netdb.h>\nint main(void) { struct addrinfo *a; return getaddrinfo("x", "1", 0, &a); }\n' >"$tmp/asks.c"
says 1 'the linker refuses a function that would load libraries' 'getaddrinfo' gcc -static-pie -Wl,--fatal-warnings -o "$tmp/asks" "$tmp/asks.c"

# ---- they run where there is nothing else ----
root=$tmp/root
mkdir -p "$root"/{bin,etc/ssl/certs,tmp}
cp "$tmp"/x86_64/bn* "$root/bin/"
cp fixtures/shakespeare-5m-i2_s.gguf "$root/model.gguf" # for downloads
here() { env -i PATH=/bin HOME=/tmp ${certificates:+SSL_CERT_FILE="$certificates"} "$(command -v chroot)" "$root" "/bin/$1" "${@:2}"; }
says 127 'the root has no shell' 'bin/sh.*No such file' here sh
text=' hath given him to his fathers.
He hath made him a great king, and'
check 'bn run: the text of README' equal "$(here bn run -q 'The LORD' -n 16)" "$text"
check 'with a receipt' here bn run -q 'The LORD' -n 16 --receipt /tmp/receipt.json
says 0 'which is verified' 'verified, level: consistency' here bn verify-receipt /tmp/receipt.json
says 0 'and replayed' 'verified, level: replay' here bn verify-receipt /tmp/receipt.json --replay --isa ref --threads 1
says 0 'bn help lists the programs' '  serve +' here bn help
says 0 'the registry' bitnet-b1.58-2b-4t here bn download list
says 0 'a JSON schema' '"age"' here bn run 'A person:' --json-schema '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}'
check 'logits are those of the dynamic program, if there is one' \
    equal "$(here bn-run logits -p 'The LORD' --all --digest)" \
    "$(if [ -x "${OUT:-build/gcc}/bn-run" ]; then "${OUT:-build/gcc}/bn-run" logits -p 'The LORD' --all --digest; else here bn-run logits -p 'The LORD' --all --digest; fi)"
check 'bn starts the program next to it' env -i "$tmp/x86_64/bn" run -q 'The LORD' -n 4
says 0 'chat reads a pipe' . bash -c "echo 'Who?' | env -i PATH=/bin $(command -v chroot) '$root' /bin/bn-run chat -n 4"
arm() { env -i PATH="$tmp/aarch64" "$(command -v qemu-aarch64)" "$tmp/aarch64/$1" "${@:2}"; }
if command -v qemu-aarch64 >/dev/null; then
    check 'arm64: the text of README' equal "$(arm bn-run -q 'The LORD' -n 16)" "$text"
    says 0 'arm64: replays the receipt of x86-64' 'verified, level: replay' arm bn-verify-receipt "$root/tmp/receipt.json" --replay
    says 0 'arm64: bn help' '  serve +' arm bn help
else
    skip 'arm64' 'no qemu-aarch64'
fi

# ---- serving ----
served() { # COMMAND...: starts a server and asks it
    : >"$tmp/address"
    set -m # in a process group of its own, which is ended as one
    "$@" --port 0 >"$tmp/address" 2>"$tmp/serve.log" &
    pids+=("-$!")
    set +m
    wait_for grep -q http "$tmp/address" || return 1
    curl -sS -m 300 "$(grep -oE 'http://[0-9.:]*' "$tmp/address")/v1/completions" -H 'Content-Type: application/json' \
        -d '{"prompt": "The LORD", "max_tokens": 16, "temperature": 0}' >"$tmp/reply"
    grep -q 'hath given him to his fathers' "$tmp/reply" || { cat "$tmp/reply" "$tmp/serve.log"; return 1; }
}
check 'bn serve answers' served here bn serve
command -v qemu-aarch64 >/dev/null && check 'arm64: bn-serve answers' served arm bn-serve

# ---- downloads ----
mkdir "$tmp/hub"
cp fixtures/shakespeare-5m-i2_s.gguf "$tmp/hub/model.gguf"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hub.test -addext 'subjectAltName=DNS:hub.test,IP:127.0.0.1' \
    -keyout "$tmp/key.pem" -out "$tmp/certificate.pem" 2>/dev/null
cat "$tmp/key.pem" "$tmp/certificate.pem" >"$tmp/both.pem"
listen() { # NAME ARGUMENTS...
    python3 tests/release/server.py "${@:2}" >"$tmp/$1.port" 2>/dev/null &
    pids+=($!)
    wait_for test -s "$tmp/$1.port"
}
listen plain "$tmp/hub"
listen tls "$tmp/hub" "$tmp/both.pem"
gets() { # ADDRESS
    rm -rf "$root/tmp/models"
    here bn-download -q --to /tmp/models "$1" && cmp "$root/tmp/models/model.gguf" "$tmp/hub/model.gguf"
}
secure=https://127.0.0.1:$(cat "$tmp/tls.port")/model.gguf
check 'bn-download by HTTP' gets "http://127.0.0.1:$(cat "$tmp/plain.port")/model.gguf"
says 6 'no certificates: an error that says what to do' 'no CA certificates.*SSL_CERT_FILE' gets "$secure"
for place in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/ssl/cert.pem etc/ssl/ca-bundle.pem; do
    mkdir -p "$root/${place%/*}"
    cp "$tmp/certificate.pem" "$root/$place"
    check "HTTPS with the certificates of /$place" gets "$secure"
    rm "$root/$place"
done
cp "$tmp/certificate.pem" "$root/tmp/own.pem"
certificates=/tmp/own.pem
check 'and with those that SSL_CERT_FILE names' gets "$secure"
echo '127.0.0.1 hub.test' >"$root/etc/hosts"
check 'a name is looked up without glibc' gets "https://hub.test:$(cat "$tmp/tls.port")/model.gguf"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /dev/null -out "$root/tmp/own.pem" 2>/dev/null
says 6 'another certificate is refused' 'ertificate' gets "$secure"
certificates=/tmp/missing.pem
says 6 'a file that is missing is named' 'missing.pem' gets "$secure"
