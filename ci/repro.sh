#!/usr/bin/env bash
# Builds the commit twice, in folders of different names and at different times, and compares the programs byte by byte.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for place in first/bn another-folder; do
    mkdir -p "$tmp/$place"
    git archive HEAD | tar -x -C "$tmp/$place"
    make -s -C "$tmp/$place" -j"$(nproc)" CC="${CC:-gcc}" all >/dev/null
done
status=0
compared=0
for program in "$tmp"/first/bn/build/*/bn*; do
    if [ ! -x "$program" ]; then continue; fi
    name=${program##*/}
    compared=$((compared + 1))
    if cmp -s "$program" "$tmp"/another-folder/build/*/"$name"; then
        echo "same       $name $(sha256sum <"$program" | cut -c1-16)"
    else
        echo "different  $name"
        status=1
    fi
done
[ "$compared" -gt 0 ] || { echo "nothing was built" >&2; status=1; }
exit $status
