#!/usr/bin/env bash
# Usage: packaging/twice.sh TARGET...            dist deb static image wheel site: targets of make; or programs
# Makes parts of a release twice from the commit: in clones whose folders have other names, at other times, in other time zones,
# with other locales and file modes. Compares the bytes, and copies files that are equal to $RELEASE [build/release].
# "programs" is what `make install` installs, built from source archives, without git; it is compared, and copied nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2 && exit 2; }
for target; do
    [ "$target" = programs ] || grep -q "^$target:" Makefile packaging/build.mk || { echo "twice: make has no target '$target'" >&2 && exit 2; }
done
release=$(mkdir -p "${RELEASE:-build/release}" && realpath "${RELEASE:-build/release}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
unset MAKEFLAGS MFLAGS MAKELEVEL OUT BUILD RELEASE VERSION
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

copy_and_make() { # FOLDER OUT UMASK TARGET...
    local folder=$1 out=$2 mask=$3 target
    shift 3
    umask "$mask"
    if [ "$*" = programs ]; then
        mkdir -p "$folder" && make -s dist RELEASE="$tmp/archive" && tar -xzf "$tmp"/archive/*.tar.gz -C "$folder" --strip-components=1
    else
        git clone -q --shared . "$folder"
    fi
    cd "$folder" && mkdir -p "$out"
    for target; do
        if [ "$target" = programs ]; then
            make -s -j"$(nproc)" CC="${CC:-gcc}" DESTDIR="$out" PREFIX=/usr install
        else
            make -s -j"$(nproc)" "$target" RELEASE="$out"
        fi
    done
}
# Two zones that never have the same date.
for i in 1 2; do
    folder=$tmp/first/bn zone=Etc/GMT+12 locale=C mask=022
    [ "$i" = 1 ] || folder=$tmp/another-folder/of/another/depth zone=Etc/GMT-14 locale=C.UTF-8 mask=002
    [ "$i" = 1 ] || sleep 2 # archives count in steps of two seconds
    status=0
    (set -e && TZ=$zone LC_ALL=$locale copy_and_make "$folder" "$tmp/out$i" "$mask" "$@") >"$tmp/log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || { tail -n 40 "$tmp/log" >&2 && echo "twice: cannot make $*, the ${i/1/first}${i/2/second} time" >&2 && exit "$status"; }
done

n=0 differ=0
while IFS= read -r file; do
    n=$((n + 1))
    if [ ! -e "$tmp/out1/$file" ] || [ ! -e "$tmp/out2/$file" ]; then
        verdict=missing
    else
        cmp -s "$tmp/out1/$file" "$tmp/out2/$file" && verdict=equal || verdict=different
    fi
    [ "$verdict" = equal ] || differ=$((differ + 1))
    printf '%-9s %s\n' "$verdict" "$file"
done < <(cd "$tmp" && { find out1 out2 -type f -o -type l; } | cut -d/ -f2- | LC_ALL=C sort -u)
[ "$n" -gt 0 ] || { echo "twice: make $* wrote nothing" >&2 && exit 1; }
[ "$differ" -eq 0 ] || { echo "twice: $differ of $n files of $* are not the same twice" >&2 && exit 1; }
[ "$*" = programs ] || find "$tmp/out1" -maxdepth 1 -type f -exec cp -p {} "$release" \;
echo "$n files, each equal twice"
