#!/bin/sh
# Installs what ci/packages.txt names and this machine lacks. Touches nothing when all is there.
set -eu
cd "$(dirname "$0")/.."
missing=''
# shellcheck disable=SC2013 # one word a line
for package in $(sed 's/#.*//' ci/packages.txt); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing" >&2
as_root=''
[ "$(id -u)" -eq 0 ] || as_root=sudo
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words on purpose
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
