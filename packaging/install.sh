#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs or upgrades the static programs of bn below a folder; never needs root.
#
#     curl -fsSL URL/releases/latest/download/install.sh | sh
#     curl -fsSL URL/releases/latest/download/install.sh | sh -s -- --uninstall
#
# BN_PREFIX   where: programs go to its bin [~/.local]
# BN_VERSION  which release, for example 0.1.0 [the latest]
# BN_URL      the repository; a release writes its own address into this script
#
# An archive whose digest is not the one in SHA256SUMS is refused, and what was installed before stays. The files that were
# installed are listed in share/bn/installed, for upgrades and for --uninstall.
set -eu
umask 022

die() { echo "install.sh: $*" >&2; exit 1; }

# download NAME: a file of the release, into $tmp
download() {
    # shellcheck disable=SC2086 # several options
    curl -fsSL --retry 2 $only -o "$tmp/$1" "$from/$1" || die "cannot download $from/$1"
}

# remove LIST [EXCEPT]: the files of a list that are not in the other one
remove() {
    while IFS= read -r file; do
        case $file in /* | *..*) die "$1 has a strange line: $file" ;; esac
        if [ $# -lt 2 ] || ! grep -qxF -e "$file" "$2"; then rm -f "$prefix/$file"; fi
    done <"$1"
}

main() {
    prefix=${BN_PREFIX:-${HOME:?}/.local}
    list=$prefix/share/bn/installed
    case ${1:-} in
    '') ;;
    --uninstall)
        [ -f "$list" ] || die "nothing is installed in $prefix by this script"
        remove "$list"
        rm -f "$list"
        rmdir "$prefix/share/bn" 2>/dev/null || true
        echo "bn is removed from $prefix; downloaded models stay (docs/howto/install.md says where)"
        return
        ;;
    *) die "unknown argument $1; the only one is --uninstall" ;;
    esac

    [ "$(uname -s)" = Linux ] || die "bn runs on Linux only, this is $(uname -s)"
    case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) die "there are no programs for $(uname -m), only for x86_64 and arm64; build from source" ;;
    esac
    for tool in curl tar gzip sha256sum; do command -v $tool >/dev/null || die "$tool is needed"; done
    url=${BN_URL:-@URL@}
    case $url in
    https://*) only='--proto =https --proto-redir =https' ;;
    http://127.0.0.1:*) only= ;;
    *) die "BN_URL is '$url', expected the address of the repository, https://..." ;;
    esac
    from=$url/releases/latest/download
    [ -z "${BN_VERSION:-}" ] || from=$url/releases/download/v$BN_VERSION

    mkdir -p "$prefix/bin" "$prefix/share/bn"
    tmp=$(mktemp -d "$prefix/share/bn/.install-XXXXXX")
    trap 'rm -rf "$tmp"; rmdir "$prefix/bin" "$prefix/share/bn" 2>/dev/null || true' EXIT
    trap 'exit 1' HUP INT TERM
    download SHA256SUMS
    sum=$(grep -E "^[0-9a-f]{64} [ *]bn-[0-9][0-9A-Za-z.+~-]*-linux-$arch\.tar\.gz\$" "$tmp/SHA256SUMS") ||
        die "SHA256SUMS of $from names no archive for $(uname -m)"
    [ "$(echo "$sum" | wc -l)" -eq 1 ] || die "SHA256SUMS of $from names several archives for $(uname -m)"
    archive=${sum#* ?}
    download "$archive"
    (cd "$tmp" && printf '%s\n' "$sum" | sha256sum -c - >/dev/null 2>&1) ||
        die "$archive does not have the digest of SHA256SUMS; nothing was changed"
    tar -xzf "$tmp/$archive" -C "$tmp" || die "cannot unpack $archive"
    new=$tmp/${archive%.tar.gz}
    version=$("$new/bn" --version | sed -n '1s/.* //p')
    [ -n "$version" ] || die "the programs do not run here; nothing was changed"
    # bin/ has the programs, share/doc/bn what else is in the archive: the licences.
    mkdir -p "$tmp/tree/bin" "$tmp/tree/share/doc"
    mv "$new"/bn* "$tmp/tree/bin/"
    mv "$new" "$tmp/tree/share/doc/bn"
    # Each file appears by a rename, so that programs that run are not disturbed.
    (cd "$tmp/tree" && find bin share -type f | sort) >"$tmp/list"
    while IFS= read -r file; do
        mkdir -p "$prefix/${file%/*}"
        mv -f "$tmp/tree/$file" "$prefix/$file"
    done <"$tmp/list"
    [ ! -f "$list" ] || remove "$list" "$tmp/list"
    mv -f "$tmp/list" "$list"
    echo "bn $version is installed in $prefix/bin; try: bn run 'The LORD'"
    case :$PATH: in *:"$prefix/bin":*) ;; *) echo "this shell does not find it yet: PATH=$prefix/bin:\$PATH" ;; esac
}

main "$@"
