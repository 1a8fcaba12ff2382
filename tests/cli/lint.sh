#!/usr/bin/env bash
# The rules that have a script of their own, on this tree and on planted faults: no function of libm decides promised bits,
# no C file and no function is too long, and the public header is complete.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh

# What promises the same bits on every machine calls no function of libm whose bits differ between machines.
check "no function of libm decides the bits of results" ci/libm.sh
planted() { printf 'double f(double x);\ndouble %s(double);\ndouble f(double x) { return %s(x); }\n' "$1" "$1" >"$tmp/$1.c" && "${CC:-gcc}" -O1 -fno-builtin -c "$tmp/$1.c" -o "$tmp/$1.o"; }
planted log && planted powf && planted sqrt
for name in log powf; do says 1 "a call of $name is reported" "$name\.o: $name\$" ci/libm.sh "$tmp/$name.o"; done
status 0 "a call of sqrt is not" ci/libm.sh "$tmp/sqrt.o"

check "no C file and no function is too long" ci/limits.sh
# lines N TEXT: a line N times
lines() { yes "$2" | head -n "$1"; }
c_function() { printf 'static int f(int x)\n{\n'; lines "$1" '    x++;'; printf '}\n'; }
c_function 57 >"$tmp/short.c"
status 0 "a function of 60 lines is allowed" ci/limits.sh "$tmp/short.c"
c_function 58 >"$tmp/long.c"
says 1 "one of 61 lines is reported" 'long\.c:1: a function of 61 lines, at most 60 are allowed: static int f' ci/limits.sh "$tmp/long.c"
{ echo 'struct bn_x f('; echo '    int x)'; echo '{'; lines 57 '    x++;'; echo '}'; } >"$tmp/head.c"
says 1 "lines of the head count" 'head\.c:1: a function of 61 lines' ci/limits.sh "$tmp/head.c"
lines 600 '/* x */' >"$tmp/600.h"
lines 601 '/* x */' >"$tmp/601.h"
says 1 "a file of 601 lines is reported, also before another one" '601\.h has 601 lines' ci/limits.sh "$tmp/601.h" "$tmp/600.h"
status 0 "one of 600 lines is allowed" ci/limits.sh "$tmp/600.h"

# Rooms: more lines than the budget, a page too many, a schema too many, a file in no room.
mkdir -p "$tmp/house/a" "$tmp/house/docs" "$tmp/house/new"
lines 10 '/* x */' >"$tmp/house/a/x.c"
echo 'const char *s = "bn.a/1";' >>"$tmp/house/a/x.c"
echo '# page' >"$tmp/house/docs/x.md"
budget() { printf '%s\n' "$@" >"$tmp/budget"; }
budget '11 C a' '1 Markdown docs' '1 pages docs' '1 schemas a'
status 0 "rooms within the budget" ci/budget.sh "$tmp/budget" "$tmp/house"
for fault in 's/11 C/10 C/|a: 11 C, at most 10' 's/1 Mark/0 Mark/|docs: 1 Markdown' 's/1 pages/0 pages/|docs: 1 pages' 's/1 schemas/0 schemas/|a: 1 schemas' 's/C a/C docs/|a/x.c is in no room'; do
    sed "${fault%|*}" "$tmp/budget" >"$tmp/less"
    says 1 "a room over it: ${fault#*|}" "budget: ${fault#*|}" ci/budget.sh "$tmp/less" "$tmp/house"
done

# incomplete HEADER: the structs that it names and neither defines nor gives, by an out parameter or as a result.
incomplete() {
    local text name
    text=$(sed 's,/\*.*\*/,,; /\/\*/,/\*\//d' "$1")
    grep -oE 'struct bn_[a-z0-9_]+' <<<"$text" | sed 's/struct //' | sort -u | while read -r name; do
        grep -qE "struct $name \{|\b$name \*\*out|^(const )?$name \*bn_" <<<"$text" || echo "$name"
    done
}
check "bn.h compiles alone" "${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c engine/bn.h
check "every struct of bn.h is defined there or given by one of its functions" equal "$(incomplete engine/bn.h)" ''
sed 's/^typedef struct bn_model_options {/struct bn_elsewhere;\n&\n    const struct bn_elsewhere *elsewhere;/' engine/bn.h >"$tmp/bn.h"
check "one that is not is reported" equal "$(incomplete "$tmp/bn.h")" bn_elsewhere
