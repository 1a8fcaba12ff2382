#!/usr/bin/env bash
# Usage: build.sh [ARCH...]            x86_64 aarch64 [both]
# Makes $RELEASE/bn-VERSION-linux-ARCH.tar.gz: programs in one file each, which need no shared library, no shell and no file of
# the system but the certificates of authorities. glibc and the other libraries are Debian's (sysroot.sh, libraries.sh).
# Run by `make static`, which gives BUILD, RELEASE, VERSION and SOURCE_DATE_EPOCH. BN_STATIC_ALSO names more that is built the same way,
# for tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/packaging/static
BUILD=$(mkdir -p "$BUILD" && realpath "$BUILD") RELEASE=$(mkdir -p "$RELEASE" && realpath "$RELEASE")
programs=(bn bn-run bn-serve bn-verify-receipt bn-download bn-convert bn-fixtures bn-crossval)
packages=(libc6-dev libssl-dev libpcre2-dev libc-ares-dev libelf-dev libdw-dev libbz2-dev libseccomp-dev libedit-dev libyaml-dev libncurses-dev)
[ $# -gt 0 ] || set -- x86_64 aarch64

# The static libraries that went into the programs, by the linker's maps: "package version" lines. Only the compiler's own may lie
# outside the root.
linked() { # FOLDER OUT
    if sed -nE 's|^(/[^ (]*\.a)\(.*|\1|p' "$2"/*.map | sort -u | grep -vE "^$1/root/|/libgcc(_eh)?\.a$|^$2/" >&2; then
        echo "static: libraries of this system were linked" >&2 && exit 1
    fi
    sed -nE "s|^$1/root/([^ (]*\.a)\(.*|\1|p" "$2"/*.map | sort -u | while read -r file; do
        awk -v f="$file" '$1 == f { print $2, $3; found = 1 } END { exit !found }' "$1/files" || { echo "static: no package has $file" >&2; exit 1; }
    done | sort -u
}

for arch; do
    case $arch in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) echo "static: '$arch' is not x86_64 or aarch64" >&2 && exit 2 ;;
    esac
    triplet=$arch-linux-gnu folder=$BUILD/static/$arch root=$BUILD/static/$arch/root out=$BUILD/static/$arch/out
    lib=$root/usr/lib/$triplet
    if ! [ -f "$folder/done" ]; then
        "$here/sysroot.sh" "$debian" "$folder" "${packages[@]}" -- curl libmicrohttpd cjson
        "$here/libraries.sh" "$triplet" "$folder"
        touch "$folder/done"
    fi
    mkdir -p "$out"
    "$triplet-gcc" -O2 -fPIE -c -o "$out/absent.o" "$here/absent.c"
    # A function of glibc that would load shared libraries, of which the linker warns, is an error.
    read -r -a wanted <<<"${programs[*]} ${BN_STATIC_ALSO:-}"
    env -u MAKEFLAGS -u MFLAGS PKG_CONFIG_LIBDIR="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" make --no-print-directory -j"$(nproc)" \
        OUT="$out" CC="$triplet-gcc --sysroot=$root -B$lib/ -L$lib -isystem $root/usr/include/$triplet" AR="$triplet-gcc-ar" \
        CFLAGS=-O2 LDLIBS=-lmd GIT=0 BLAS=0 MPI=0 OPENCL=0 PKG_CONFIG='pkg-config --static' \
        LDFLAGS="-static-pie -Wl,--fatal-warnings,--wrap=dlopen,-Map=%.map $out/absent.o" "${wanted[@]/#/$out/}" >&2
    name=bn-$VERSION-linux-$arch stage=$(mktemp -d)
    mkdir -p "$stage/$name/licenses"
    for program in "${programs[@]}"; do
        "$triplet-objcopy" --strip-debug "$out/$program" "$stage/$name/$program" # symbols stay: receipts name kernels by them
        "$here/check.sh" "$stage/$name/$program" "$arch"
    done
    cp LICENSE "$stage/$name/"
    linked "$folder" "$out" >"$out/linked"
    sed -e "s/@VERSION@/$VERSION/; s/@ARCH@/$arch/" -e "/@LINKED@/{r $out/linked
        d}" "$here/README" >"$stage/$name/README"
    while read -r package _; do
        cp -L "$root/usr/share/doc/$package/copyright" "$stage/$name/licenses/$package"
    done <"$out/linked"
    chmod -R u=rwX,go=rX "$stage/$name"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$stage" -c "$name" |
        gzip -n -9 >"$RELEASE/$name.tar.gz"
    rm -rf "$stage"
    echo "$RELEASE/$name.tar.gz"
done
