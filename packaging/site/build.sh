#!/usr/bin/env bash
# Usage: build.sh PROGRAMS RELEASE VERSION
# Makes the site in RELEASE/site, and RELEASE/bn-VERSION-site.tar.gz of it. The pictures are made by the programs of this build; those
# in the folder that BN_PICTURES names are taken instead. The same sources, Chromium and fonts give the same bytes. No network is used.
set -euo pipefail
programs=$1 release=$2 version=$3
here=$(dirname "$0")
root=$here/../..
for tool in cmark-gfm mandoc python3; do
    command -v $tool >/dev/null || { echo "site: no $tool; ci/install-packages.sh test release installs it" >&2; exit 1; }
done
pictures=${BN_PICTURES:-$release/pictures}
[ -n "${BN_PICTURES:-}" ] || python3 "$here/screenshots.py" "$programs" "$pictures"
python3 "$here/site.py" "$root" "$pictures" "$release/site" "$version"
tar -C "$release" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-0}" \
    --transform="s,^site,bn-$version-site," -cf - site | gzip -n -9 >"$release/bn-$version-site.tar.gz"
