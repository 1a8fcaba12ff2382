#!/usr/bin/env bash
# `make install` is complete: the programs find each other, the oracle, and the documents; the examples build with the header
# and the library, shared and static, as C and as C++, and run from Python.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
# shellcheck source=tests/tap.sh
. tests/tap.sh
variant=$(basename "${OUT:-build/gcc}")
case $variant in gcc | clang) ;; *)
    skip "installation" "a build with sanitizers is not for installing"
    exit
    ;;
esac
check "make install" env -u MAKEFLAGS -u MFLAGS make -s "CC=$variant" "BUILD=$(dirname "${OUT:-build/gcc}")" install-files \
    "DESTDIR=$tmp" PREFIX=/usr
model=$root/fixtures/built-in-i2_s.gguf
PATH=$tmp/usr/bin:/usr/bin:/bin
mkdir "$tmp/empty"
cd "$tmp/empty" || exit 1

says 0 "bn lists the installed programs" '^  verify-receipt ' bn
if [ -x "$root/${OUT:-build/gcc}/crossval/bn-reference" ]; then
    says 0 "bn-crossval finds the oracle" '^agree: 2 tokens, 1 reference' bn-crossval ladder -q -p 'ROMEO:' --ref oracle
fi
says 2 "bn-crossval finds its script" 'no source tree is given' bn-crossval setup
if [ -x "$root/${OUT:-build/gcc}/bn-mpi.so" ]; then check "the plug-in for MPI is installed" test -x "$tmp/usr/lib/bn/bn-mpi.so"; fi
check "a run is replayed" bash -c "bn-run -q -p 'ROMEO:' -n 4 --receipt r.json && bn-verify-receipt -q --replay r.json"
for file in LICENSE README.md SECURITY.md docs/howto/verify-in-ci.md docs/explain/receipts.md; do
    check "$file is installed" test -s "$tmp/usr/share/doc/bn/$file"
done
dangling() {
    cd "$tmp/usr/share/doc/bn" || exit 1
    find . -name '*.md' | while read -r page; do
        grep -oE '\]\([a-z./_-]+\.md[)#]' "$page" | sed -E 's/^\]\(//; s/[)#]$//' | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
        done
    done | grep -vE 'CONTRIBUTING.md|docs/baselines'
}
check "links between installed documents lead somewhere" equal "$(dangling)" ''

# ---- a program outside the tree, in an empty folder: the examples, by pkg-config ----
cp -R "$tmp"/usr/share/doc/bn/examples/* .
export PKG_CONFIG_PATH=$tmp/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tmp LD_LIBRARY_PATH=$tmp/usr/lib
check "pkg-config knows the library" pkg-config --exists bn
check "and its version" equal "$(pkg-config --modversion bn)" "$(bn --version | sed -n '1s/^bn //p')"
expected=$(bn-run -q -p 'ROMEO:' -n 16)
chain=$(bn-run -q -p 'ROMEO:' -n 16 --receipt r.json >/dev/null && sed -nE 's/.*"chain": "([0-9a-f]+)".*/\1/p' r.json)
text() { "$@" "$model" 'ROMEO:' 16 2>/dev/null | sed '$d'; } # without the line of figures
build() { # compiler, language, options of pkg-config...
    local compiler=$1 language=$2 program
    shift 2
    for program in generate embed profile; do
        # shellcheck disable=SC2046
        "$compiler" -x "$language" $program.c -x none -Wall -Wextra -Werror $(pkg-config "$@" --cflags --libs bn) -o $program || return
    done
}
check "the examples build with the shared library" build "$variant" c
check "and generates what bn-run does" equal "$(text ./generate)" "$expected"
check "it loads libbn.so" loads ./generate 'libbn\.so\.0 => '
# The library's manners, and its dependencies: what link.md names, what pkg-config says, what the loader loads.
# shellcheck disable=SC2046
check "a program with OpenSSL builds" "$variant" -Wall -Wextra -Werror "$root/tests/install/manners.c" -o manners \
    $(pkg-config --cflags --libs bn) $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs libcrypto)
nano=$root/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
says 0 "libbn leaves the allocator of OpenSSL alone, and prints nothing" '^$' bash -c "./manners default '$nano' saved && echo"
status 0 "also one that the program has set" ./manners own "$nano" saved
needed=$(readelf -dW "$tmp/usr/lib/libbn.so.0" | sed -nE 's/.*NEEDED.*\[(.*)\.so.*/\1/p' | grep -vxE 'libc|libm|ld-linux.*' | sort | xargs)
check "libbn.so needs what pkg-config says" equal "$(pkg-config --print-requires-private bn | sort | xargs)" "$needed"
check "and what the documents say" equal "$(sed -nE 's/.*libbn needs (lib[a-z0-9-]+) and (lib[a-z0-9-]+)( .*)?$/\1 \2/p' \
    "$tmp/usr/share/doc/bn/docs/howto/link.md")" "$needed"
says 1 "it reports a missing model" 'error: nothing.gguf: ' ./generate nothing.gguf a 1
check "the examples build without the shared library" bash -c "rm -f '$tmp'/usr/lib/libbn.so*; $(declare -f build); build '$variant' c --static"
check "and generates the same" equal "$(text ./generate)" "$expected"
# shellcheck disable=SC2046
check "and as one static file" "$variant" -static generate.c $(pkg-config --static --cflags --libs bn) -o generate
lacks "which loads no library" 'NEEDED' readelf -d generate
check "and generates the same" equal "$(text ./generate)" "$expected"
cxx=${variant/gcc/g++} cxx=${cxx/clang/clang++}
if command -v "$cxx" >/dev/null; then
    check "the examples build as C++" build "$cxx" c++ --static
    check "and generates the same" equal "$(text ./generate)" "$expected"
fi
shared=$(cd "$root" && readlink -f "${OUT:-build/gcc}/libbn.so")
if command -v python3 >/dev/null; then
    check "generate.py generates the same" equal "$(BN_LIBRARY=$shared text python3 generate.py)" "$expected"
    bn-run embed -q --pooling mean --similarity 'Peace.' 'War.' >similar
    for language in c py; do
        run() { if [ "$language" = c ]; then "./$1" "$model" "${@:2}"; else BN_LIBRARY=$shared python3 "$1.py" "$model" "${@:2}"; fi; }
        says 0 "generate.$language repeats the chain of a receipt" '^verified$' run generate 'ROMEO:' 16 "$chain"
        says 1 "and reports another one" '^the chain differs$' run generate 'ROMEO:' 15 "$chain"
        check "embed.$language compares two texts as bn-run does" grep -q "$(printf %.3f "$(run embed 'Peace.' 'War.')")" similar
    done
fi
# The tree of profile.c is the one of bn-bench profile --graph structure, without what the library's caller does.
./profile "$nano" 'ROMEO:' >profiled
says 0 "profile.c prints bricks" '^QkvProjection +1 times +[0-9.]+ us +[0-9.]+ GB/s$' cat profiled
for line in 'Pass 0' '  Layer 0' '    DownProjection' '      ternary_gemm_[a-z0-9]+'; do says 0 "and a tree: $line" "^$line  [0-9.]+ us\$" cat profiled; done
bricks() { grep -oE "$1" "$2" | grep -E '[A-Z]' | grep -vE 'Pass|Team|BarrierWait|LmHead|Sampling' | tr -d '|` -' | xargs; }
bn-bench profile -q -m "$nano" -p 6 -n 1 -r 1 --graph structure --ascii --level kernel >expected_tree
check "with the bricks of a pass up to the head" equal "$(bricks '^ +[A-Z][A-Za-z]+( 0)?' profiled) RmsNorm" "$(bricks '^[| \`-]+[A-Z][A-Za-z]+( 0)?' expected_tree)"
# libbn.so exports exactly what bn.h declares; libbn.a has it too.
grep -oE '\bbn_[a-z0-9_]+\(' "$tmp/usr/include/bn.h" | tr -d '(' | grep -v '_fn$' | sort -u >declared
nm -D --defined-only "$shared" | awk '{ print $3 }' | sort -u >exported
check "libbn.so exports the functions of bn.h and no other" equal "$(cat exported)" "$(cat declared)"
nm -g --defined-only "$tmp/usr/lib/libbn.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >defined
check "every function of bn.h is in libbn.a" equal "$(comm -23 declared defined)" ""
