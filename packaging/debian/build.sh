#!/usr/bin/env bash
# Makes the Debian packages of a source archive (make dist), in a temporary folder that is removed.
#     packaging/debian/build.sh ARCHIVE TARGET [WORK]      bn*.deb and libbn*.deb appear in TARGET
# SOURCE_DATE_EPOCH, which has to be set, is the time of the changelog and of all files.
# WORK is a folder that is kept, with the source package too.
set -euo pipefail
archive=$(readlink -f "$1") target=$(readlink -f "$2")
version=${archive##*/bn-} version=${version%.tar.gz}
work=${3:-$(mktemp -d)}
[ -n "${3:-}" ] || trap 'rm -rf "$work"' EXIT
# A make that runs this script leaves its own options out, and so do the user's settings.
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS LDLIBS BUILD OUT
jobs=$(nproc)
export LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS=parallel=$jobs
export SOURCE_DATE_EPOCH

cp "$archive" "$work/bn_$version.orig.tar.gz"
tar -x -f "$archive" -C "$work"
cd "$work/bn-$version"
cp -R packaging/debian debian
rm debian/build.sh
# The date of the changelog is that of the commit, and CHANGELOG.md says what is new: nothing here to keep up to date.
cat >debian/changelog <<END
bn ($version-1) stable; urgency=medium

  * Version $version, of commit $(cat VERSION).

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
dpkg-buildpackage -us -uc >../log 2>&1 || { tail -n 40 ../log >&2; exit 1; }
cp ../*.deb "$target"
