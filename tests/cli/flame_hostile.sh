#!/usr/bin/env bash
# bn-flamegraph with hostile and impossible input: control characters for terminals, outputs that cannot be written. Broken files that
# a program has mapped are in tests/unit/stacks/test_symbols.c. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
cd "$tmp" || exit 1
bn=$bin/bn-flamegraph

# ---- what is asked for ----
"$bn" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' >commands
check "there are commands" test "$(wc -l <commands)" -ge 10
check "each is there once" equal "$(sort commands | uniq -d)" ""
says 3 "a folder that is not there is named" 'none/x.json: cannot create: No such file or directory' "$bn" record -o none/x.json -- touch ran
mkdir folder.svg
: >file
says 8 "so is a folder in the place of a file" 'folder.svg: is a directory' "$bn" record -o folder.svg -- touch ran
says 3 "a file in the place of a folder" 'file/x.json: cannot create' "$bn" record -o file/x.json -- touch ran
says 3 "a folder that takes no file" '/proc/x.json: cannot create' "$bn" record -o /proc/x.json -- touch ran
says 2 "a table of turned stacks" 'not possible with the table' "$bn" record --callers -o x.txt -- touch ran
check "before the program is run" test ! -e ran
echo kept >kept.json
status 2 "what is there stays" "$bn" record -o kept.json -o x.foo -- touch ran
check "as it was" equal "$(cat kept.json)" kept
check "and nothing is left beside it" equal "$(echo kept.json*)" kept.json
printf 'main;a 5\n' >a.folded
mkdir -p out
"$bn" export -q -f json -o out/phase2_1tok.json a.folded
cp out/phase2_1tok.json out/phase2_10tok.json
mkdir out/README.md
says 8 "a folder in place of one of the files is named" 'README.md: is a directory' env OUT="$bin" BITNET_SKIP_BUILD=1 \
    "$root/ci/phase2-flamegraph.sh" --redraw - out
check "and none of the others is replaced" equal "$(cd out && echo *)" 'README.md phase2_10tok.json phase2_1tok.json'

# ---- texts that a terminal would obey ----
cat >left.json <<'END'
{"schema": "bn.stacks/1", "unit": "ns", "what": "cpu", "about": {"event": "\u001b[31mx", "left_out": [{"samples": 3}]},
 "kinds": ["code"], "texts": ["", "a\u009b31mb"], "frames": {"kind": [0], "name": [1], "module": [0], "file": [0], "line": [0]},
 "nodes": {"depth": [1], "frame": [0]}, "runs": [{"node": [1], "self": [1]}]}
END
says 0 "an event is named, escaped" ': reading event \\x1B\[31mx; ignoring 3 samples of other events' "$bn" fold left.json
check "a name has no control character" test -z "$("$bn" fold -q left.json | LC_ALL=C grep -a "$(printf '\302\233')")"
