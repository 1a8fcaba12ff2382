#!/usr/bin/env bash
# The session in README.md, run as it stands: each "$ command" must print the lines below it.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
PATH=$(cd "${OUT:-build/gcc}" && pwd):$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
awk '/tested by tests\/cli\/readme.sh/ {found = 1} found && /^```/ {n++; next} found && n == 1' README.md >"$tmp/session"
cd "$tmp" || exit 1
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
command=''
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
[ "$count" -gt 0 ] || echo "not ok 1 - $root/README.md has no session"
