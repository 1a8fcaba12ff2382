#!/usr/bin/env bash
# Style and structure: formatting, static analysis, the include rules, banned functions, long files.
# Prints what is wrong and ends with 1; prints one line when all is well.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() { echo "lint: $*" >&2; bad=1; }
c_files() { git ls-files --cached --others --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done | sort; }

# shellcheck disable=SC2046
clang-format --dry-run -Werror $(c_files 'engine/*.[ch]' 'kernels/*.[ch]' 'tools/*.[ch]' 'tests/*.[ch]' 'crossval/*.[ch]pp') 2>&1 | head -n 20
[ "${PIPESTATUS[0]}" -eq 0 ] || complain "clang-format differs (make format)"

# shellcheck disable=SC2046
cppcheck --quiet --enable=warning,portability --inline-suppr --error-exitcode=1 --std=c11 -j2 -Iengine -I. \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=unknownMacro \
    $(c_files 'engine/*.c' 'kernels/*.c' 'tools/*.c') || complain "cppcheck"
# shellcheck disable=SC2046
shellcheck -x $(c_files '*.sh' .ci/run) || complain "shellcheck"

# Who may include whom: kernels <- engine <- tools; inside the engine base <- model, profile <- infer <- measure <- receipt;
# profile, measure <- flame <- record; base <- compare; base <- hub.
may() { # folder, allowed first path parts of its quoted includes
    local f
    for f in $(c_files "$1/*.[ch]"); do
        grep -HnE '^#include "' "$f" | grep -vE "#include \"($2)" | while read -r line; do echo "lint: include rule: $line"; done
    done
}
rules=$(
    may kernels '(kernels|peak|ref|x86|arm)[a-z0-9_]*\.h'
    may engine/base 'bn\.h|base/'
    may engine/model 'bn\.h|base/|model/|kernels/kernels\.h'
    may engine/infer 'bn\.h|base/|model/|infer/|profile/|kernels/kernels\.h'
    may engine/profile 'bn\.h|base/|profile/|kernels/kernels\.h'
    may engine/flame 'bn\.h|base/|profile/|measure/|flame/'
    may engine/record 'bn\.h|base/|profile/|measure/|flame/|record/'
    may engine/measure 'bn\.h|base/|model/|infer/|profile/|measure/|build_info\.h|kernels/(kernels|peak)\.h'
    may engine/receipt 'bn\.h|base/|model/|infer/|profile/|measure/|receipt/|build_info\.h|kernels/kernels\.h'
    may engine/compare 'bn\.h|base/|compare/'
    may engine/hub 'bn\.h|base/|hub/'
    # The reference is independent: only its own folder.
    grep -HnE '^#include "[^"]*(/|\.h")' crossval/reference/*.[ch]pp crossval/compare/*.[ch]pp 2>/dev/null |
        while read -r line; do echo "lint: include rule: $line"; done
)
[ -z "$rules" ] || { echo "$rules" >&2; bad=1; }
for pair in 'cjson/cJSON:engine/base/json.c' 'openssl/:engine/base/digest.c' 'git2:engine/measure/git.c' \
    'pcre2:engine/model/pretokenize.c' 'curl/:engine/hub/http.c' \
    '(libelf|gelf)\.h:engine/profile/code.c' '(dwarf|elfutils/)[a-z./]*:engine/record/dwfl.h' 'histedit\.h:tools/run/line.c'; do
    others=$(grep -lE "#include <${pair%%:*}" -r engine kernels tools 2>/dev/null | grep -vx "${pair##*:}")
    [ -z "$others" ] || complain "only ${pair##*:} may include <${pair%%:*}>: $others"
done
# preload_exec.c is outside of both: it is not in the library, and wraps functions of the C library in other programs.
banned=$(grep -nEr --include='*.c' '\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|atoi|atol|atof|system|rand|srand)\(' engine kernels tools | grep -v '^engine/record/preload_exec\.c:')
[ -z "$banned" ] || complain "banned functions: $banned"
# The library's memory goes through base/mem.h, and it never prints or exits.
raw=$(grep -nEr --include='*.c' '\b(malloc|calloc|realloc|free|exit|abort|printf|puts)\(' engine | grep -vE '^engine/(base/mem|base/reserve|record/preload_exec)\.c:|^[^:]*:[0-9]*: *\*')
[ -z "$raw" ] || complain "the library allocates by bn_alloc and does not print: $raw"
if [ -x "${OUT:-build/gcc}/bn" ]; then
    ci/docs.sh --check "${OUT:-build/gcc}" docs >&2 || complain "make docs writes them"
else
    echo "lint: note: nothing is built in ${OUT:-build/gcc}; documents were not compared with the programs" >&2
fi
if command -v mandoc >/dev/null; then
    mandoc -Tlint docs/man/*.[17] || complain "mandoc"
fi
# shellcheck disable=SC2046
shellcheck -s bash $(c_files 'docs/completions/*.bash') || complain "shellcheck of completions"
c_files '*.c' '*.h' '*.cpp' '*.sh' Makefile | while read -r f; do
    n=$(wc -l <"$f")
    [ "$n" -le 800 ] || echo "lint: note: $f has $n lines" >&2
done
[ "$bad" -eq 0 ] && echo "lint: clean"
exit "$bad"
