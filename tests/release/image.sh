#!/usr/bin/env bash
# The container images: made twice, they have the same bytes; they hold the programs, licences, certificates and two empty folders,
# and nothing else; buildah runs them as a user without rights. BN_STATIC names a folder with the archives of static programs, else
# they are made. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/release/shared/archives.sh
. tests/release/shared/archives.sh
needs_root 'container images'
command -v buildah >/dev/null || { skip 'container images' 'no buildah' && exit; }
archives=${BN_STATIC:-build/release}
[ -n "${BN_STATIC:-}" ] || check 'make static' make -s static
for place in one another; do
    mkdir "$tmp/$place"
    cp "$archives/bn-$version"-linux-*.tar.gz "$tmp/$place/"
    check "make image in $place" make -s image RELEASE="$tmp/$place"
done
for image in "$tmp"/one/*image*.tar; do
    check "${image##*/} has the same bytes the second time" cmp "$image" "$tmp/another/${image##*/}"
done

box() { command buildah --root "$tmp/store" --runroot "$tmp/run" --storage-driver vfs "$@"; }
id=$(box from "oci-archive:$tmp/one/bn-$version-image-x86_64.tar")
arm=$(box from --arch arm64 "oci-archive:$tmp/one/bn-$version-image-aarch64.tar")
config() { box inspect --type container --format "{{.OCIv1.$1}}" "$2"; }
check 'the platform' equal "$(config Architecture "$id") $(config Architecture "$arm")" 'amd64 arm64'
check 'the program' equal "$(config Config.Entrypoint "$id")" '[/usr/bin/bn]'
check 'a user without rights' equal "$(config Config.User "$id")" 65534:65534
check 'a volume for models' equal "$(config Config.Volumes "$id")" 'map[/models:{}]'
check 'the time is that of the commit' equal "$(date -ud "$(config Created "$id" | cut -d. -f1 | sed 's/ UTC//; s/ +0000//')" +%s)" \
    "$(git log -1 --format=%ct)"

# ---- what it holds ----
mounted=$(box mount "$id")
foreign() { # FOLDER: files that should not be there
    (cd "$1" && find . -type f -o -type l) | grep -vE '^\./(usr/bin/bn(-[a-z-]+)?|usr/share/bn/.*|etc/ssl/certs/ca-certificates.crt)$'
}
check 'nothing but programs, licences and certificates' equal "$(foreign "$mounted")" ''
for program in "$mounted"/usr/bin/*; do check "${program##*/} is one file" packaging/static/check.sh "$program" x86_64; done
for program in "$(box mount "$arm")"/usr/bin/*; do check "arm64: ${program##*/} is one file" packaging/static/check.sh "$program" aarch64; done
check 'certificates' grep -q 'BEGIN CERTIFICATE' "$mounted/etc/ssl/certs/ca-certificates.crt"
planted=$tmp/planted
cp -a "$mounted" "$planted"
cp /bin/sh "$planted/usr/bin/sh"
check 'a shell would be found' equal "$(foreign "$planted")" ./usr/bin/sh

# ---- it runs ----
inside() { box run --isolation chroot "$id" -- "$@"; }
check 'bn run: the text of README' equal "$(inside bn run -q 'The LORD' -n 16)" ' hath given him to his fathers.
He hath made him a great king, and'
lacks_shell() { ! inside sh -c true; }
check "there is no shell" lacks_shell
check 'a receipt in the volume' inside bn run -q 'The LORD' -n 16 --receipt /models/receipt.json
says 0 'which is replayed' 'verified, level: replay' inside bn verify-receipt /models/receipt.json --replay
says 3 'no file can be written elsewhere' 'ermission denied' inside bn run -q 'The LORD' -n 4 --receipt /receipt.json
set -m # in a process group of its own, which is ended as one
inside bn serve --port 0 >"$tmp/address" 2>"$tmp/log" &
pids+=("-$!")
set +m
answers() {
    wait_for grep -q http "$tmp/address" || return 1
    curl -sS -m 300 "$(grep -oE 'http://[0-9.:]*' "$tmp/address")/v1/completions" -H 'Content-Type: application/json' \
        -d '{"prompt": "The LORD", "max_tokens": 16, "temperature": 0}' | grep -q 'hath given him to his fathers'
}
check 'bn serve answers' answers
