#!/usr/bin/env bash
# Usage: libraries.sh TRIPLET FOLDER
# Builds libcurl, libmicrohttpd and cJSON from Debian's sources in FOLDER/src into FOLDER/root, as far as bn uses them: Debian's
# own static libraries need what has no static form (LDAP, Kerberos, GnuTLS). Names are resolved by c-ares, since glibc would
# load shared libraries for that.
set -euo pipefail
triplet=$1 folder=$2
root=$folder/root lib=usr/lib/$triplet
cc="$triplet-gcc --sysroot=$root -B$root/$lib/ -L$root/$lib"
export CFLAGS="-O2 -fPIE -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffile-prefix-map=$folder=." CPPFLAGS='' LDFLAGS=''
export PKG_CONFIG_LIBDIR=$root/$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root AR="$triplet-gcc-ar" ARFLAGS=rcD RANLIB="$triplet-gcc-ranlib -D"
log=$folder/log
configure() { # FOLDER OPTION...
    (cd "$folder/src/$1" && ./configure --host="$triplet" --prefix=/usr --libdir="/$lib" --disable-shared --enable-static --with-pic \
        --disable-dependency-tracking CC="$cc" "${@:2}")
}
{
    # Only what the hub asks for: HTTP and HTTPS, by OpenSSL. A pool of threads and name services of glibc are not wanted.
    off=()
    for part in ftp file ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt manual ntlm ntlm-wb tls-srp; do off+=("--disable-$part"); done
    for part in zlib brotli zstd nghttp2 libidn2 libpsl librtmp libssh2 gssapi; do off+=("--without-$part"); done
    configure curl --with-openssl="$root/usr" --enable-ares "${off[@]}" \
        --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --with-ca-path=/etc/ssl/certs
    make -j"$(nproc)" -C "$folder/src/curl/lib"
    make -C "$folder/src/curl/lib" install DESTDIR="$root"
    make -C "$folder/src/curl/include" install DESTDIR="$root"
    make -C "$folder/src/curl" install-pkgconfigDATA DESTDIR="$root"
    configure libmicrohttpd --disable-https --disable-curl --disable-doc --disable-examples --disable-tools --disable-nls
    make -j"$(nproc)" -C "$folder/src/libmicrohttpd/src/microhttpd" libmicrohttpd.la
    make -C "$folder/src/libmicrohttpd/src/microhttpd" install-libLTLIBRARIES DESTDIR="$root"
    make -C "$folder/src/libmicrohttpd/src/include" install DESTDIR="$root"
    make -C "$folder/src/libmicrohttpd" install-pkgconfigDATA DESTDIR="$root"
    cd "$folder/src/cjson"
    # shellcheck disable=SC2086 # words on purpose
    $cc $CFLAGS -c cJSON.c
    $AR rcD "$root/$lib/libcjson.a" cJSON.o
    install -D -m 644 cJSON.h "$root/usr/include/cjson/cJSON.h"
    printf 'Name: libcjson\nDescription: JSON\nVersion: 1\nLibs: -lcjson\nCflags: -I/usr/include/cjson\n' >"$root/$lib/pkgconfig/libcjson.pc"
} >"$log" 2>&1 || { tail -n 40 "$log" >&2 && exit 1; }
rm -f "$root/$lib"/*.la
for library in libcurl:curl libmicrohttpd:libmicrohttpd libcjson:cjson; do
    source=${library#*:}
    install -D -m 644 "$folder/src/$source/debian/copyright" "$root/usr/share/doc/$source/copyright"
    echo "$lib/${library%:*}.a $source $(cat "$folder/src/$source.version")" >>"$folder/files"
done
