#!/usr/bin/env bash
# Usage: build.sh [ARCH...]            x86_64 aarch64 [both]
# Makes $RELEASE/bn-VERSION-image-ARCH.tar, a container image as an OCI archive, from the static programs (packaging/static makes
# them if they are missing). It begins with nothing: no base image, no shell. It holds the programs, their licences, Debian's CA
# certificates, and the folder /models, where downloads go. buildah keeps its files in a temporary folder and runs nothing here.
# Run by `make image`, as root.
set -euo pipefail
cd "$(dirname "$0")/../.."
RELEASE=$(mkdir -p "$RELEASE" && realpath "$RELEASE")
[ $# -gt 0 ] || set -- x86_64 aarch64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
buildah() { command buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }
for arch; do
    name=bn-$VERSION-linux-$arch files=$work/$arch
    [ -f "$RELEASE/$name.tar.gz" ] || packaging/static/build.sh "$arch" >&2
    mkdir -p "$files"/{usr/bin,usr/share/bn,etc/ssl/certs,models,tmp}
    tar -xzf "$RELEASE/$name.tar.gz" -C "$files/usr/bin" --strip-components=1
    mv "$files"/usr/bin/{LICENSE,README,licenses} "$files/usr/share/bn/"
    cat /usr/share/ca-certificates/mozilla/*.crt >"$files/etc/ssl/certs/ca-certificates.crt"
    chmod -R u=rwX,go=rX "$files"
    chmod 1777 "$files/tmp"
    chown 65534:65534 "$files/models"
    box=$(buildah from scratch)
    cp -a "$files/." "$(buildah mount "$box")/" # `buildah copy` would give /models to root
    buildah config --os linux --arch "$(case $arch in x86_64) echo amd64 ;; *) echo arm64 ;; esac)" \
        --user 65534:65534 --entrypoint '["/usr/bin/bn"]' --cmd help --env PATH=/usr/bin --env HOME=/models \
        --env HF_HUB_CACHE=/models --volume /models --workingdir /models --port 8080 \
        --label org.opencontainers.image.title=bn --label org.opencontainers.image.version="$VERSION" \
        --label org.opencontainers.image.licenses=MIT "$box"
    buildah commit -q --format oci --timestamp "$SOURCE_DATE_EPOCH" "$box" "oci:$work/oci-$arch:$VERSION" >/dev/null
    buildah rm "$box" >/dev/null
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -C "$work/oci-$arch" \
        -cf "$RELEASE/bn-$VERSION-image-$arch.tar" .
    echo "$RELEASE/bn-$VERSION-image-$arch.tar"
done
