#!/usr/bin/env bash
# bn-git, and the stamp that other programs take from it.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
cd "$tmp" || exit 1
export HOME=$tmp GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=$tmp
as_somebody() { git -c user.name=a -c user.email=a@b "$@"; }

says 3 'a directory without a repository' 'not in a git repository' "$bin/bn-git"
says 3 'as JSON' '"known": false' "$bin/bn-git" --json
mkdir repository && cd repository && git init -q -b trunk .
says 0 'a repository without a commit' 'commit +none yet' "$bin/bn-git"
mkdir lab && echo one >lab/a.c && echo one >notes && as_somebody add -A && as_somebody commit -q -m first
commit=$(git rev-parse HEAD)
if [ "$("$bin/bn-git" --json | grep -c '"known": true')" = 0 ]; then
    skip 'stamps' 'built without libgit2'
    exit
fi
says 0 'the commit' "commit +$commit" "$bin/bn-git"
says 0 'of a directory inside' 'branch +trunk' "$bin/bn-git" lab
says 0 'and no changes' 'changes +0 files' "$bin/bn-git"
echo two >notes
says 0 'a document does not count as a source' 'changes +1 file, 0 of them sources' "$bin/bn-git"
echo two >lab/a.c
says 0 'a source is one' 'changes +2 files, 1 of them source$' "$bin/bn-git"
git config core.fsmonitor "touch $tmp/ran; false"
git config filter.x.clean "touch $tmp/ran; cat" && echo '* filter=x' >.gitattributes
"$bin/bn-git" >/dev/null
says 3 'a folder that does not exist is named' 'nofile: no such file or directory' "$bin/bn-git" nofile
check 'nothing that the configuration names is executed' test ! -e "$tmp/ran"

stamp() { grep -A 1 '"git": {' "$1" | sed -nE 's/.*"commit": (.*),/\1/p'; }
"$bin/bn-run" -q --tokens 1 -n 2 --receipt r.json >/dev/null
check 'a receipt has the stamp' equal "$(stamp r.json)" "\"$commit\""
# A bn-git with other output, or none, gives no stamp and stops no program.
mkdir "$tmp/alone" && cp "$bin/bn-run" "$tmp/alone/"
for script in 'exit 0' 'echo garbage' 'kill -9 $$' 'head -c 200000 /dev/zero' 'echo "{\"schema\": \"bn.git/2\", \"known\": true, \"commit\": \"aa\"}"'; do
    printf '#!/bin/sh\n%s\n' "$script" >"$tmp/alone/bn-git" && chmod +x "$tmp/alone/bn-git"
    status 0 "a receipt is written next to a bn-git that runs: $script" "$tmp/alone/bn-run" -q --tokens 1 -n 2 --receipt bad.json
    check 'without a stamp' equal "$(stamp bad.json)" null
done
rm "$tmp/alone/bn-git"
PATH=/usr/bin:/bin status 0 'a receipt is written where there is no bn-git' "$tmp/alone/bn-run" -q --tokens 1 -n 2 --receipt none.json
check 'without a stamp too' equal "$(stamp none.json)" null
