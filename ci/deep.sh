#!/usr/bin/env bash
# Usage: ci/deep.sh PART
# The checks of CI that take longer than `make check`. A part installs its packages, builds in a folder of its own under
# build/, and fails when a tool reports something, also in a process whose exit status nobody reads.
#
#   build-gcc     everything, warnings are errors
#   build-clang   the same by clang
#   build-bare    the same without libgit2, OpenBLAS, MPI, OpenCL and libseccomp
#   asan          the whole suite with AddressSanitizer and UndefinedBehaviorSanitizer, by clang
#   asan-gcc      the same by gcc
#   tsan          tests of threads and processes with ThreadSanitizer (tests/tsan.txt)
#   valgrind      memcheck: unit tests, a generation and its verification; VALGRIND_ALL=1 adds the other fast unit tests
#   fuzz          every fuzz target, or those in FUZZ_TARGETS, FUZZ_SECONDS (60) each; corpora stay in build/fuzz
#   cover         the lines that the suite runs, and the floors of ci/coverage.sh
#   tidy          clang-tidy (.clang-tidy), on all sources or those in TIDY_FILES
#   reasons       each check and report that is suppressed has a reason
#   torture       tests/release/torture.sh: each call fails, writers are killed, a soak of two hours
#   all           all of them but asan-gcc and torture
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build() { make --no-print-directory -j"$jobs" "$@"; }
fail() { echo "deep: $*" >&2; return 1; }

part_build_gcc() { build BUILD=build/strict CC=gcc WERROR=1 build-tests; }
part_build_clang() { build BUILD=build/strict CC=clang WERROR=1 build-tests; }
part_build_bare() { build BUILD=build/bare CC=gcc WERROR=1 GIT=0 BLAS=0 MPI=0 OPENCL=0 SECCOMP=0 all; }

# watched ARGUMENTS...: the tests that make is told, with a log of what the sanitizers report in any process.
watched() {
    local bad=0 log=log_path=$work/report after_return=1
    [ "$1" != CC=gcc ] || after_return=0 # the stacks that gcc 12 has for this are not aligned for vectors of 64 bytes
    export ASAN_OPTIONS=$log:detect_stack_use_after_return=$after_return UBSAN_OPTIONS=$log:print_stacktrace=1
    export TSAN_OPTIONS=$log:suppressions=$PWD/tests/tsan.txt:ignore_noninstrumented_modules=1:history_size=4
    # Old runtimes want less randomness of addresses than new kernels have; containers may forbid to ask for it.
    local plain=()
    ! setarch -R true 2>/dev/null || plain=(setarch -R)
    build "$@" build-tests
    ${plain[@]+"${plain[@]}"} make --no-print-directory "$@" run-tests || bad=1
    no_reports "$work" || bad=1
    return "$bad"
}
# no_reports FOLDER: prints the reports in it, and fails when there are any.
no_reports() {
    local report reports=("$1"/report.*)
    [ -e "${reports[0]}" ] || return 0
    for report in "${reports[@]}"; do sed -n '1,60p' "$report" >&2; done
    fail "${#reports[@]} processes were reported"
}
part_asan() { watched CC=clang SAN=address,undefined; }
part_asan_gcc() { watched CC=gcc SAN=address,undefined; }
part_tsan() {
    local unit cli
    # shellcheck disable=SC2016 # make expands it
    unit=$(printf '$(OUT)/tests/unit/%s ' engine/test_{team,batch,divided,ranks,session,speculate} tools/test_serve_{queue,models} opencl/test_driver)
    cli=$(echo tests/cli/{serve*,batch,verify_batch,divided,ranks,device*}.sh)
    watched CC=clang SAN=thread TESTS="$unit $cli"
}

# The stack is not zeroed in this build, so that memcheck sees what was never written; and nothing is fortified, because
# memcheck takes __memmove_chk for __memcpy_chk, which have one address. It replaces malloc, so no test can. Tests of
# processes and samplers are not run: it knows no pidfd_open, and is what they would sample.
part_valgrind() {
    local out=build/valgrind/gcc bad=0 tests under="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --fair-sched=try --suppressions=tests/valgrind.supp"
    if [ -n "${VALGRIND_ALL:-}" ]; then
        mapfile -t tests < <(cd tests/unit && printf '%s\n' */test_*.c | grep -vE "/($(grep -v '^#' ../slow.txt | paste -sd '|'))\.c|^(opencl|train)/|/test_(process|bench_document|recorder|symbols|timers|unwind)\.c")
        tests=("${tests[@]%.c}")
    else
        tests=(engine/test_{chat,chat_tools,constrain,file,gguf_bad,json,public,sampler,session,state,team,tokenizer,vocab_bad}
            hub/test_{hub_cache,pieces} receipt/test_{keys,receipt,rules} tools/test_{options,serve_models,serve_queue} stacks/test_stacks_read)
    fi
    tests=("${tests[@]/#/$out/tests/unit/}")
    build BUILD=build/valgrind CC=gcc CPPFLAGS=-DCAN_WATCH=0 CFLAGS='-O1 -g -U_FORTIFY_SOURCE -ftrivial-auto-var-init=uninitialized' "${tests[@]}" "$out"/bn-{run,verify-receipt}
    OUT=$out JOBS=$jobs UNDER=$under tests/run.sh "${tests[@]}" || bad=1
    $under "$out/bn-run" -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf -t 2 -n 8 -p abc --receipt "$work/receipt.json" >/dev/null || bad=1
    $under "$out/bn-verify-receipt" --replay -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf "$work/receipt.json" || bad=1
    return "$bad"
}

part_fuzz() { FUZZ_JOBS=${FUZZ_JOBS:-$jobs} build CC=clang "SAN=address,undefined,fuzzer-no-link" ${FUZZ_TARGETS:+FUZZ_TARGETS="$FUZZ_TARGETS"} fuzz-run; }

part_torture() { build CC=gcc all build-tests && OUT=build/gcc tests/run.sh tests/release/torture.sh; }

part_cover() {
    build CC=gcc COVER=1 CFLAGS='-O1 -g' build-tests
    find build/gcc-cover -name '*.gcda' -delete
    # Whether tests pass is for `make check` to say: a program that counts its lines ends otherwise without memory, or when killed.
    make --no-print-directory CC=gcc COVER=1 CFLAGS='-O1 -g' run-tests || true
    ci/coverage.sh build/gcc-cover
}

# Not the kernels of one instruction set: they are intrinsics, which the checks know nothing of.
part_tidy() {
    local files where=${TIDY_FILES:-engine/*.c kernels/*.c opencl/*.c lab/*.c hub/*.c mpi/*.c train/*.c tools/*.c}
    build CC=gcc build/gcc/build_info.h
    # shellcheck disable=SC2086 # patterns, which git expands
    mapfile -t files < <(set -f && git ls-files $where | grep -vE '^kernels/(x86|arm)/')
    [ "${#files[@]}" -gt 0 ] || fail 'no file to check'
    # shellcheck disable=SC2016 # the inner shell expands it
    printf '%s\n' "${files[@]}" | xargs -n 4 -P "$jobs" sh -c 'flags=$1 && shift && clang-tidy --quiet "$@" -- $flags' _ \
        "-std=c11 -Iengine -I. -Ibuild/gcc -DBN_INTERNAL -pthread $(pkg-config --cflags openblas ompi-c)"
}

# Comments of .clang-tidy name each check that is left out; a comment is above each report that is suppressed.
part_reasons() {
    local bad=0 file check tidy=${TIDY:-.clang-tidy}
    while read -r check; do
        grep -qE "^# $check: .{20}" "$tidy" || { bad=1 && echo "reasons: $tidy: $check is left out without a reason" >&2; }
    done < <(grep -v '^#' "$tidy" | grep -oE '[," ]-[a-z][a-zA-Z0-9.-]+' | cut -c 3-)
    for file in ${SUPPRESSIONS:-tests/leaks.txt tests/tsan.txt tests/valgrind.supp}; do
        awk -v file="$file" '
            /^#/ { reason = 1; next }
            /^$/ { reason = 0; next }
            !reason && !inside { print "reasons: " file ":" FNR ": " $0 " is suppressed without a reason"; bad = 1 }
            /^[{]/ { inside = 1 }
            /^[}]/ { inside = reason = 0 }
            END { exit bad }' "$file" >&2 || bad=1
    done
    return "$bad"
}

PARTS=(build-gcc build-clang build-bare asan tsan valgrind fuzz cover tidy reasons)
part_all() {
    local part bad=()
    for part in "${PARTS[@]}"; do "$0" "$part" || bad+=("$part"); done
    [ "${#bad[@]}" -eq 0 ] || fail "failed: ${bad[*]}"
}
[ $# -eq 1 ] || { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2; exit 2; }
[ "$(type -t "part_${1//-/_}")" = function ] || { echo "deep: no part '$1'" >&2; exit 2; }
[ "$1" = reasons ] || ci/install-packages.sh build test fuzz deep
"part_${1//-/_}"
