#!/usr/bin/env bash
# Usage: sysroot.sh ARCH FOLDER PACKAGE... [-- SOURCE...]
# Fills FOLDER/root with packages of Debian 12 for ARCH (amd64, arm64) and with what they need, and FOLDER/src with patched
# sources. apt has a configuration of its own here: it checks signatures by Debian's keyring, and the system's is not touched.
# The files lie in FOLDER alone; nothing of them is run. BN_DEBIAN_CACHE names a folder that keeps downloads.
set -euo pipefail
arch=$1 folder=$(mkdir -p "$2" && realpath "$2")
shift 2
mirror=${BN_DEBIAN_MIRROR:-http://deb.debian.org}
apt=${BN_DEBIAN_CACHE:-$folder}/apt-$arch
mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d,trusted.gpg.d} "$apt"/var/lib/{apt/lists/partial,dpkg} "$apt/var/cache/apt/archives/partial"
: >"$apt/var/lib/dpkg/status"
cat >"$apt/apt.conf" <<END
Dir "$apt";
APT { Architecture "$arch"; Architectures { "$arch"; }; Install-Recommends "false"; Sandbox::User "root"; };
Acquire::Languages "none";
END
for kind in deb deb-src; do
    for suite in "debian bookworm" "debian-security bookworm-security"; do
        echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror/$suite main"
    done
done >"$apt/etc/apt/sources.list"
sources=()
packages=()
for word; do
    if [ "$word" = -- ]; then sources=('') && continue; fi
    if [ ${#sources[@]} -gt 0 ]; then sources+=("$word"); else packages+=("$word"); fi
done
export APT_CONFIG=$apt/apt.conf
apt-get -qq update
rm -rf "$folder"/{root,src,one}
mkdir -p "$folder/root" "$folder/src"

apt-get -qq -y --download-only install "${packages[@]}" >/dev/null
apt-get -qq -y --simulate install "${packages[@]}" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1 \2/p' | LC_ALL=C sort >"$folder/packages"
: >"$folder/files" # "file package version": licences are found by it
while read -r name version; do
    deb=("$apt/var/cache/apt/archives/${name}_${version/:/%3a}"_*.deb)
    # In a folder of its own, and with relative links before it joins the others: no link may lead a file out of the root.
    dpkg-deb --extract "${deb[0]}" "$folder/one"
    find "$folder/one" -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link to; do
        ln -sfn "$(realpath -ms --relative-to="/$(dirname "$link")" "$to")" "$folder/one/$link"
    done
    find "$folder/one" -name '*.a' -printf "%P $name $version\n" >>"$folder/files"
    cp -a "$folder/one/." "$folder/root/"
    rm -rf "$folder/one"
done <"$folder/packages"

cd "$apt/var/cache/apt/archives"
for source in "${sources[@]:1}"; do
    apt-get -qq source --download-only "$source"
    # shellcheck disable=SC2012 # names of Debian
    dsc=$(ls -t "${source}"_*.dsc | head -n 1)
    dpkg-source --no-check -x "$dsc" "$folder/src/$source" >/dev/null # apt checked it
    sed -n 's/^Version: //p' "$dsc" | head -n 1 >"$folder/src/$source.version"
done
