#!/bin/sh
# Installs the missing packages of sections of ci/packages.txt. Changes nothing when all are installed.
#
#     ci/install-packages.sh SECTION...        build, test, lint, fuzz, deep, release
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: ci/install-packages.sh SECTION..." >&2; exit 2; }
for section; do
    grep -qxF "[$section]" ci/packages.txt || { echo "install-packages: ci/packages.txt has no section [$section]" >&2; exit 2; }
done
missing=''
# shellcheck disable=SC2013 # one word a line
for package in $(awk -v sections=" $* " '/^\[/ { on = index(sections, " " substr($0, 2, length($0) - 2) " "); next } on && !/^#/' ci/packages.txt); do
    # shellcheck disable=SC2016 # a format of dpkg-query
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing" >&2
as_root=''
[ "$(id -u)" -eq 0 ] || as_root=sudo
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words on purpose
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
