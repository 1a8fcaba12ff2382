#!/usr/bin/env bash
# Runs the sessions in README.md and in the tutorial: each "$ command" must print the lines below it. A session is the blocks of
# code in a file that follow a comment with this script's name.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
PATH=$(cd "${OUT:-build/gcc}" && pwd):$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
check() { # command, file with the expected output
    count=$((count + 1))
    bash -c "$1" >"$tmp/out" 2>"$tmp/err"
    local status=$?
    if [ "$status" -eq 0 ] && diff "$2" "$tmp/out" >"$tmp/diff"; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        sed 's/^/# /' "$tmp/diff" "$tmp/err"
    fi
}
session() { # file, name of a folder for it
    local command='' before=$count
    awk '/tested by tests\/cli\/readme.sh/ {wanted = 1} /^```/ {inside = !inside; if (!inside) wanted = 0; next} inside && wanted' \
        "$root/$1" >"$tmp/session"
    mkdir "$tmp/$2"
    cd "$tmp/$2" || exit 1
    ln -s "$root/fixtures" fixtures
    : >"$tmp/expected"
    while IFS= read -r line; do
        if [ "${line:0:2}" = '$ ' ]; then
            [ -z "$command" ] || check "$command" "$tmp/expected"
            command=${line:2}
            : >"$tmp/expected"
        else
            printf '%s\n' "$line" >>"$tmp/expected"
        fi
    done <"$tmp/session"
    [ -z "$command" ] || check "$command" "$tmp/expected"
    [ "$count" -gt "$before" ] || echo "not ok $((count += 1)) - $1 has no session"
}
session README.md readme
session docs/tutorial.md tutorial
