#!/usr/bin/env bash
# Usage: ci/limits.sh [FILE...]
# Reports C files of more than 600 lines and functions of more than 60, from the first line of the head to the closing
# brace. It reads the form that clang-format gives.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ $# -eq 0 ]; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.[ch]' | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
    set -- "${files[@]}"
fi
awk '
    function file_ends() { if (lines > 600) { print "limits: " file " has " lines " lines, at most 600 are allowed"; bad = 1 } }
    FNR == 1 { file_ends(); file = FILENAME; begin = 0; fresh = 1 }
    { lines = FNR }
    /^[A-Za-z_]/ && fresh { head = FNR; name = $0 }
    { fresh = $0 == "" || /\*\/$/ || /^[}#]/ || /;$/ }
    /^\{/ { begin = FNR }
    /^\}/ {
        if (begin && FNR - head + 1 > 60) { print "limits: " FILENAME ":" head ": a function of " FNR - head + 1 " lines, at most 60 are allowed: " name; bad = 1 }
        begin = 0
    }
    END { file_ends(); exit bad }' "$@"
