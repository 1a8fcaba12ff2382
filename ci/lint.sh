#!/usr/bin/env bash
# Style and structure: formatting, static analysis, the include rules, banned functions, long files and functions.
# Prints what is wrong and ends with 1; prints one line when all is well.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() { echo "lint: $*" >&2; bad=1; }
c_files() { git ls-files --cached --others --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done | sort; }

# shellcheck disable=SC2046
clang-format --dry-run -Werror $(c_files 'engine/*.[ch]' 'kernels/*.[ch]' 'kernels/*.cl' 'opencl/*.[ch]' 'lab/*.[ch]' 'hub/*.[ch]' 'mpi/*.[ch]' 'train/*.[ch]' 'tools/*.[ch]' 'tests/*.[ch]' 'examples/*.c' 'crossval/*.[ch]pp') 2>&1 | head -n 20
[ "${PIPESTATUS[0]}" -eq 0 ] || complain "clang-format differs (make format)"

# shellcheck disable=SC2046
cppcheck --quiet --enable=warning,portability --inline-suppr --error-exitcode=1 --std=c11 -j2 -Iengine -I. \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=unknownMacro \
    $(c_files 'engine/*.c' 'kernels/*.c' 'opencl/*.c' 'lab/*.c' 'hub/*.c' 'mpi/*.c' 'train/*.c' 'tools/*.c') || complain "cppcheck"
# shellcheck disable=SC2046
shellcheck -x $(c_files '*.sh' .ci/run) || complain "shellcheck"
shellcheck -s bash tools/cli/completions/bn.bash || complain "shellcheck of completions"
for script in $(c_files '*.sh'); do
    [ -x "$script" ] || [ "$(head -c 2 "$script")" != '#!' ] || complain "$script is not executable"
done

# Include rules: kernels <- engine <- lab, hub, mpi, train <- tools; inside the engine base <- gguf <- tokenizer <- model <- infer, tokenizer <- grammar <- generate, infer <- generate, base <- stamp <- infer.
may() { # folder, allowed first path parts of its quoted includes
    local f
    for f in $(c_files "$1/*.[ch]"); do
        grep -HnE '^#include "' "$f" | grep -vE "#include \"($2)" | while read -r line; do echo "lint: include rule: $line"; done
    done
}
rules=$(
    may kernels 'kernels/'
    may engine/base 'bn\.h|base/'
    may engine/gguf 'bn\.h|base/|gguf/|kernels/kernels\.h'
    may engine/tokenizer 'bn\.h|base/|gguf/|tokenizer/'
    may engine/grammar 'bn\.h|base/|tokenizer/|grammar/'
    may engine/model 'bn\.h|base/|gguf/|tokenizer/|model/|kernels/kernels\.h'
    may engine/stamp 'bn\.h|base/|stamp/|kernels/kernels\.h'
    may engine/infer 'bn\.h|base/|gguf/|tokenizer/|model/|stamp/|infer/|kernels/kernels\.h'
    may engine/generate 'bn\.h|base/|gguf/|tokenizer/|grammar/|model/|stamp/|infer/|generate/|kernels/kernels\.h'
    may opencl 'bn\.h|base/|gguf/|model/|stamp/|infer/|opencl/|kernels/kernels\.h'
    may lab 'bn\.h|base/|gguf/|tokenizer/|grammar/|model/|stamp/|infer/|generate/|lab/|build_info\.h|kernels/(kernels|peak)\.h'
    may hub 'bn\.h|base/|gguf/|hub/'
    may train 'bn\.h|base/|gguf/|tokenizer/|model/|infer/|kernels/kernels\.h|train/'
    may mpi 'base/|lab/kit/|mpi/'
    # The reference is independent: only its own folder.
    grep -HnE '^#include "[^"]*(/|\.h")' crossval/reference/*.[ch]pp crossval/compare/*.[ch]pp 2>/dev/null |
        while read -r line; do echo "lint: include rule: $line"; done
)
[ -z "$rules" ] || { echo "$rules" >&2; bad=1; }
for pair in 'openssl/:engine/base/digest.c|lab/receipt/keys.c|tools/cli/program/reserve.c' 'git2:tools/git/repository.c' \
    'pcre2:engine/tokenizer/pretokenize.c' 'curl/:hub/net/http.c' 'cjson/:hub/files/document.h' 'microhttpd\.h:tools/serve/http.c' \
    '(libelf|gelf)\.h:lab/profile/code.c' 'cblas\.h:train/gemm.c' '(dwarf|elfutils/)[a-z./]*:lab/symbols/object.h' 'histedit\.h:tools/run/chat/line.c' 'yaml\.h:tools/bench/suite/yaml.c' \
    'n?curses[a-z]*\.h:tools/bench/top/screen.c' 'mpi\.h:mpi/plugin.c' 'seccomp\.h:tools/cli/program/sandbox.c' 'CL/:opencl/(driver\.h|devices\.c)'; do
    others=$(grep -lE "#include <${pair%%:*}" -r engine kernels opencl lab hub mpi train tools 2>/dev/null | grep -vxE "${pair##*:}")
    [ -z "$others" ] || complain "only ${pair##*:} may include <${pair%%:*}>: $others"
done
# Folders include one another in one direction: tsort(1) names the members of a circle.
circles=$(c_files 'engine/*.[ch]' 'kernels/*.[ch]' 'lab/*.[ch]' 'hub/*.[ch]' 'tools/*/*.[ch]' |
    xargs grep -HoE '^#include "[a-z_/0-9-]+/' |
    sed -E 's,^(([^/]*/)+)[^/]*:#include "(.*),\1 \3,; s, (base|gguf|tokenizer|grammar|model|stamp|infer|generate)/, engine/\1/,' | sort -u | awk '$1 != $2' |
    tsort 2>&1 >/dev/null | sed 's/^tsort: //')
[ -z "$circles" ] || complain "folders include each other in a circle: $(echo "$circles" | paste -sd ' ')"
# A struct, enum or union has one definition.
tags=$(c_files 'engine/*.[ch]' 'kernels/*.[ch]' 'opencl/*.[ch]' 'lab/*.[ch]' 'hub/*.[ch]' 'mpi/*.[ch]' 'train/*.[ch]' 'tools/*.[ch]' | xargs grep -hoE '^(typedef )?(struct|enum|union) bn_[a-z0-9_]+ \{' |
    grep -oE 'bn_[a-z0-9_]+' | sort | uniq -d)
[ -z "$tags" ] || complain "tags that are defined twice: $(echo "$tags" | paste -sd ' ')"
ci/evidence.sh >&2 || complain "committed measurements are not of the present models"
ci/wording.sh >&2 || complain "wording (ci/words.txt)"
ci/limits.sh >&2 || complain "files and functions that are too long"
ci/budget.sh >&2 || complain "rooms that hold more than ci/budget.txt allows"
# Lines of documents: at most 100 characters outside of tables, pictures and links; generated pages are as they come.
long=$(c_files '*.md' | grep -vE '^docs/(reference/bn|baselines/)' | xargs awk 'length > 100 && !/^    / && !/^\|/ && !/^\[?!\[/ && !/^ *<?https?:/ { print FILENAME ":" FNR }')
[ -z "$long" ] || complain "lines of more than 100 characters: $(echo "$long" | paste -sd ' ')"
banned=$(grep -nEr --include='*.c' '\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|atoi|atol|atof|system|rand|srand)\(' engine kernels opencl mpi train tools)
[ -z "$banned" ] || complain "banned functions: $banned"
# The library's memory goes through base/mem.h, and it never prints or exits. The lists of scandir are of libc.
raw=$(grep -nEr --include='*.c' '\b(malloc|calloc|realloc|free|exit|abort|printf|puts)\(' engine opencl lab hub mpi train | grep -vE '^(engine/base/mem|mpi/plugin|hub/cache/walk)\.c:|^[^:]*:[0-9]*: *\*')
[ -z "$raw" ] || complain "the library allocates by bn_alloc and does not print: $raw"
if [ -x "${OUT:-build/gcc}/bn" ]; then
    ci/libm.sh >&2 || complain "results would depend on libm (engine/base/elementary.h has what to call)"
    ci/docs.sh check "${OUT:-build/gcc}" docs >&2 || complain "make docs writes them"
    pages=$(mktemp -d)
    ci/docs.sh pages "${OUT:-build/gcc}" "$pages"
    if command -v mandoc >/dev/null; then
        mandoc -Tlint "$pages"/man/*.1 docs/man/*.7 || complain "mandoc"
    fi
    rm -rf "$pages"
else
    echo "lint: note: nothing is built in ${OUT:-build/gcc}; documents were not compared with the programs" >&2
fi
c_files '*.cpp' '*.sh' Makefile | while read -r f; do
    n=$(wc -l <"$f")
    [ "$n" -le 620 ] || echo "lint: note: $f has $n lines" >&2
done
[ "$bad" -eq 0 ] && echo "lint: clean"
exit "$bad"
