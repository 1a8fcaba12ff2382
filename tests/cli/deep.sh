#!/usr/bin/env bash
# The gates of ci/deep.sh find what they are for: each on a planted fault, in a scratch repository whose Makefile makes little.
# TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
top=$PWD bin=$(cd "${OUT:-build/gcc}" && pwd)
unset MAKEFLAGS MFLAGS MAKELEVEL UNDER

says 2 'without a part there is a list' '^  asan ' ci/deep.sh
says 2 'an unknown part' "no part 'sanitizers'" ci/deep.sh sanitizers
# shellcheck disable=SC2016 # the inner shell expands it
lacks 'each part has a line in the list' 'missing' sh -c '
    sed -nE "s/^part_([a-z_]+)\(\).*/\1/p" ci/deep.sh | tr _ - | while read -r part; do
        ci/deep.sh 2>&1 | grep -q "^  $part  *[a-z]" || echo "missing: $part"; done'

# ---- scripts ----
printf '. tests/tap.sh\nchek one true\nok two\n' >"$tmp/script.sh"
says 1 'a check of a script with a misspelled name is a failure' '^1 passed, 1 failed$' tests/run.sh "$tmp/script.sh"

# ---- coverage ----
report() { printf '%s\n' "$1 100 engine/infer/x.c" "$2 100 engine/base/json.c" "$3 100 lab/verify/x.c" '400 400 lab/stats/x.c' "${4:-100} 100 tools/bn.c" '9 9 hub/x.c' '9 9 mpi/x.c' '9 9 opencl/x.c' >"$tmp/report"; }
judge() { ci/coverage.sh --judge "$tmp/report"; }
report 95 100 100
says 0 'enough lines' 'engine .*97\.50 %.*enough' judge
report 60 100 100 && says 1 'too few lines of the engine' 'engine .*80\.00 %.*UNDER ITS FLOOR' judge
report 100 70 100 && says 1 'too few of parsers' 'parsers .*UNDER ITS FLOOR' judge
report 100 100 100 70 && says 1 'too few of the tools' 'tools .*UNDER ITS FLOOR' judge
report 100 100 70 && says 1 'too few of receipts' 'receipts .*UNDER ITS FLOOR' judge
sed -i '/verify/d' "$tmp/report" && says 1 'nothing of receipts' 'no data of receipts' judge
: >"$tmp/report" && says 1 'an empty report' 'no data of engine' judge
says 2 'no report' 'Usage' ci/coverage.sh
mkdir -p "$tmp/empty" && says 1 'a folder without data' 'no data of engine' ci/coverage.sh "$tmp/empty"
if command -v gcov >/dev/null; then
    mkdir -p "$tmp/lines/engine" "$tmp/lines/build/engine" && cd "$tmp/lines" || exit 1
    printf 'int main(void)\n{\n    return 0;\n}\n' >engine/run.c
    printf 'int idle(int x);\nint idle(int x)\n{\n    x *= 2;\n    return x;\n}\n' >engine/idle.c
    for name in run idle; do gcc --coverage -O0 -c -o "build/engine/$name.o" "engine/$name.c"; done
    gcc --coverage -o program build/engine/*.o && ./program
    rm -f build/engine/idle.gcda
    says 1 'lines that ran are found' '100\.00 % of +2  engine/run\.c' "$top/ci/coverage.sh" "$tmp/lines/build"
    says 1 'and files that no test ran' ' 0\.00 % of +3  engine/idle\.c' "$top/ci/coverage.sh" "$tmp/lines/build"
    cd "$top" || exit 1
else
    skip 'lines that ran are found' 'no gcov'
fi

# ---- reasons ----
status 0 'each check and report that is suppressed has a reason' ci/deep.sh reasons
sed '/^# cert-err33-c/d' .clang-tidy >"$tmp/tidy"
says 1 'a check that is left out without one' 'cert-err33-c is left out' env TIDY="$tmp/tidy" ci/deep.sh reasons
{ cat tests/leaks.txt && printf '\nleak:libbn\n'; } >"$tmp/leaks"
says 1 'a report that is suppressed without one' 'leak:libbn is suppressed' env SUPPRESSIONS="$tmp/leaks" ci/deep.sh reasons

# ---- sanitizers: a fault in a process whose exit status nobody reads ----
mkdir -p "$tmp/scratch/ci" "$tmp/scratch/tests" "$tmp/scratch/engine" && cd "$tmp/scratch" || exit 1
cp "$top/ci/deep.sh" ci/ && cp "$top/tests/tsan.txt" tests/ && cp "$top/.clang-tidy" .
printf '#!/bin/sh\n' >ci/install-packages.sh && chmod +x ci/install-packages.sh
cat >Makefile <<'END'
build-tests:
	@$(CC) -g -fsanitize=$(SAN) -pthread -o program program.c
run-tests:
	@./program >said 2>&1 & wait; exit 0
build/gcc/build_info.h:
	@mkdir -p build/gcc && touch $@
END
cat >clean.c <<'END'
int main(void) { return 0; }
END
cat >overflow.c <<'END'
#include <stdlib.h>
int main(int argc, char **argv)
{
    volatile char *s = malloc(4);
    (void)argv;
    return s[3 + argc];
}
END
cat >race.c <<'END'
#include <pthread.h>
static int x;
static void *add(void *p) { x++; return p; }
int main(void)
{
    pthread_t a, b;
    if (pthread_create(&a, 0, add, 0) || pthread_create(&b, 0, add, 0)) return 1;
    pthread_join(a, 0);
    pthread_join(b, 0);
    return x > 2;
}
END
part() { JOBS=1 ci/deep.sh "$@"; }
if echo 'int main(void) { return 0; }' | gcc -fsanitize=address -x c -o "$tmp/a.out" - 2>/dev/null && "$tmp/a.out"; then
    cp clean.c program.c && status 0 'a clean program passes' part asan-gcc
    cp overflow.c program.c && says 1 'an overflow is found' 'heap-buffer-overflow' part asan-gcc
else
    skip 'an overflow is found' 'no AddressSanitizer'
fi
if echo 'int main(void) { return 0; }' | clang -fsanitize=thread -x c -o "$tmp/a.out" - 2>/dev/null && setarch -R "$tmp/a.out"; then
    cp clean.c program.c && status 0 'a program without threads passes' part tsan
    cp race.c program.c && says 1 'a race is found' 'data race' part tsan
else
    skip 'a race is found' 'no clang with ThreadSanitizer'
fi

# ---- clang-tidy ----
if command -v clang-tidy >/dev/null && git init -q . 2>/dev/null; then
    printf '#include <stdlib.h>\nint f(int x);\nint f(int x)\n{\n    int *p = malloc(sizeof *p);\n    if (p == NULL) return 1;\n    *p = x;\n    free(p);\n    return *p;\n}\n' >engine/x.c
    says 1 'without files it fails' 'no file to check' part tidy
    git add engine/x.c && says 123 'memory that is used after free' 'clang-analyzer-unix.Malloc' part tidy
else
    skip 'memory that is used after free' 'no clang-tidy'
fi
cd "$top" || exit 1

# ---- valgrind ----
if command -v valgrind >/dev/null; then
    printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n{\n    char *s = malloc(1);\n    puts(s[0] ? "ok 1" : "ok 2");\n    free(s);\n    return 0;\n}\n' >"$tmp/unwritten.c"
    gcc -O0 -g -o "$tmp/unwritten" "$tmp/unwritten.c"
    says 0 'memory that was never written passes alone' '^1 passed, 0 failed' tests/run.sh "$tmp/unwritten"
    says 1 'and fails under valgrind' '0 failed|1 failed' env UNDER='valgrind -q --error-exitcode=99' tests/run.sh "$tmp/unwritten"
else
    skip 'memory that was never written fails under valgrind' 'no valgrind'
fi

# ---- fuzzing, by targets that only look like some ----
mkdir -p "$tmp/fuzz/tests/corpus" && cp -r tests/fuzz "$tmp/fuzz/tests" && cp tests/corpus/make.py "$tmp/fuzz/tests/corpus/"
cat >"$tmp/fuzz_good" <<'END'
#!/bin/sh
case $* in *-merge=1*) for a; do case $a in *.new) echo small >"$a/small" ;; esac; done; exit 0 ;; esac
for a; do case $a in -*) ;; *) echo input >"$a/one" && echo input >"$a/two" && break ;; esac; done
END
printf '#!/bin/sh\necho "ERROR: AddressSanitizer: planted"\nexit 1\n' >"$tmp/fuzz_bad"
chmod +x "$tmp"/fuzz_{good,bad}
fuzz() { OUT=$bin FUZZ_SECONDS=1 "$tmp/fuzz/tests/fuzz/run.sh" "$@"; }
says 0 'a target that finds nothing passes' 'fuzz_good, 1 s: survived, 2 inputs' fuzz "$tmp/fuzz_good"
says 123 'one that finds something fails' 'AddressSanitizer: planted' fuzz "$tmp/fuzz_bad"
says 123 'also before one that does not' 'fuzz_good, 1 s: survived' fuzz "$tmp/fuzz_bad" "$tmp/fuzz_good"
says 2 'no target' 'usage' fuzz
FUZZ_MERGE=1 says 0 'a corpus is reduced' '1 inputs' fuzz "$tmp/fuzz_good"
